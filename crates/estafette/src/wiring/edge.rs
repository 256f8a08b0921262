//! The edge of every request: its id, its time limit, its log line, and the one shape of every
//! error, whoever made it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::{Instrument, Span};
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::PathItem;

use super::listen::life;
use super::pace::Pace;
use super::{intake, outgo};
use crate::access::caller::{RateHeaders, RequestIdText};
use crate::app::App;
use crate::chatapp;
use crate::dispatch;
use crate::kit::client_address::ClientAddress;
use crate::kit::id::RequestId;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;
use crate::kit::throttle::RateLimit;
use crate::kit::upload::MOST_BYTES;
use crate::metrics::Answered;
use crate::telemetry;

/// How long browsers insist on TLS, once the service itself spoke it with them (RFC 6797).
const ONE_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// A path that nobody answers.
pub(super) async fn no_route() -> Problem {
    Problem::new(Code::RouteNotFound)
}

/// A path that exists, with a method that does not. The router adds `Allow`.
pub(super) async fn no_method() -> Problem {
    Problem::new(Code::MethodNotAllowed)
}

/// The methods of each described path. A body's type is judged only where the path and the method
/// exist: what does not exist has no type that would be right.
#[derive(Clone)]
pub(super) struct Operations(Arc<HashMap<String, Vec<Method>>>);

impl Operations {
    pub(super) fn of(described: &OpenApi) -> Self {
        let methods = |path: &PathItem| {
            let known = [
                (&path.post, Method::POST),
                (&path.put, Method::PUT),
                (&path.patch, Method::PATCH),
            ];
            known.into_iter().filter_map(|(is, method)| is.as_ref().map(|_| method)).collect()
        };
        let paths = described.paths.paths.iter();
        Self(Arc::new(paths.map(|(path, item)| (path.clone(), methods(item))).collect()))
    }

    /// Whether the operation exists and takes a body.
    fn take_body(&self, method: &Method, route: &str) -> bool {
        self.0.get(route).is_some_and(|methods| methods.contains(method))
    }
}

/// Largest body of a route, bytes.
fn largest(route: &str) -> usize {
    let is_callback = route == chatapp::upstream::PATH || route == dispatch::api::CALLBACK;
    if is_callback { intake::CALLBACK_LIMIT } else { intake::BODY_LIMIT }
}

/// Goes around every request.
pub(super) async fn edge(
    State((app, operations)): State<(App, Operations)>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = tokio::time::Instant::now();
    let id = String::from(RequestId::new(&app.clock));
    let (method, version) = (request.method().clone(), request.version());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let matched = matched.as_ref().map(MatchedPath::as_str);
    let route = matched.unwrap_or("unmatched");
    let client = request.extensions().get::<ClientAddress>().copied();
    let rate = RateHeaders::default();
    request.extensions_mut().insert(RequestIdText(id.clone()));
    request.extensions_mut().insert(rate.clone());
    let span = span(&app, &request, route, &id);
    let way = Way::of(&method, route);
    let pace = Pace::of_bodies(&app.config.server);
    let takes_body = || operations.take_body(&method, route);
    let response = match refuse_early(&app, &request, way, takes_body) {
        Some(problem) => problem.into_response(),
        None if way == Way::Upload || way == Way::Large => {
            let request = intake::streamed(request, pace, started);
            // It takes as long as its body may, and then as long as any other.
            let limit = limit(&app) + pace.longest(MOST_BYTES);
            life::extend(pace.longest(MOST_BYTES));
            within(limit, request, next).instrument(span.clone()).await
        }
        None => match intake::whole(request, pace, started, largest(route)).await {
            Ok(request) => within(limit(&app), request, next).instrument(span.clone()).await,
            Err(problem) => problem.into_response(),
        },
    };
    let mut response = shape(&app, response, &id);
    if !outgo::note(&method, client, &mut response) {
        response = shape(&app, too_much_to_take(version).into_response(), &id);
    }
    finish_headers(&app, response.headers_mut(), &rate, &id);
    let status = response.status().as_u16();
    span.record("http.response.status_code", status);
    let seconds = started.elapsed().as_secs_f64();
    let env = app.env.as_str();
    let asked = method.as_str();
    app.metrics.request(Answered { env, method: asked, route: matched, status, seconds });
    let client = client.map(tracing::field::display);
    tracing::debug!(request_id = id, env, %method, route, status, seconds, client, "answered");
    response
}

