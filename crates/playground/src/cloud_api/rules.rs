//! What the Cloud API refuses because of what it knows: a template that is not there, values that
//! do not fit it, words to somebody who wrote nothing within a day.

use std::time::Duration;

use axum::response::Response;
use cloud_api::judge::Known;
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
    Known::declared(known).check(sent).map_err(|fault| check::refused(&fault))
}
