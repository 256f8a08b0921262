//! `Idempotency-Key`: the same request sent twice has one effect. The key is stored in the write
//! set of the effect, so that the one is never there without the other. What the request said is
//! stored as a keyed hash: bodies hold codes, which a plain hash would give away.

mod header;

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use clock::{DAY, Millis};
use store::{CommitError, Error, FromRow, Reject, Row, WriteSet, args};

use self::header::{HEADER, read};
pub use self::header::{check, is_in};
use super::store as sql;
use super::who::Who;
use crate::app::App;
use crate::kit::id::AccountId;
use crate::kit::problem::{self, Problem};
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

    /// Does not count as a repeat where it turns out to be none.
    #[must_use]
    pub fn repeats_if(self, is_repeat: impl FnOnce(&T) -> bool) -> Self {
        let is_replayed = self.is_replayed && is_repeat(&self.answer);
        Self { is_replayed, ..self }
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
/// `fresh` and `again`. What is refused since the same request was faster is answered again, too.
pub async fn once<T>(
    app: &App,
    request: Repeatable<'_>,
    fresh: impl AsyncFnOnce(Claim) -> Result<T, Problem>,
    again: impl AsyncFnOnce(Seen) -> Result<T, Problem>,
) -> Result<Once<T>, Problem> {
    let seen = match begin(app, request).await? {
        Begin::Seen(seen) => seen,
        Begin::Fresh(claim) => match fresh(claim.clone()).await {
            Ok(answer) => return Ok(Once { answer, is_replayed: false }),
            Err(problem) => claim.lost(app, request, problem).await?,
        },
    };
    match seen.refusal() {
        Some(problem) => Err(problem.replayed()),
        None => Ok(Once { answer: again(seen).await?, is_replayed: true }),
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
    inner: Option<Arc<Keyed>>,
}

#[derive(Debug)]
struct Keyed {
    owner: String,
    namespace: Namespace,
    key: String,
    fingerprint: [u8; 32],
    /// The last write set that the key was added to.
    added: Mutex<Option<Added>>,
}

impl Keyed {
    /// Whether a stored key is the one that this request added.
    fn is_own(&self, seen: &Seen) -> bool {
        let added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        added
            .as_ref()
            .is_some_and(|added| added.object_id == seen.object_id && added.at == seen.created_at)
    }
}

#[derive(Debug)]
struct Added {
    object_id: String,
    at: Millis,
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
        let Some(keyed) = &self.inner else { return };
        let Keyed { owner, namespace, key, fingerprint, added } = &**keyed;
        let place = Added { object_id: object_id.to_owned(), at: now };
        *added.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
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
        let Keyed { owner, .. } = self.inner.as_deref()?;
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
        let Some(Keyed { owner, .. }) = self.inner.as_deref() else { return Ok(()) };
        let mut set = WriteSet::of(owner);
        self.add_answer(&mut set, answer);
        app.db.commit(set).await.map(drop)
    }

    /// Adds what the request is told to a write set that has its key. Nothing if no key was sent.
    pub fn add_answer(&self, set: &mut WriteSet, answer: &str) {
        let Some(Keyed { owner, namespace, key, .. }) = self.inner.as_deref() else { return };
        let args = args![answer, owner.as_str(), namespace.as_str(), key.as_str()];
        set.push(sql::ANSWER_IDEMPOTENT, args);
    }

    /// Whether the same request was taken meanwhile, here or at another node.
    pub async fn is_lost(&self, app: &App) -> bool {
        let Some(keyed) = &self.inner else { return false };
        let known = look_up(app, &keyed.owner, keyed.namespace, &keyed.key).await;
        known.ok().flatten().is_some_and(|known| !keyed.is_own(&known.seen))
    }

    /// What the same request did elsewhere while this one was refused. Its node may have died with
    /// the commit under way, which no read saw as the repeat came: then the repeat is refused for
    /// what the first one did.
    ///
    /// # Errors
    /// The refusal, where it is this request's own.
    async fn lost(
        &self,
        app: &App,
        request: Repeatable<'_>,
        refusal: Problem,
    ) -> Result<Seen, Problem> {
        let Some(keyed) = &self.inner else { return Err(refusal) };
        if refusal.code().status() >= 500 {
            return Err(refusal);
        }
        match begin(app, request).await {
            Ok(Begin::Seen(seen)) if !keyed.is_own(&seen) => Ok(seen),
            Err(problem) if problem.code() == Code::IdempotencyKeyReused => Err(problem),
            _ => Err(refusal),
        }
    }

    /// Keeps a final refusal of a request that left nothing else behind, and answers it. Refusals
    /// cost nothing, so there are only so many in a second.
    async fn refuse(&self, app: &App, problem: Problem) -> Problem {
        let (Some(keyed), Some(stored)) = (&self.inner, problem.to_stored()) else {
            return problem;
        };
        let owner = &keyed.owner;
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
        self.keep_alone(app, object_id, Some(answer)).await
    }

    /// The same for what was there before, which is answered as it stands.
    ///
    /// # Errors
    /// As for [`Claim::keep`].
    pub async fn stand_for(&self, app: &App, object_id: &str) -> Result<(), CommitError> {
        self.keep_alone(app, object_id, None).await
    }

    async fn keep_alone(
        &self,
        app: &App,
        object_id: &str,
        answer: Option<&str>,
    ) -> Result<(), CommitError> {
        let Some(Keyed { owner, .. }) = self.inner.as_deref() else { return Ok(()) };
        let mut set = WriteSet::of(owner);
        self.add_to(&mut set, object_id, None, app.now());
        if let Some(answer) = answer {
            self.add_answer(&mut set, answer);
        }
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
    match look_up(app, owner, namespace, &key).await? {
        None => {
            let fingerprint = app.vault.request_mac(place, request.body);
            let added = Mutex::default();
            let keyed = Keyed { owner: owner.to_owned(), namespace, key, fingerprint, added };
            Ok(Begin::Fresh(Claim { inner: Some(Arc::new(keyed)) }))
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

/// What a key stands for at this moment.
async fn look_up(
    app: &App,
    owner: &str,
    namespace: Namespace,
    key: &str,
) -> Result<Option<Known>, Error> {
    let erased = masked(app, owner, namespace.as_str(), key);
    let rows: Vec<Known> =
        app.db.rows(sql::IDEMPOTENT, args![owner, namespace.as_str(), key, erased]).await?;
    // The same bound as in the guard of the claim.
    let oldest = app.now() - LIFE;
    let live = rows.into_iter().filter(|known| known.seen.created_at >= oldest);
    Ok(live.max_by_key(|known| known.seen.created_at))
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
