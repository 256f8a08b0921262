//! Callbacks of SMS carriers.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use endpoints::{ApiRouter, routes};

use crate::access::client_of;
use crate::app::App;
use crate::carriers::{Called, Taken};
use crate::kit::portions::Portions;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// Where SMS carriers call.
pub const CALLBACK: &str = "/v1/upstream/sms/{carrier}";

/// Callbacks of a carrier in hand: one that floods keeps no other's waiting.
static IN_HAND: Portions = Portions::new(512);

/// The routes.
pub fn routes() -> ApiRouter<App> {
    routes!(call_back, call_back_by_post)
}

/// Take a carrier's callback.
///
/// Receipts and messages of an HTTP carrier, in its own form. It proves itself by the token in the
/// URL that it was given, by its signature, or by its address.
#[endpoints::path(get, path = "/v1/upstream/sms/{carrier}", tag = "Operator",
    params(("carrier" = String, Path, description = "Its name in the settings"),
        ("token" = Option<String>, Query, description = "Proves the gateway")),
    extensions(("x-codes" = json!([Code::InvalidToken, Code::NotFound]))),
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "It is stored"),
    )
)]
async fn call_back(
    State(app): State<App>,
    Path(carrier): Path<String>,
    parts: Parts,
) -> Result<Response, Problem> {
    take(&app, &carrier, called(&parts, &Bytes::new())).await
}

/// Take a carrier's callback, by POST.
///
/// As by GET, with a form or JSON.
#[endpoints::path(post, path = "/v1/upstream/sms/{carrier}", tag = "Operator",
    params(("carrier" = String, Path, description = "Its name in the settings"),
        ("token" = Option<String>, Query, description = "Proves the gateway")),
    request_body(content = String, content_type = "application/x-www-form-urlencoded",
        description = "As the gateway sends it"),
    extensions(("x-codes" = json!([Code::InvalidToken, Code::NotFound]))),
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "It is stored"),
    )
)]
async fn call_back_by_post(
    State(app): State<App>,
    Path(carrier): Path<String>,
    parts: Parts,
    body: Bytes,
) -> Result<Response, Problem> {
    take(&app, &carrier, called(&parts, &body)).await
}

async fn take(app: &App, carrier: &str, called: Called) -> Result<Response, Problem> {
    let lane = app.carriers.lane(carrier);
    let taken = lane.as_ref().and_then(|lane| lane.carrier().call_back(&called));
    // One that nobody calls back is not told from one that there is not.
    let nobody = || {
        let detail = "No carrier of this name takes callbacks here. The path ends with the name of \
                      an HTTP gateway under sms.carriers; the sandbox has none.";
        Problem::new(Code::NotFound).detail(detail)
    };
    let taken = taken.ok_or_else(nobody)?;
    let too_many = || {
        let detail = "Too many callbacks of this carrier are not taken in yet. Send this one \
                      again later.";
        Problem::new(Code::Overloaded).detail(detail)
    };
    let _in_hand = IN_HAND.take(carrier).ok_or_else(too_many)?;
    match taken.await {
        Taken::Stored(reply) => Ok(reply.into_response()),
        // It comes again.
        Taken::NotNow => Err(Code::StorageUnavailable.into()),
        Taken::Forged => {
            let detail = "Its token, its signature or its address is not this gateway's. The \
                          `token` in the URL must be the carrier's callback_token; where the \
                          gateway signs the URL, server.live_url must be the one that it calls.";
            Err(Problem::new(Code::InvalidToken).detail(detail))
        }
    }
}

fn called(parts: &Parts, body: &Bytes) -> Called {
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    Called {
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers.iter().filter_map(header).collect(),
        body: body.to_vec(),
        from: client_of(parts).map(|client| client.0),
    }
}
