//! What this node took out of a queue is in its hand alone: when something about it cannot be read
//! now, it is read again until it can. Otherwise due work would take the message for one that may
//! have gone out, and never send it. Where another node has done so, because this one was slow or
//! did not reach the database, it is taken back: only who has it knows that it did not go out.

use store::{Error, WriteSet};

use super::settle::write;
use super::store as sql;
use super::{Attempt, LEASE_MS, QUEUED_LEASE_MS, State, Unwritten};
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
                match whose(app, attempt).await {
                    Some(Whose::Mine) => return Some(value),
                    Some(Whose::Others) => return None,
                    // What was read may be from before it was taken for lost.
                    Some(Whose::TakenBack) => continue,
                    None => {}
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

/// Whose an attempt is that this node has in hand, of which no carrier has heard, and whose lease
/// has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// This node's, as before.
    Mine,
    /// This node's again: another one took it for lost.
    TakenBack,
    /// It is another node's by now, or over.
    Others,
}

/// `None` = it cannot be told now. Of a second copy nothing is taken back: the first one may have
/// arrived.
pub(super) async fn whose(app: &App, then: &Attempt) -> Option<Whose> {
    let now = sql::attempt(app, &then.account, &then.id).await.ok()?;
    let Some(now) = now.filter(|now| now.is_same_try(then)) else { return Some(Whose::Others) };
    match now.state {
        State::Sending => Some(Whose::Mine),
        State::Unknown if now.resends == 0 => {
            let lease_ms = if now.next_at.is_some() { QUEUED_LEASE_MS } else { LEASE_MS };
            let mut set = WriteSet::of(then.account.as_str());
            sql::take_back(&mut set, app, &now, app.now() + lease_ms);
            match write(app, &then.object_id, set).await {
                Ok(()) => Some(Whose::TakenBack),
                Err(Unwritten::Stale) => Some(Whose::Others),
                Err(Unwritten::Lost) => None,
            }
        }
        _ => Some(Whose::Others),
    }
}
