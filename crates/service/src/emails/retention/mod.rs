//! What is forgotten of emails, and when: what they say once nobody has to get it any more (that is
//! not here), who they went to and what they were about after `retention.recipients_d`, the rows
//! after `retention.challenges_d`. A person who asks is forgotten at once.

mod store;

use std::collections::BTreeSet;

use ::store::{CommitError, Error as DbError, FromRow, Row, WriteSet, args};
use clock::{DAY, Millis};
use uuid::Uuid;

use self::store as sql;
use super::{Email, Error, address_mac, bulk, decide, store as of_emails, suppressions};
use crate::access::retention::{Accounts, KEYS_LIVE, Old, erase_idempotency_keys, sweep_accounts};
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::dispatch::retention as of_dispatch;
use crate::dispatch::{self, Failure};
use crate::kit::id::{AccountId, EmailId};

/// The name under which it is kept how far [`mask`] came.
const MARK: &str = "emails";
/// Times that a copy is read again because another was faster.
const TRIES: u32 = 40;

/// Takes people out of old emails; answers how many emails.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn mask(app: &App, turn: &Turn) -> Result<u64, Error> {
    let bound = EmailId::bound(turn.now() - app.config.retention.recipients_d * DAY);
    let (mut masked, mut accounts) = (0, Accounts::default());
    while turn.breathe().await
        && let Some(account) = accounts.next(app).await?
    {
        loop {
            let done = mask_chunk(app, turn, &account, &bound).await?;
            masked += done;
            if done == 0 {
                break;
            }
            if !turn.rest().await {
                return Ok(masked);
            }
        }
    }
    Ok(masked)
}

/// One chunk of an account, from where the last one ended; answers how many.
async fn mask_chunk(
    app: &App,
    turn: &Turn,
    account: &AccountId,
    bound: &EmailId,
) -> Result<u64, Error> {
    let mark: Option<(String,)> = app.db.row(sql::MARK, args![account, MARK]).await?;
    let after = mark.map(|(mark,)| mark).unwrap_or_default();
    let args = args![account, after, bound, app.config.retention.chunk];
    let rows: Vec<(EmailId, Millis)> = app.db.rows(sql::STRETCH, args).await?;
    // One that still goes on is waited for.
    let now = turn.now();
    let over: Vec<EmailId> =
        rows.into_iter().take_while(|(_, until)| *until <= now).map(|(id, _)| id).collect();
    let Some(last) = over.last() else { return Ok(0) };
    let mut set = WriteSet::of(account.as_str());
    for id in &over {
        mask_one(&mut set, account, id);
    }
    set.push(sql::SET_MARK, args![account, MARK, last]);
    app.db.commit(set).await?;
    let masked = u64::try_from(over.len()).unwrap_or(u64::MAX);
    app.metrics.masked("emails", masked);
    Ok(masked)
}

fn mask_one(set: &mut WriteSet, account: &AccountId, id: &EmailId) {
    for text in [sql::MASK, sql::MASK_RECIPIENTS, sql::DROP_CONTENT, sql::DROP_TRANSCRIPTS] {
        set.push(text, args![account, id]);
    }
}

/// Deletes emails from before `until`, which is asked for each environment; answers how many rows.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_emails(
    app: &App,
    turn: &Turn,
    until: impl Fn(Env) -> Millis + Send + Sync,
) -> Result<u64, Error> {
    let until = |env| EmailId::bound(until(env)).into();
    let emails = Old { table: "emails", oldest: sql::OLDEST, delete: sql::DELETE };
    let deleted = sweep_accounts::<Error>(app, turn, emails, until).await?;
    let recipients = Old {
        table: "email_recipients",
        oldest: sql::OLDEST_RECIPIENT,
        delete: sql::DELETE_RECIPIENTS,
    };
    Ok(deleted + sweep_accounts::<Error>(app, turn, recipients, until).await?)
}

/// What an erasure found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Emails that named the person.
    pub emails: u64,
    /// Copies of them that no relay had, and that are ended.
    pub ended: u64,
    /// `Idempotency-Key`s that stood for them.
    pub idempotency_keys: u64,
}

impl Erased {
    /// Counts another account's.
    pub fn add(&mut self, other: Self) {
        self.emails += other.emails;
        self.ended += other.ended;
        self.idempotency_keys += other.idempotency_keys;
    }
}

