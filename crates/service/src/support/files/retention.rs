//! Attachments go `retention.ticket_files_d` after the end of their ticket, and their objects go
//! with them. An object that is to be deleted stays noted until the storage has done it.

use ::store::{WriteSet, args};
use clock::DAY;

use super::{delete, storage, store as sql};
use crate::app::App;
use crate::chores::Turn;
use crate::kit::id::{AccountId, TicketId};
use crate::support::Error;

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
/// [`Error::Db`], [`Error::Commit`]; [`Error::Storage`] when the storage fails, and then the object
/// is tried again with the next turn.
pub async fn sweep_objects(app: &App, turn: &Turn) -> Result<u64, Error> {
    let mut swept = 0;
    loop {
        let args = args![turn.now(), app.config.retention.chunk];
        let due: Vec<(String,)> = app.db.rows(sql::GONE, args).await?;
        if due.is_empty() {
            return Ok(swept);
        }
        for (key,) in due {
            let gone = storage::delete(&app.storage, &key).await;
            gone.map_err(|error| Error::Storage(error.to_string()))?;
            let mut set = WriteSet::of("object_trash");
            set.push(sql::UNTRASH, args![key]);
            app.db.commit(set).await?;
            swept += 1;
        }
        app.metrics.deleted("object_trash", swept);
        if !turn.rest().await {
            return Ok(swept);
        }
    }
}
