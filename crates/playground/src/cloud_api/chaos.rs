//! What can go wrong with every message until it is told otherwise. What goes wrong with a single
//! recipient is scripted by the last digits of the number.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::check;

/// How long an answer takes that is overtaken by its statuses.
pub(super) const OVERTAKEN: Duration = Duration::from_millis(150);

/// A fault of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chaos {
    /// It answers 500 and its own error: it does not have the message.
    Down,
    /// Something before it answers 500: nobody knows whether it has the message. It has not.
    Opaque,
    /// The connection ends within the answer: it has the message.
    Cut,
    /// The token is good no longer.
    TokenExpired,
    /// The answer comes after the statuses: it has the message.
    Overtaken,
    /// It answers nothing, for as long as anybody waits: it does not have the message.
    Hang,
    /// The number sends too many messages a second.
    Throttled,
    /// The number sends too many messages to this person.
    PairThrottled,
}

impl Chaos {
    /// What is answered instead of taking the message, if it is not taken.
    pub(super) fn refusal(self) -> Option<Response> {
        match self {
            Self::Down => Some(check::error(500, 131_000, "Something went wrong")),
            Self::Opaque => {
                Some((StatusCode::INTERNAL_SERVER_ERROR, "<html>oops</html>").into_response())
            }
            Self::TokenExpired => {
                Some(check::error(401, 190, "Error validating access token: it has expired"))
            }
            Self::Throttled => Some(check::error(400, 130_429, "Rate limit hit")),
            Self::PairThrottled => {
                let what = "Pair rate limit hit: too many messages to this recipient";
                Some(check::error(400, 131_056, what))
            }
            Self::Cut | Self::Overtaken | Self::Hang => None,
        }
    }
}

/// An answer whose connection ends before it is whole.
pub(super) fn cut() -> Response {
    let broken = Error::new(ErrorKind::ConnectionReset, "cut on purpose");
    let parts = [Ok(Bytes::from_static(b"{\"messaging")), Err(broken)];
    Body::from_stream(futures_util::stream::iter(parts)).into_response()
}
