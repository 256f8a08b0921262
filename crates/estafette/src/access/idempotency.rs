//! `Idempotency-Key`: the same request sent twice has one effect. The key is stored in the write
//! set of the effect, so that the one is never there without the other. What the request said is
//! stored as a keyed hash: bodies hold codes, which a plain hash would give away.

use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use clock::{DAY, Millis};
use store::{CommitError, Error, FromRow, Reject, Row, WriteSet, args};

use super::store as sql;
use super::who::Who;
use crate::app::App;
use crate::kit::id::AccountId;
use crate::kit::problem::{self, Item, Problem};
use crate::kit::problem_code::Code;
use crate::kit::seal::hex;
use crate::kit::secret::Secret;
use crate::kit::throttle::Class;
use crate::kit::words::words;

/// How long a key stands for its request, milliseconds.
pub(super) const LIFE: i64 = DAY;
/// How long a repeat still answers what is shown once, milliseconds.
const SHOWN: i64 = 10 * clock::MINUTE;
/// What a key stands for whose request was refused and left nothing behind.
const REFUSED: &str = "";
/// Most characters of a key.
const LONGEST: usize = 255;
const HEADER: &str = "idempotency-key";

/// A commit refused with this raced with the same request: 409 `idempotency_in_progress`.
pub const SEEN: Reject = problem::IN_PROGRESS;

words! {
    /// Who chooses the keys: what one side has used is free to the other.
    enum Namespace {
        /// The account's programs and people.
        Tenant = "tenant",
        /// The operator's staff.
        Staff = "staff",
        /// Whoever has no token yet.
        Guest = "guest",
    }
}

/// A request that may come again. `route` is such as `POST /v1/otp/send`.
#[derive(Clone, Copy, Debug)]
pub struct Repeatable<'a> {
    namespace: Namespace,
    /// An account, a person, or what stands for a guest's address.
    owner: &'a str,
    headers: &'a HeaderMap,
    route: &'a str,
    body: &'a [u8],
}

impl<'a> Repeatable<'a> {
    /// From the account's own programs and people.
    #[must_use]
    pub fn by_tenant(
        account: &'a AccountId,
        headers: &'a HeaderMap,
        route: &'a str,
        body: &'a [u8],
    ) -> Self {
        Self { namespace: Namespace::Tenant, owner: account.as_str(), headers, route, body }
    }

    /// From the operator's staff, about an account.
    #[must_use]
    pub fn by_staff(
        account: &'a AccountId,
        headers: &'a HeaderMap,
        route: &'a str,
        body: &'a [u8],
    ) -> Self {
        Self { namespace: Namespace::Staff, owner: account.as_str(), headers, route, body }
    }

    /// From a user or a member of staff, about themselves or about what has no account.
    #[must_use]
    pub fn by_person(who: &'a Who, headers: &'a HeaderMap, route: &'a str, body: &'a [u8]) -> Self {
        let namespace = match who {
            Who::Staff(_) => Namespace::Staff,
            _ => Namespace::Tenant,
        };
        Self { namespace, owner: who.id(), headers, route, body }
    }

    /// The body of the request.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// From somebody without a token. Keys belong to the address: see [`Guest::owner`].
    ///
    /// [`Guest::owner`]: super::Guest::owner
    #[must_use]
    pub fn by_guest(
        owner: &'a str,
        headers: &'a HeaderMap,
        route: &'a str,
        body: &'a [u8],
    ) -> Self {
        Self { namespace: Namespace::Guest, owner, headers, route, body }
    }
}

/// An answer, and whether it repeats an earlier one: then it says `Idempotent-Replayed: true`.
#[derive(Debug)]
pub struct Once<T> {
    answer: T,
    is_replayed: bool,
}

impl<T> Once<T> {
    /// What it answers.
    pub fn answer(&self) -> &T {
        &self.answer
    }

    /// The same of another form.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Once<U> {
        Once { answer: form(self.answer), is_replayed: self.is_replayed }
    }
}

impl<T> Once<Result<T, Problem>> {
    /// An answer, or a refusal that its request has been told before.
    ///
    /// # Errors
    /// The refusal.
    pub fn transpose(self) -> Result<Once<T>, Problem> {
        let Self { answer, is_replayed } = self;
        match answer {
            Ok(answer) => Ok(Once { answer, is_replayed }),
            Err(problem) if is_replayed => Err(problem.replayed()),
            Err(problem) => Err(problem),
        }
    }
}

