//! Ties each handler to its method, its path and what the API description says of it, all said in
//! one place: `#[endpoints::path(…)]` above the handler. The description is compiled with the
//! feature `describe` only (docs/decisions/0036-the-description-is-a-file.md).

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
#[cfg(not(feature = "describe"))]
pub use endpoints_macros::ToSchema;
pub use endpoints_macros::path;
#[cfg(feature = "describe")]
pub use utoipa::ToSchema;
#[cfg(feature = "describe")]
#[doc(hidden)]
pub use utoipa_axum;

/// A handler's method and path, as its attribute says them.
pub trait Endpoint {
    /// The method that it answers.
    const METHOD: Method;
    /// Where it is, with parameters in braces.
    const PATH: &'static str;
}

/// The methods of the API, in the order in which they are listed for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// `GET`, and `HEAD`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

impl Method {
    /// As it stands in a request.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// One method of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// Where.
    pub path: &'static str,
    /// What.
    pub method: Method,
}

/// Handlers at their paths, and the list of them.
#[must_use]
pub struct ApiRouter<S> {
    router: Router<S>,
    operations: Vec<Operation>,
    #[cfg(feature = "describe")]
    described: utoipa_axum::router::OpenApiRouter<S>,
}

impl<S: Clone + Send + Sync + 'static> ApiRouter<S> {
    /// One that answers nothing yet.
    pub fn new() -> Self {
        Self {
            router: Router::new(),
            operations: Vec::new(),
            #[cfg(feature = "describe")]
            described: utoipa_axum::router::OpenApiRouter::new(),
        }
    }

    /// Has a handler answer where its attribute says. `routes!` calls it.
    ///
    /// # Panics
    ///
    /// Where something answers there already, as the router does.
    pub fn with<E: Endpoint, H: Handler<T, S>, T: 'static>(mut self, handler: H) -> Self {
        self.router = self.router.route(E::PATH, on(E::METHOD.filter(), handler));
        self.operations.push(Operation { path: E::PATH, method: E::METHOD });
        self
    }

    /// Both.
    pub fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.operations.extend(other.operations);
        #[cfg(feature = "describe")]
        {
            self.described = self.described.merge(other.described);
        }
        self
    }

    /// The handlers, and the list of all operations.
    pub fn into_parts(self) -> (Router<S>, Vec<Operation>) {
        (self.router, self.operations)
    }

    /// Adds what a handler says of itself.
    #[cfg(feature = "describe")]
    #[doc(hidden)]
    pub fn told(mut self, method: utoipa_axum::router::UtoipaMethodRouter<S>) -> Self {
        self.described = self.described.routes(method);
        self
    }

    /// What all handlers say of themselves.
    #[cfg(feature = "describe")]
    #[must_use]
    pub fn described(self) -> utoipa::openapi::OpenApi {
        self.described.into_openapi()
    }
}

impl<S: Clone + Send + Sync + 'static> Default for ApiRouter<S> {
    fn default() -> Self {
        Self::new()
    }
}

/// The router of these handlers: `routes!(send_otp, read_otp)`.
#[cfg(not(feature = "describe"))]
#[macro_export]
macro_rules! routes {
    ($($handler:ident),+ $(,)?) => {
        $crate::ApiRouter::new()$(.with::<$handler, _, _>($handler))+
    };
}

/// The router of these handlers: `routes!(send_otp, read_otp)`.
#[cfg(feature = "describe")]
#[macro_export]
macro_rules! routes {
    ($($handler:ident),+ $(,)?) => {
        $crate::ApiRouter::new()
            $(.with::<$handler, _, _>($handler).told($crate::utoipa_axum::routes!($handler)))+
    };
}
