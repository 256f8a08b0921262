//! What this room forgets: `Idempotency-Key`s, tokens that ended, API keys that were disabled long
//! ago, old lines of the audit log. A chunk at a time, with the pauses of a [`Turn`] between.

use clock::{DAY, HOUR, Millis};
use store::{Args, CommitError, Error, Sql, WriteSet, args};

use super::idempotency::{LIFE, is_masked, masked};
use super::{guesses, store as sql};
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::kit::id::{AccountId, AuditId};
use crate::kit::walk::Found;

/// How long an API key is listed after it was disabled.
const DISABLED_KEYS_MS: i64 = 30 * DAY;

/// Deletes `Idempotency-Key`s that no longer stand for anything.
///
/// # Errors
/// See [`CommitError`].
pub async fn forget_idempotency_keys(app: &App, turn: &Turn) -> Result<u64, CommitError> {
    let args = args![turn.now() - LIFE, app.config.retention.chunk];
    sweep(app, turn, "idempotency", sql::FORGET_IDEMPOTENT, &args).await
}

/// Deletes tokens that expired or were revoked long ago.
///
/// # Errors
/// See [`CommitError`].
pub async fn forget_tokens(app: &App, turn: &Turn) -> Result<u64, CommitError> {
    let retention = &app.config.retention;
    let args = args![turn.now() - retention.tokens_d * DAY, retention.chunk];
    let expired = sweep(app, turn, "tokens", sql::FORGET_EXPIRED_TOKENS, &args).await?;
    Ok(expired + sweep(app, turn, "tokens", sql::FORGET_REVOKED_TOKENS, &args).await?)
}

/// Deletes API keys that were disabled long ago, with their hashes. Who makes and ends them all day
/// would fill the database otherwise.
///
/// # Errors
/// See [`CommitError`].
pub async fn forget_api_keys(app: &App, turn: &Turn) -> Result<u64, CommitError> {
    let args = args![turn.now() - DISABLED_KEYS_MS, app.config.retention.chunk];
    let make = || {
        let mut set = WriteSet::of("api_keys");
        set.push(sql::FORGET_KEY_HASHES, args.clone());
        set.returning_rows(sql::FORGET_KEYS, args.clone());
        set
    };
    sweep_sets(app, turn, "api_keys", make).await
}

/// Deletes failed logins that no longer count.
///
/// # Errors
/// See [`CommitError`].
pub async fn forget_failed_logins(app: &App, turn: &Turn) -> Result<u64, CommitError> {
    let args = args![turn.now() - guesses::LIFE, app.config.retention.chunk];
    sweep(app, turn, "failed_logins", sql::FORGET_FAILURES, &args).await
}

/// Deletes lines of the audit log that are older than `until`.
///
/// # Errors
/// See [`CommitError`].
pub async fn forget_audit_log(app: &App, turn: &Turn, until: Millis) -> Result<u64, CommitError> {
    let args = args![&AuditId::bound(until), app.config.retention.chunk];
    sweep(app, turn, "audit_log", sql::FORGET_AUDIT_ENTRIES, &args).await
}

/// Runs a DELETE of one chunk until nothing is left or the turn is over; answers the rows. The
/// statement returns a row for each that it deleted, and its last argument is the chunk.
///
/// # Errors
/// See [`CommitError`].
pub async fn sweep(
    app: &App,
    turn: &Turn,
    table: &'static str,
    statement: Sql,
    args: &Args,
) -> Result<u64, CommitError> {
    let make = || {
        let mut set = WriteSet::of(table);
        set.returning_rows(statement, args.clone());
        set
    };
    sweep_sets(app, turn, table, make).await
}

/// The same with sets that may hold more than the one statement that returns rows.
async fn sweep_sets(
    app: &App,
    turn: &Turn,
    table: &'static str,
    make: impl Fn() -> WriteSet + Send + Sync,
) -> Result<u64, CommitError> {
    let mut total = 0;
    loop {
        let rows: usize = app.db.commit(make()).await?.rows.iter().map(Vec::len).sum();
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        app.metrics.deleted(table, rows);
        total += rows;
        if rows < app.config.retention.chunk.unsigned_abs() || !turn.rest().await {
            return Ok(total);
        }
    }
}

/// What is old in a table of accounts.
#[derive(Clone, Copy)]
pub struct Old {
    /// The table, for figures.
    pub table: &'static str,
    /// Whether an account ($1) has a row below a bound ($2).
    pub oldest: Sql,
    /// Deletes some of them ($3).
    pub delete: Sql,
}

/// Runs a DELETE as [`sweep`] does for each account in which `oldest` finds a row below a bound,
/// which is asked for each environment. Both statements begin with account and bound.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn sweep_accounts<E: From<Error> + From<CommitError>>(
    app: &App,
    turn: &Turn,
    old: Old,
    bound: impl Fn(Env) -> String + Send + Sync,
) -> Result<u64, E> {
    sweep_linked(app, turn, old, None, bound).await
}

/// The same where something leads to the rows, which goes before them: by this statement, which
/// takes the same arguments.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn sweep_linked<E: From<Error> + From<CommitError>>(
    app: &App,
    turn: &Turn,
    old: Old,
    unlink: Option<Sql>,
    bound: impl Fn(Env) -> String + Send + Sync,
) -> Result<u64, E> {
    let Old { table, oldest, delete } = old;
    let mut deleted = 0;
    let mut accounts = Accounts::default();
    while turn.breathe().await
        && let Some((account, env)) = accounts.next_with_env(app).await?
    {
        let bound = bound(env);
        let any: Option<(String,)> = app.db.row(oldest, args![&account, &bound]).await?;
        if any.is_some() {
            let args = args![&account, &bound, app.config.retention.chunk];
            let make = || {
                let mut set = WriteSet::of(table);
                if let Some(unlink) = unlink {
                    set.push(unlink, args.clone());
                }
                set.returning_rows(delete, args.clone());
                set
            };
            deleted += sweep_sets(app, turn, table, make).await?;
        }
    }
    Ok(deleted)
}

