//! The parts of a report (RFC 3462): side by side, perhaps within another letter. Whoever likes may
//! send one, so it is read in one pass for each of a few levels, and nothing of it is parsed that
//! nobody asks for.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// How deep parts may be within each other.
const DEPTH: usize = 4;
/// Parts that are looked at.
const MOST_PARTS: usize = 64;
/// Longest head of a part, bytes.
const LONGEST_HEAD: usize = 64 * 1024;
/// Longest boundary, bytes (RFC 2046 §5.1.1: 70).
const LONGEST_BOUNDARY: usize = 200;

/// Padding is often wrong.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A part that has no others in it.
#[derive(Debug)]
pub(crate) struct Part<'x> {
    /// Such as `message/delivery-status`, in lower case.
    pub(crate) kind: String,
    encoding: String,
    body: &'x [u8],
}

impl Part<'_> {
    /// What it says, decoded.
    pub(crate) fn text(&self) -> String {
        let decoded = match self.encoding.as_str() {
            "base64" => unwrapped(self.body),
            "quoted-printable" => unquoted(self.body),
            _ => return String::from_utf8_lossy(self.body).into_owned(),
        };
        String::from_utf8_lossy(&decoded).into_owned()
    }
}

/// The parts of a letter, in their order.
pub(crate) fn parts(letter: &[u8]) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    collect(letter, DEPTH, &mut found);
    found
}

fn collect<'x>(bytes: &'x [u8], depth: usize, found: &mut Vec<Part<'x>>) {
    let Some((head, body)) = split_head(bytes) else { return };
    let kind = field(head, "content-type").unwrap_or_default();
    let (name, parameters) = kind.split_once(';').unwrap_or((&kind, ""));
    let name = name.trim().to_ascii_lowercase();
    if !name.starts_with("multipart/") {
        let encoding = field(head, "content-transfer-encoding").unwrap_or_default();
        let encoding = encoding.trim().to_ascii_lowercase();
        found.push(Part { kind: name, encoding, body });
        return;
    }
    let Some(boundary) = boundary(parameters) else { return };
    for part in between(body, boundary.as_bytes()) {
        if depth == 0 || found.len() >= MOST_PARTS {
            return;
        }
        collect(part, depth - 1, found);
    }
}

/// The head of a part, and what is behind its first empty line.
fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if matches!(line, b"\n" | b"\r\n") {
            return Some((bytes.get(..at)?, bytes.get(at + line.len()..)?));
        }
        at += line.len();
        if at > LONGEST_HEAD {
            return None;
        }
    }
    // A head and nothing else.
    Some((bytes, &[]))
}

/// The first field of a name, unfolded.
fn field(head: &[u8], name: &str) -> Option<String> {
    let mut value: Option<Vec<u8>> = None;
    for line in head.split(|byte| *byte == b'\n') {
        let is_folded = line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        match &mut value {
            Some(value) if is_folded => value.extend_from_slice(line),
            Some(_) => break,
            // Of a field with another name.
            None if is_folded => {}
            None => {
                let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
                let (own, rest) = line.split_at(colon);
                if own.trim_ascii_end().eq_ignore_ascii_case(name.as_bytes()) {
                    value = rest.get(1..).map(<[u8]>::to_vec);
                }
            }
        }
    }
    value.map(|value| String::from_utf8_lossy(&value).trim().to_owned())
}

/// The boundary among the parameters of a type.
fn boundary(parameters: &str) -> Option<String> {
    let lower = parameters.to_ascii_lowercase();
    let begin = lower.match_indices("boundary").find_map(|(at, name)| {
        let is_name = lower.get(..at)?.trim_end().chars().next_back().is_none_or(|it| it == ';');
        let value = parameters.get(at + name.len()..)?.trim_start().strip_prefix('=')?;
        is_name.then(|| value.trim_start())
    })?;
    let value = match begin.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => begin.split([';', ' ', '\t', '\r']).next()?,
    };
    (1..=LONGEST_BOUNDARY).contains(&value.len()).then(|| value.to_owned())
}

/// What is between the lines of a boundary.
fn between<'x>(body: &'x [u8], boundary: &[u8]) -> Vec<&'x [u8]> {
    let (mut all, mut begin, mut at) = (Vec::new(), None, 0);
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let rest = line.strip_prefix(b"--").and_then(|rest| rest.strip_prefix(boundary));
        if let Some(rest) = rest.map(<[u8]>::trim_ascii).filter(|it| it.is_empty() || *it == b"--")
        {
            all.extend(begin.and_then(|begin: usize| body.get(begin..at)));
            begin = rest.is_empty().then_some(at + line.len());
            if begin.is_none() || all.len() >= MOST_PARTS {
                return all;
            }
        }
        at += line.len();
    }
    // One that was cut off.
    all.extend(begin.and_then(|begin| body.get(begin..)));
    all
}

fn unwrapped(body: &[u8]) -> Vec<u8> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/".contains(byte);
    let digits: Vec<u8> = body.iter().copied().filter(is_digit).collect();
    BASE64.decode(digits).unwrap_or_default()
}

/// RFC 2045 §6.7.
fn unquoted(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'=' {
            out.push(*first);
            continue;
        }
        let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
        match rest {
            [b'\r', b'\n', after @ ..] | [b'\n', after @ ..] => rest = after,
            [high, low, after @ ..] => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    out.push(high * 16 + low);
                    rest = after;
                }
                _ => out.push(b'='),
            },
            _ => out.push(b'='),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{boundary, parts};

    #[test]
    fn parts_are_found_side_by_side_and_within_each_other() {
        let letter = "Subject: x\r\nContent-Type: multipart/mixed;\r\n \
             boundary=\"a b\"\r\n\r\nx\r\n\
             --a b\r\nContent-Type: multipart/report; Boundary=inner; report-type=x\r\n\r\n\
             --inner\r\n\r\nHello\r\n--inner\r\nContent-type: Message/Delivery-Status\r\n\
             Content-Transfer-Encoding: Base64\r\n\r\nUmVwb3\r\nJ0\r\n--inner--\r\n\
             --a b\nContent-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\n\
             caf=C3=A9 =\r\nau lait=\n--a b--\r\nContent-Type: behind/all\r\n";
        let found = parts(letter.as_bytes());
        let shown: Vec<_> = found.iter().map(|it| (it.kind.as_str(), it.text())).collect();
        assert_eq!(
            shown,
            [
                ("", "Hello\r\n".to_owned()),
                ("message/delivery-status", "Report".to_owned()),
                ("text/plain", "café au lait".to_owned()),
            ]
        );
    }

    #[test]
    fn a_folded_line_begins_no_field_and_ends_no_head() {
        let letter = "DKIM-Signature: v=1; h=From:To:\r\n\tContent-Type:Subject; b=x\r\n\
             Subject: x\r\n \r\nContent-Type: message/delivery-status\r\n\r\nx";
        let found = parts(letter.as_bytes());
        assert_eq!((found.len(), found[0].kind.as_str()), (1, "message/delivery-status"));
    }

    #[test]
    fn a_boundary_is_a_parameter_of_its_own() {
        assert_eq!(boundary(" x-boundary=no; boundary = \"=_1\"").as_deref(), Some("=_1"));
        assert_eq!(boundary("boundary=a;charset=x").as_deref(), Some("a"));
        assert_eq!(boundary(" report-type=boundary").as_deref(), None);
        assert_eq!(boundary(&format!("boundary={}", "x".repeat(300))), None);
    }
}
