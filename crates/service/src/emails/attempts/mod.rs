//! What became of an email at its carrier, for staff: where each copy stands, and what the relay
//! and the service said when it was not taken. Nobody's address is in it, and nothing of the
//! content.

pub(super) mod api;
mod store;

use crate::dispatch::State;
use crate::kit::id::AttemptId;

/// The attempt of one recipient's copy.
struct Tried {
    id: AttemptId,
    position: i64,
    carrier: String,
    state: State,
    tries: i64,
    error: Option<String>,
    transcript: Option<String>,
}
