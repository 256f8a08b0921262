//! The API reference at `/docs`: a kept viewer (docs/decisions/0025) that loads nothing foreign,
//! and the description with the guides of `docs/` beside the endpoints that they are about.

use std::future::ready;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use serde_json::Value;

use super::description::{self, Texts};
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

/// How guides say where the reference is, for those who read them elsewhere.
const ELSEWHERE: &str = "Endpoints and fields are in the reference at `/docs` of a running \
    service, errors in\n[errors.md](errors.md).\n\n";
/// Where the guides say that live and the sandbox are: where they are by default.
const LIVE: &str = "http://127.0.0.1:8080";
const SANDBOX: &str = "http://127.0.0.1:8081";

/// What stands before all endpoints.
const INTRODUCTION: [(&str, &str); 2] = [
    ("first-steps.md", include_str!("../../../../docs/first-steps.md")),
    ("api-design.md", include_str!("../../../../docs/api-design.md")),
];
/// The guide of each tag, with the name of its file.
const GUIDES: [(&str, &str, &str); 8] = [
    ("OTP", "otp.md", include_str!("../../../../docs/otp.md")),
    ("Chat-app", "chatapp.md", include_str!("../../../../docs/chatapp.md")),
    ("SMS", "sms.md", include_str!("../../../../docs/sms.md")),
    ("Email", "email.md", include_str!("../../../../docs/email.md")),
    ("Credits", "credits.md", include_str!("../../../../docs/credits.md")),
    ("Webhooks", "webhooks.md", include_str!("../../../../docs/webhooks.md")),
    ("Events", "events.md", include_str!("../../../../docs/events.md")),
    ("Support", "support.md", include_str!("../../../../docs/support.md")),
];

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
        let introduction = INTRODUCTION.map(|(file, guide)| relinked(guide, &chapter(file)));
        *text = introduction.join("\n").into();
    }
    let tags = document.pointer_mut("/tags").and_then(Value::as_array_mut);
    for tag in tags.into_iter().flatten() {
        let name = tag.pointer("/name").and_then(Value::as_str).unwrap_or_default();
        let Some((name, _, guide)) = GUIDES.iter().find(|(tag, ..)| *tag == name) else { continue };
        let about = tag.pointer("/description").and_then(Value::as_str).unwrap_or_default();
        let told = format!("{about}\n\n{}", relinked(&without_title(guide), &place(name)));
        if let Some(text) = tag.pointer_mut("/description") {
            *text = told.into();
        }
    }
    description::written(&document)
}

/// Where the viewer shows a tag.
fn place(tag: &str) -> String {
    format!("#tag/{}", tag.to_ascii_lowercase())
}

/// Where the viewer shows a guide of the introduction.
fn chapter(file: &str) -> String {
    format!("#description/{}", file.trim_end_matches(".md"))
}

/// The tag is the title, and whoever reads it here has the reference.
fn without_title(guide: &str) -> String {
    let text = match guide.strip_prefix("# ").and_then(|text| text.split_once('\n')) {
        Some((_, text)) => text,
        None => guide,
    };
    text.replacen(ELSEWHERE, "", 1)
}

/// Links from file to file, as links from tag to tag, and to the pages of errors. What is beside
/// the program only is named, and no link leads to it.
fn relinked(guide: &str, here: &str) -> String {
    let mut text = String::with_capacity(guide.len());
    let mut rest = guide;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, after)) = after.split_once(')') else { break };
        match (shown_at(target, here), before.rsplit_once('[')) {
            (None, Some((before, words))) => text.push_str(&format!("{before}{words}")),
            (shown, _) => {
                let target = shown.unwrap_or_else(|| here.to_owned());
                text.push_str(&format!("{before}]({target})"));
            }
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Where this address shows what a link of a guide leads to.
fn shown_at(target: &str, here: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    if let Some((tag, ..)) = GUIDES.iter().find(|(_, name, _)| *name == file) {
        return Some(place(tag));
    }
    if INTRODUCTION.iter().any(|(name, _)| *name == file) {
        return Some(chapter(file));
    }
    match file {
        "" => Some(here.to_owned()),
        "errors.md" if anchor.is_empty() => Some("/errors".to_owned()),
        "errors.md" => Some(format!("/errors/{anchor}")),
        _ => target.starts_with("http").then(|| target.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{GUIDES, LIVE, SANDBOX, placed, relinked, without_title};

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
    fn links_between_files_are_links_between_tags() {
        let guide = "# SMS\nSee [codes](otp.md#fraud), [steps](first-steps.md), [top](#x), \
                     [errors](errors.md), [one](errors.md#not_found) and \
                     [the web](https://example.com/a).";
        let told = relinked(&without_title(guide), "#tag/sms");
        let expected = "See [codes](#tag/otp), [steps](#description/first-steps), [top](#tag/sms), \
                        [errors](/errors), [one](/errors/not_found) and \
                        [the web](https://example.com/a).";
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_not_served_is_named_without_a_link() {
        let told = relinked("All of it: [the `README`](../README.md), [codes](otp.md).", "#x");
        assert_eq!(told, "All of it: the `README`, [codes](#tag/otp).");
    }

    #[test]
    fn no_guide_sends_those_who_read_it_here_elsewhere() {
        for (tag, _, guide) in GUIDES {
            let told = without_title(guide);
            assert!(!told.contains("of a running service"), "{tag}");
        }
    }
}
