//! What is not the API itself: health, the API description and its reference, error pages, metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use tokio::sync::Mutex;
use tokio::time::Instant;
use utoipa_swagger_ui::SwaggerUi;

use super::description;
use crate::app::App;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// What the reference may load and who may show it: its own files ask this address only, and no
/// other page can put it into a frame. The viewer writes styles into its elements.
const REFERENCE: &str = "default-src 'none'; script-src 'self'; \
    style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The same for a page with nothing but text.
const TEXT: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

pub(super) fn router(app: &App) -> Router<App> {
    let text = description::text();
    let viewer =
        SwaggerUi::new("/docs").config(utoipa_swagger_ui::Config::from("/v1/openapi.json"));
    let readiness = Arc::<Readiness>::default();
    Router::<App>::new()
        .route("/", get(|| async { Redirect::temporary("/docs/") }))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(move |State(app)| async move { readiness.of(&app).await }))
        .route("/v1/openapi.json", get(move || std::future::ready(openapi(text.clone()))))
        .route("/errors/{code}", get(error_page))
        .merge(Router::from(viewer).layer(middleware::map_response(reference)).with_state(()))
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

/// Pages of the viewer are a few hundred bytes; the rest of it is not looked at.
const PAGE_LIMIT: usize = 64 * 1024;

async fn reference(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !kind.is_some_and(|kind| kind.starts_with(b"text/html")) {
        return (shielded(REFERENCE), Response::from_parts(parts, body)).into_response();
    }
    let page = axum::body::to_bytes(body, PAGE_LIMIT).await.unwrap_or_default();
    let page = String::from_utf8_lossy(&page);
    let page = page.replace("<title>Swagger UI</title>", "<title>estafette API reference</title>");
    parts.headers.remove(header::CONTENT_LENGTH);
    (shielded(REFERENCE), Response::from_parts(parts, axum::body::Body::from(page))).into_response()
}

/// Headers of a page that a browser shows.
fn shielded(policy: &'static str) -> [(HeaderName, HeaderValue); 3] {
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
        return Problem::new(Code::NotFound).into_response();
    };
    let (word, status, title) = (code.as_str(), code.status(), code.title());
    let advice = code.advice().replace('&', "&amp;").replace('<', "&lt;");
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{word}</title>\
         <style>body{{font:1rem/1.6 system-ui,sans-serif;max-width:40rem;margin:4rem auto;\
         padding:0 1rem}}code{{background:#eee;padding:.1em .3em}}</style>\
         <h1>{title}</h1><p><code>{word}</code>, HTTP {status}</p><p>{advice}</p>\
         <p><a href=\"/docs\">API reference</a></p></html>"
    );
    (shielded(TEXT), Html(page)).into_response()
}

async fn metrics(State(app): State<App>) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let text = app.metrics.render(&app.db);
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}
