//! The API reference at `/docs`: a kept viewer (docs/decisions/0025) that loads nothing foreign,
//! and the description with the guides beside the endpoints that they are about.

use std::future::ready;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use serde_json::{Map, Value, json};

use super::description::{self, Texts};
use super::guides;
use super::pages::shielded;
use crate::app::{App, Env};

/// What the page may load and who may show it: its own files ask this address only, and no other
/// page can put it into a frame. The viewer writes styles into its elements.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";
const PAGE: &str = include_str!("../../viewer/index.html");
const START: &str = include_str!("../../viewer/start.js");
/// As `scripts/viewer` fetched it, compressed: no browser wants it otherwise.
const VIEWER: &[u8] = include_bytes!("../../viewer/viewer.js.gz");
/// The viewer changes with the program alone, and is large.
const AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Where the guides say that live and the sandbox are: where they are by default.
const LIVE: &str = "http://127.0.0.1:8080";
const SANDBOX: &str = "http://127.0.0.1:8081";

/// The page, its two scripts and what it shows.
pub(super) fn router(env: Env) -> Router<App> {
    Router::new()
        .route("/docs", get(|| async { Redirect::temporary("/docs/") }))
        .route("/docs/", get(|| async { (shielded(POLICY), Html(PAGE)) }))
        .route("/docs/start.js", get(|| async { script(START.as_bytes()) }))
        .route("/docs/viewer.js", get(viewer))
        .route("/docs/openapi.json", get(move |state| ready(described(env, state))))
}

/// The description, with the addresses of this deployment in the guides.
fn described(env: Env, State(app): State<App>) -> Response {
    let text = document(env);
    let server = &app.config.server;
    if server.live_url == LIVE && server.sandbox_url == SANDBOX {
        return json(text);
    }
    json(placed(&String::from_utf8_lossy(&text), &server.live_url, &server.sandbox_url).into())
}

/// With these addresses instead of those by default, each of which may be the other's default.
fn placed(text: &str, live: &str, sandbox: &str) -> String {
    let around: Vec<String> = text.split(LIVE).map(|part| part.replace(SANDBOX, sandbox)).collect();
    around.join(live)
}

async fn viewer() -> Response {
    let head = [
        (header::CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        (header::CACHE_CONTROL, AN_HOUR),
    ];
    (head, script(VIEWER)).into_response()
}

fn script(text: &'static [u8]) -> Response {
    let kind = HeaderValue::from_static("text/javascript; charset=utf-8");
    let text = Bytes::from_static(text);
    (shielded(POLICY), [(header::CONTENT_TYPE, kind)], text).into_response()
}

fn json(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
}

/// The description with guides.
fn document(env: Env) -> Bytes {
    static TEXTS: Texts = Texts::new(|| guided(Env::Live), || guided(Env::Sandbox));
    TEXTS.of(env)
}

fn guided(env: Env) -> Bytes {
    let mut document = description::document(env);
    if let Some(text) = document.pointer_mut("/info/description") {
        *text = guides::beginning().into();
    }
    let tags = document.pointer_mut("/tags").and_then(Value::as_array_mut);
    for tag in tags.into_iter().flatten() {
        let text = |name: &str| tag.get(name).and_then(Value::as_str).unwrap_or_default();
        let Some(guide) = guides::to(text("name")) else { continue };
        let told = format!("{}\n\n{guide}", text("description"));
        if let Some(text) = tag.pointer_mut("/description") {
            *text = told.into();
        }
    }
    leave_out_filters(&mut document);
    description::written(&document)
}

/// Left to itself, the viewer sends the first word of every filter, and lists what is `queued`. A
/// parameter that may be left out is left out, until somebody asks for it.
fn leave_out_filters(document: &mut Value) {
    let schemas = document.pointer("/components/schemas").cloned().unwrap_or_default();
    leave_out(document, &schemas);
}

fn leave_out(value: &mut Value, schemas: &Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| leave_out(item, schemas)),
        Value::Object(members) => {
            let is_query = members.get("in") == Some(&json!("query"));
            let is_needed = members.get("required") == Some(&json!(true));
            if let (true, Some(word)) = (is_query && !is_needed, filled_in(members, schemas)) {
                // The viewer's own way to say it.
                let unasked = json!({ "unasked": { "value": word, "x-disabled": true } });
                members.insert("examples".to_owned(), unasked);
            }
            members.values_mut().for_each(|member| leave_out(member, schemas));
        }
        _ => {}
    }
}

/// What the viewer would send for a parameter by itself.
fn filled_in(parameter: &Map<String, Value>, schemas: &Value) -> Option<Value> {
    let schema = parameter.get("schema")?;
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|to| to.rsplit('/').next());
    let schema = name.and_then(|name| schemas.get(name)).unwrap_or(schema);
    schema.get("default").or_else(|| schema.pointer("/enum/0")).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{LIVE, SANDBOX, leave_out_filters, placed};

    #[test]
    fn guides_name_the_addresses_of_this_deployment() {
        let text = format!("L={LIVE} S={SANDBOX}/docs");
        assert_eq!(
            placed(&text, "https://a.example", "https://b.example:1"),
            "L=https://a.example S=https://b.example:1/docs"
        );
        assert_eq!(placed(&text, SANDBOX, LIVE), format!("L={SANDBOX} S={LIVE}/docs"));
    }

    #[test]
    fn the_viewer_sends_no_parameter_that_may_be_left_out() {
        let query =
            |needed: bool, schema| json!({"in": "query", "required": needed, "schema": schema});
        let word = || json!({ "$ref": "#/components/schemas/Word" });
        let mut document = json!({
            "parameters": [
                query(false, word()), query(true, word()), query(false, json!({ "default": 50 })),
                query(false, json!({ "type": "string" })), { "in": "path", "schema": word() },
            ],
            "components": { "schemas": { "Word": { "enum": ["sent", "failed"] } } },
        });
        leave_out_filters(&mut document);
        let parameters = document["parameters"].as_array().unwrap();
        let unasked = |at: usize| &parameters[at]["examples"]["unasked"];
        assert_eq!(unasked(0), &json!({ "value": "sent", "x-disabled": true }));
        assert_eq!(unasked(2), &json!({ "value": 50, "x-disabled": true }));
        assert!([1, 3, 4].iter().all(|at| unasked(*at).is_null()), "{parameters:?}");
    }
}
