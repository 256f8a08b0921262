//! The one shape of every error, whoever made it.

use axum::http::{StatusCode, header};
use axum::response::Response;

use crate::app::App;
use crate::kit::posted::malformed_path;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// A path that nobody answers.
pub(super) async fn no_route() -> Problem {
    Problem::new(Code::RouteNotFound)
}

/// A path that exists, with a method that does not. The router adds `Allow`.
pub(super) async fn no_method() -> Problem {
    Problem::new(Code::MethodNotAllowed)
}

/// Gives every error the one shape, also those that the framework made.
pub(super) fn shape(app: &App, mut response: Response, id: &str) -> Response {
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
        Code::InvalidRequest => malformed_path(),
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
