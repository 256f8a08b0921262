//! What other nodes do for this one: they reach carriers that it does not, and receipts of what it
//! sent come to them.

use super::Attempt;
use super::store as sql;
use crate::app::{App, Env};
use crate::carriers::binds::Presence;

/// Whether only other nodes reach the carrier of an attempt.
pub(super) fn is_elsewhere(app: &App, attempt: &Attempt) -> bool {
    let lane = app.carriers.lane(&attempt.carrier);
    lane.is_some_and(|lane| lane.presence() == Presence::Elsewhere)
}

/// Whether receipts of what this node sends may come to another. Simulated carriers bring theirs
/// home.
pub(super) fn gets_receipts(app: &App) -> bool {
    app.config.database.is_shared() && app.env == Env::Live
}

/// Whether another node moved an attempt since it was read. What cannot be read has not.
pub(super) async fn has_moved(app: &App, attempt: &Attempt) -> bool {
    let read = sql::attempt(app, &attempt.account, &attempt.id).await;
    read.is_ok_and(|now| now.is_some_and(|now| now.state != attempt.state))
}
