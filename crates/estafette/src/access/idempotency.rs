//! `Idempotency-Key`: the same request sent twice has one effect. The key is stored in the write
//! set of the effect, so that the one is never there without the other.

use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use clock::{DAY, Millis};
use sha2::{Digest, Sha256};
use store::{Error, FromRow, Reject, Row, WriteSet, args};

use super::store as sql;
use crate::app::App;
use crate::kit::id::AccountId;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;

/// How long a key stands for its request, milliseconds.
pub(super) const LIFE: i64 = DAY;
/// Most characters of a key.
const LONGEST: usize = 255;
const HEADER: &str = "idempotency-key";

/// A commit refused with this raced with the same request: 409 `idempotency_in_progress`.
pub const SEEN: Reject = Reject("idempotency_seen");

/// What an `Idempotency-Key` says of a request.
#[derive(Debug)]
pub enum Begin {
    /// No key, or the first time: add the claim to the write set of the effect.
    Fresh(Claim),
    /// The same request was taken before.
    Seen(Seen),
}

/// What is known of the first request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it made.
    pub object_id: String,
    /// A sealed part of its answer.
    pub sealed: Option<Vec<u8>>,
    /// When it was taken.
    pub created_at: Millis,
}

/// The right to carry out a request once. Empty when no key was sent.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    inner: Option<Keyed>,
}

#[derive(Clone, Debug)]
struct Keyed {
    account: AccountId,
    key: String,
    fingerprint: [u8; 32],
}

impl Claim {
    /// Whether no key was sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_none()
    }

    /// Adds the key to the write set of the effect, which is then refused with [`SEEN`] if the
    /// same key was taken meanwhile. Nothing if no key was sent.
    pub fn add_to(
        &self,
        set: &mut WriteSet,
        object_id: &str,
        sealed: Option<Vec<u8>>,
        now: Millis,
    ) {
        let Some(Keyed { account, key, fingerprint }) = &self.inner else { return };
        let args = args![account, key.as_str(), *fingerprint, object_id, sealed, now, now - LIFE];
        set.guard(sql::ADD_IDEMPOTENT, args, SEEN);
    }
}

struct Known {
    fingerprint: Vec<u8>,
    seen: Seen,
}

impl FromRow for Known {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let fingerprint = row.take(0)?;
        let (object_id, sealed, created_at) = (row.take(1)?, row.take(2)?, row.take(3)?);
        Ok(Self { fingerprint, seen: Seen { object_id, sealed, created_at } })
    }
}

/// Looks the request up. `route` is such as `POST /v1/otp/send`.
///
/// # Errors
/// 400 `invalid_idempotency_key`, 422 `idempotency_key_reused`, or storage problems.
pub async fn begin(
    app: &App,
    account: &AccountId,
    headers: &HeaderMap,
    route: &str,
    body: &[u8],
) -> Result<Begin, Problem> {
    let Some(key) = read(headers)? else {
        return Ok(Begin::Fresh(Claim::default()));
    };
    let fingerprint = fingerprint(route, body);
    let args = args![account, key.as_str()];
    let known: Option<Known> = app.db.row(sql::IDEMPOTENT, args).await?;
    // The same bound as in the guard of the claim.
    let oldest = app.now() - LIFE;
    match known.filter(|known| known.seen.created_at >= oldest) {
        None => {
            let inner = Some(Keyed { account: account.clone(), key, fingerprint });
            Ok(Begin::Fresh(Claim { inner }))
        }
        Some(known) if known.fingerprint == fingerprint => Ok(Begin::Seen(known.seen)),
        Some(_) => Err(Code::IdempotencyKeyReused.into()),
    }
}

/// Checks the header where nothing is kept.
///
/// # Errors
/// 400 `invalid_idempotency_key`.
pub fn check(headers: &HeaderMap) -> Result<(), Problem> {
    read(headers).map(drop)
}

/// An answer that repeats an earlier one: adds `Idempotent-Replayed: true`.
pub fn replayed(response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    response
}

fn fingerprint(route: &str, body: &[u8]) -> [u8; 32] {
    let hasher = Sha256::new().chain_update(route).chain_update([0x1f]).chain_update(body);
    hasher.finalize().into()
}

fn read(headers: &HeaderMap) -> Result<Option<String>, Problem> {
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
        .detail(format!("Idempotency-Key {detail}."))
        .with("errors", items)
}

#[cfg(test)]
mod tests {
    use super::{fingerprint, key_of, read};
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
        assert_eq!(read(&headers).unwrap_err().code().word(), "invalid_idempotency_key");
    }

    #[test]
    fn a_fingerprint_tells_routes_and_bodies_apart() {
        let first = fingerprint("POST /v1/a", b"{}");
        assert_eq!(first, fingerprint("POST /v1/a", b"{}"));
        assert_ne!(first, fingerprint("POST /v1/b", b"{}"));
        assert_ne!(first, fingerprint("POST /v1/a", b"{ }"));
    }
}
