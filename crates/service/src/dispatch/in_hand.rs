//! What this node took out of a queue is in its hand alone: when something about it cannot be read
//! now, it is read again until it can. Otherwise due work would take the message for one that may
//! have gone out, and never send it.

use store::Error;

use super::store as sql;
use super::{Attempt, State};
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
                if let Ok(now) = sql::attempt(app, &attempt.account, &attempt.id).await {
                    return now.filter(|now| is_mine(now, attempt)).map(|_| value);
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

/// Whether nobody took it since.
fn is_mine(now: &Attempt, then: &Attempt) -> bool {
    now.state == State::Sending && now.is_same_try(then)
}
