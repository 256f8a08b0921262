//! Attachments go `retention.ticket_files_d` after the end of their ticket, and their objects go
//! with them. An object that is to be deleted stays noted until the storage has done it.

use ::store::{WriteSet, args};
use clock::{DAY, HOUR};

use super::{delete, storage, store as sql};
use crate::app::App;
use crate::chores::Turn;
use crate::kit::id::{AccountId, TicketId};
use crate::support::Error;

/// Objects that the storage does not delete before a turn ends: each may take long to say so.
const MOST_FAILURES: usize = 3;

/// Deletes attachments of tickets that ended long ago; answers of how many tickets.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_files(app: &App, turn: &Turn) -> Result<u64, Error> {
    let before = turn.now() - app.config.retention.ticket_files_d * DAY;
    let mut tickets = 0;
    loop {
        let found: Option<(AccountId, TicketId)> = app.db.row(sql::OLD, args![before]).await?;
        let Some((account, ticket)) = found else { return Ok(tickets) };
        let mut set = WriteSet::of(account.as_str());
        delete(app, &mut set, &account, &ticket, 0..=i64::MAX);
        app.db.commit(set).await?;
        tickets += 1;
        if !turn.rest().await {
            return Ok(tickets);
        }
    }
}

/// Deletes the objects that nothing leads to; answers how many.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`]; [`Error::Storage`] when the storage fails. An object that it
/// does not delete is tried again in an hour, so that it keeps no other from being deleted.
pub async fn sweep_objects(app: &App, turn: &Turn) -> Result<u64, Error> {
    let (mut swept, mut failures) = (0, Vec::new());
    loop {
        let args = args![turn.now(), app.config.retention.chunk];
        let due: Vec<(String,)> = app.db.rows(sql::GONE, args).await?;
        let is_last = due.is_empty();
        let before = swept;
        for (key,) in due {
            let mut set = WriteSet::of("object_trash");
            let rest = storage::delete_rest(&app.config, &key).await;
            let rest = rest.map_err(|error| error.to_string());
            let gone = storage::delete(&app.storage, &key).await.map_err(|error| error.to_string());
            match rest.and(gone) {
                Ok(()) => {
                    set.push(sql::UNTRASH, args![key]);
                    swept += 1;
                }
                Err(error) => {
                    set.push(sql::KEEP_TRASH, args![turn.now() + HOUR, key]);
                    failures.push(error);
                }
            }
            app.db.commit(set).await?;
            if failures.len() >= MOST_FAILURES {
                break;
            }
        }
        app.metrics.deleted("object_trash", swept - before);
        if is_last || failures.len() >= MOST_FAILURES || !turn.rest().await {
            return failures.pop().map_or(Ok(swept), |error| Err(Error::Storage(error)));
        }
    }
}
