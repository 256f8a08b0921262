//! A message as the parser read it. Letters may be nested as deep as they are long, and the parser
//! keeps one within the other: dropped as it is, tens of thousands of them overflow the stack.

use std::ops::Deref;

use mail_parser::{Message, MessageParser, PartType};

/// A message that is taken apart level by level when it is dropped.
pub(crate) struct Parsed<'x>(Message<'x>);

/// Reads a message; `None` when nothing in it is one.
pub(crate) fn parse(bytes: &[u8]) -> Option<Parsed<'_>> {
    MessageParser::default().parse(bytes).map(Parsed)
}

impl<'x> Deref for Parsed<'x> {
    type Target = Message<'x>;

    fn deref(&self) -> &Message<'x> {
        &self.0
    }
}

impl Drop for Parsed<'_> {
    fn drop(&mut self) {
        let mut left = vec![std::mem::take(&mut self.0)];
        while let Some(message) = left.pop() {
            left.extend(message.parts.into_iter().filter_map(|part| match part.body {
                PartType::Message(inner) => Some(inner),
                _ => None,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn letters_within_letters_are_dropped_on_a_small_stack() {
        let bytes = "Content-Type:message/rfc822\n\n".repeat(36_000);
        // As a thread of the service has it.
        let stack = std::thread::Builder::new().stack_size(2 << 20);
        let parts = stack.spawn(move || parse(bytes.as_bytes()).map(|message| message.parts.len()));
        assert_eq!(parts.unwrap().join().unwrap(), Some(1));
    }
}
