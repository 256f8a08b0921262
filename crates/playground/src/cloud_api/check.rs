//! What the Cloud API checks of a message, and how it says no.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Longest text, characters.
const LONGEST_TEXT: usize = 4096;
/// Longest text above buttons, characters.
const LONGEST_QUESTION: usize = 1024;
/// Most reply buttons.
const MOST_BUTTONS: usize = 3;
/// Longest label of a button, and longest id, characters.
const LONGEST_LABEL: usize = 20;
const LONGEST_ID: usize = 256;

/// An error in the upstream's shape.
pub(super) fn error(http: u16, code: i64, message: &str) -> Response {
    error_with(http, (code, 0), message)
}

/// The same with a subcode; 0 = none.
pub(super) fn error_with(http: u16, (code, subcode): (i64, i64), message: &str) -> Response {
    let mut body = json!({ "error": {
        "message": format!("(#{code}) {message}"),
        "type": "OAuthException",
        "code": code,
        "error_data": { "messaging_product": "whatsapp", "details": message },
        "fbtrace_id": "AWEdqoNazWdCplayground",
    }});
    if subcode != 0 {
        body["error"]["error_subcode"] = subcode.into();
    }
    let status = StatusCode::from_u16(http).unwrap_or(StatusCode::BAD_REQUEST);
    (status, Json(body)).into_response()
}

/// Reads a message as the upstream would: cases and the type of an index do not count.
#[expect(clippy::result_large_err, reason = "an answer is what a test server fails with")]
pub(super) fn message(body: &[u8]) -> Result<Value, Response> {
    let parameter = |what: &str| error(400, 100, what);
    let Ok(message) = serde_json::from_slice::<Value>(body) else {
        return Err(parameter("Invalid parameter: the body is not JSON"));
    };
    if message["messaging_product"] != "whatsapp" {
        return Err(parameter("Invalid parameter: messaging_product"));
    }
    let to = message["to"].as_str().unwrap_or_default().trim_start_matches('+');
    if to.len() < 7 || !to.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(error(400, 131_009, "Parameter value is not valid: to"));
    }
    match message["type"].as_str() {
        Some("text") => {
            let text = message["text"]["body"].as_str().unwrap_or_default();
            if text.is_empty() || text.chars().count() > LONGEST_TEXT {
                return Err(parameter("Invalid parameter: text.body"));
            }
        }
        Some("template") => {
            let template = &message["template"];
            let is_named = template["name"].is_string() && template["language"]["code"].is_string();
            if !is_named {
                return Err(error(400, 131_008, "Required parameter is missing: template"));
            }
        }
        Some("interactive") if has_buttons(&message["interactive"]) => {}
        Some("interactive") => {
            return Err(error(400, 131_009, "Parameter value is not valid: interactive"));
        }
        _ => return Err(error(400, 131_051, "Unsupported message type")),
    }
    Ok(message)
}

/// Whether this is a question with one to three reply buttons, each with an id of its own.
fn has_buttons(interactive: &Value) -> bool {
    let is = |value: &Value, most: usize| {
        value.as_str().is_some_and(|text| (1..=most).contains(&text.chars().count()))
    };
    let Some(buttons) = interactive["action"]["buttons"].as_array() else { return false };
    let ids: std::collections::HashSet<&str> =
        buttons.iter().filter_map(|button| button["reply"]["id"].as_str()).collect();
    interactive["type"] == "button"
        && is(&interactive["body"]["text"], LONGEST_QUESTION)
        && (1..=MOST_BUTTONS).contains(&buttons.len())
        && ids.len() == buttons.len()
        && buttons
            .iter()
            .map(|button| &button["reply"])
            .all(|reply| is(&reply["id"], LONGEST_ID) && is(&reply["title"], LONGEST_LABEL))
}
