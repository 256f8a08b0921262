//! The endpoint at which staff see an email's attempts.

use axum::Json;
use axum::extract::{Path, State};
use endpoints::{ApiRouter, ToSchema, routes};
use serde::Serialize;

use super::{Tried, store as sql};
use crate::access::caller::Staff;
use crate::app::App;
use crate::dispatch;
use crate::emails::store as of_emails;
use crate::kit::id::{AccountId, EmailId};
use crate::kit::page::NoQuery;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// The routes.
pub(in crate::emails) fn routes() -> ApiRouter<App> {
    routes!(read_attempts)
}

/// The attempt of one recipient's copy.
#[derive(Serialize, ToSchema)]
struct EmailAttempt {
    /// Its id; the hold on its price has the same uuid.
    #[schema(example = "att_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// Whose copy: the place in the email's `recipients`, from 0.
    #[schema(minimum = 0, example = 0)]
    position: i64,
    /// The carrier that it went or goes to.
    #[schema(example = "relay")]
    carrier: String,
    /// Where it stands.
    state: dispatch::State,
    /// Submissions so far.
    #[schema(minimum = 0, example = 1)]
    tries: i64,
    /// What the relay said last, where it did not take it.
    #[schema(required = true, example = "451 4.7.1 come back later")]
    error: Option<String>,
    /// The last dialogue that did not end with an acceptance: `>` is the service, `<` the relay,
    /// `!` what happened. Without secrets, addresses and content, at most 2 kB; null where the
    /// relay took the copy at once, and once the recipient is forgotten.
    #[schema(required = true, example = "> RCPT TO:<recipient>\n< 451 4.7.1 come back later\n")]
    transcript: Option<String>,
}

impl From<Tried> for EmailAttempt {
    fn from(tried: Tried) -> Self {
        let Tried { id, position, carrier, state, tries, error, transcript } = tried;
        Self { id: id.into(), position, carrier, state, tries, error, transcript }
    }
}

/// List the attempts of an email.
///
/// One attempt for each recipient that was written to, in their order. What the email says, and to
/// whom, is not shown.
#[endpoints::path(
    get, path = "/v1/admin/accounts/{account_id}/emails/{email_id}/attempts", tag = "Operator",
    params(
        ("account_id" = String, Path, description = "The account"),
        ("email_id" = String, Path, description = "The email"),
    ),
    responses(
        (status = 200, body = Vec<EmailAttempt>, description = "The attempts"),
    ),
    security(("staff_token" = []))
)]
async fn read_attempts(
    _: Staff,
    State(app): State<App>,
    Path((account, email)): Path<(String, String)>,
    _: NoQuery,
) -> Result<Json<Vec<EmailAttempt>>, Problem> {
    let account = AccountId::parse(&account).ok_or(Code::NotFound)?;
    let email = EmailId::parse(&email).ok_or(Code::NotFound)?;
    of_emails::letter(&app, &account, &email).await?.ok_or(Code::NotFound)?;
    let tried = sql::tried(&app, &account, &email).await?;
    Ok(Json(tried.into_iter().map(Into::into).collect()))
}
