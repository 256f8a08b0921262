//! Replies of a server, read within bounds.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use crate::Error;

/// In the place of a secret.
const HIDDEN: &str = "***";
/// Longest line, bytes. RFC 5321 §4.5.3.1.5 says 512; servers write more.
const LONGEST_LINE: u64 = 2_048;
/// Lines of one reply.
const MOST_LINES: usize = 64;

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Three digits.
    pub code: u16,
    /// The text, its lines joined with a space.
    pub text: String,
    /// The text line by line.
    pub lines: Vec<String>,
}

impl Reply {
    /// 2xx.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.code / 100 == 2
    }

    /// 4xx: it may work later.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        self.code / 100 == 4
    }

    /// The same without what the server was not to repeat: a reply goes into errors and logs.
    pub(crate) fn without(self, secrets: &[&str]) -> Self {
        let hide = |mut text: String| {
            for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
                text = text.replace(secret, HIDDEN);
            }
            text
        };
        let (text, lines) = (hide(self.text), self.lines.into_iter().map(hide).collect());
        Self { code: self.code, text, lines }
    }

    pub(crate) async fn read<R: AsyncBufRead + Unpin>(stream: &mut R) -> Result<Self, Error> {
        let (mut lines, mut first) = (Vec::new(), None);
        loop {
            let mut line = Vec::new();
            let read = stream.take(LONGEST_LINE).read_until(b'\n', &mut line).await;
            read.map_err(|_| Error::Broken)?;
            if line.pop() != Some(b'\n') {
                // The stream ended, or the line does not.
                return Err(if line.is_empty() { Error::Broken } else { Error::Nonsense });
            }
            let (code, is_last, text) = parse(&line).ok_or(Error::Nonsense)?;
            // RFC 5321 §4.2.1: all lines of a reply have one code. Which one counts, nobody knows.
            if *first.get_or_insert(code) != code {
                return Err(Error::Nonsense);
            }
            lines.push(text);
            if is_last {
                return Ok(Self { code, text: lines.join(" "), lines });
            }
            if lines.len() == MOST_LINES {
                return Err(Error::Nonsense);
            }
        }
    }
}

/// RFC 5321 §4.2: three digits, then a hyphen where another line follows.
fn parse(line: &[u8]) -> Option<(u16, bool, String)> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (code, rest) = line.split_at_checked(3)?;
    if !code.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let code = std::str::from_utf8(code).ok()?.parse().ok()?;
    let is_last = match rest.first() {
        None | Some(b' ') => true,
        Some(b'-') => false,
        Some(_) => return None,
    };
    let text = String::from_utf8_lossy(rest.get(1..).unwrap_or_default());
    let clean = text.chars().filter(|letter| !letter.is_control());
    (200..600).contains(&code).then(|| (code, is_last, clean.collect()))
}
