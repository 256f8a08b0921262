//! The header: one key, bare or as an RFC 8941 string.

use axum::http::HeaderMap;

use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;

pub(super) const HEADER: &str = "idempotency-key";
/// Most characters of a key.
const LONGEST: usize = 255;

/// Checks the header before anything else of the request is read.
///
/// # Errors
/// 400 `invalid_idempotency_key`.
pub fn check(headers: &HeaderMap) -> Result<(), Problem> {
    read(headers).map(drop)
}

/// Whether a request shows a key at all.
#[must_use]
pub fn is_in(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER)
}

pub(super) fn read(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = match (value.to_str(), values.next()) {
        (Ok(text), None) => key_of(text),
        _ => None,
    };
    key.map(Some).ok_or_else(malformed)
}

/// The key in a header: the text itself, or what is in an RFC 8941 string.
fn key_of(text: &str) -> Option<String> {
    let key = match text.strip_prefix('"') {
        Some(rest) => unquoted(rest)?,
        None => text.to_owned(),
    };
    let edges = [key.bytes().next()?, key.bytes().next_back()?];
    let is_good = key.len() <= LONGEST
        && key.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && edges.iter().all(|byte| *byte != b' ');
    is_good.then_some(key)
}

fn unquoted(rest: &str) -> Option<String> {
    let mut key = String::with_capacity(rest.len());
    let mut letters = rest.chars();
    loop {
        match letters.next()? {
            '"' => break,
            '\\' => key.push(letters.next().filter(|next| matches!(next, '"' | '\\'))?),
            letter => key.push(letter),
        }
    }
    letters.next().is_none().then_some(key)
}

fn malformed() -> Problem {
    let detail = "must be 1 to 255 printable ASCII characters, given once";
    let item = Item::at("header:Idempotency-Key", "invalid_type", detail);
    let items = serde_json::json!([item]);
    Problem::new(Code::InvalidIdempotencyKey)
        .detail(format!("The header `Idempotency-Key` {detail}."))
        .with("errors", items)
}

#[cfg(test)]
mod tests {
    use super::{key_of, read};
    use axum::http::{HeaderMap, HeaderValue};

    #[test]
    fn a_quoted_key_is_the_same_as_the_bare_one() {
        assert_eq!(key_of("8e03978e"), Some("8e03978e".to_owned()));
        assert_eq!(key_of("\"8e03978e\""), Some("8e03978e".to_owned()));
        assert_eq!(key_of(r#""a\"b\\c""#), Some(r#"a"b\c"#.to_owned()));
        assert_eq!(key_of("two words"), Some("two words".to_owned()));
    }

    #[test]
    fn malformed_keys_are_refused() {
        let long = "x".repeat(256);
        for text in ["", " ", "\"\"", "\"open", "\"a\"b", r#""a\b""#, " a", "ä", "a\tb", &long] {
            assert_eq!(key_of(text), None, "{text}");
        }
        assert!(key_of(&"x".repeat(255)).is_some());
    }

    #[test]
    fn a_missing_header_is_no_key_and_two_are_a_fault() {
        let mut headers = HeaderMap::new();
        assert!(read(&headers).unwrap().is_none());
        headers.append("idempotency-key", HeaderValue::from_static("a"));
        assert_eq!(read(&headers).unwrap().as_deref(), Some("a"));
        headers.append("idempotency-key", HeaderValue::from_static("a"));
        assert_eq!(read(&headers).unwrap_err().code().as_str(), "invalid_idempotency_key");
    }
}
