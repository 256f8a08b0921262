//! The attribute of a handler and the derive of a wire type. `endpoints` exports both: take them
//! from there.

use std::fmt::{self, Display};
use std::str::FromStr as _;

use proc_macro::{TokenStream, TokenTree};

/// Ties a handler to its method and path: `#[path(post, path = "/v1/otp/send", …)]`. What else is
/// said there is for the API description, and compiled only where that is made.
#[proc_macro_attribute]
pub fn path(said: TokenStream, handler: TokenStream) -> TokenStream {
    let endpoint = Endpoint::read(&said, &handler);
    let written = endpoint.map(|endpoint| endpoint.to_string()).and_then(|text| {
        TokenStream::from_str(&text).map_err(|fault| Fault::NotRust(fault.to_string()))
    });
    match written {
        Ok(endpoint) => [described(&said), handler, endpoint].into_iter().collect(),
        Err(fault) => [fault.told(), handler].into_iter().collect(),
    }
}

/// Takes the place of a description where none is made.
#[proc_macro_derive(ToSchema, attributes(schema))]
pub fn undescribed(_type: TokenStream) -> TokenStream {
    TokenStream::new()
}

#[cfg(feature = "describe")]
fn described(said: &TokenStream) -> TokenStream {
    TokenStream::from_str(&format!("#[::utoipa::path({said})]")).unwrap_or_default()
}

#[cfg(not(feature = "describe"))]
fn described(_said: &TokenStream) -> TokenStream {
    TokenStream::new()
}

/// What the router has to know of a handler.
struct Endpoint {
    /// `post`.
    method: String,
    /// `"/v1/otp/send"`, with its quotes.
    path: String,
    /// The handler's name, which is its type's as well: types and functions have names apart.
    name: String,
    /// `pub`, or nothing.
    visibility: String,
}

impl Endpoint {
    fn read(said: &TokenStream, handler: &TokenStream) -> Result<Self, Fault> {
        let said: Vec<String> = said.clone().into_iter().map(|token| token.to_string()).collect();
        let method = said.first().cloned().ok_or(Fault::NoMethod)?;
        let path = said.windows(3).find_map(|three| match three {
            [word, equals, path] if word == "path" && equals == "=" => Some(path.clone()),
            _ => None,
        });
        let path = path.filter(|path| path.starts_with("\"/")).ok_or(Fault::NoPath)?;
        let mut tokens = handler.clone().into_iter().skip_while(|token| !begins(token)).peekable();
        let mut visibility = String::new();
        while let Some(token) =
            tokens.next_if(|token| !matches!(word(token).as_str(), "async" | "fn"))
        {
            visibility.push_str(&token.to_string());
        }
        let name =
            tokens.skip_while(|token| word(token) != "fn").nth(1).ok_or(Fault::NoFunction)?;
        Ok(Self { method, path, name: name.to_string(), visibility })
    }
}

/// Where attributes and comments end.
fn begins(token: &TokenTree) -> bool {
    matches!(word(token).as_str(), "pub" | "async" | "fn")
}

fn word(token: &TokenTree) -> String {
    if let TokenTree::Ident(word) = token { word.to_string() } else { String::new() }
}

impl Display for Endpoint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, name, visibility } = self;
        let (first, rest) = method.split_at_checked(1).unwrap_or_default();
        let method = format!("{}{rest}", first.to_ascii_uppercase());
        write!(
            to,
            "#[doc(hidden)] #[allow(non_camel_case_types)] {visibility} enum {name} {{}}
            impl ::endpoints::Endpoint for {name} {{
                const METHOD: ::endpoints::Method = ::endpoints::Method::{method};
                const PATH: &'static str = {path};
            }}"
        )
    }
}

/// Why a handler is not tied to anything.
enum Fault {
    NoMethod,
    NoPath,
    NoFunction,
    NotRust(String),
}

impl Fault {
    fn told(&self) -> TokenStream {
        let told = match self {
            Self::NoMethod => "say the method first, such as `get`",
            Self::NoPath => "say where it is: `path = \"/…\"`",
            Self::NoFunction => "only a function answers requests",
            Self::NotRust(fault) => fault,
        };
        TokenStream::from_str(&format!("compile_error!({told:?});")).unwrap_or_default()
    }
}
