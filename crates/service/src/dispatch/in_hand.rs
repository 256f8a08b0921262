//! What this node took out of a queue is in its hand alone: when something about it cannot be read
//! now, it is read again until it can. Otherwise due work would take the message for one that may
//! have gone out, and never send it. Where another node has done so, because this one was slow or
//! did not reach the database, it is taken back: only who has it knows that it did not go out.

use store::{Error, WriteSet};

use super::settle::write;
use super::store as sql;
use super::{Attempt, LEASE_MS, QUEUED_LEASE_MS, State};
use crate::app::App;

/// Between two tries, milliseconds.
const PAUSE_MS: u64 = 500;

/// Reads something about an attempt that this node is about to hand over; `None` = another node has
/// it by now, or this one stops.
pub(super) async fn read<T, F>(app: &App, attempt: &Attempt, read: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut is_told = false;
    loop {
        match read().await {
            Ok(value) if app.now() < attempt.lease_until => return Some(value),
            // Its lease was prolonged, or another node took it for lost while this one stood still.
            Ok(value) => {
                if let Some(is_mine) = is_mine(app, attempt).await {
                    return is_mine.then_some(value);
                }
            }
            Err(error) if !is_told => {
                is_told = true;
                let object = attempt.object_id.as_str();
                tracing::warn!(%error, object, "queued message not read; trying again");
            }
            Err(_) => {}
        }
        if app.is_draining() {
            return None;
        }
        app.rest(PAUSE_MS).await;
    }
}

/// Whether an attempt in hand, of which no carrier has heard, is this node's to hand over, although
/// its lease has ended; `None` = it cannot be told now.
pub(super) async fn is_mine(app: &App, then: &Attempt) -> Option<bool> {
    let now = sql::attempt(app, &then.account, &then.id).await.ok()?;
    let Some(now) = now.filter(|now| now.is_same_try(then)) else { return Some(false) };
    match now.state {
        State::Unknown => {
            let lease_ms = if now.next_at.is_some() { QUEUED_LEASE_MS } else { LEASE_MS };
            let mut set = WriteSet::of(then.account.as_str());
            sql::take_back(&mut set, app, &now, app.now() + lease_ms);
            Some(write(app, &then.object_id, set).await.is_ok())
        }
        state => Some(state == State::Sending),
    }
}
