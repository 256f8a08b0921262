//! Who calls. A handler's `Caller<Policy>` or `Staff` argument is its authorization: without a
//! fitting key or token, within its limits, the handler never runs.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use store::args;

use super::audit::By;
use super::refused::{lacks_scope, malformed, no_staff_token, of_other_environment};
use super::scope::Scope;
use super::store as sql;
use super::token::{self, Kind};
use super::who::Who;
use super::{account, key};
use crate::app::{Account, App, Env, KnownKey, Standing};
use crate::kit::client_address::ClientAddress;
use crate::kit::id::{AccountId, KeyId, RequestId, StaffId, UserId};
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::seal::sha256;
use crate::kit::throttle::{Class, RateLimit};

/// The header of an API key; `Authorization: Bearer` is as good.
const API_KEY: &str = "x-api-key";

/// What a connection, the edge and the extractors tell each other of a request: in its extensions,
/// as an [`Arc`].
#[derive(Debug)]
pub struct RequestNotes {
    /// The id of the request.
    pub id: String,
    /// Who is at the other end.
    pub client: Option<ClientAddress>,
    /// What an extractor leaves here, the edge shows in the `RateLimit` headers of the answer.
    pub rate: OnceLock<RateLimit>,
}

impl RequestNotes {
    /// Of a request that begins.
    #[must_use]
    pub fn of(id: RequestId, client: Option<ClientAddress>) -> Self {
        Self { id: id.into(), client, rate: OnceLock::new() }
    }
}

/// What opens an endpoint.
pub trait Policy: Send + Sync + 'static {
    /// Scopes of which a key needs one; empty = any key; `None` = no keys.
    const KEY: Option<&'static [Scope]>;
    /// Whether portal tokens open it.
    const PORTAL: bool;
    /// The budget that it draws on.
    const CLASS: Class;
    /// Whether it is about the account, whose standing then decides about writes, or about the
    /// person alone.
    const OF_ACCOUNT: bool = true;
}

macro_rules! policies {
    (@of_account) => { true };
    (@of_account of_person) => { false };
    ($($(#[$doc:meta])* $name:ident: $key:expr, $portal:literal, $class:ident $(, $of:ident)?;)*) =>
    { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Policy for $name {
            const KEY: Option<&'static [Scope]> = $key;
            const PORTAL: bool = $portal;
            const CLASS: Class = Class::$class;
            const OF_ACCOUNT: bool = policies!(@of_account $($of)?);
        }
    )* };
}

policies! {
    /// Keys that may send passcodes.
    SendOtp: Some(&[Scope::OtpSend, Scope::SmsSend]), false, Send;
    /// Keys that may check passcodes or read them.
    CheckOtp: Some(&[Scope::OtpVerify, Scope::SmsSend, Scope::AccountRead]), false, Read;
    /// Portal tokens, and keys that may read the account or check passcodes.
    ListOtp: Some(&[Scope::AccountRead, Scope::OtpVerify]), true, Read;
    /// Keys that may send SMS.
    SendSms: Some(&[Scope::SmsSend]), false, Send;
    /// Keys that may send email.
    SendEmail: Some(&[Scope::EmailSend]), false, Send;
    /// Keys that may send messages over the chat-app.
    SendChatapp: Some(&[Scope::ChatappSend, Scope::SmsSend]), false, Send;
    /// Keys that may manage templates of the chat-app.
    Templates: Some(&[Scope::ChatappSend]), false, Read;
    /// Portal tokens, and keys that may read the account.
    ReadAccount: Some(&[Scope::AccountRead]), true, Read;
    /// Portal tokens, and keys that may read what people wrote: the room decides.
    ReadInbound: Some(&[Scope::ChatappReceive, Scope::AccountRead]), true, Read;
    /// Portal tokens.
    Portal: None, true, Read;
    /// Portal tokens, for the person's own password and sessions, whatever the account's standing.
    Myself: None, true, Read, of_person;
    /// Any key, and portal tokens: the sandbox's handsets.
    TestCaller: Some(&[]), true, Read;
}

/// A caller that the policy lets in.
#[derive(Debug)]
pub struct Caller<P> {
    /// The account that everything is done for.
    pub account: Arc<Account>,
    /// Who acts.
    pub who: Who,
    /// The key's scopes as a bit set; 0 for a portal token.
    pub scopes: u16,
    /// The id of the request, for the audit log.
    pub request_id: String,
    /// The hash of the portal token, to revoke it.
    pub(crate) token: Option<[u8; 32]>,
    policy: PhantomData<fn() -> P>,
}

impl<P> Caller<P> {
    /// The actor and the request, for the audit log.
    #[must_use]
    pub fn by(&self) -> By<'_> {
        By { who: &self.who, request_id: &self.request_id }
    }
}

impl<P: Policy> FromRequestParts<App> for Caller<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let mut caller = match (Pass::shown_in(&parts.headers)?, P::KEY) {
            (Pass::Key(text), Some(_)) => by_key(app, text).await?,
            (Pass::Token(text), _) if P::PORTAL => by_token(app, text).await?,
            (Pass::KeyAndToken { key, .. }, Some(_)) if !P::PORTAL => by_key(app, key).await?,
            (Pass::KeyAndToken { token, .. }, None) if P::PORTAL => by_token(app, token).await?,
            (Pass::KeyAndToken { .. }, _) => {
                return Err(ambiguous("Authorization", "an API key and a token"));
            }
            // What is no token is a key that somebody misspelt.
            (Pass::Token(text), Some(_)) if !P::PORTAL && !token::has_form(text) => {
                return Err(Code::InvalidApiKey.into());
            }
            (shown, _) => return Err(missing(&shown, P::KEY.is_some(), P::PORTAL)),
        };
        // Also of one who is let in nowhere: finding that out is a read. A person's tokens count by
        // account.
        let who = caller.who.id();
        match caller.token {
            Some(_) => take(app, parts, P::CLASS, &format!("{who}@{}", caller.account.id))?,
            None => take(app, parts, P::CLASS, who)?,
        }
        // Before the scope: a suspended account's keys all say that it is suspended.
        if P::OF_ACCOUNT {
            may(caller.account.standing, &caller.who, &parts.method)?;
        }
        if let (Who::Key(_), Some(accepted)) = (&caller.who, P::KEY) {
            needs_one_of(accepted, caller.scopes)?;
        }
        app.throttle.take_of_account(P::CLASS, &caller.account.id)?;
        caller.request_id = request_id(parts);
        Ok(caller)
    }
}