/// All accounts of both environments, one after the other, for work that goes by account.
#[derive(Debug, Default)]
pub struct Accounts {
    page: std::vec::IntoIter<(AccountId, Env)>,
    after: String,
    /// Rows behind that one whose id cannot be read: they are passed by counting.
    unreadable: i64,
}

impl Accounts {
    /// Accounts read at a time.
    const PAGE: i64 = 500;

    /// The next one; `None` when all were seen.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn next(&mut self, app: &App) -> Result<Option<AccountId>, Error> {
        Ok(self.next_with_env(app).await?.map(|(account, _)| account))
    }

    /// The next one and its environment; `None` when all were seen.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn next_with_env(&mut self, app: &App) -> Result<Option<(AccountId, Env)>, Error> {
        let known = |(account, env): (AccountId, String)| Some((account, env.parse().ok()?));
        loop {
            if let Some(account) = self.page.next() {
                return Ok(Some(account));
            }
            let args = args![&self.after, Self::PAGE, self.unreadable];
            let rows: Vec<Found<(AccountId, String)>> = app.db.rows(sql::ACCOUNTS, args).await?;
            if rows.is_empty() {
                return Ok(None);
            }
            for found in &rows {
                match &found.id {
                    Some(id) => (self.after, self.unreadable) = (id.clone(), 0),
                    None => self.unreadable += 1,
                }
            }
            let page: Vec<_> = rows.into_iter().filter_map(|it| it.row).filter_map(known).collect();
            self.page = page.into_iter();
        }
    }
}

/// An `Idempotency-Key` that stands for something older is gone; an hour more than its life.
pub const KEYS_LIVE: i64 = 25 * HOUR;

/// Takes the text out of an account's `Idempotency-Key`s that stand for something that `is_meant`
/// says, given the key and the object's id: a keyed hash stays in its place, so that a repeat of
/// the request is still known as one. Answers how many; those done before are not counted.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn erase_idempotency_keys<E: From<Error> + From<CommitError>>(
    app: &App,
    account: &AccountId,
    is_meant: impl Fn(&str, &str) -> bool,
) -> Result<u64, E> {
    let chunk = app.config.retention.chunk;
    let (mut after, mut erased) = ((String::new(), String::new()), 0);
    loop {
        let rows = objects(app, account, &after.0, &after.1, chunk).await?;
        let Some((namespace, key, _)) = rows.last() else { return Ok(erased) };
        after = (namespace.clone(), key.clone());
        let mut set = WriteSet::of(account.as_str());
        let meant = rows.iter().filter(|(_, key, object)| !is_masked(key) && is_meant(key, object));
        for (namespace, key, _) in meant {
            mask(app, &mut set, Place { account, namespace, key });
            erased += 1;
        }
        if !set.is_empty() {
            app.db.commit(set).await?;
        }
    }
}

/// The same of those whose request was refused, which no message leads to: where the key has this
/// text in it, however its letters are written. A refusal that repeats it does so no more.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn erase_refusals<E: From<Error> + From<CommitError>>(
    app: &App,
    account: &AccountId,
    text: &str,
) -> Result<u64, E> {
    let chunk = app.config.retention.chunk;
    let (mut after, mut erased) = ((String::new(), String::new()), 0);
    loop {
        let args = args![account, &after.0, &after.1, chunk];
        let rows: Vec<(String, String, Option<String>)> =
            app.db.rows(sql::REFUSED_KEYS, args).await?;
        let Some((namespace, key, _)) = rows.last() else { return Ok(erased) };
        after = (namespace.clone(), key.clone());
        let mut set = WriteSet::of(account.as_str());
        for (namespace, key, answer) in &rows {
            if let Some(answer) = answer.as_deref().filter(|answer| answer.contains(text)) {
                let answer = answer.replace(text, "");
                set.push(sql::RETELL_REFUSAL, args![answer, account, namespace, key]);
            }
            if !is_masked(key) && key.to_ascii_lowercase().contains(text) {
                mask(app, &mut set, Place { account, namespace, key });
                erased += 1;
            }
        }
        if !set.is_empty() {
            app.db.commit(set).await?;
        }
    }
}

/// Where an `Idempotency-Key` is stored.
struct Place<'a> {
    account: &'a AccountId,
    namespace: &'a str,
    key: &'a str,
}

/// Puts its hash in the place of a key.
fn mask(app: &App, set: &mut WriteSet, Place { account, namespace, key }: Place<'_>) {
    let name = masked(app, account.as_str(), namespace, key);
    set.push(sql::FORGET_IDEMPOTENT_KEY, args![account, namespace, &name]);
    set.push(sql::RENAME_IDEMPOTENT_KEY, args![name, account, namespace, key]);
}

async fn objects(
    app: &App,
    account: &AccountId,
    namespace: &str,
    key: &str,
    chunk: i64,
) -> Result<Vec<(String, String, String)>, Error> {
    app.db.rows(sql::IDEMPOTENT_OBJECTS, args![account, namespace, key, chunk]).await
}
