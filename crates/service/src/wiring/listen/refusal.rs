//! Answers to what never became a request: a head that is no HTTP, is too large, or does not come
//! to its end. No route and no edge sees those, but their answer has the one shape, too.

use axum::http::StatusCode;

use crate::app::App;
use crate::kit::id::RequestId;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// Writes them, as HTTP/1.1.
#[derive(Clone)]
pub(super) struct Refusals(App);

impl Refusals {
    pub(super) fn new(app: &App) -> Self {
        Self(app.clone())
    }

    /// To a head that is not there in time.
    pub(super) fn too_late(&self) -> Vec<u8> {
        let detail = "The request head did not arrive in time. Repeat the request.";
        self.answer(&Problem::new(Code::RequestTimeout).detail(detail))
    }

    /// In the place of what the HTTP library would say; that begins with its status line.
    pub(super) fn instead_of(&self, said: &[u8]) -> Vec<u8> {
        let detail = match said.get(9..12) {
            Some(b"414") => "The URL is too long. Shorten its query.",
            Some(b"431") => {
                "The head of the request is too large, or has too many headers. Send fewer."
            }
            _ => {
                "This is not an HTTP/1.1 request, or one of its headers is malformed. Correct what \
                 the client sends."
            }
        };
        self.answer(&Problem::new(Code::InvalidRequest).detail(detail))
    }

    fn answer(&self, problem: &Problem) -> Vec<u8> {
        let app = &self.0;
        let id = String::from(RequestId::new(&app.clock));
        let code = problem.code();
        let (env, word) = (app.env.as_str(), code.as_str());
        tracing::debug!(request_id = id, env, code = word, "refused before it was a request");
        let reason = StatusCode::from_u16(code.status()).ok();
        let reason = reason.and_then(|status| status.canonical_reason()).unwrap_or_default();
        let body = problem.body(app.base_url(), &id);
        format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: {kind}\r\nx-request-id: {id}\r\n\
             cache-control: no-store\r\nx-content-type-options: nosniff\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n{body}",
            status = code.status(),
            kind = Problem::MEDIA_TYPE,
            length = body.len(),
        )
        .into_bytes()
    }
}
