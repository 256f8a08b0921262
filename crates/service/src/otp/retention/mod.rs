//! What is forgotten of passcodes, and when. After `retention.recipients_d` a recipient becomes a
//! pseudonym: its country, and a keyed hash under which the account's rows of one person stay
//! together. After `retention.challenges_d` the rows go. The ledger names challenges, not people.
//!
//! Everything goes account by account along primary keys, in chunks with the pauses of a [`Turn`].

mod erasure;
mod store;

use ::store::{WriteSet, args};
use clock::{DAY, MINUTE, Millis};

use self::store::{self as sql, Remembered};
use super::Error;
use crate::access::retention::{Old, sweep_accounts};
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::dispatch::recipients::{self, Place};
use crate::dispatch::retention as of_dispatch;
use crate::kit::id::ChallengeId;

pub use erasure::{Erased, challenges_of, erase};

/// How long after a send a guess may come: the longest validity, milliseconds.
const LATEST_GUESS_MS: i64 = 10 * MINUTE;

/// Where recipients of passcodes are.
const PLACE: Place = Place {
    table: "challenges",
    mark: "recipients",
    stretch: sql::STRETCH,
    to: sql::OF_RECIPIENT,
    mask: sql::MASK,
};

/// Puts pseudonyms in the place of old recipients; answers how many.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn mask_recipients(app: &App, turn: &Turn) -> Result<u64, Error> {
    let bound = ChallengeId::bound(turn.now() - app.config.retention.recipients_d * DAY);
    Ok(recipients::mask_old(app, turn, &PLACE, bound.as_str()).await?)
}

/// How long passcodes of an environment are kept, days.
#[must_use]
pub fn kept_d(app: &App, env: Env) -> i64 {
    let retention = &app.config.retention;
    match env {
        Env::Live => retention.challenges_d,
        Env::Sandbox => retention.challenges_d.min(retention.sandbox_d),
    }
}

/// Deletes passcodes from before `until`, which is asked for each environment;
/// answers how many rows.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_challenges(
    app: &App,
    turn: &Turn,
    until: impl Fn(Env) -> Millis + Send + Sync,
) -> Result<u64, Error> {
    let until = |env| ChallengeId::bound(until(env)).into();
    let (oldest, delete) = (sql::OLDEST_CHALLENGE, sql::DELETE_CHALLENGES);
    sweep_accounts(app, turn, Old { table: "challenges", oldest, delete }, until).await
}

/// Deletes what is remembered of recipients who are neither limited nor unreachable any more. It
/// walks the whole table: an index by age would have to be kept by every live send.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_recipients(app: &App, turn: &Turn) -> Result<u64, Error> {
    let chunk = app.config.retention.chunk;
    let (mut account, mut recipient) = (String::new(), String::new());
    let mut deleted = 0;
    loop {
        let now = turn.now();
        let args = args![&account, &recipient, chunk];
        let rows: Vec<Remembered> = app.db.rows(sql::RECIPIENTS, args).await?;
        let Some(last) = rows.last() else { return Ok(deleted) };
        (account, recipient) = (last.account.to_string(), last.recipient.clone());
        let count = forget_of(app, &rows, now).await?;
        app.metrics.deleted("recipients", count);
        deleted += count;
        if !turn.rest().await {
            return Ok(deleted);
        }
    }
}

/// Deletes those of one chunk that are not needed any more, a write set for each account.
async fn forget_of(app: &App, rows: &[Remembered], now: Millis) -> Result<u64, Error> {
    let day_ago = now - DAY - LATEST_GUESS_MS;
    let is_idle = |row: &&Remembered| row.unreachable_until <= now && row.sent_at <= day_ago;
    let idle: Vec<&Remembered> = rows.iter().filter(is_idle).collect();
    for of_account in idle.chunk_by(|one, next| one.account == next.account) {
        let Some(first) = of_account.first() else { continue };
        let mut set = WriteSet::of(first.account.as_str());
        for row in of_account {
            let args = args![&row.account, row.recipient.as_str(), now, day_ago];
            set.push(sql::DELETE_RECIPIENT, args);
        }
        app.db.commit(set).await?;
    }
    Ok(u64::try_from(idle.len()).unwrap_or(u64::MAX))
}

impl From<of_dispatch::Error> for Error {
    fn from(error: of_dispatch::Error) -> Self {
        match error {
            of_dispatch::Error::Db(error) => Self::Db(error),
            of_dispatch::Error::Commit(error) => Self::Commit(error),
        }
    }
}
