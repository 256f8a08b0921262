//! What is old goes, some of it at a time, with the pauses of a [`Turn`]: events, their deliveries
//! and tries, and everything of targets that were deleted.

use ::store::{WriteSet, args};
use clock::{DAY, Millis};

use super::{Error, delivery_id, store as sql};
use crate::access::retention::sweep;
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::config::Retention;
use crate::events;
use crate::kit::id::{AccountId, DeliveryId, EventId, WebhookId};
use crate::kit::page::TOP;

/// How long a try is kept, milliseconds.
const KEPT: i64 = 30 * DAY;
/// Targets read at a time.
const PAGE: i64 = 200;

/// How long events and deliveries are kept: 30 days and the time that the schedule may take, since
/// tries are kept for 30 days. But no longer than what they tell of names people, unless the
/// schedule itself takes longer.
fn life_ms(app: &App, env: Env) -> i64 {
    let Retention { recipients_d, inbound_d, sandbox_d, .. } = app.config.retention;
    let schedule_ms = app.config.webhooks.retry_schedule_s.iter().sum::<i64>() * 1_200;
    let named_d = match env {
        Env::Live => recipients_d.min(inbound_d),
        Env::Sandbox => recipients_d.min(inbound_d).min(sandbox_d),
    };
    (KEPT + schedule_ms).min(named_d * DAY).max(schedule_ms)
}

/// Deletes old events; answers how many.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_events(app: &App, turn: &Turn) -> Result<u64, Error> {
    Ok(events::forget_before(app, turn, |env| turn.now() - life_ms(app, env)).await?)
}

/// Deletes old deliveries and tries, and targets that were deleted; answers how many rows.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_deliveries(app: &App, turn: &Turn) -> Result<u64, Error> {
    let mut last = (String::new(), String::new());
    let mut deleted = 0;
    loop {
        let args = args![&last.0, &last.1, PAGE];
        let page: Vec<(AccountId, WebhookId, bool, Option<String>)> =
            app.db.rows(sql::TARGETS, args).await?;
        let Some((account, webhook, ..)) = page.last() else { return Ok(deleted) };
        last = (account.as_str().to_owned(), webhook.as_str().to_owned());
        for (account, webhook, is_deleted, env) in page {
            if !turn.breathe().await {
                return Ok(deleted);
            }
            // What was tried again long after its event is kept for as long as any other try.
            let life_ms = life_ms(app, env.and_then(|env| env.parse().ok()).unwrap_or(Env::Live));
            let before = DeliveryId::bound(turn.now() - life_ms);
            let (until, tried_before) = if is_deleted {
                (TOP, Millis(i64::MAX))
            } else {
                (before.as_str(), turn.now() - life_ms.min(KEPT))
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
