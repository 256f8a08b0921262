//! The routes of logins and API keys, and their wire types.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;

use super::idempotency::{self, Claim, Repeatable, Seen};
use super::token::Kind;
use super::{
    ApiKey, Caller, Credentials, Error, Guest, Leaver, Login, MOST_KEYS, Myself, NewKey, Owner,
    Passwords, Portal, Prover, Scope, create_key, disable_key, list_keys, once_with_password,
    password, replay_key,
};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::id::KeyId;
use crate::kit::page::{self, NoQuery, Query};
use crate::kit::posted::Post;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;
use crate::kit::seal::hex;
use crate::kit::secret::Secret;
use crate::kit::throttle::Class;

const KEYS: &str = "/v1/api-keys";

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(login, logout, change_password, list_api_keys, create_api_key, disable_api_key)
}

/// Somebody has this email already: what whoever asks may do, beside giving another one.
#[must_use]
pub fn email_taken(instead: &str) -> Problem {
    let detail = format!("is already registered: {instead}, or give another one");
    Problem::invalid(vec![Item::at("/email", "invalid_email", detail)])
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let item = |at, code, detail: &str| Self::invalid(vec![Item::at(at, code, detail)]);
        match error {
            Error::InvalidLogin => Code::InvalidLogin.into(),
            Error::TooManyLogins { wait_s } => Self::new(Code::TooManyLogins).retry_after_s(wait_s),
            Error::InvalidEmail => item("/email", "invalid_email", "must be an email address"),
            Error::EmailTaken => email_taken("log in with `POST /v1/auth/login`"),
            Error::Password(fault) => item("/password", fault.code(), &fault.to_string()),
            Error::NewPassword(fault) => item("/new", fault.code(), &fault.to_string()),
            Error::NoSuchKey | Error::NoSuchPerson | Error::NoSuchStaff | Error::NoSuchSession => {
                Code::NotFound.into()
            }
            Error::LastStaff => Self::new(Code::LimitReached).detail(
                "At least one member of staff must remain. Add another one first, or use \
                 `estafette staff remove`.",
            ),
            Error::TooManyKeys => Self::new(Code::LimitReached).detail(format!(
                "The account has {MOST_KEYS} active API keys, the most there may be. Disable one \
                 that is no longer used."
            )),
            Error::OverShare => Self::new(Code::RateLimited).detail(
                "Too many logins from this client are in progress. Send them one at a time.",
            ),
            Error::Overloaded => Code::Overloaded.into(),
            Error::Hashing(_) => Self::new(Code::InternalError).because(&error),
            Error::Db(error) => error.into(),
            Error::Commit(error) => error.into(),
        }
    }
}

/// What a person logs in with.
#[derive(Debug, ToSchema)]
pub struct LoginRequest {
    /// The email of the user.
    #[schema(example = "ana@example.com")]
    pub email: String,
    /// The password.
    #[schema(format = Password, example = "correct horse battery 42")]
    pub password: String,
}

/// Who logged in.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserView {
    /// The user's id.
    #[schema(example = "usr_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    pub id: String,
    /// The user's email.
    pub email: String,
}

/// A token for `Authorization: Bearer`.
#[derive(Debug, Serialize, ToSchema)]
pub struct LoginView {
    /// The token: shown only here, and to a repeat with the same `Idempotency-Key` within ten
    /// minutes.
    pub token: String,
    /// When it ends, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub expires_at: String,
    /// Whom it is for.
    pub user: UserView,
}

impl From<Login> for LoginView {
    fn from(login: Login) -> Self {
        Self {
            token: login.token.expose().to_owned(),
            expires_at: login.expires_at.to_string(),
            user: UserView { id: login.id, email: login.email },
        }
    }
}

/// That it was done.
#[derive(Debug, Serialize, ToSchema)]
pub struct DoneView {
    /// Always true.
    pub ok: bool,
}

/// Nothing: the body may be left out.
#[derive(Debug, ToSchema)]
pub struct EmptyRequest {}

/// A change of password.
#[derive(Debug, ToSchema)]
pub struct PasswordRequest {
    /// The password until now.
    #[schema(format = Password, example = "correct horse battery 42")]
    pub current: String,
    /// The password from now on, 12 to 256 characters.
    #[schema(
        format = Password, min_length = 12, max_length = 256,
        example = "another horse battery 43"
    )]
    pub new: String,
}