/// The request in a trace, by the names of the OpenTelemetry conventions.
fn span(app: &App, request: &Request, route: &str, id: &str) -> Span {
    let method = request.method().as_str();
    let span = tracing::trace_span!(
        target: "otel",
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        http.response.status_code = tracing::field::Empty,
        env = app.env.as_str(),
        request_id = id,
    );
    let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    telemetry::follow(&span, traceparent);
    span
}

/// Answers that were asked for and not taken yet have filled their memory. Whoever takes none keeps
/// no connection for it either.
fn too_much_to_take(version: Version) -> Problem {
    let detail = "Too many large answers are still being sent. Read those first, then try again.";
    intake::closing(Problem::new(Code::Overloaded).detail(detail), version)
}

/// What can be refused before a handler is asked.
fn refuse_early(
    app: &App,
    request: &Request,
    way: Way,
    takes_body: impl FnOnce() -> bool,
) -> Option<Problem> {
    let faults = [intake::misnamed, intake::encoded, intake::oversize];
    if let Some(problem) = faults.iter().find_map(|fault| fault(request)) {
        return Some(problem);
    }
    let path = request.uri().path();
    if app.is_draining() && path != "/livez" && path != "/readyz" {
        return Some(Problem::new(Code::Draining));
    }
    if !path.starts_with("/v1/") {
        return None;
    }
    if !app.is_open() {
        return Some(Problem::new(Code::StorageUnavailable));
    }
    if way != Way::Bytes && way != Way::Foreign && !accepts_json(request.headers()) {
        let item = Item::at("header:Accept", "invalid_enum", "must allow application/json");
        return Some(Problem::new(Code::NotAcceptable).item(item));
    }
    // The handler of an upload looks at its type: after it has looked at who sends.
    let is_wrong = way != Way::Upload && way != Way::Foreign && !is_json(request.headers());
    (is_wrong && takes_body()).then(|| unreadable(request.headers()))
}

/// Why a body is not read.
fn unreadable(headers: &HeaderMap) -> Problem {
    let (pointer, detail) = if headers.contains_key(header::CONTENT_ENCODING) {
        ("header:Content-Encoding", "must be left out: bodies are read as they are")
    } else {
        ("header:Content-Type", "must be application/json")
    };
    Problem::new(Code::UnsupportedMediaType).item(Item::at(pointer, "invalid_enum", detail))
}

/// What a request and its answer are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// JSON in and out, as nearly everywhere.
    Json,
    /// A file comes in.
    Upload,
    /// JSON that may hold files: its handler knows who sends before it reads.
    Large,
    /// A file goes out, or frames do.
    Bytes,
    /// A carrier's callback, in the carrier's own form.
    Foreign,
}

impl Way {
    fn of(method: &Method, route: &str) -> Self {
        if *method == Method::POST && route.ends_with("/files") {
            Self::Upload
        } else if *method == Method::POST && matches!(route, "/v1/emails" | "/v1/emails/bulk") {
            Self::Large
        } else if route.contains("/support-ticket-files/") || route.ends_with("/ws") {
            Self::Bytes
        } else if route == dispatch::api::CALLBACK {
            Self::Foreign
        } else {
            Self::Json
        }
    }
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let mut accepts = headers.get_all(header::ACCEPT).iter().peekable();
    if accepts.peek().is_none() {
        return true;
    }
    let fits = |part: &str| {
        let mut words = part.split(';').map(|word| word.trim().to_ascii_lowercase());
        let kind = words.next().unwrap_or_default();
        // A weight of 0 means: not this (RFC 9110 §12.4.2).
        let weight = words.find_map(|word| word.strip_prefix("q=")?.trim().parse::<f32>().ok());
        let is_ours = matches!(
            kind.as_str(),
            "" | "*/*" | "application/*" | "application/json" | "application/problem+json"
        );
        is_ours && weight.is_none_or(|weight| weight > 0.0)
    };
    accepts.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(fits)
}

