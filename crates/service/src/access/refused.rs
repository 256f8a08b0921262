//! With which words a credential is refused that is no good here, or not good enough.

use super::{Scope, token};
use crate::app::Env;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// A key has none of the scopes of which it needs one.
#[must_use]
pub fn lacks_scope(accepted: u16) -> Problem {
    let words = Scope::words(accepted).join(", ");
    let detail = format!("This endpoint accepts keys with one of these scopes: {words}.");
    Problem::new(Code::InsufficientScope).detail(detail)
}

/// A key of one environment was shown to the other.
#[must_use]
pub fn of_other_environment(key: Env, home: &str, here: Env) -> Problem {
    let (key, here) = (key.as_str(), here.as_str());
    let detail = format!("This is a {key} key: it works at {home}. This is the {here} address.");
    Problem::new(Code::WrongEnvironment).detail(detail)
}

/// A text that cannot be a key of anybody.
pub(super) fn malformed(text: &str) -> Problem {
    Problem::new(Code::InvalidApiKey).detail(if token::has_form(text) {
        "This is a token, not an API key. `POST /v1/api-keys` makes a key, with a portal token as \
         a `Bearer`."
    } else {
        "A part of the key is missing or mistyped. Copy it again, or make another one with \
         `POST /v1/api-keys`."
    })
}

/// There is no token where staff must show one; perhaps there is a key.
pub(super) fn no_staff_token(is_key: bool) -> Problem {
    let detail = if is_key {
        "This is an API key, and this endpoint takes a staff token, as a `Bearer`: \
         `POST /v1/admin/auth/login` gives a member of staff one."
    } else {
        "This endpoint takes a staff token in `Authorization: Bearer`."
    };
    Problem::new(Code::MissingCredentials).detail(detail).only_token()
}
