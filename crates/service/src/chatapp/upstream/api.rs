//! Where the chat-app's upstream calls back: the handshake, and what it tells.

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, routes};

use super::Untaken;
use super::scope::signers;
use crate::app::App;
use crate::kit::page::Query;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::secret::Secret;
use crate::kit::signature::is_same;

/// The header of the signature.
const SIGNATURE: &str = "x-hub-signature-256";
const KNOWN: [&str; 3] = ["hub.mode", "hub.verify_token", "hub.challenge"];

/// The routes of callbacks.
pub fn routes() -> ApiRouter<App> {
    routes!(verify_callback, take_callback)
}

/// Answer the chat-app's handshake.
///
/// Proves to the chat-app's upstream that this address is meant.
#[endpoints::path(
    get, path = "/v1/upstream/chatapp", tag = "Operator",
    params(
        ("hub.mode" = String, Query, description = "`subscribe`"),
        ("hub.verify_token" = String, Query, description = "`chatapp.verify_token`"),
        ("hub.challenge" = String, Query, description = "What is answered"),
    ),
    responses(
        (status = 200, body = String, content_type = "text/plain",
         description = "The challenge"),
    )
)]
async fn verify_callback(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::read_known(query.as_deref(), &KNOWN);
    let given = query.get("hub.verify_token").unwrap_or_default();
    let is_meant = query.get("hub.mode") == Some("subscribe") && is_expected(&app, given);
    if !is_meant {
        let detail = "`hub.verify_token` is neither `chatapp.verify_token` nor the word of a \
                      linked business account, or `hub.mode` is not `subscribe`.";
        return Err(Problem::new(Code::InvalidToken).detail(detail));
    }
    let challenge = query.get("hub.challenge").filter(|challenge| !challenge.is_empty());
    let missing = || Problem::bad_request("?hub.challenge", "required", "is required");
    Ok(challenge.ok_or_else(missing)?.to_owned().into_response())
}

/// Whether a word is the deployment's, or that of a linked business account.
fn is_expected(app: &App, given: &str) -> bool {
    let linked = app.carriers.cloud().map(|cloud| cloud.numbers().linked()).unwrap_or_default();
    let own = std::iter::once(&app.config.chatapp.verify_token);
    let words = own.chain(linked.values().map(|number| &number.verify_token));
    // All of them are looked at, so that the time does not tell which is near.
    words.map(Secret::expose).fold(false, |found, expected| {
        let is_this = !expected.is_empty() && is_same(expected, given);
        found || is_this
    })
}

/// Take the chat-app's callback.
///
/// What it tells is durable before the answer.
#[endpoints::path(
    post, path = "/v1/upstream/chatapp", tag = "Operator",
    params(("X-Hub-Signature-256" = String, Header,
        description = "`sha256=` and the HMAC of the body by `chatapp.app_secret`, hexadecimal")),
    request_body(content = String, content_type = "application/json"),
    responses(
        (status = 200, description = "It is durable"),
    )
)]
async fn take_callback(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let given = headers.get(SIGNATURE).and_then(|value| value.to_str().ok());
    let given = given.and_then(|text| text.strip_prefix("sha256=")).unwrap_or_default();
    let signers = signers(&app, &body, given);
    if signers.is_empty() {
        let detail = "`X-Hub-Signature-256` does not sign this body with `chatapp.app_secret`, or \
                      with the secret of the linked business account that it is about.";
        return Err(Problem::new(Code::InvalidToken).detail(detail));
    }
    super::take(&app, &signers, &body).await?;
    Ok(().into_response())
}

impl From<Untaken> for Problem {
    fn from(untaken: Untaken) -> Self {
        match untaken {
            Untaken::Full => {
                let detail = "Too many callbacks of this business account are not taken in yet. \
                              Send this one again later.";
                Self::new(Code::Overloaded).detail(detail)
            }
            Untaken::Commit(error) => error.into(),
        }
    }
}
