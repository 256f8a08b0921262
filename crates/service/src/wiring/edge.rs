//! The edge of every request: its time limit, its log line, its headers. What errors look like is
//! in `shape`.

use std::collections::HashMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use endpoints::Operation;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, poll};
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tower::{Layer, Service};
use tracing::{Instrument, Span};

use super::intake::Sender;
use super::listen::life;
use super::pace::Pace;
use super::shape::shape;
use super::{intake, outgo};
use crate::access::RequestNotes;
use crate::app::App;
use crate::chatapp;
use crate::dispatch;
use crate::kit::id::RequestId;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;
use crate::kit::throttle::RateLimit;
use crate::kit::upload::MOST_BYTES;
use crate::metrics::Answered;
use crate::telemetry;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How long browsers insist on TLS, once the service itself spoke it with them (RFC 6797).
const ONE_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The methods of each path, in order. A body's type is judged only where the path and the method
/// exist: what does not exist has no type that would be right.
struct Operations(HashMap<&'static str, Vec<&'static str>>);

impl Operations {
    fn of(operations: &[Operation]) -> Self {
        let mut operations = operations.to_vec();
        operations.sort_unstable();
        let mut methods: HashMap<_, Vec<_>> = HashMap::new();
        for Operation { path, method } in operations {
            methods.entry(path).or_default().push(method.as_str());
        }
        Self(methods)
    }

    /// Whether the operation exists and takes a body.
    fn take_body(&self, method: &Method, route: &str) -> bool {
        let may_have_one = [Method::POST, Method::PUT, Method::PATCH].contains(method);
        may_have_one && self.0.get(route).is_some_and(|methods| methods.contains(&method.as_str()))
    }

    /// What is said of a method that the path does not take: which ones it does.
    fn refuse_method(&self, route: &str) -> Option<Problem> {
        let detail = match self.0.get(route)?.as_slice() {
            [] => return None,
            [only] => {
                format!("`{route}` takes {only} only. Use it, or look for a typo in the path.")
            }
            [rest @ .., last] => format!(
                "`{route}` takes {} and {last}. Use one of them, or look for a typo in the path.",
                rest.join(", ")
            ),
        };
        Some(Problem::new(Code::MethodNotAllowed).detail(detail))
    }
}

/// Largest body of a route, bytes.
fn largest(route: &str) -> usize {
    let is_callback = route == chatapp::upstream::PATH || route == dispatch::api::CALLBACK;
    if is_callback { intake::CALLBACK_LIMIT } else { intake::BODY_LIMIT }
}

/// Goes around every request. A layer of its own: one of `axum::middleware` boxes the route and its
/// answer once more, for each request.
#[derive(Clone)]
pub(super) struct Edge(Arc<Surroundings>);

/// What the edge knows of its environment.
struct Surroundings {
    app: App,
    operations: Operations,
}

impl Edge {
    pub(super) fn new(app: &App, operations: &[Operation]) -> Self {
        let operations = Operations::of(operations);
        Self(Arc::new(Surroundings { app: app.clone(), operations }))
    }
}

impl Layer<Route> for Edge {
    type Service = Edged;

    fn layer(&self, route: Route) -> Edged {
        Edged { edge: self.clone(), route: Arc::new(route) }
    }
}

/// A route with the edge around it.
#[derive(Clone)]
pub(super) struct Edged {
    edge: Edge,
    route: Arc<Route>,
}

impl Service<Request> for Edged {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Box::pin(around(self.clone(), request))
    }
}

