//! How recipients are forgotten, for every channel: after a time, or when the person asks, a
//! pseudonym takes the number's place: its country, and a keyed hash under which an account's rows
//! of one person stay together.
//!
//! Everything goes account by account along primary keys, in chunks with the pauses of a [`Turn`].

use std::collections::HashSet;
use std::time::Duration;

use ::store::{Args, CommitError, Error as DbError, FromRow, Row, Sql, WriteSet, args};
use clock::Millis;

use super::retention::{Error, hide, unname};
use super::store as sql;
use crate::access::retention::{Accounts, KEYS_LIVE, erase_idempotency_keys};
use crate::app::App;
use crate::chores::Turn;
use crate::kit::id::AccountId;
use crate::kit::msisdn::Msisdn;
use crate::kit::seal::hex;

/// Between country and hash of a pseudonym; no phone number has it.
const TILDE: char = '~';

/// Whether a stored recipient is a number, not the pseudonym of one.
#[must_use]
pub fn is_number(recipient: &str) -> bool {
    !recipient.contains(TILDE)
}

/// A stored recipient as the API shows it: a forgotten one is empty.
#[must_use]
pub fn shown(recipient: String) -> String {
    if is_number(&recipient) { recipient } else { String::new() }
}

/// What stands for a recipient that is forgotten, such as `FR~` and 32 hexadecimal digits.
#[must_use]
pub fn pseudonym(app: &App, account: &AccountId, e164: &str) -> String {
    let country = Msisdn::stored(e164.to_owned()).country().to_owned();
    let mac = app.vault.recipient_mac(account.as_str(), e164);
    let half = mac.first_chunk::<16>().map(|half| hex(half)).unwrap_or_default();
    format!("{country}{TILDE}{half}")
}

/// A table of messages that name recipients. Both reads answer id, recipient, the end of the
/// message and when it was made.
pub struct Place {
    /// Its name, for figures.
    pub table: &'static str,
    /// The name under which [`mask_old`] keeps how far it came.
    pub mark: &'static str,
    /// Messages of an account ($1) between two ids ($2, $3), oldest first, at most $4.
    pub stretch: Sql,
    /// Those to one recipient ($2), between two ids ($3, $4), at most $5.
    pub to: Sql,
    /// Puts a pseudonym ($1) into a message ($3) of an account ($2) and empties what may name the
    /// recipient otherwise, unless the message still goes on ($4: the time).
    pub mask: Sql,
}

/// A message, as far as forgetting needs it.
pub struct Kept {
    /// Its id.
    pub id: String,
    /// A number, or the pseudonym of one.
    pub recipient: String,
    /// Until when it goes on.
    pub ends_at: Millis,
    /// When it was made.
    pub created_at: Millis,
}

impl FromRow for Kept {
    fn from_row(mut row: Row) -> Result<Self, DbError> {
        Ok(Self {
            id: row.take(0)?,
            recipient: row.take(1)?,
            ends_at: row.take(2)?,
            created_at: row.take(3)?,
        })
    }
}

/// Puts pseudonyms in the place of the recipients of messages below an id; answers how many.
///
/// # Errors
/// See [`Error`].
pub async fn mask_old(app: &App, turn: &Turn, place: &Place, bound: &str) -> Result<u64, Error> {
    let mut masked = 0;
    let mut accounts = Accounts::default();
    while turn.breathe().await
        && let Some(account) = accounts.next(app).await?
    {
        loop {
            let chunk = mask_chunk(app, turn, place, bound, &account).await?;
            masked += chunk.masked;
            if chunk.is_written && !turn.rest().await {
                return Ok(masked);
            }
            if chunk.is_last {
                break;
            }
        }
    }
    Ok(masked)
}

/// What became of one chunk.
struct Chunk {
    masked: u64,
    is_written: bool,
    /// Nothing is left of this account for now.
    is_last: bool,
}