/// A key to be made.
#[derive(Debug, ToSchema)]
pub struct KeyRequest {
    /// A name for people, 1 to 100 characters.
    #[schema(min_length = 1, max_length = 100, example = "backend")]
    pub name: String,
    /// What the key may do; left out = everything. One or more of `otp:send`, `otp:verify`,
    /// `sms:send`, `chatapp:send`, `chatapp:receive`, `email:send`, `account:read`.
    #[schema(
        value_type = Option<Vec<Scope>>, min_items = 1,
        example = json!(["otp:send", "otp:verify"])
    )]
    pub scopes: Option<Vec<String>>,
}

/// An API key without the key itself.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyView {
    /// Its id.
    #[schema(example = "key_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    pub id: String,
    /// Its name.
    #[schema(example = "server")]
    pub name: String,
    /// The part that may be shown.
    #[schema(example = "est_test_4fT9bQ2x")]
    pub key_prefix: String,
    /// Whether it opens anything.
    pub active: bool,
    /// What it may do.
    #[schema(value_type = Vec<Scope>)]
    pub scopes: Vec<String>,
    /// When it was made, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub created_at: String,
}

impl From<ApiKey> for KeyView {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id.into(),
            name: key.name,
            key_prefix: key.prefix,
            active: key.active,
            scopes: Scope::words(key.scopes).into_iter().map(str::to_owned).collect(),
            created_at: key.created_at.to_string(),
        }
    }
}

/// A key that was made.
#[derive(Debug, Serialize, ToSchema)]
pub struct NewKeyView {
    /// The raw key: shown only here, and to a repeat with the same `Idempotency-Key` within ten
    /// minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^est_(live|test)_[0-9A-Za-z]{36}$")]
    pub api_key: Option<String>,
    /// Everything else.
    pub key: KeyView,
}

impl NewKeyView {
    /// From a key and, if it may still be shown, its raw text.
    #[must_use]
    pub fn of(raw: Option<&Secret>, key: ApiKey) -> Self {
        Self { api_key: raw.map(|raw| raw.expose().to_owned()), key: key.into() }
    }
}

/// A key that was ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct DisabledKeyView {
    /// Its id.
    #[schema(example = "key_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    pub id: String,
    /// Always false.
    #[schema(example = false)]
    pub active: bool,
}

/// Log in.
///
/// The token works at the live and at the sandbox address. A repeat with the same `Idempotency-Key`
/// is the same login for ten minutes, as long as its token is good; after that it is a new one.
#[endpoints::path(post, path = "/v1/auth/login", tag = "Account", request_body = LoginRequest,
    extensions(("x-codes" = json!([Code::InvalidLogin, Code::TooManyLogins]))),
    responses(
        (status = 200, body = LoginView, description = "Logged in"),
    ))]
async fn login(guest: Guest, State(app): State<App>, post: Post) -> Result<Response, Problem> {
    log_in(&app, Kind::Portal, &guest, "POST /v1/auth/login", &post).await
}

/// What a login does, for users and for staff.
///
/// # Errors
/// See the endpoints.
pub(super) async fn log_in(
    app: &App,
    kind: Kind,
    guest: &Guest,
    route: &str,
    post: &Post,
) -> Result<Response, Problem> {
    let (email, password) = credentials(app, &post.body)?;
    let owner = guest.owner(app);
    let request = Repeatable::by_guest(&owner, &post.headers, route, &post.body);
    let credentials = || Credentials { email: &email, password: &password };
    let fresh =
        async |claim: Claim| Ok(super::login(app, kind, credentials(), guest, &claim).await?);
    let again =
        async |seen: Seen| Ok(super::login_again(app, kind, credentials(), guest, &seen).await?);
    let prover = Prover { kind, whose: &email, guest };
    let login = once_with_password(app, prover, request, fresh, again).await?;
    let login = login.repeats_if(|login| login.is_repeated);
    Ok(login.map(|login| private(LoginView::from(login))).into_response())
}