/// All that happens to a request. It is one allocation for each: futures that it awaits take what
/// they work on by reference, or each of them would have room for a request of its own.
async fn around(edged: Edged, mut request: Request) -> Result<Response, Infallible> {
    let Surroundings { app, operations } = &*edged.edge.0;
    let started = tokio::time::Instant::now();
    let notes = notes_of(app, &mut request);
    let (method, version) = (request.method().clone(), request.version());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let matched = matched.as_ref().map(MatchedPath::as_str);
    let route = matched.unwrap_or("unmatched");
    let (id, client) = (notes.id.as_str(), notes.client);
    let span = span(app, &request, route, id);
    let way = Way::of(&method, route);
    let takes_body = || operations.take_body(&method, route);
    let refused = refuse_early(app, &request, way, takes_body);
    let response = if let Some(problem) = refused {
        intake::refuse(problem, &mut request).await.into_response()
    } else {
        let from = Sender { client, most: largest(route) };
        let is_untyped = way == Way::Json && is_untyped(&request) && takes_body();
        let asked = Asked { way, is_untyped, from, started, route: &edged.route };
        answer(app, &mut request, asked).instrument(span.clone()).await
    };
    intake::let_go(std::mem::take(request.body_mut()), version);
    let is_refused = response.status() == StatusCode::METHOD_NOT_ALLOWED;
    let named = matched.filter(|_| is_refused).and_then(|path| operations.refuse_method(path));
    let response = named.map_or(response, IntoResponse::into_response);
    let mut response = shape(app, response, id);
    if !outgo::note(&method, client, &mut response) {
        response = shape(app, too_much_to_take(version).into_response(), id);
    }
    finish_headers(app, response.headers_mut(), &notes);
    leave_time(app, &response);
    let status = response.status().as_u16();
    span.record("http.response.status_code", status);
    let seconds = started.elapsed().as_secs_f64();
    let (env, asked) = (app.env.as_str(), method.as_str());
    app.metrics.request(Answered { env, method: asked, route: matched, status, seconds });
    let client = client.map(tracing::field::display);
    tracing::debug!(request_id = id, env, %method, route, status, seconds, client, "answered");
    Ok(response)
}

/// Its stream lasts as long as its client may take for an answer of this length. One of no known
/// length is a file.
fn leave_time(app: &App, response: &Response) {
    let upper = response.body().size_hint().upper();
    let bytes = upper.map_or(MOST_BYTES, |bytes| usize::try_from(bytes).unwrap_or(MOST_BYTES));
    life::extend(Pace::of_answers(&app.config.server).longest(bytes));
}

/// The notes that came with the connection, or new ones.
fn notes_of(app: &App, request: &mut Request) -> Arc<RequestNotes> {
    let new = || Arc::new(RequestNotes::of(RequestId::new(&app.clock), None));
    Arc::clone(request.extensions_mut().get_or_insert_with(new))
}

/// What is asked for.
struct Asked<'a> {
    way: Way,
    /// Whether a body must say that it is JSON, and does not.
    is_untyped: bool,
    from: Sender,
    started: tokio::time::Instant,
    route: &'a Route,
}

/// Has a route answer, once the body is here.
async fn answer(app: &App, request: &mut Request, asked: Asked<'_>) -> Response {
    let Asked { way, is_untyped, from, started, route } = asked;
    let pace = Pace::of_bodies(&app.config.server);
    let is_change = *request.method() != Method::GET;
    let mut limit = Duration::from_millis(app.config.server.request_timeout_ms);
    if !request.body().is_end_stream() {
        // The edge has its own limits.
        DefaultBodyLimit::disable().apply(request);
    }
    if matches!(way, Way::Upload | Way::Large) {
        intake::stream(request, pace, started);
        // It takes as long as its body may, and then as long as any other.
        limit += pace.longest(MOST_BYTES);
        life::extend(pace.longest(MOST_BYTES));
    } else if let Err(problem) = intake::read(request, pace, started, from).await {
        return problem.into_response();
    } else if is_untyped && !request.body().is_end_stream() {
        return unreadable(request.headers()).into_response();
    }
    within(limit, is_change, route.clone().call(std::mem::take(request))).await
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
    let is_wrong = match way {
        Way::Upload | Way::Foreign => false,
        // Its handler reads it.
        Way::Large => !is_json(request) || is_untyped(request) && !request.body().is_end_stream(),
        Way::Json | Way::Bytes => !is_json(request),
    };
    (is_wrong && takes_body()).then(|| unreadable(request.headers()))
}

