//! What the Cloud API checks of a message, and how it says no.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cloud_api::judge::{self, Fault};
use serde_json::{Value, json};

/// An error in the upstream's shape.
pub(super) fn error(http: u16, code: i64, message: &str) -> Response {
    error_with(http, code, 0, message)
}

/// The same with a subcode; 0 = none.
pub(super) fn error_with(http: u16, code: i64, subcode: i64, message: &str) -> Response {
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

/// What the judge says, as an answer.
pub(super) fn refused(fault: &Fault) -> Response {
    error(400, fault.code, &fault.detail)
}

/// Reads a message as the upstream would.
#[expect(clippy::result_large_err, reason = "an answer is what a test server fails with")]
pub(super) fn message(body: &[u8]) -> Result<Value, Response> {
    let Ok(message) = serde_json::from_slice::<Value>(body) else {
        return Err(error(400, 100, "Invalid parameter: the body is not JSON"));
    };
    judge::message(&message).map_err(|fault| refused(&fault))?;
    Ok(message)
}
