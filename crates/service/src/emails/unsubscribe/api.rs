//! The page of an unsubscription. It is for mailboxes and people, not part of the API.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use super::super::Piece;
use crate::app::App;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// The page loads nothing, and its form goes to its own address.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
    form-action 'self'; frame-ancestors 'none'";

/// The routes of this part.
pub fn router() -> Router<App> {
    Router::new().route("/unsubscribe/{token}", get(ask).post(act))
}

/// Asks; scanners that follow links change nothing.
async fn ask(State(app): State<App>, Path(token): Path<String>) -> Result<Response, Problem> {
    known(&app, &token).await?;
    Ok(page(
        "<p>Do you want no more of these emails?<br>\
         <span lang=\"fr\">Ne plus recevoir ces e-mails ?</span></p>\
         <form method=\"post\"><button>Unsubscribe / \
         <span lang=\"fr\">Se désabonner</span></button></form>",
    ))
}

/// Does it; once more changes nothing.
async fn act(State(app): State<App>, Path(token): Path<String>) -> Result<Response, Problem> {
    let piece = known(&app, &token).await?;
    super::act(&app, &piece).await?;
    Ok(page(
        "<p>You will get no more of these emails.<br>\
         <span lang=\"fr\">Vous ne recevrez plus ces e-mails.</span></p>",
    ))
}

async fn known(app: &App, token: &str) -> Result<Piece, Problem> {
    Ok(super::find(app, token).await?.ok_or(Code::NotFound)?)
}

fn page(content: &str) -> Response {
    let headers: [(HeaderName, HeaderValue); 3] = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Unsubscribe</title>\
         <style>body{{font:1.1em/1.6 sans-serif;max-width:32em;margin:4em auto;padding:0 1em}}\
         button{{font:inherit;padding:.5em 1em}}</style>{content}</html>"
    );
    (headers, Html(page)).into_response()
}
