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
    match read().await {
        Ok(value) => Some(value),
        Err(error) => {
            let object = attempt.object_id.as_str();
            tracing::warn!(%error, object, "queued message not read; trying again");
            read_again(app, attempt, read).await
        }
    }
}

async fn read_again<T, F>(app: &App, attempt: &Attempt, read: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<T, Error>>,
{
    while !app.is_draining() {
        app.rest(PAUSE_MS).await;
        let Ok(value) = read().await else { continue };
        // Last, since its lease may have ended meanwhile.
        if let Ok(now) = sql::attempt(app, &attempt.account, &attempt.id).await {
            let is_mine = |now: &Attempt| now.state == State::Sending && now.is_same_try(attempt);
            return now.filter(is_mine).map(|_| value);
        }
    }
    None
}
