//! A POST about one object: the id in its path, its headers and its body. It takes no query.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::HeaderMap;

use super::page::Query;
use super::problem::Problem;
use super::problem_code::Code;

/// See above.
#[derive(Debug)]
pub struct Posted {
    /// As it stands in the path.
    pub id: String,
    /// All of them.
    pub headers: HeaderMap,
    /// The edge has read it.
    pub body: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for Posted {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        Query::read(parts.uri.query(), &[])?;
        let path = Path::<String>::from_request_parts(&mut parts, state).await;
        let Path(id) = path.map_err(|_| Code::NotFound)?;
        let headers = parts.headers.clone();
        let body = Bytes::from_request(Request::from_parts(parts, body), state).await;
        Ok(Self { id, headers, body: body.map_err(|_| Code::InternalError)? })
    }
}