/// One chunk of an account, from where the last one ended.
async fn mask_chunk(
    app: &App,
    turn: &Turn,
    place: &Place,
    bound: &str,
    account: &AccountId,
) -> Result<Chunk, Error> {
    let (now, chunk) = (turn.now(), app.config.retention.chunk);
    let mark: Option<(String,)> = app.db.row(sql::MARK, args![account, place.mark]).await?;
    let after = mark.map(|(mark,)| mark).unwrap_or_default();
    let rows: Vec<Kept> = app.db.rows(place.stretch, args![account, after, bound, chunk]).await?;
    let is_short = i64::try_from(rows.len()).unwrap_or(chunk) < chunk;
    // One that still goes on, because its end was put off all the time: wait for that.
    let over: Vec<&Kept> = rows.iter().take_while(|row| row.ends_at <= now).collect();
    let Some(last) = over.last() else {
        return Ok(Chunk { masked: 0, is_written: false, is_last: true });
    };
    let mut set = WriteSet::of(account.as_str());
    for row in &over {
        set.push(place.mask, masked_as(app, account, row, now));
        unname(&mut set, account, &row.id);
    }
    set.push(sql::SET_MARK, args![account, place.mark, last.id.as_str()]);
    app.db.commit(set).await?;
    let masked = over.iter().filter(|row| is_number(&row.recipient)).count();
    let masked = u64::try_from(masked).unwrap_or(u64::MAX);
    app.metrics.masked(place.table, masked);
    Ok(Chunk { masked, is_written: true, is_last: is_short || over.len() < rows.len() })
}

/// The arguments of [`Place::mask`].
fn masked_as(app: &App, account: &AccountId, row: &Kept, now: Millis) -> Args {
    let recipient = if is_number(&row.recipient) {
        pseudonym(app, account, &row.recipient)
    } else {
        row.recipient.clone()
    };
    args![recipient, account, row.id.as_str(), now]
}

/// All messages of an account to a recipient, a number or a pseudonym, below an id.
///
/// # Errors
/// When the database cannot be read.
pub async fn sent_to(
    app: &App,
    place: &Place,
    account: &AccountId,
    recipient: &str,
    bound: &str,
) -> Result<Vec<Kept>, DbError> {
    let mut found: Vec<Kept> = Vec::new();
    loop {
        let after = found.last().map_or("", |last| last.id.as_str());
        let args = args![account, recipient, after, bound, app.config.retention.chunk];
        let rows: Vec<Kept> = app.db.rows(place.to, args).await?;
        if rows.is_empty() {
            return Ok(found);
        }
        found.extend(rows);
    }
}

/// Erases the `Idempotency-Key`s that stand for messages to a recipient. Where one may be young
/// enough to have any, those that name the number themselves go as well. Answers how many.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn erase_keys<E: From<DbError> + From<CommitError>>(
    app: &App,
    account: &AccountId,
    recipient: &str,
    found: &[Kept],
) -> Result<u64, E> {
    let oldest = app.now() - KEYS_LIVE;
    let recent = found.iter().filter(|row| row.created_at > oldest);
    let recent: HashSet<&str> = recent.map(|row| row.id.as_str()).collect();
    if recent.is_empty() {
        return Ok(0);
    }
    let digits = recipient.trim_start_matches('+');
    let is_meant = |key: &str, object: &str| recent.contains(object) || key.contains(digits);
    erase_idempotency_keys(app, account, is_meant).await
}

/// Puts the pseudonym in the place of the number, a chunk at a time.
///
/// # Errors
/// See [`Error`].
pub async fn replace(
    app: &App,
    place: &Place,
    account: &AccountId,
    found: &[Kept],
) -> Result<(), Error> {
    let pause = Duration::from_millis(app.config.retention.pause_ms);
    for (index, rows) in found.chunks(chunk_of(app)).enumerate() {
        if index > 0 {
            tokio::time::sleep(pause).await;
        }
        let mut set = WriteSet::of(account.as_str());
        for row in rows {
            set.push(place.mask, masked_as(app, account, row, app.now()));
            hide(app, &mut set, account, &row.id).await?;
            unname(&mut set, account, &row.id);
        }
        app.db.commit(set).await?;
        app.metrics.masked(place.table, u64::try_from(rows.len()).unwrap_or(u64::MAX));
    }
    Ok(())
}

/// Rows of one step.
#[must_use]
pub fn chunk_of(app: &App) -> usize {
    usize::try_from(app.config.retention.chunk).unwrap_or(1).max(1)
}
