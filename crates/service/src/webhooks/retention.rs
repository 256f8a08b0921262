//! What is old goes, some of it at a time, with the pauses of a [`Turn`]: events, their deliveries
//! and tries, and everything of targets that were deleted.

use ::store::{WriteSet, args};
use clock::{DAY, Millis};

use super::{Error, delivery_id, store as sql};
use crate::access::retention::sweep;
use crate::app::App;
use crate::chores::Turn;
use crate::events;
use crate::kit::id::{AccountId, DeliveryId, EventId, WebhookId};
use crate::kit::page::TOP;

/// How long a try is kept, milliseconds.
const KEPT: i64 = 30 * DAY;
/// Targets read at a time.
const PAGE: i64 = 200;

/// Tries are kept for 30 days; so events and deliveries are kept for 30 days and the time that the
/// schedule may take.
fn oldest(app: &App, turn: &Turn) -> Millis {
    let schedule_s: i64 = app.config.webhooks.retry_schedule_s.iter().sum();
    turn.now() - KEPT - schedule_s * 1_200
}

/// Deletes old events; answers how many.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_events(app: &App, turn: &Turn) -> Result<u64, Error> {
    Ok(events::forget_before(app, turn, oldest(app, turn)).await?)
}

/// Deletes old deliveries and tries, and targets that were deleted; answers how many rows.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_deliveries(app: &App, turn: &Turn) -> Result<u64, Error> {
    let before = DeliveryId::bound(oldest(app, turn));
    let mut last = (String::new(), String::new());
    let mut deleted = 0;
    loop {
        let args = args![&last.0, &last.1, PAGE];
        let page: Vec<(AccountId, WebhookId, bool)> = app.db.rows(sql::TARGETS, args).await?;
        let Some((account, webhook, _)) = page.last() else { return Ok(deleted) };
        last = (account.as_str().to_owned(), webhook.as_str().to_owned());
        for (account, webhook, is_deleted) in page {
            if !turn.breathe().await {
                return Ok(deleted);
            }
            // What was tried again long after its event is kept for as long as any other try.
            let (until, tried_before) = if is_deleted {
                (TOP, Millis(i64::MAX))
            } else {
                (before.as_str(), turn.now() - KEPT)
            };
            let chunk = app.config.retention.chunk;
            let args = args![&account, &webhook, until, tried_before, chunk];
            // Tries first: a delivery that is gone could not lead to them any more.
            deleted += sweep(app, turn, "webhook_attempts", sql::FORGET_TRIES, &args).await?;
            deleted += sweep(app, turn, "webhook_deliveries", sql::FORGET, &args).await?;
            if is_deleted && !turn.is_over() {
                let mut set = WriteSet::of(account.as_str());
                set.push(sql::BURY, args![&account, &webhook]);
                app.db.commit(set).await?;
            }
        }
    }
}

/// Takes out of an account's deliveries what receivers answered to these events: they may have
/// repeated what they were told. What they answer later is not written down, whichever node asked:
/// it loses the target, and another try is made with what the event says by then.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn erase(app: &App, account: &AccountId, events: &[EventId]) -> Result<(), Error> {
    let targets: Vec<(WebhookId,)> = app.db.rows(sql::TARGETS_OF, args![account]).await?;
    let chunk = usize::try_from(app.config.retention.chunk).unwrap_or(1).max(1);
    for (target,) in &targets {
        for some in events.chunks(chunk) {
            let mut set = WriteSet::of(account.as_str());
            for event in some {
                let delivery = delivery_id(event, target);
                set.push(sql::TAKE_AWAY, args![app.now(), account, target, &delivery]);
                set.push(sql::ERASE_FIRST, args![account, target, &delivery]);
                set.push(sql::ERASE, args![account, target, &delivery]);
            }
            set.ring(events::BELL);
            app.db.commit(set).await?;
        }
    }
    Ok(())
}
