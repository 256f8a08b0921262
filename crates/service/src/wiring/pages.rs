//! What is not the API itself: health, the API description and its reference, error pages, metrics.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::description;
use crate::app::App;
use crate::kit::page::NoQuery;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// What a page with nothing but text may load, and who may show it.
const TEXT: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

pub(super) fn router(app: &App) -> Router<App> {
    let env = app.env;
    let readiness = Arc::<Readiness>::default();
    Router::<App>::new()
        .route("/", get(|| async { Redirect::temporary("/docs/") }))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(move |State(app)| async move { readiness.of(&app).await }))
        .route("/v1/openapi.json", get(move |_: NoQuery| ready(openapi(description::text(env)))))
        .route("/errors", get(|| async { (shielded(TEXT), Html(errors_page())) }))
        .route("/errors/", get(|| async { Redirect::permanent("/errors") }))
        .route("/errors/{code}", get(error_page))
        .with_state::<App>(app.clone())
}

pub(super) fn metrics_router(app: &App) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .with_state(app.clone())
}

/// How long the answer of storage is remembered: health checks are no load, however many ask.
const REMEMBERED: Duration = Duration::from_secs(1);

/// Whether storage takes a write, as of at most a second ago.
#[derive(Default)]
struct Readiness {
    /// Held while storage is asked, so that one asks for all who wait.
    last: Mutex<Option<(Instant, bool)>>,
}

impl Readiness {
    /// Ready = the database is there and takes a write, and the process is not stopping.
    async fn of(&self, app: &App) -> Result<&'static str, Problem> {
        if app.is_draining() {
            return Err(Code::Draining.into());
        }
        if !app.is_open() {
            let detail =
                "The service has just started and waits for its database; the log says why.";
            return Err(Problem::new(Code::StorageUnavailable).detail(detail));
        }
        if !self.storage_works(app).await {
            return Err(Code::StorageUnavailable.into());
        }
        Ok("ready\n")
    }

    async fn storage_works(&self, app: &App) -> bool {
        let mut last = self.last.lock().await;
        if let Some((at, works)) = *last
            && at.elapsed() < REMEMBERED
        {
            return works;
        }
        let probed = app.db.probe().await;
        if let Err(error) = &probed {
            tracing::warn!(%error, "not ready");
        }
        *last = Some((Instant::now(), probed.is_ok()));
        probed.is_ok()
    }
}

/// Headers of a page that a browser shows.
pub(super) fn shielded(policy: &'static str) -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy)),
        // For browsers that do not know frame-ancestors.
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ]
}

fn openapi(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
}

/// The page behind `type` of a problem.
async fn error_page(Path(word): Path<String>) -> Response {
    let Ok(code) = word.parse::<Code>() else {
        let detail = "There is no error of this code. `/errors` lists all that there are.";
        return Problem::new(Code::NotFound).detail(detail).into_response();
    };
    let (word, status, title) = (code.as_str(), code.status(), code.title());
    let advice = with_code(code.advice());
    let said = format!(
        "<h1>{title}</h1><p><code>{word}</code>, HTTP {status}</p><p>{advice}</p>\
         <p><a href=\"/errors\">All errors</a></p>"
    );
    (shielded(TEXT), Html(page(word, &said))).into_response()
}

/// As HTML, with what stands between backticks as code.
fn with_code(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let marked = text.split('`').zip([false, true].into_iter().cycle());
    let part = |(part, is_code): (&str, bool)| {
        if is_code { format!("<code>{part}</code>") } else { part.to_owned() }
    };
    marked.map(part).collect()
}

/// All codes, each with the way to its page.
fn errors_page() -> String {
    let line = |code: &Code| {
        let (word, status, title) = (code.as_str(), code.status(), code.title());
        format!("<li><a href=\"/errors/{word}\"><code>{word}</code></a>, {status}: {title}</li>")
    };
    let lines: String = Code::ALL.iter().map(line).collect();
    page("Errors", &format!("<h1>Errors</h1><p>Programs go by the code.</p><ul>{lines}</ul>"))
}

/// A page of nothing but text.
fn page(title: &str, said: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>body{{font:1rem/1.6 system-ui,sans-serif;max-width:40rem;margin:4rem auto;\
         padding:0 1rem}}code{{background:#eee;padding:.1em .3em}}</style>\
         {said}<p><a href=\"/docs\">API reference</a></p></html>"
    )
}

async fn metrics(State(app): State<App>) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let text = app.metrics.render(&app.db);
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}
