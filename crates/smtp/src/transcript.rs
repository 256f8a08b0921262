//! What was said on a connection, for those who look after a relay: the lines of both sides,
//! without logins, without the addresses of the envelope, without the message.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of all lines; the oldest go first, because what matters comes last.
const MOST_BYTES: usize = 2_000;
/// Most characters of one line.
const LONGEST_LINE_CHARS: usize = 300;
/// In the place of lines that are gone.
const GONE: &str = "…\n";

/// A transcript. All clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Transcript(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
    is_cut: bool,
}

impl Transcript {
    /// A line of the client.
    pub(crate) fn ours(&self, line: &str) {
        self.push('>', line);
    }

    /// A reply.
    pub(crate) fn theirs(&self, code: u16, text: &str) {
        self.push('<', &format!("{code} {text}"));
    }

    /// Something that nobody said, as that the connection broke.
    pub fn note(&self, what: &str) {
        self.push('!', what);
    }

    /// All of it, a line each: `>` ours, `<` theirs, `!` what happened.
    #[must_use]
    pub fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = if kept.is_cut { GONE.to_owned() } else { String::new() };
        text.extend(kept.lines.iter().map(String::as_str));
        text
    }

    fn push(&self, who: char, what: &str) {
        let mut line = String::with_capacity(what.len() + 3);
        let shown = what.chars().filter(|letter| !letter.is_control()).take(LONGEST_LINE_CHARS);
        line.extend([who, ' ']);
        line.extend(shown);
        line.push('\n');
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += line.len();
        kept.lines.push_back(line);
        while kept.bytes > MOST_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.len();
            kept.is_cut = true;
        }
    }
}

/// In the place of a message.
pub(crate) fn size_of(parts: &[&[u8]]) -> String {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    format!("[{bytes} bytes]")
}

#[cfg(test)]
mod tests {
    use super::Transcript;

    #[test]
    fn the_oldest_lines_of_a_long_dialogue_go_first() {
        let transcript = Transcript::default();
        for line in 0..100 {
            transcript.ours(&format!("NOOP {line} {}", "x".repeat(50)));
        }
        transcript.theirs(550, &"é\r\n".repeat(2_000));
        let text = transcript.text();
        assert!(text.len() <= 2_100, "{}", text.len());
        assert!(text.starts_with("…\n> NOOP "), "{text}");
        assert!(!text.contains("NOOP 1 ") && text.contains("NOOP 99 "), "{text}");
        assert!(text.ends_with("éé\n"), "{text}");
    }
}
