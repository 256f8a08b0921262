//! The bell that wakes the task that retries parked receipts.

use ::store::Bell;

use crate::app::{App, Env};

/// Rings when a carrier's id became known that receipts may have named before. Each environment has
/// one, since each has a listener.
pub(super) fn bell(app: &App) -> Bell {
    match app.env {
        Env::Live => Bell("receipts live"),
        Env::Sandbox => Bell("receipts sandbox"),
    }
}
