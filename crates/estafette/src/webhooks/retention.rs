//! What is old goes, some of it at a time, so that no commit is long: deliveries and their tries
//! together with their events, and everything of targets that were deleted.

use clock::{DAY, Millis};
use store::{CommitError, WriteSet, args};

use super::{Error, store as sql};
use crate::app::App;
use crate::events;
use crate::kit::id::{AccountId, DeliveryId, WebhookId};
use crate::kit::page::TOP;

/// How long a try is kept, milliseconds.
const KEPT: i64 = 30 * DAY;
/// Rows deleted in one write set.
const AT_ONCE: i64 = 500;
/// Targets or accounts read at a time.
const PAGE: i64 = 200;

/// Deletes what is too old. Tries are kept for 30 days, so a delivery is kept for 30 days and the
/// time that its schedule may take.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`]; the next time goes on from there.
pub async fn forget_old(app: &App) -> Result<(), Error> {
    let schedule_s: i64 = app.config.webhooks.retry_schedule_s.iter().sum();
    let before = app.now() - KEPT - schedule_s * 1_200;
    deliveries(app, before).await?;
    events::forget_old(app, before, AT_ONCE).await.map_err(|fault| match fault {
        events::Fault::Db(error) => Error::Db(error),
        events::Fault::Commit(error) => Error::Commit(error),
    })
}

async fn deliveries(app: &App, before: Millis) -> Result<(), Error> {
    let mut last = (String::new(), String::new());
    loop {
        let args = args![&last.0, &last.1, PAGE];
        let page: Vec<(AccountId, WebhookId, bool)> = app.db.rows(sql::TARGETS, args).await?;
        let Some((account, webhook, _)) = page.last() else { return Ok(()) };
        last = (account.as_str().to_owned(), webhook.as_str().to_owned());
        for (account, webhook, is_deleted) in page {
            let until = if is_deleted {
                TOP.to_owned()
            } else {
                DeliveryId::at(before).as_str().to_owned()
            };
            target(app, (&account, &webhook), &until).await?;
            if is_deleted {
                let mut set = WriteSet::of(account.as_str());
                set.push(sql::BURY, args![&account, &webhook]);
                app.db.commit(set).await?;
            }
        }
    }
}

async fn target(
    app: &App,
    place: (&AccountId, &WebhookId),
    until: &str,
) -> Result<(), CommitError> {
    let (account, webhook) = place;
    // Tries first: a delivery that is gone could not lead to them any more.
    for statement in [sql::FORGET_TRIES, sql::FORGET] {
        loop {
            let mut set = WriteSet::of(account.as_str());
            set.returning_rows(statement, args![account, webhook, until, AT_ONCE]);
            let rows: usize = app.db.commit(set).await?.rows.iter().map(Vec::len).sum();
            if i64::try_from(rows).unwrap_or(0) < AT_ONCE {
                break;
            }
        }
    }
    Ok(())
}