/// An email to a person.
struct Kept {
    id: EmailId,
    position: i64,
    created_at: Millis,
    /// Whether it still names the person.
    is_named: bool,
}

impl FromRow for Kept {
    fn from_row(mut row: Row) -> Result<Self, DbError> {
        Ok(Self {
            id: row.take(0)?,
            position: row.take(1)?,
            created_at: row.take(2)?,
            is_named: !row.take::<String>(3)?.is_empty(),
        })
    }
}

/// Erases a person from an account: what was sent to the address until now, whoever else got it.
/// What no relay has yet for that person is not sent any more, and costs nothing; others still get
/// theirs. That the account does not write to the address stays known, by a keyed hash.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`]. What was not reached yet is found by doing it again.
pub async fn erase(
    app: &App,
    account: &AccountId,
    address: &email::Address,
) -> Result<Erased, Error> {
    let mac = address_mac(app, account, address);
    let mut erased = Erased::default();
    let found = sent_to(app, account, &mac).await?;
    for row in &found {
        if end(app, account, row).await? {
            erased.ended += 1;
        }
    }
    // Keys go first: without the emails nothing would lead to them any more.
    let oldest = app.now() - KEYS_LIVE;
    let recent = found.iter().filter(|row| row.created_at > oldest);
    let recent: BTreeSet<Uuid> = recent.map(|row| row.id.uuid()).collect();
    if !recent.is_empty() {
        let key = address.key();
        let is_meant = |name: &str, object: &str| {
            bulk::may_have(object, &recent) || name.to_ascii_lowercase().contains(&key)
        };
        erased.idempotency_keys = erase_idempotency_keys::<Error>(app, account, is_meant).await?;
    }
    for row in &found {
        forget_one(app, account, row).await?;
    }
    let mut set = WriteSet::of(account.as_str());
    suppressions::forget(&mut set, account, &mac);
    app.db.commit(set).await?;
    let named = found.iter().filter(|row| row.is_named).count();
    erased.emails = u64::try_from(named).unwrap_or(u64::MAX);
    Ok(erased)
}

/// Takes one person out of an email; the last one takes along what it was about.
async fn forget_one(app: &App, account: &AccountId, row: &Kept) -> Result<(), Error> {
    let mut set = WriteSet::of(account.as_str());
    set.push(sql::MASK_RECIPIENT, args![account, &row.id, row.position]);
    set.push(sql::DROP_TRANSCRIPT, args![account, &row.id, row.position]);
    set.push(sql::MASK_NAMELESS, args![account, &row.id]);
    Ok(app.db.commit(set).await.map(drop)?)
}

/// The emails that went to a person: what else may show them is erased with them.
///
/// # Errors
/// [`Error::Db`].
pub async fn emails_of(
    app: &App,
    account: &AccountId,
    address: &email::Address,
) -> Result<BTreeSet<String>, Error> {
    let found = sent_to(app, account, &address_mac(app, account, address)).await?;
    Ok(found.into_iter().map(|row| row.id.into()).collect())
}

async fn sent_to(app: &App, account: &AccountId, mac: &[u8]) -> Result<Vec<Kept>, Error> {
    let mut found: Vec<Kept> = Vec::new();
    loop {
        let after = found.last().map_or("", |last| last.id.as_str());
        let args = args![mac.to_vec(), account, after, app.config.retention.chunk];
        let rows: Vec<Kept> = app.db.rows(sql::TO, args).await?;
        if rows.is_empty() {
            return Ok(found);
        }
        found.extend(rows);
    }
}

/// Ends a copy whose price is still only held; `false` when a relay has it or it is over.
async fn end(app: &App, account: &AccountId, row: &Kept) -> Result<bool, Error> {
    for _ in 0..TRIES {
        let found = of_emails::piece(app, account, &row.id, row.position).await?;
        let Some(mut piece) = found else { return Ok(false) };
        let attempt = dispatch::attempt(app, account, &piece.attempt).await?;
        let Some(attempt) = attempt.filter(|attempt| attempt.state.is_held()) else {
            return Ok(false);
        };
        let mut set = WriteSet::of(account.as_str());
        dispatch::give_back::<Email>(app, &mut set, &attempt, &Failure::silence());
        decide::erase(app, &mut set, &mut piece);
        if of_dispatch::is_erased(app, set).await? {
            return Ok(true);
        }
    }
    // It changed all the time: the next try finds it quiet.
    Err(Error::Commit(CommitError::Overloaded))
}