impl<T: IntoResponse> IntoResponse for Once<T> {
    fn into_response(self) -> Response {
        let mut response = self.answer.into_response();
        if self.is_replayed {
            let is_so = HeaderValue::from_static("true");
            response.headers_mut().insert("idempotent-replayed", is_so);
        }
        response
    }
}

/// Carries a request out the first time, with a claim for the write set of its effect, and answers
/// again when it was taken before.
///
/// # Errors
/// 400 `invalid_idempotency_key`, 422 `idempotency_key_reused`, storage problems, and those of
/// `fresh` and `again`.
pub async fn once<T>(
    app: &App,
    request: Repeatable<'_>,
    fresh: impl AsyncFnOnce(Claim) -> Result<T, Problem>,
    again: impl AsyncFnOnce(Seen) -> Result<T, Problem>,
) -> Result<Once<T>, Problem> {
    match begin(app, request).await? {
        Begin::Fresh(claim) => Ok(Once { answer: fresh(claim).await?, is_replayed: false }),
        Begin::Seen(seen) => match seen.refusal() {
            Some(problem) => Err(problem.replayed()),
            None => Ok(Once { answer: again(seen).await?, is_replayed: true }),
        },
    }
}

/// As [`once`], for requests whose refusal is final: what the account's credits, settings or
/// recipients forbid is kept, and a repeat is told the same, whatever has changed meanwhile.
/// Refusals that ask to wait (429, 5xx) are not: there a repeat tries anew.
///
/// # Errors
/// As [`once`].
pub async fn once_or_refused<T>(
    app: &App,
    request: Repeatable<'_>,
    fresh: impl AsyncFnOnce(&Claim) -> Result<T, Problem>,
    again: impl AsyncFnOnce(Seen) -> Result<T, Problem>,
) -> Result<Once<T>, Problem> {
    let fresh = async |claim: Claim| match fresh(&claim).await {
        Err(problem) => Err(claim.refuse(app, problem).await),
        done => done,
    };
    once(app, request, fresh, again).await
}

enum Begin {
    /// No key, or the first time.
    Fresh(Claim),
    /// The same request was taken before.
    Seen(Seen),
}

/// What is known of the first request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it made.
    pub object_id: String,
    /// What it was told, where a repeat must be told the same.
    pub answer: Option<String>,
    /// A sealed part of its answer.
    pub sealed: Option<Vec<u8>>,
    /// When it was taken.
    pub created_at: Millis,
    owner: String,
}

impl Seen {
    /// What was sealed with [`Claim::seal`]: for ten minutes.
    #[must_use]
    pub fn secret(&self, app: &App) -> Option<Secret> {
        let sealed = self.sealed.as_deref().filter(|_| app.now() - self.created_at <= SHOWN)?;
        let plain = app.vault.open(&place(&self.owner, &self.object_id), sealed)?;
        String::from_utf8(plain).ok().map(Secret::new)
    }

    /// What the first request was refused with, if nothing came of it.
    fn refusal(&self) -> Option<Problem> {
        if self.object_id == REFUSED { Problem::stored(self.answer.as_deref()?) } else { None }
    }
}

/// What a secret of an answer is sealed for.
const fn place<'a>(owner: &'a str, object_id: &'a str) -> [&'a str; 3] {
    ["idempotency", owner, object_id]
}

/// The right to carry out a request once. Empty when no key was sent.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    inner: Option<Keyed>,
}