/// Log out.
///
/// Ends the token that it is called with. A repeat with the same `Idempotency-Key` and the ended
/// token gets the same answer.
#[endpoints::path(post, path = "/v1/auth/logout", tag = "Account",
    request_body = Option<EmptyRequest>,
    security(("portal_token" = [])),
    responses(
        (status = 200, body = DoneView, description = "The token has ended"),
    ))]
async fn logout(
    leaver: Leaver<Portal>,
    State(app): State<App>,
    post: Post,
) -> Result<Response, Problem> {
    log_out(&app, Kind::Portal, &leaver, "POST /v1/auth/logout", &post).await
}

/// What a logout does, for users and for staff.
///
/// # Errors
/// See the endpoints.
pub(super) async fn log_out<P>(
    app: &App,
    kind: Kind,
    leaver: &Leaver<P>,
    route: &str,
    post: &Post,
) -> Result<Response, Problem> {
    Fields::read(&post.body)?.finish(app.is_strict())?;
    let request = Repeatable::by_person(&leaver.who, &post.headers, route, &post.body);
    let fresh = async |claim: Claim| match &leaver.refused {
        Some(problem) => Err(problem.clone()),
        None => Ok(super::logout(app, kind, leaver.by(), leaver.token, &claim).await?),
    };
    // Another token's key ends nothing, and with a token that has ended it opens nothing.
    let again = async |seen: Seen| match &leaver.refused {
        _ if seen.object_id == hex(&leaver.token) => Ok(()),
        Some(problem) => Err(problem.clone()),
        None => Err(Code::IdempotencyKeyReused.into()),
    };
    let done = idempotency::once(app, request, fresh, again).await?;
    Ok(done.map(|()| Json(DoneView { ok: true })).into_response())
}

/// Change the password.
///
/// Ends all other tokens of the user, and every password reset that was mailed and not used. The
/// new password must differ from the current one, be none of the commonest, and not be the email.
#[endpoints::path(post, path = "/v1/auth/password", tag = "Account",
    request_body = PasswordRequest, security(("portal_token" = [])),
    extensions(("x-codes" = json!([Code::InvalidLogin, Code::TooManyLogins]))),
    responses(
        (status = 200, body = DoneView, description = "The password is changed"),
    ))]
async fn change_password(
    caller: Caller<Myself>,
    guest: Guest,
    State(app): State<App>,
    Post { headers, body }: Post,
) -> Result<Response, Problem> {
    let owner = Owner { by: caller.by(), token: caller.token, guest: &guest };
    let request = Repeatable::by_person(&caller.who, &headers, "POST /v1/auth/password", &body);
    replace_password(&app, Kind::Portal, owner, request).await
}

/// What a change of password does, for users and for staff.
///
/// # Errors
/// See the endpoints.
pub(super) async fn replace_password(
    app: &App,
    kind: Kind,
    owner: Owner<'_>,
    request: Repeatable<'_>,
) -> Result<Response, Problem> {
    let mut fields = Fields::read(request.body())?;
    let current = fields.required("current");
    let new = new_password(&mut fields, "new", "");
    fields.finish(app.is_strict())?;
    let (Some(current), Some(new)) = (current.map(Secret::new), new) else {
        return Err(Code::InternalError.into());
    };
    app.throttle.take(Class::Password, owner.by.who.id())?;
    let passwords = Passwords { current: &current, new: &new };
    let fresh =
        async |claim: Claim| Ok(super::change_password(app, kind, owner, passwords, &claim).await?);
    let prover = Prover { kind, whose: owner.by.who.id(), guest: owner.guest };
    let done = once_with_password(app, prover, request, fresh, async |_| Ok(())).await;
    let done = done.map_err(of_current)?;
    Ok(done.map(|()| Json(DoneView { ok: true })).into_response())
}

/// Who is logged in gave no email: only `current` can be wrong.
fn of_current(problem: Problem) -> Problem {
    if problem.code() != Code::InvalidLogin {
        return problem;
    }
    problem.detail(
        "`current` is not the password of this account. Send the one that opens it now. From the \
         fifth failure on, each one makes this address wait longer before its next attempt.",
    )
}