/// An absent body needs no type; anything else must be JSON, and nothing around it.
fn is_json(headers: &HeaderMap) -> bool {
    let is_plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(header::CONTENT_ENCODING).iter().all(is_plain)
        || headers.get_all(header::CONTENT_TYPE).iter().nth(1).is_some()
    {
        return false;
    }
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let chunked = headers.contains_key(header::TRANSFER_ENCODING);
        return !chunked && length.is_none_or(|length| length == "0");
    };
    let kind = kind.to_str().unwrap_or("").split(';').next().unwrap_or("").trim();
    kind.eq_ignore_ascii_case("application/json")
}

fn limit(app: &App) -> Duration {
    Duration::from_millis(app.config.server.request_timeout_ms)
}

/// Runs the handler on a task of its own: a client that hangs up does not stop it half way, and a
/// panic is one failed request.
async fn within(limit: Duration, request: Request, next: Next) -> Response {
    let is_change = *request.method() != Method::GET;
    let run = async move { tokio::time::timeout(limit, next.run(request)).await };
    let outcome = if is_change { tokio::spawn(run.in_current_span()).await } else { Ok(run.await) };
    match outcome {
        Ok(Ok(response)) => response,
        Ok(Err(_elapsed)) => Problem::new(Code::DeadlineExceeded).into_response(),
        Err(panicked) => {
            let cause = if panicked.is_panic() { "a handler panicked" } else { "cancelled" };
            Problem::new(Code::InternalError).because(&cause).into_response()
        }
    }
}

/// Gives every error the one shape, also those that the framework made.
fn shape(app: &App, mut response: Response, id: &str) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let known = response.extensions_mut().remove::<Problem>();
    let problem = known.unwrap_or_else(|| of_framework(status));
    if let Some(cause) = problem.cause() {
        tracing::error!(request_id = id, code = problem.code().as_str(), cause, "request failed");
    }
    let mut shaped = problem.render(app.base_url(), id);
    for name in [header::ALLOW, header::RETRY_AFTER] {
        if let Some(value) = response.headers().get(&name) {
            shaped.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
    }
    shaped
}

/// An error that the framework answered by itself. What it refuses as malformed are paths.
fn of_framework(status: StatusCode) -> Problem {
    match code_of(status) {
        Code::InvalidRequest => Problem::new(Code::InvalidRequest).detail(
            "A part of the path is not UTF-8 once its percent-encoding is read. Take ids as the \
             API answered them.",
        ),
        code => Problem::new(code),
    }
}

fn code_of(status: StatusCode) -> Code {
    match status {
        StatusCode::NOT_FOUND => Code::RouteNotFound,
        StatusCode::METHOD_NOT_ALLOWED => Code::MethodNotAllowed,
        StatusCode::PAYLOAD_TOO_LARGE => Code::PayloadTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        StatusCode::REQUEST_TIMEOUT => Code::RequestTimeout,
        status if status.is_client_error() => Code::InvalidRequest,
        _ => Code::InternalError,
    }
}

fn finish_headers(app: &App, headers: &mut HeaderMap, rate: &RateHeaders, id: &str) {
    for (name, value) in rate.get().into_iter().flat_map(RateLimit::headers) {
        headers.entry(name).or_insert_with(|| value.clone());
    }
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert("x-request-id", value);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    if app.config.server.has_tls() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, ONE_YEAR);
    }
}
