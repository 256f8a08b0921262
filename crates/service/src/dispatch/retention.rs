//! What is forgotten of attempts, and when: the rows with those of the message, receipts that
//! lead nowhere after three days. Carriers' own ids can hold the recipient's number; they go with
//! what they lead to.

use std::time::Duration;

use ::store::{CommitError, WriteSet, args};
use clock::{DAY, Millis};

use super::parked::Parked;
use super::{STALE, parked, store as sql, submissions};
use crate::access::retention::{Old, sweep, sweep_linked};
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::kit::id::{AccountId, AttemptId};

/// How long a receipt that leads nowhere is kept, milliseconds: the longest validity of an SMS.
const EARLY_MS: i64 = 3 * DAY;

/// What goes wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A read failed.
    #[error(transparent)]
    Db(#[from] ::store::Error),
    /// A write failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Deletes attempts from before `until`, which is asked for each environment, if their fate is
/// known; answers how many rows.
///
/// # Errors
/// See [`Error`].
pub async fn forget_attempts(
    app: &App,
    turn: &Turn,
    until: impl Fn(Env) -> Millis + Send + Sync,
) -> Result<u64, Error> {
    let until = |env| AttemptId::bound(until(env)).into();
    let old = Old { table: "attempts", oldest: sql::OLDEST, delete: sql::DELETE };
    sweep_linked(app, turn, old, Some(sql::UNLINK), until).await
}

/// Deletes receipts that lead nowhere; answers how many.
///
/// # Errors
/// See [`Error`].
pub async fn forget_receipts(app: &App, turn: &Turn) -> Result<u64, Error> {
    let args = args![turn.now() - EARLY_MS, app.config.retention.chunk];
    Ok(sweep(app, turn, "early_receipts", parked::DELETE, &args).await?)
}

/// Makes an erasure durable; `false`, after a moment, where the outcome of a submission came
/// between: what is to be erased has to be read again.
///
/// # Errors
/// When the database cannot be written.
pub async fn is_erased(app: &App, set: WriteSet) -> Result<bool, CommitError> {
    match app.db.commit(set).await {
        Ok(_) => Ok(true),
        Err(CommitError::Rejected(STALE)) => {
            tokio::time::sleep(Duration::from_millis(25)).await;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Hides what carriers call the attempts of a message whose recipient is erased: a receipt that
/// comes later is known by a hash of it, and not kept.
///
/// # Errors
/// When the database cannot be read.
pub async fn hide(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    object_id: &str,
) -> Result<(), ::store::Error> {
    for (carrier, key) in submissions::of_object(app, account, object_id).await? {
        submissions::hide(app, set, &carrier, &key);
    }
    Ok(())
}

/// Forgets what carriers call the attempts of a message, and what they said of them: both can hold
/// the number.
pub fn unname(set: &mut WriteSet, account: &AccountId, object_id: &str) {
    set.push(sql::FORGET_ERRORS, args![account, object_id]);
    set.push(sql::UNNAME, args![account, object_id]);
}

/// Deletes the receipts that lead nowhere and name these digits.
///
/// # Errors
/// See [`Error`].
pub async fn erase_receipts(app: &App, digits: &str) -> Result<(), Error> {
    let mut last = None;
    loop {
        let page = parked::all(app, last.as_ref(), app.config.retention.chunk).await?;
        // With one of its ids goes all of it.
        let names = |parked: &&Parked| parked.provider_id.contains(digits);
        for parked in page.iter().filter(names) {
            parked::unpark(app, parked).await?;
        }
        last = page.last().cloned();
        if last.is_none() {
            return Ok(());
        }
    }
}
