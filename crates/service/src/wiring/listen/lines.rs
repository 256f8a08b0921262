//! The ends of lines in heads. HTTP lets a server take a bare LF for CRLF (RFC 9112 §2.2), and the
//! HTTP library does; a proxy in front that does not would see other requests than we do, which is
//! how requests are smuggled. Here a bare LF in a head becomes a NUL, which no head may hold, so
//! the library refuses it, as soon as it sees the end of a head: see [`Lines::end`].
//!
//! The same for a head that says both how long its body is and that it is chunked (RFC 9112 §6.3):
//! the library would drop the length.
//!
//! To tell heads from bodies this reads the two headers that frame a body. Where it cannot tell, as
//! in a chunked body, it waits until the request has been answered.

/// Longest part of a line that is kept, bytes: a name and a number fit.
const KEPT: usize = 64;

/// What the next byte belongs to.
#[derive(Debug)]
enum At {
    Head,
    /// A body of which so many bytes are still to come.
    Body(u64),
    /// A body whose end only the HTTP library knows.
    Open,
}

/// Follows the bytes of one HTTP/1 connection.
#[derive(Debug)]
pub(super) struct Lines {
    at: At,
    /// The beginning of the line that is being read.
    line: Vec<u8>,
    /// Its length so far, without its end.
    length: usize,
    is_after_cr: bool,
    /// What the head says of its body.
    body: Option<At>,
    has_begun: bool,
    /// Whether the head has a length, and a coding.
    framing: (bool, bool),
    is_spoiled: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            at: At::Head,
            line: Vec::with_capacity(KEPT),
            length: 0,
            is_after_cr: false,
            body: None,
            has_begun: false,
            framing: (false, false),
            is_spoiled: false,
        }
    }
}

impl Lines {
    /// Whoever was asked has answered: what comes next is a head.
    pub(super) fn answered(&mut self) {
        if matches!(self.at, At::Open) {
            self.at = At::Head;
        }
    }

    /// The end of a head that was spoiled, which may never come otherwise; once.
    pub(super) fn end(&mut self) -> Option<&'static [u8]> {
        std::mem::take(&mut self.is_spoiled).then_some(b"\r\n\r\n")
    }

    /// Follows bytes that came in, and spoils bare LFs among them.
    pub(super) fn pass(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let passed = match &mut self.at {
                At::Open => return,
                At::Body(left) => {
                    let passed = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= passed as u64;
                    if *left == 0 {
                        self.at = At::Head;
                    }
                    passed
                }
                At::Head => self.pass_line(bytes),
            };
            bytes = bytes.get_mut(passed..).unwrap_or_default();
        }
    }

    /// Passes what there is of a line; answers how many bytes.
    fn pass_line(&mut self, bytes: &mut [u8]) -> usize {
        let end = memchr::memchr(b'\n', bytes);
        let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        let room = KEPT.saturating_sub(self.line.len());
        self.line.extend_from_slice(part.get(..room).unwrap_or(part));
        self.length += part.len();
        self.is_after_cr = match part.last() {
            Some(last) => *last == b'\r',
            None => self.is_after_cr,
        };
        let Some(end) = end else { return part.len() };
        if self.is_after_cr && self.is_line_good() {
            self.end_line();
        } else if let Some(byte) = bytes.get_mut(end) {
            *byte = 0;
            self.is_spoiled = true;
        }
        end + 1
    }

    /// Whether the head is framed in one way still.
    fn is_line_good(&mut self) -> bool {
        let name = self.line.split(|byte| *byte == b':').next().unwrap_or_default();
        let (has_length, has_coding) = &mut self.framing;
        *has_length |= name.eq_ignore_ascii_case(b"content-length");
        *has_coding |= name.eq_ignore_ascii_case(b"transfer-encoding");
        !(*has_length && *has_coding)
    }

    fn end_line(&mut self) {
        let is_empty = self.length == 1;
        if !is_empty {
            self.has_begun = true;
            self.note_framing();
        } else if self.has_begun {
            self.at = self.body.take().unwrap_or(At::Head);
            self.has_begun = false;
            self.framing = (false, false);
        }
        self.line.clear();
        self.length = 0;
        self.is_after_cr = false;
    }

    fn note_framing(&mut self) {
        let Some(colon) = self.line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = self.line.split_at(colon);
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.body = Some(At::Open);
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let value = std::str::from_utf8(value).unwrap_or_default();
            let length = value.trim_matches(|letter: char| ": \t\r".contains(letter)).parse();
            // Two lengths are for the library to judge.
            let is_first = self.body.is_none();
            self.body = Some(match length {
                Ok(0) if is_first => return,
                Ok(length) if is_first => At::Body(length),
                _ => At::Open,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    /// The places that are spoiled, however the bytes are cut.
    fn spoiled(text: &str) -> Vec<usize> {
        let mut found: Option<Vec<usize>> = None;
        for size in [1, 2, 3, 7, text.len().max(1)] {
            let (mut lines, mut bytes) = (Lines::default(), text.as_bytes().to_vec());
            bytes.chunks_mut(size).for_each(|chunk| lines.pass(chunk));
            let now: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == 0).collect();
            assert_eq!(*found.get_or_insert_with(|| now.clone()), now, "cut by {size}: {text:?}");
        }
        found.unwrap()
    }

    #[test]
    fn lines_that_end_in_crlf_pass() {
        for text in [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n\n\n\n\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length:4 \r\nX: y\r\n\r\n\n\n\n\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\n\n\r\n0\r\n\r\n",
        ] {
            assert_eq!(spoiled(text), [] as [usize; 0], "{text:?}");
        }
    }

    #[test]
    fn a_bare_lf_is_spoiled_wherever_it_is_in_a_head() {
        for (text, places) in [
            ("GET / HTTP/1.1\nHost: x\r\n\r\n", vec![14]),
            ("GET / HTTP/1.1\r\nHost: x\n\r\n", vec![23]),
            ("GET / HTTP/1.1\r\nHost: x\r\n\n", vec![25]),
            ("\nGET / HTTP/1.1\r\n\r\n", vec![0]),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n\nGET / HTTP/1.1\n", vec![53]),
            ("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n\n", vec![38]),
        ] {
            assert_eq!(spoiled(text), places, "{text:?}");
        }
    }

    #[test]
    fn after_a_body_without_a_length_heads_begin_with_the_next_answer() {
        let mut lines = Lines::default();
        let mut bytes = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\n".to_vec();
        lines.pass(&mut bytes);
        assert!(!bytes.contains(&0));
        lines.answered();
        let mut bytes = b"GET / HTTP/1.1\n".to_vec();
        lines.pass(&mut bytes);
        assert_eq!(bytes.last(), Some(&0));
    }
}
