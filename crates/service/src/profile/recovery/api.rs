//! The routes of proof of an address and of a forgotten password.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, ToSchema, routes};
use store::{CommitError, WriteSet};

use crate::access::api::{DoneView, new_password};
use crate::access::idempotency::{self, Claim, Repeatable};
use crate::access::token::{self, Kind as Login};
use crate::access::{self, Error, Guest, Prover};
use crate::app::App;
use crate::kit::body::Fields;
use crate::kit::posted::Post;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::secret::Secret;
use crate::kit::throttle::Class;
use crate::notices::{self, Kind, resets};

/// What is said of a token that opens nothing (any more).
const NO_PROOF: &str = "The token from the email is unknown, was used, or has expired.";

/// The routes of this module.
pub fn routes() -> ApiRouter<App> {
    routes!(verify_email, ask_for_reset, confirm_reset)
}

/// A proof.
#[derive(Debug, ToSchema)]
pub struct VerifyEmailRequest {
    /// The token from the email.
    #[schema(example = "est_pf_0aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9mN1")]
    pub token: String,
}

/// Who forgot the password.
#[derive(Debug, ToSchema)]
pub struct ResetRequest {
    /// The email of the user.
    #[schema(example = "ana@example.com", max_length = 254)]
    pub email: String,
}

/// A proof, and what it is used for.
#[derive(Debug, ToSchema)]
pub struct ConfirmResetRequest {
    /// The token from the email.
    #[schema(example = "est_pf_0aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9mN1")]
    pub token: String,
    /// The password from now on, 12 to 256 characters.
    #[schema(
        format = Password, min_length = 12, max_length = 256,
        example = "another horse battery 43"
    )]
    pub new: String,
}

/// Verify an email address.
///
/// With the token that was mailed at sign-up. It is good once, for a day (`email.verify_life_s`).
#[endpoints::path(post, path = "/v1/auth/verify-email", tag = "Account",
    request_body = VerifyEmailRequest,
    extensions(("x-codes" = json!([Code::InvalidToken]))),
    responses(
        (status = 200, body = DoneView, description = "The email is verified"),
    ))]
async fn verify_email(
    guest: Guest,
    State(app): State<App>,
    Post { headers, body }: Post,
) -> Result<Response, Problem> {
    let mut fields = Fields::read(&body)?;
    let token = fields.required("token");
    fields.finish(app.is_strict())?;
    let token = Secret::new(token.ok_or(Code::InternalError)?);
    let owner = guest.owner(&app);
    let request = Repeatable::by_guest(&owner, &headers, "POST /v1/auth/verify-email", &body);
    let fresh = async |claim: Claim| {
        let proof = notices::proof(&app, &token, Kind::VerifyEmail).await?.ok_or_else(no_proof)?;
        let mut set = WriteSet::of(proof.user.as_str());
        notices::use_up(&app, &mut set, &proof, Kind::VerifyEmail);
        access::proved(&app, &mut set, &proof.user, &guest.request_id);
        claim.add_to(&mut set, proof.user.as_str(), None, app.now());
        commit(&app, set).await
    };
    let done = idempotency::once(&app, request, fresh, async |_| Ok(())).await?;
    Ok(done.map(|()| Json(DoneView { ok: true })).into_response())
}

/// Request a password reset.
///
/// Mails a token to the user with this email, if there is one: the answer is the same, and takes
/// the same time, whether or not there is. The token is good once, for an hour
/// (`email.reset_life_s`); a user gets three in an hour (`email.resets_per_hour`).
#[endpoints::path(post, path = "/v1/auth/password/reset", tag = "Account",
    request_body = ResetRequest,
    extensions(("x-codes" = json!([Code::CarrierUnavailable]))),
    responses(
        (status = 200, body = DoneView, description = "A user with this email gets mail"),
    ))]
