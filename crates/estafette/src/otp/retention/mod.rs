//! What is forgotten of passcodes, and when. After `retention.recipients_d` a recipient becomes a
//! pseudonym: its country, and a keyed hash under which the account's rows of one person stay
//! together. After `retention.challenges_d` the rows go. The ledger names challenges, not people.
//!
//! Everything goes account by account along primary keys, in chunks with the pauses of a [`Turn`].

mod erasure;
mod store;

use ::store::{WriteSet, args};
use clock::{DAY, MINUTE, Millis};

use self::store::{self as sql, Kept, Remembered};
use super::Error;
use crate::access::retention::{Accounts, sweep};
use crate::app::{App, Env};
use crate::dispatch::retention::unname;
use crate::jobs::Turn;
use crate::kit::id::{AccountId, ChallengeId};
use crate::kit::msisdn::Msisdn;
use crate::kit::seal::hex;

pub use erasure::{Erased, challenges_of, erase};

/// Between country and hash of a pseudonym; no phone number has it.
const TILDE: char = '~';
/// How long after a send a guess may come: the longest validity, milliseconds.
const LATEST_GUESS_MS: i64 = 10 * MINUTE;
/// The name under which marks are kept.
const MASKING: &str = "recipients";

/// Whether a stored recipient is a number, not the pseudonym of one.
pub(super) fn is_number(recipient: &str) -> bool {
    !recipient.contains(TILDE)
}

/// A stored recipient as the API shows it: a forgotten one is empty.
pub(super) fn shown(recipient: String) -> String {
    if is_number(&recipient) { recipient } else { String::new() }
}

/// What stands for a recipient that is forgotten, such as `FR~` and 32 hexadecimal digits.
fn pseudonym(app: &App, account: &AccountId, e164: &str) -> String {
    let country = Msisdn::stored(e164.to_owned()).country().to_owned();
    let mac = app.vault.recipient_mac(account.as_str(), e164);
    let half = mac.first_chunk::<16>().map(|half| hex(half)).unwrap_or_default();
    format!("{country}{TILDE}{half}")
}

/// Puts pseudonyms in the place of old recipients; answers how many.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn mask_recipients(app: &App, turn: &Turn) -> Result<u64, Error> {
    let bound = ChallengeId::bound(turn.now() - app.config.retention.recipients_d * DAY);
    let mut masked = 0;
    let mut accounts = Accounts::default();
    while let Some(account) = next(app, turn, &mut accounts).await? {
        loop {
            let chunk = mask_chunk(app, turn, &account, &bound).await?;
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
    account: &AccountId,
    bound: &ChallengeId,
) -> Result<Chunk, Error> {
    let (now, chunk) = (turn.now(), app.config.retention.chunk);
    let mark: Option<(String,)> = app.db.row(sql::MARK, args![account, MASKING]).await?;
    let after = mark.map(|(mark,)| mark).unwrap_or_default();
    let rows: Vec<Kept> = app.db.rows(sql::STRETCH, args![account, after, bound, chunk]).await?;
    let is_short = i64::try_from(rows.len()).unwrap_or(chunk) < chunk;
    // One that can still be verified, because its code was renewed all the time: wait for its end.
    let over: Vec<&Kept> = rows.iter().take_while(|row| row.expires_at <= now).collect();
    let Some(last) = over.last() else {
        return Ok(Chunk { masked: 0, is_written: false, is_last: true });
    };
    let mut set = WriteSet::of(account.as_str());
    for row in &over {
        mask(app, &mut set, account, row, now);
    }
    set.push(sql::SET_MARK, args![account, MASKING, &last.id]);
    app.db.commit(set).await?;
    let masked = over.iter().filter(|row| is_number(&row.recipient)).count();
    let masked = u64::try_from(masked).unwrap_or(u64::MAX);
    app.metrics.masked("challenges", masked);
    Ok(Chunk { masked, is_written: true, is_last: is_short || over.len() < rows.len() })
}

fn mask(app: &App, set: &mut WriteSet, account: &AccountId, row: &Kept, now: Millis) {
    let recipient = if is_number(&row.recipient) {
        pseudonym(app, account, &row.recipient)
    } else {
        row.recipient.clone()
    };
    set.push(sql::MASK, args![recipient, account, &row.id, now]);
    unname(set, account, row.id.as_str());
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
    let retention = &app.config.retention;
    let mut deleted = 0;
    let mut accounts = Accounts::default();
    while turn.breathe().await
        && let Some((account, env)) = accounts.next_with_env(app).await?
    {
        let oldest = until(env);
        let challenges = ChallengeId::bound(oldest);
        let args = args![&account, &challenges];
        if app.db.row::<(String,)>(sql::OLDEST_CHALLENGE, args).await?.is_some() {
            let args = args![&account, &challenges, retention.chunk];
            let table = ("challenges", sql::DELETE_CHALLENGES);
            deleted += sweep(app, turn, table, &args).await?;
        }
    }
    Ok(deleted)
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

/// The next account, perhaps after a pause; `None` at the end, or when the turn is over.
async fn next(app: &App, turn: &Turn, accounts: &mut Accounts) -> Result<Option<AccountId>, Error> {
    if !turn.breathe().await {
        return Ok(None);
    }
    Ok(accounts.next(app).await?)
}
