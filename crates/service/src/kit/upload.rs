//! Why the body of an upload was cut short. It travels as the error of a byte stream, from where
//! bodies are read to the handler that reads the stream.

use super::problem::Problem;
use super::problem_code::Code;

/// Largest attachment, bytes.
pub const MOST_FILE_BYTES: usize = 10 * 1024 * 1024;
/// Largest body of an upload, bytes: a file, a message, and what is around them.
pub const MOST_BYTES: usize = MOST_FILE_BYTES + 128 * 1024;

/// Why there is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    /// The client is too slow.
    #[error("the body did not arrive in time")]
    TooLate,
    /// It is larger than any upload may be.
    #[error("the body is too large")]
    TooLarge,
    /// The connection broke.
    #[error("the body ended before it was complete")]
    Broken,
}

impl From<Problem> for Cut {
    fn from(problem: Problem) -> Self {
        if problem.code() == Code::RequestTimeout { Self::TooLate } else { Self::Broken }
    }
}

impl From<Cut> for Problem {
    fn from(cut: Cut) -> Self {
        let problem = match cut {
            Cut::TooLate => {
                let detail = "The request body did not arrive in time. Repeat the request.";
                Self::new(Code::RequestTimeout).detail(detail)
            }
            Cut::TooLarge => Self::new(Code::FileTooLarge),
            Cut::Broken => {
                let detail = "The body ended before it was complete. Repeat the request.";
                Self::new(Code::InvalidRequest).detail(detail)
            }
        };
        // What is left of the body is not read. HTTP/2 has no such header, and drops it.
        problem.header("connection", axum::http::HeaderValue::from_static("close"))
    }
}