/// List API keys.
///
/// Newest first.
#[endpoints::path(get, path = "/v1/api-keys", tag = "Account", security(("portal_token" = [])),
    params(
        ("since" = Option<String>, Query, description = "Created at or after this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Created before this time (RFC 3339)"),
        ("limit" = Option<i64>, Query, description = "1 to 200, default 50"),
        ("cursor" = Option<String>, Query, description = "From the `Link` of the page before"),
    ),
    responses(
        (status = 200, body = Vec<KeyView>, description = "One page; `Link` leads to the next"),
    ))]
async fn list_api_keys(
    caller: Caller<Portal>,
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read(query.as_deref(), &["since", "until", "limit", "cursor"])?;
    let path = query.path_with(KEYS, &["since", "until"]);
    let mut page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let since = query.between(&mut page, |at| KeyId::bound(at).into())?;
    let keys = since.keep(list_keys(&app, &caller.account.id, &page).await?, |key| key.id.as_str());
    let views = keys.into_iter().map(KeyView::from).collect();
    Ok(page::answer(&app.vault, &path, &page, views, |view: &KeyView| view.id.clone()))
}

/// Create an API key.
///
/// The raw key is in this answer only; a repeat with the same `Idempotency-Key` carries it for ten
/// minutes, and comes without it afterwards.
#[endpoints::path(post, path = "/v1/api-keys", tag = "Account", request_body = KeyRequest,
    security(("portal_token" = [])),
    extensions(("x-codes" = json!([Problem::from(Error::TooManyKeys)]))),
    responses(
        (status = 200, body = NewKeyView, description = "The key"),
    ))]
async fn create_api_key(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let wanted = new_key(&app, &body)?;
    let account = &caller.account;
    let request = Repeatable::by_tenant(&account.id, &headers, "POST /v1/api-keys", &body);
    let fresh = async |claim: Claim| {
        let (raw, key) = create_key(&app, account, &wanted, caller.by(), &claim).await?;
        Ok(private(NewKeyView::of(Some(&raw), key)))
    };
    let again = async |seen: Seen| {
        let (raw, key) = replay_key(&app, &account.id, &seen).await?;
        Ok(private(NewKeyView::of(raw.as_ref(), key)))
    };
    Ok(idempotency::once(&app, request, fresh, again).await?.into_response())
}

/// Disable an API key.
///
/// Repeating this has no effect.
#[endpoints::path(delete, path = "/v1/api-keys/{key_id}", tag = "Account",
    security(("portal_token" = [])),
    params(("key_id" = String, Path, description = "The key's id")),
    responses(
        (status = 200, body = DisabledKeyView, description = "The key is disabled"),
    ))]
async fn disable_api_key(
    caller: Caller<Portal>,
    State(app): State<App>,
    Path(key_id): Path<String>,
    _: NoQuery,
) -> Result<Json<DisabledKeyView>, Problem> {
    let id = KeyId::parse(&key_id).ok_or(Code::NotFound)?;
    disable_key(&app, &caller.account.id, &id, caller.by()).await?;
    Ok(Json(DisabledKeyView { id: id.into(), active: false }))
}

/// An answer that no cache may keep, because it carries a secret.
pub fn private(view: impl Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(view)).into_response()
}

/// A required new password of the person with this email, its faults noted.
pub fn new_password(fields: &mut Fields, name: &'static str, email: &str) -> Option<Secret> {
    let text = fields.required(name)?;
    match password::check(&text, email) {
        Ok(()) => Some(Secret::new(text)),
        Err(fault) => {
            fields.fault(name, fault.code(), fault.to_string());
            None
        }
    }
}

fn credentials(app: &App, body: &[u8]) -> Result<(String, Secret), Problem> {
    let mut fields = Fields::read(body)?;
    let (email, password) = (fields.required("email"), fields.required("password"));
    fields.finish(app.is_strict())?;
    let both = email.zip(password.map(Secret::new));
    both.ok_or_else(|| Code::InternalError.into())
}

fn new_key(app: &App, body: &[u8]) -> Result<NewKey, Problem> {
    let mut fields = Fields::read(body)?;
    let scopes = Scope::read(&mut fields);
    let name = fields.required_line("name", 100);
    fields.finish(app.is_strict())?;
    let name = name.ok_or(Code::InternalError)?;
    Ok(NewKey { name, scopes })
}
