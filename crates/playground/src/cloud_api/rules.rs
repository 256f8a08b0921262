//! What the Cloud API refuses because of what it knows: a template that is not there, values that
//! do not fit it, words to somebody who wrote nothing within a day.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::response::Response;
use serde_json::Value;
use tokio::time::Instant;

use super::{CloudApi, check, lock};

/// For how long somebody who wrote may be written to.
const WINDOW: Duration = Duration::from_hours(24);
/// People whose windows are remembered.
const REMEMBERED: usize = 10_000;

/// Whether a message may go out.
#[expect(clippy::result_large_err, reason = "an answer is what a test server fails with")]
pub(super) fn check(server: &CloudApi, message: &Value) -> Result<(), Response> {
    if message["type"] == "template" {
        return template(server, &message["template"]);
    }
    let to = message["to"].as_str().unwrap_or_default().trim_start_matches('+');
    let wrote = lock(&server.shared.windows).get(to).copied();
    if wrote.is_some_and(|at| at.elapsed() < WINDOW) {
        return Ok(());
    }
    Err(check::error(400, 131_047, "Re-engagement message"))
}

/// Somebody wrote: their window is open.
pub(super) fn open_window(server: &CloudApi, from: &str) {
    let mut windows = lock(&server.shared.windows);
    if windows.len() >= REMEMBERED {
        windows.clear();
    }
    windows.insert(from.trim_start_matches('+').to_owned(), Instant::now());
}

#[expect(clippy::result_large_err, reason = "an answer is what a test server fails with")]
fn template(server: &CloudApi, sent: &Value) -> Result<(), Response> {
    let templates = lock(&server.shared.templates);
    let language = &sent["language"]["code"];
    let found = templates.iter().find(|it| {
        it["name"] == sent["name"] && it["language"] == *language && it["status"] == "APPROVED"
    });
    let Some(known) = found else {
        let what = "Template name does not exist in the translation";
        return Err(check::error(404, 132_001, what));
    };
    let (given, wanted) = (values(sent), variables(known));
    if given == wanted {
        return Ok(());
    }
    let what = format!(
        "body: number of localizable_params ({given}) does not match the expected number of \
         params ({wanted})"
    );
    Err(check::error(400, 132_000, &what))
}

fn body_of(template: &Value) -> Option<&Value> {
    let is_body =
        |part: &&Value| part["type"].as_str().is_some_and(|it| it.eq_ignore_ascii_case("body"));
    template["components"].as_array()?.iter().find(is_body)
}

/// How many values a message has for the body.
fn values(sent: &Value) -> usize {
    let body = body_of(sent);
    body.and_then(|body| body["parameters"].as_array()).map_or(0, Vec::len)
}

/// How many values the body wants; that of a passcode is the code.
fn variables(known: &Value) -> usize {
    if known["category"] == "AUTHENTICATION" {
        return 1;
    }
    let text = body_of(known).and_then(|body| body["text"].as_str()).unwrap_or_default();
    let names = text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    names.map(|(name, _)| name.trim()).collect::<BTreeSet<_>>().len()
}
