//! The API description, OpenAPI 3.1, as each address serves it. `made` makes it of what handlers
//! say of themselves; `openapi.json` keeps it, so the program need not be able to make it.

mod live;
#[cfg(feature = "describe")]
mod made;
mod order;

use std::sync::LazyLock;

use axum::body::Bytes;
use serde_json::Value;

use crate::app::Env;

/// As `made` made it; the story `openapi_is_locked` sees to that.
const KEPT: &str = include_str!("../../../../../openapi.json");

/// What one environment answers, as JSON.
pub(super) fn document(env: Env) -> Value {
    let whole = openapi();
    if env == Env::Live { live::without_sandbox(whole) } else { whole }
}

/// The whole description.
#[must_use]
pub fn openapi() -> Value {
    serde_json::from_str(KEPT).unwrap_or_default()
}

/// The whole description, for people to read.
#[must_use]
pub const fn openapi_text() -> &'static str {
    KEPT
}

/// What `openapi.json` has to be.
#[cfg(feature = "describe")]
#[must_use]
pub fn made_openapi_text() -> String {
    order::pretty(&made::document()) + "\n"
}

/// A document as bytes, in the order in which it is read.
pub(super) fn written(document: &Value) -> Bytes {
    order::written(document).into()
}

/// A document as text, of each environment. It is made when somebody asks for it: no start waits.
pub(super) struct Texts {
    live: LazyLock<Bytes>,
    sandbox: LazyLock<Bytes>,
}

impl Texts {
    /// Texts that these make.
    pub(super) const fn new(live: fn() -> Bytes, sandbox: fn() -> Bytes) -> Self {
        Self { live: LazyLock::new(live), sandbox: LazyLock::new(sandbox) }
    }

    /// That of an environment.
    pub(super) fn of(&self, env: Env) -> Bytes {
        match env {
            Env::Live => Bytes::clone(&self.live),
            Env::Sandbox => Bytes::clone(&self.sandbox),
        }
    }
}

/// What one environment answers, as text.
pub(super) fn text(env: Env) -> Bytes {
    fn made(env: Env) -> Bytes {
        written(&document(env))
    }
    static TEXTS: Texts = Texts::new(|| made(Env::Live), || made(Env::Sandbox));
    TEXTS.of(env)
}