#[derive(Clone, Debug)]
struct Keyed {
    owner: String,
    namespace: Namespace,
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
        let Some(Keyed { owner, namespace, key, fingerprint }) = &self.inner else { return };
        let args = args![
            owner.as_str(),
            namespace.as_str(),
            key.as_str(),
            *fingerprint,
            object_id,
            sealed,
            now,
            now - LIFE
        ];
        set.guard(sql::ADD_IDEMPOTENT, args, SEEN);
    }

    /// A secret of the answer, for the repeats of the next ten minutes; nothing if no key was sent.
    #[must_use]
    pub fn seal(&self, app: &App, object_id: &str, secret: &Secret) -> Option<Vec<u8>> {
        let Keyed { owner, .. } = self.inner.as_ref()?;
        Some(app.vault.seal(&place(owner, object_id), secret.expose().as_bytes()))
    }

    /// The key under which a tenant's request is stored, if one was sent: for a write set that
    /// works out the answer.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.inner.as_ref().map(|keyed| keyed.key.as_str())
    }

    /// Stores what the request is told, once its effect is durable. Nothing if no key was sent.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub async fn tell(&self, app: &App, answer: &'static str) -> Result<(), CommitError> {
        let Some(Keyed { owner, .. }) = &self.inner else { return Ok(()) };
        let mut set = WriteSet::of(owner);
        self.add_answer(&mut set, answer);
        app.db.commit(set).await.map(drop)
    }

    /// Adds what the request is told to a write set that has its key. Nothing if no key was sent.
    pub fn add_answer(&self, set: &mut WriteSet, answer: &str) {
        let Some(Keyed { owner, namespace, key, .. }) = &self.inner else { return };
        let args = args![answer, owner.as_str(), namespace.as_str(), key.as_str()];
        set.push(sql::ANSWER_IDEMPOTENT, args);
    }

    /// Keeps a final refusal of a request that left nothing else behind, and answers it. Refusals
    /// cost nothing, so there are only so many in a second.
    async fn refuse(&self, app: &App, problem: Problem) -> Problem {
        let (Some(Keyed { owner, .. }), Some(stored)) = (&self.inner, problem.to_stored()) else {
            return problem;
        };
        if let Err(wait) = app.throttle.take(Class::Refusal, owner) {
            return wait;
        }
        match self.keep(app, REFUSED, &stored).await {
            Ok(()) => problem,
            Err(error) => error.into(),
        }
    }

    /// Keeps the key and what its request is told, for what has no write set of its own. Nothing if
    /// no key was sent.
    ///
    /// # Errors
    /// See [`CommitError`]; refused with [`SEEN`] if the same key was taken meanwhile.
    pub async fn keep(&self, app: &App, object_id: &str, answer: &str) -> Result<(), CommitError> {
        let Some(Keyed { owner, .. }) = &self.inner else { return Ok(()) };
        let mut set = WriteSet::of(owner);
        self.add_to(&mut set, object_id, None, app.now());
        self.add_answer(&mut set, answer);
        app.db.commit(set).await.map(drop)
    }
}

struct Known {
    /// `None` = stored by a version that did not key them: compared with nothing.
    fingerprint: Option<Vec<u8>>,
    seen: Seen,
}

impl FromRow for Known {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let fingerprint = row.take(0)?;
        let (object_id, answer) = (row.take(1)?, row.take(2)?);
        let (sealed, created_at, owner) = (row.take(3)?, row.take(4)?, row.take(5)?);
        Ok(Self { fingerprint, seen: Seen { object_id, answer, sealed, created_at, owner } })
    }
}

/// Looks the request up.
async fn begin(app: &App, request: Repeatable<'_>) -> Result<Begin, Problem> {
    let Some(key) = read(request.headers)? else {
        return Ok(Begin::Fresh(Claim::default()));
    };
    let Repeatable { namespace, owner, .. } = request;
    let place = [owner, namespace.as_str(), request.route];
    let erased = masked(app, owner, namespace.as_str(), &key);
    let args = args![owner, namespace.as_str(), key.as_str(), erased];
    let rows: Vec<Known> = app.db.rows(sql::IDEMPOTENT, args).await?;
    // The same bound as in the guard of the claim.
    let oldest = app.now() - LIFE;
    let live = rows.into_iter().filter(|known| known.seen.created_at >= oldest);
    match live.max_by_key(|known| known.seen.created_at) {
        None => {
            let fingerprint = app.vault.request_mac(place, request.body);
            let inner = Keyed { owner: owner.to_owned(), namespace, key, fingerprint };
            Ok(Begin::Fresh(Claim { inner: Some(inner) }))
        }
        Some(known)
            if known
                .fingerprint
                .as_ref()
                .is_none_or(|stored| app.vault.is_request_mac(stored, place, request.body)) =>
        {
            Ok(Begin::Seen(known.seen))
        }
        Some(_) => Err(Code::IdempotencyKeyReused.into()),
    }
}

/// Before the hash that an erasure leaves of a key: no key begins with it.
const MASKED: char = ' ';

/// What an erasure leaves of a key, which may name a person.
pub(super) fn masked(app: &App, owner: &str, namespace: &str, key: &str) -> String {
    let mac = app.vault.recipient_mac(owner, &format!("{HEADER} {namespace} {key}"));
    format!("{MASKED}{}", hex(&mac))
}

/// Whether a stored key was erased before.
pub(super) fn is_masked(key: &str) -> bool {
    key.starts_with(MASKED)
}

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