/// A member of the operator's staff.
#[derive(Clone, Debug)]
pub struct Staff {
    /// Who it is.
    pub id: StaffId,
    /// The same as an actor.
    pub who: Who,
    /// The id of the request, for the audit log.
    pub request_id: String,
    /// The hash of the token, to revoke it.
    pub(crate) token: [u8; 32],
}

impl Staff {
    /// The actor and the request, for the audit log.
    #[must_use]
    pub fn by(&self) -> By<'_> {
        By { who: &self.who, request_id: &self.request_id }
    }
}

impl FromRequestParts<App> for Staff {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let text = match Pass::shown_in(&parts.headers)? {
            Pass::Token(text) | Pass::KeyAndToken { token: text, .. } => text,
            Pass::Key(_) => return Err(no_staff_token(true)),
            Pass::None => return Err(no_staff_token(false)),
        };
        let (subject, token) = subject_of(app, text, Kind::Staff).await?;
        take(app, parts, Class::Read, &subject)?;
        let id = StaffId::stored(subject);
        let who = Who::Staff(id.clone());
        Ok(Self { id, who, request_id: request_id(parts), token })
    }
}

/// What a request shows to be let in.
#[derive(Debug, PartialEq, Eq)]
enum Pass<'a> {
    None,
    Key(&'a str),
    Token(&'a str),
    KeyAndToken { key: &'a str, token: &'a str },
}

impl<'a> Pass<'a> {
    /// A key may stand in either header, and in both if it is the same one: RFC 6750 §3.1 asks for
    /// a 400 where a request shows two.
    fn shown_in(headers: &'a HeaderMap) -> Result<Self, Problem> {
        let mut keys = headers.get_all(API_KEY).iter();
        // What is not ASCII is no key, and told as such.
        let key = keys.next().map(|value| value.to_str().unwrap_or_default());
        if keys.any(|other| other.to_str().ok() != key) {
            return Err(ambiguous("X-API-Key", "two API keys in `X-API-Key`"));
        }
        // RFC 9110 §5.3: only lists may come in several lines, and this is none.
        if headers.get_all(AUTHORIZATION).iter().count() > 1 {
            return Err(ambiguous("Authorization", "two `Authorization` headers"));
        }
        Ok(match (key, bearer(headers)) {
            // A program's variable that nobody set; beside another credential it is a wrong key.
            (None | Some(""), None) => Self::None,
            (Some(key), None) => Self::Key(key),
            (None, Some(text)) if key::has_form(text) => Self::Key(text),
            (None, Some(text)) => Self::Token(text),
            (Some(key), Some(text)) if key == text => Self::Key(key),
            (Some(_), Some(text)) if key::has_form(text) => {
                let what = "different API keys in `X-API-Key` and `Authorization`";
                return Err(ambiguous("Authorization", what));
            }
            (Some(key), Some(token)) => Self::KeyAndToken { key, token },
        })
    }
}

fn ambiguous(header: &str, what: &str) -> Problem {
    let detail = format!("The request carries {what}; send only one of them.");
    let item = "send only one credential";
    let pointer = format!("header:{header}");
    Problem::bad_request(&pointer, "invalid_type", item).detail(detail)
}

/// Writes need an active account, and keys one that is not suspended.
fn may(standing: Standing, who: &Who, method: &Method) -> Result<(), Problem> {
    let reads = *method == Method::GET || *method == Method::HEAD;
    match standing {
        Standing::Active => Ok(()),
        Standing::Pending if reads => Ok(()),
        Standing::Pending => Err(Code::AccountPending.into()),
        Standing::Suspended if reads && matches!(who, Who::User(_)) => Ok(()),
        Standing::Suspended => Err(Code::AccountSuspended.into()),
    }
}

fn needs_one_of(accepted: &[Scope], scopes: u16) -> Result<(), Problem> {
    if accepted.is_empty() || Scope::set(accepted) & scopes != 0 {
        return Ok(());
    }
    Err(lacks_scope(Scope::set(accepted)))
}

async fn by_key<P>(app: &App, text: &str) -> Result<Caller<P>, Problem> {
    let env = key::check(text).map_err(|_| malformed(text))?;
    if env != app.env {
        let server = &app.config.server;
        let home = if env == Env::Live { &server.live_url } else { &server.sandbox_url };
        return Err(of_other_environment(env, home, app.env));
    }
    let known = known_key(app, text).await?.ok_or(Code::InvalidApiKey)?;
    Ok(Caller {
        account: Arc::clone(&known.account),
        who: Who::Key(known.key.clone()),
        scopes: known.scopes,
        request_id: String::new(),
        token: None,
        policy: PhantomData,
    })
}

async fn by_token<P>(app: &App, text: &str) -> Result<Caller<P>, Problem> {
    let (subject, token) = subject_of(app, text, Kind::Portal).await?;
    let args = args![subject.as_str(), app.env.as_str()];
    let row: Option<sql::AccountRow> = app.db.row(sql::ACCOUNT_OF_USER, args).await?;
    let sql::AccountRow(account) = row.ok_or(Code::NotFound)?;
    Ok(Caller {
        account: Arc::new(account),
        who: Who::User(UserId::stored(subject)),
        scopes: 0,
        request_id: String::new(),
        token: Some(token),
        policy: PhantomData,
    })
}

/// How often a node was told to forget keys. A look-up that was under way meanwhile may have
/// read the past, so what it found is not kept.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// Makes this node read a key afresh: it was disabled a moment ago.
pub(super) fn forget_key(app: &App, id: &KeyId) {
    FORGOTTEN.fetch_add(1, Ordering::SeqCst);
    for (hash, known) in &app.memo.keys {
        if known.key == *id {
            app.memo.keys.invalidate(hash.as_ref());
        }
    }
}

/// Makes this node read the keys of an account afresh: it was suspended or its settings changed.
pub fn forget_account(app: &App, account: &AccountId) {
    FORGOTTEN.fetch_add(1, Ordering::SeqCst);
    for (hash, known) in &app.memo.keys {
        if known.account.id == *account {
            app.memo.keys.invalidate(hash.as_ref());
        }
    }
}

async fn known_key(app: &App, text: &str) -> Result<Option<Arc<KnownKey>>, store::Error> {
    let hash = sha256(text.as_bytes());
    if let Some(known) = app.memo.keys.get(&hash) {
        return Ok(Some(known));
    }
    let forgotten = FORGOTTEN.load(Ordering::SeqCst);
    let Some(known) = read_key(app, hash).await?.map(Arc::new) else {
        return Ok(None);
    };
    app.memo.keys.insert(hash, Arc::clone(&known));
    if FORGOTTEN.load(Ordering::SeqCst) != forgotten {
        app.memo.keys.invalidate(&hash);
    }
    Ok(Some(known))
}

async fn read_key(app: &App, hash: [u8; 32]) -> Result<Option<KnownKey>, store::Error> {
    let found = app.db.row(sql::KEY_OF_HASH, args![hash]).await?;
    let Some((account, key)): Option<(AccountId, KeyId)> = found else {
        return Ok(None);
    };
    let row: Option<sql::KeyRow> = app.db.row(sql::KEY, args![&account, &key]).await?;
    let Some(row) = row.filter(|row| row.active) else {
        return Ok(None);
    };
    let account = account::account(app, &account).await?;
    Ok(account.map(|account| KnownKey {
        key,
        account: Arc::new(account),
        scopes: Scope::stored(&row.scopes),
    }))
}

async fn subject_of(app: &App, text: &str, kind: Kind) -> Result<(String, [u8; 32]), Problem> {
    if !token::is_well_formed(text, kind) {
        return Err(Code::InvalidToken.into());
    }
    let hash = token::hash(text);
    let row: Option<sql::TokenRow> = app.db.row(sql::TOKEN, args![hash]).await?;
    let row = row.ok_or(Code::InvalidToken)?;
    if row.kind != kind.as_str() || row.revoked_at.is_some() {
        return Err(Code::InvalidToken.into());
    }
    if row.expires_at <= app.now() {
        return Err(Code::TokenExpired.into());
    }
    Ok((row.subject_id, hash))
}

pub(super) fn take(app: &App, parts: &Parts, class: Class, who: &str) -> Result<(), Problem> {
    let limit = app.throttle.take(class, who)?;
    if let Some(notes) = notes(parts) {
        // A second extractor in one handler would only repeat it.
        let _first = notes.rate.set(limit);
    }
    Ok(())
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Nothing was shown that the endpoint takes: neither kind, or the other one.
fn missing(shown: &Pass<'_>, key: bool, portal: bool) -> Problem {
    let detail = match (shown, key, portal) {
        (Pass::Key(_), false, _) => {
            "This is an API key, and this endpoint takes a portal token, as a `Bearer`: \
             `POST /v1/auth/login` gives a user one."
        }
        (Pass::Token(_), true, false) => {
            "This is a token, and this endpoint takes an API key, in `X-API-Key` or as a \
             `Bearer`: `POST /v1/api-keys` makes one."
        }
        (_, true, true) => {
            "This endpoint takes an API key in `X-API-Key` or `Authorization: Bearer`, or a \
             portal token in `Authorization: Bearer`."
        }
        (_, true, false) => "This endpoint takes an API key, in `X-API-Key` or as a `Bearer`.",
        (_, false, _) => "This endpoint takes a portal token in `Authorization: Bearer`.",
    };
    let problem = Problem::new(Code::MissingCredentials).detail(detail);
    if key { problem } else { problem.only_token() }
}

fn notes(parts: &Parts) -> Option<&RequestNotes> {
    parts.extensions.get::<Arc<RequestNotes>>().map(Arc::as_ref)
}

/// The id of the request; empty without an edge.
pub(super) fn request_id(parts: &Parts) -> String {
    notes(parts).map(|notes| notes.id.clone()).unwrap_or_default()
}

/// Who is at the other end. Every connection has an address.
#[must_use]
pub fn client_of(parts: &Parts) -> Option<ClientAddress> {
    notes(parts)?.client
}

#[cfg(test)]
mod tests {
    use super::{Pass, bearer};
    use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

    #[test]
    fn a_key_counts_in_either_header_and_two_different_ones_are_refused() {
        let shown = |key: &'static str, bearer: &'static str| {
            let mut headers = HeaderMap::new();
            let given = [("x-api-key", key), ("authorization", bearer)];
            for (name, text) in given.into_iter().filter(|(_, text)| !text.is_empty()) {
                headers.append(name, HeaderValue::from_static(text));
            }
            Pass::shown_in(&headers).map(|pass| format!("{pass:?}")).map_err(|p| p.code().status())
        };
        assert_eq!(shown("", ""), Ok("None".to_owned()));
        let key = Ok("Key(\"est_test_a\")".to_owned());
        assert_eq!(shown("est_test_a", ""), key);
        assert_eq!(shown("", "Bearer est_test_a"), key);
        assert_eq!(shown("est_test_a", "Bearer est_test_a"), key);
        assert_eq!(shown("est_test_a", "Bearer est_test_b"), Err(400));
        let mut empty = HeaderMap::new();
        empty.append("x-api-key", HeaderValue::from_static(""));
        assert_eq!(Pass::shown_in(&empty).ok(), Some(Pass::None));
        empty.append(AUTHORIZATION, HeaderValue::from_static("Bearer est_test_a"));
        assert_eq!(Pass::shown_in(&empty).unwrap_err().code().status(), 400);
        let mut twice = HeaderMap::new();
        twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer est_pt_a"));
        twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer est_pt_a"));
        assert_eq!(Pass::shown_in(&twice).unwrap_err().code().status(), 400);
        assert_eq!(shown("", "Bearer est_pt_a"), Ok("Token(\"est_pt_a\")".to_owned()));
        assert!(shown("est_test_a", "Bearer est_pt_a").unwrap().starts_with("KeyAndToken"));
    }

    #[test]
    fn only_the_bearer_scheme_carries_a_token() {
        for (text, token) in [
            ("Bearer est_pt_x", Some("est_pt_x")),
            ("bearer  est_pt_x", Some("est_pt_x")),
            ("Basic est_pt_x", None),
            ("est_pt_x", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(text));
            assert_eq!(bearer(&headers), token, "{text}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