/// Why a body is not read.
fn unreadable(headers: &HeaderMap) -> Problem {
    let (pointer, detail) = if headers.contains_key(header::CONTENT_ENCODING) {
        ("header:Content-Encoding", "must be left out: bodies are read as they are")
    } else {
        ("header:Content-Type", "must be application/json, in UTF-8")
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

/// Whether nothing says what a body is, if one comes.
fn is_untyped(request: &Request) -> bool {
    !request.headers().contains_key(header::CONTENT_TYPE)
}

/// An absent body needs no type; anything else must be JSON, and nothing around it.
fn is_json(request: &Request) -> bool {
    let (headers, length) = (request.headers(), request.body().size_hint().exact());
    if length == Some(0) {
        return true;
    }
    let is_plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(header::CONTENT_ENCODING).iter().all(is_plain)
        || headers.get_all(header::CONTENT_TYPE).iter().nth(1).is_some()
    {
        return false;
    }
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        // What says no length may turn out to be empty (`answer`).
        return length.is_none();
    };
    let mut words = kind.to_str().unwrap_or("").split(';').map(str::trim);
    let is_json = words.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    // RFC 8259 §8.1: nothing else is JSON between systems.
    is_json && words.all(|word| !names_other_charset(word))
}

/// Whether a parameter of a media type says that a body is not in UTF-8.
fn names_other_charset(parameter: &str) -> bool {
    let said = parameter.split_once('=').filter(|(name, _)| name.eq_ignore_ascii_case("charset"));
    said.is_some_and(|(_, set)| {
        let set = set.trim_matches('"');
        !["utf-8", "utf8", "us-ascii"].iter().any(|known| set.eq_ignore_ascii_case(known))
    })
}

/// Lets a handler answer. A change runs on a task of its own, so that a client that hangs up does
/// not stop it half way. A panic is one failed request.
async fn within<F>(limit: Duration, is_change: bool, run: F) -> Response
where
    F: Future<Output = Result<Response, Infallible>> + Send + 'static,
{
    let outcome = if is_change {
        tokio::spawn(timeout(limit, run).in_current_span()).await.map_err(drop)
    } else {
        AssertUnwindSafe(read_within(limit, run)).catch_unwind().await.map_err(drop)
    };
    match outcome {
        Ok(Ok(Ok(response))) => response,
        Ok(Err(_elapsed)) => Problem::new(Code::DeadlineExceeded).into_response(),
        Err(()) => Problem::new(Code::InternalError).because(&"a handler panicked").into_response(),
    }
}

/// The same as a time-out. Most reads answer at once, and need no timer.
async fn read_within<F: Future>(limit: Duration, run: F) -> Result<F::Output, Elapsed> {
    let mut run = pin!(run);
    match poll!(run.as_mut()) {
        Poll::Ready(answered) => Ok(answered),
        Poll::Pending => timeout(limit, run).await,
    }
}

fn finish_headers(app: &App, headers: &mut HeaderMap, notes: &RequestNotes) {
    for (name, value) in notes.rate.get().into_iter().flat_map(RateLimit::headers) {
        headers.entry(name).or_insert_with(|| value.clone());
    }
    if let Ok(value) = HeaderValue::from_str(&notes.id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if app.config.server.has_tls() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, ONE_YEAR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of what comes of a handler, as a read and as a change.
    async fn statuses<F>(run: impl Fn() -> F) -> [u16; 2]
    where
        F: Future<Output = Result<Response, Infallible>> + Send + 'static,
    {
        let limit = Duration::from_millis(20);
        let answers = [within(limit, false, run()).await, within(limit, true, run()).await];
        answers.map(|answer| answer.status().as_u16())
    }

    #[tokio::test]
    async fn a_panic_is_one_failed_request_and_a_handler_has_its_time() {
        let at_once = async || Ok(StatusCode::NO_CONTENT.into_response());
        assert_eq!(statuses(at_once).await, [204, 204]);
        let later = async || {
            tokio::task::yield_now().await;
            Ok(StatusCode::NO_CONTENT.into_response())
        };
        assert_eq!(statuses(later).await, [204, 204]);
        let hangs = statuses(async || std::future::pending().await);
        assert_eq!(hangs.await, [504, 504]);
        let panics = statuses(async || panic!("on purpose"));
        assert_eq!(panics.await, [500, 500]);
    }

    #[test]
    fn a_plain_host_is_one_that_is_parsed() {
        for host in ["", "a", "127.0.0.1:8080", "a-b.example:1", "[::1]:80", "a_b", "a b", "a@b"] {
            let parses = host.is_empty() || host.parse::<axum::http::uri::Authority>().is_ok();
            assert!(!intake::is_plain_host(host.as_bytes()) || parses, "{host}");
        }
    }
}
