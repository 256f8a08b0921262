//! POSTs without a query: their headers and their body, and the id in the path of those about one
//! object.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::page::Query;
use super::problem::Problem;
use super::problem_code::Code;

/// The refusal of a path of which a part cannot be read.
#[must_use]
pub fn malformed_path() -> Problem {
    Problem::new(Code::InvalidRequest).detail(
        "A part of the path is not UTF-8 once its percent-encoding is read. Take ids as the API \
         answered them.",
    )
}

/// The part of a path that stands for an object.
///
/// # Errors
/// 400: it cannot be read.
pub async fn path_part<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, Problem> {
    let path = Path::<String>::from_request_parts(parts, state).await;
    path.map(|Path(part)| part).map_err(|_| malformed_path())
}

/// A POST. The edge has read the body.
#[derive(Debug)]
pub struct Post {
    /// All of them.
    pub headers: HeaderMap,
    /// As it came.
    pub body: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for Post {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Query::read(request.uri().query(), &[])?;
        let headers = request.headers().clone();
        let body = Bytes::from_request(request, state).await.map_err(|_| Code::InternalError)?;
        Ok(Self { headers, body })
    }
}

/// What stands in a path for an object.
pub trait PathPart: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// Nothing can be called so.
    fn read(part: String) -> Result<Self, Problem>;
}

impl PathPart for String {
    fn read(part: String) -> Result<Self, Problem> {
        Ok(part)
    }
}

/// A POST about one object.
#[derive(Debug)]
pub struct Posted<I = String> {
    /// From the path.
    pub id: I,
    /// All of them.
    pub headers: HeaderMap,
    /// As it came.
    pub body: Bytes,
}

impl<S: Send + Sync, I: PathPart> FromRequest<S> for Posted<I> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let path = path_part(&mut parts, state).await;
        let request = Request::from_parts(parts, body);
        let Post { headers, body } = Post::from_request(request, state).await?;
        Ok(Self { id: I::read(path?)?, headers, body })
    }
}
