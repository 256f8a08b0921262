//! The routes of signing up and of the profile, and their wire types.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;
use store::WriteSet;

use crate::access::api::{LoginView, UserView, new_password, private};
use crate::access::idempotency::{Claim, Repeatable, Seen};
use crate::access::token::Kind;
use crate::access::{
    self, Caller, Credentials, Guest, Identity, Login, MadeBy, NewUser, Portal, Prover, Who,
};
use crate::app::{App, Env};
use crate::credits;
use crate::kit::body::Fields;
use crate::kit::page::NoQuery;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::secret::Secret;
use crate::kit::throttle::Class;
use crate::notices::{self, Reader};

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(signup, read_profile)
}

/// Someone new.
#[derive(Debug, ToSchema)]
pub struct SignupRequest {
    /// The email, which becomes the login.
    #[schema(example = "ana@example.com", max_length = 254)]
    pub email: String,
    /// The password, 12 to 256 characters.
    #[schema(
        format = Password, min_length = 12, max_length = 256,
        example = "correct horse battery 42"
    )]
    pub password: String,
}

/// The accounts of a user.
#[derive(Debug, Serialize, ToSchema)]
pub struct AccountsView {
    /// The account of the live environment.
    pub live: String,
    /// The account of the sandbox.
    pub sandbox: String,
}

/// A new user, logged in.
#[derive(Debug, Serialize, ToSchema)]
pub struct SignupView {
    /// A portal token: shown only here, and to a repeat with the same `Idempotency-Key` within ten
    /// minutes.
    pub token: String,
    /// When the token ends, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub expires_at: String,
    /// The new user.
    pub user: UserView,
    /// Their accounts.
    pub accounts: AccountsView,
}

impl SignupView {
    fn of(new: NewUser, login: Login) -> Self {
        let LoginView { token, expires_at, user } = login.into();
        let accounts = AccountsView { live: new.live.into(), sandbox: new.sandbox.into() };
        Self { token, expires_at, user, accounts }
    }
}

/// The account of this address.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProfileView {
    /// The account's id.
    #[schema(example = "acc_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    pub id: String,
    /// The user's email.
    pub email: String,
    /// `prepaid` or `postpaid`.
    #[schema(value_type = crate::app::BillingMode)]
    pub billing_mode: String,
    /// Credits that can be spent now, without the credit limit: below zero, what is owed.
    pub balance_credits: i64,
    /// `active`; or `pending` (until the operator looked at it) and `suspended`, which can only be
    /// read.
    #[schema(value_type = crate::app::Standing)]
    pub status: String,
}

/// Sign up.
///
/// Makes a user with an account for each environment, and logs them in. Sign-up can be off on
/// either address; where it is off on live, the live account of whoever signs up at the sandbox is
/// `pending` until the operator activates it. A repeat with the same `Idempotency-Key` makes no
/// second user: for ten minutes it carries the same token, as long as that is good; after that it
/// is a login of its own.
#[endpoints::path(post, path = "/v1/auth/signup", tag = "Account", request_body = SignupRequest,
    extensions(("x-codes" = json!([
        Code::SignupDisabled, Code::InvalidLogin, Code::TooManyLogins
    ]))),
    responses(
        (status = 200, body = SignupView, description = "The new user, logged in"),
    ))]
async fn signup(
    guest: Guest,
    State(app): State<App>,
    _: NoQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    if !is_open(&app) {
        return Err(closed(&app));
    }
    let (email, password) = newcomer(&app, &body)?;
    let owner = guest.owner(&app);
    let request = Repeatable::by_guest(&owner, &headers, "POST /v1/auth/signup", &body);
    let fresh = async |claim: Claim| {
        app.throttle.take(Class::Signup, &guest.address)?;
        let credentials = Credentials { email: &email, password: &password };
        let enter = |set: &mut WriteSet, new: &NewUser| {
            credits::sandbox_grant(&app, set, &new.sandbox);
            let reader = Reader { user: &new.id, live: &new.live };
            notices::verify(&app, set, reader);
            let identity = Identity { id: new.id.to_string(), email: new.email.clone() };
            access::admit(&app, set, Kind::Portal, identity, &claim)
        };
        let made_by = MadeBy::Guest(&guest);
        Ok(access::signup(&app, credentials, made_by, enter).await?)
    };
    let again = async |seen: Seen| {
        let credentials = Credentials { email: &email, password: &password };
        let login = access::login_again(&app, Kind::Portal, credentials, &guest, &seen).await?;
        Ok((access::user(&app, &login.id).await?, login))
    };
    let prover = Prover { kind: Kind::Portal, whose: &email, guest: &guest };
    let done = access::once_with_password(&app, prover, request, fresh, again).await?;
    let done = done.repeats_if(|(_, login)| login.is_repeated);
    Ok(done.map(|(new, login)| private(SignupView::of(new, login))).into_response())
}

/// Read the account's profile.
///
/// The profile of your account at this address (live or sandbox).
#[endpoints::path(get, path = "/v1/me", tag = "Account", security(("portal_token" = [])),
    responses(
        (status = 200, body = ProfileView, description = "The profile"),
    ))]
async fn read_profile(
    caller: Caller<Portal>,
    State(app): State<App>,
    _: NoQuery,
) -> Result<Response, Problem> {
    let Who::User(user) = &caller.who else { return Err(Code::InternalError.into()) };
    let email = access::email_of(&app, user).await?.ok_or(Code::NotFound)?;
    let id = &caller.account.id;
    let balance = credits::balance(&app, id).await?;
    Ok(private(ProfileView {
        id: id.to_string(),
        email,
        balance_credits: balance.own(),
        billing_mode: balance.billing_mode,
        status: balance.status,
    }))
}

/// Where else one may sign up, if that is open.
fn closed(app: &App) -> Problem {
    let problem = Problem::new(Code::SignupDisabled);
    let sandbox = &app.config.server.sandbox_url;
    let made = "The operator makes the accounts of this address";
    problem.detail(if app.env == Env::Live && app.config.access.signup_sandbox {
        format!("{made}: ask for one, or sign up at the sandbox, {sandbox}.")
    } else {
        format!("{made}: ask for one.")
    })
}

fn is_open(app: &App) -> bool {
    match app.env {
        Env::Live => app.config.access.signup_live,
        Env::Sandbox => app.config.access.signup_sandbox,
    }
}

fn newcomer(app: &App, body: &[u8]) -> Result<(String, Secret), Problem> {
    let mut fields = Fields::read(body)?;
    let typed = fields.required("email");
    let email = typed.as_deref().and_then(access::email);
    if typed.is_some() && email.is_none() {
        fields.fault("email", "invalid_email", "must be an email address");
    }
    let known = email.as_deref().unwrap_or_default();
    let password = new_password(&mut fields, "password", known);
    fields.finish(app.is_strict())?;
    email.zip(password).ok_or_else(|| Code::InternalError.into())
}