async fn ask_for_reset(
    guest: Guest,
    State(app): State<App>,
    Post { headers, body }: Post,
) -> Result<Response, Problem> {
    let mut fields = Fields::read(&body)?;
    let typed = fields.required("email");
    if typed.as_deref().is_some_and(|typed| access::email(typed).is_none()) {
        fields.fault("email", "invalid_email", "must be an email address");
    }
    fields.finish(app.is_strict())?;
    let typed = typed.ok_or(Code::InternalError)?;
    let owner = guest.owner(&app);
    let request = Repeatable::by_guest(&owner, &headers, "POST /v1/auth/password/reset", &body);
    let fresh = async |claim: Claim| {
        if !notices::is_on(&app) {
            let detail =
                "The service sends no email to its users. Ask its operator for a password.";
            return Err(Problem::new(Code::CarrierUnavailable).detail(detail));
        }
        app.throttle.take(Class::Signup, &guest.address)?;
        // The same for everybody: neither the answer nor its time tells whether there is a user.
        let mut set = WriteSet::of(&owner);
        claim.add_to(&mut set, "", None, app.now());
        resets::ask(&app, &mut set, typed.trim());
        app.db.commit(set).await?;
        Ok(())
    };
    let done = idempotency::once(&app, request, fresh, async |_| Ok(())).await?;
    Ok(done.map(|()| Json(DoneView { ok: true })).into_response())
}

/// Reset the password.
///
/// With the token that was mailed. Ends all logins of the user, and proves their email. The token
/// is used up with it; one that is refused for the password stays good.
#[endpoints::path(post, path = "/v1/auth/password/reset/confirm", tag = "Account",
    request_body = ConfirmResetRequest,
    extensions(("x-codes" = json!([Code::InvalidToken, Code::TooManyLogins]))),
    responses(
        (status = 200, body = DoneView, description = "The password is changed"),
    ))]
async fn confirm_reset(
    guest: Guest,
    State(app): State<App>,
    Post { headers, body }: Post,
) -> Result<Response, Problem> {
    let mut fields = Fields::read(&body)?;
    let token = fields.required("token");
    let new = new_password(&mut fields, "new", "");
    fields.finish(app.is_strict())?;
    let (Some(token), Some(new)) = (token.map(Secret::new), new) else {
        return Err(Code::InternalError.into());
    };
    let (owner, route) = (guest.owner(&app), "POST /v1/auth/password/reset/confirm");
    let request = Repeatable::by_guest(&owner, &headers, route, &body);
    let fresh = async |claim: Claim| {
        let kind = Kind::PasswordReset;
        let proof = notices::proof(&app, &token, kind).await?.ok_or_else(no_proof)?;
        let mut set = match access::reset_set(&app, &proof.user, &new, &guest).await {
            Err(Error::NoSuchPerson) => return Err(no_proof()),
            set => set?,
        };
        notices::use_up(&app, &mut set, &proof, kind);
        access::proved(&app, &mut set, &proof.user, &guest.request_id);
        claim.add_to(&mut set, proof.user.as_str(), None, app.now());
        commit(&app, set).await?;
        token::ended(&app, proof.user.as_str());
        Ok(())
    };
    let prover = Prover { kind: Login::Portal, whose: token.expose(), guest: &guest };
    let done = access::once_with_password(&app, prover, request, fresh, async |_| Ok(())).await?;
    Ok(done.map(|()| Json(DoneView { ok: true })).into_response())
}

async fn commit(app: &App, set: WriteSet) -> Result<(), Problem> {
    match app.db.commit(set).await {
        Ok(_) => Ok(()),
        Err(CommitError::Rejected(notices::USED)) => Err(no_proof()),
        // The password was changed at the same moment: by another of the user's proofs, or by them.
        Err(error) => match Error::from(error) {
            Error::InvalidLogin => Err(no_proof()),
            error => Err(error.into()),
        },
    }
}

fn no_proof() -> Problem {
    Problem::new(Code::InvalidToken).detail(NO_PROOF)
}
