//! The SQL of attempts.

use clock::Millis;
use store::{CommitError, Done, Error, FromRow, Row, Sql, WriteSet, args};

use super::claims::{Claims, DUE_SHARD};
use super::{Attempt, Owner, QUEUED_LEASE_MS, STALE, State};
use crate::app::App;
use crate::carriers::Priority;
use crate::kit::id::{AccountId, AttemptId};

const ATTEMPT: Sql = Sql("SELECT attempt_id, object_id, channel, state, credits, lease_until, \
     account_id, give_up_at, kind, carrier, priority, tries, resends, queued_at, next_at, \
     refused_by FROM attempts WHERE account_id = $1 AND attempt_id = $2 /*MANY*/");
/// Another leg of the message that brought it or still may: of one that was given up nobody said
/// that it failed.
const OTHER_LEG: Sql = Sql("SELECT attempt_id FROM attempts WHERE account_id = $1 \
     AND object_id = $2 AND attempt_id <> $3 \
     AND state IN ('queued', 'sending', 'unknown', 'accepted', 'delivered', 'lapsed', 'late') \
     LIMIT 1");
/// Leads to the account of an object that has one attempt.
const OF_OBJECT: Sql =
    Sql("SELECT account_id, attempt_id FROM attempts WHERE object_id = $1 LIMIT 1");
const INSERT: Sql = Sql("INSERT INTO attempts (account_id, attempt_id, kind, object_id, channel, \
     carrier, priority, state, credits, tries, node, lease_until, started_at, queued_at, next_at, \
     give_up_at, env) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
     $16, $17) ON CONFLICT DO NOTHING /*BULK*/");
const SHIFT: Sql =
    Sql("UPDATE attempts SET state = $1, error = $2, queued_at = NULL, next_at = $3 \
     WHERE account_id = $4 AND attempt_id = $5 AND state = $6 AND tries = $7 AND resends = $8 \
     /*BULK*/");
const PUT_BACK: Sql = Sql("UPDATE attempts SET state = 'queued', error = $1, queued_at = $2, \
     next_at = $3, tries = $4, resends = $5, carrier = $6, refused_by = $7 WHERE account_id = $8 \
     AND attempt_id = $9 AND state = $10 AND tries = $11 AND resends = $12");
const REROUTE: Sql = Sql("UPDATE attempts SET carrier = $1, refused_by = $2, lease_until = $3, \
     state = 'sending' WHERE account_id = $4 AND attempt_id = $5 AND state = $6 AND tries = $7 \
     AND resends = $8");
const TAKE_BACK: Sql = Sql("UPDATE attempts SET state = 'sending', node = $1, lease_until = $2, \
     next_at = CASE WHEN next_at IS NULL THEN NULL ELSE CAST($2 AS BIGINT) END \
     WHERE account_id = $3 AND attempt_id = $4 AND state = 'unknown' AND tries = $5 \
     AND resends = $6");
const KEEP_TRANSCRIPT: Sql =
    Sql("UPDATE attempts SET transcript = $1 WHERE account_id = $2 AND attempt_id = $3 /*BULK*/");
/// An account with something in a lane's queue, in their order.
const NEXT_IN_LINE: Sql = Sql("SELECT account_id FROM attempts WHERE carrier = $1 \
     AND priority = $2 AND account_id > $3 AND queued_at IS NOT NULL AND EXISTS (SELECT 1 \
     FROM accounts c WHERE c.account_id = attempts.account_id AND c.env = $4) \
     ORDER BY account_id LIMIT 1");
/// Takes the oldest ones of an account out of a queue, for this node. Materialized, so that no plan
/// reads them twice and takes more than there are turns; each is found by its id: `+ 0` keeps the
/// outer look out of the index of all that wait.
const CLAIM: Sql = Sql("WITH first AS MATERIALIZED (SELECT q.attempt_id FROM attempts q \
       WHERE q.carrier = $1 AND q.priority = $2 AND q.account_id = $3 \
       AND q.queued_at IS NOT NULL ORDER BY q.queued_at LIMIT $4 /*SKIP LOCKED*/) \
     UPDATE attempts SET node = $5, state = 'sending', queued_at = NULL, lease_until = $6, \
     next_at = $6, tries = tries + 1, env = $7 WHERE account_id = $3 \
     AND attempt_id IN (/*EACH*/SELECT first.attempt_id FROM first/*END*/) \
     AND queued_at + 0 IS NOT NULL \
     RETURNING attempt_id, object_id, channel, state, credits, lease_until, account_id, \
     give_up_at, kind, carrier, priority, tries, resends, queued_at, next_at, refused_by");
/// The carriers that messages wait for, one after the other.
const NEXT_CARRIER: Sql = Sql("SELECT carrier FROM attempts WHERE carrier > $1 \
     AND queued_at IS NOT NULL ORDER BY carrier LIMIT 1");
/// What has waited in a queue since a while, of an account, the oldest first.
const WAITING: Sql = Sql("SELECT attempt_id, object_id, channel, state, credits, lease_until, \
     account_id, give_up_at, kind, carrier, priority, tries, resends, queued_at, next_at, \
     refused_by FROM attempts WHERE carrier = $1 AND priority = $2 AND account_id = $3 \
     AND queued_at IS NOT NULL AND queued_at > $4 AND queued_at <= $5 \
     ORDER BY queued_at LIMIT $6");
/// Into another queue, if it still waits where it did.
const MOVE: Sql = Sql("UPDATE attempts SET carrier = $1 WHERE account_id = $2 \
     AND attempt_id = $3 AND state = 'queued' AND carrier = $4 AND queued_at + 0 = $5");
/// The environment of a due attempt: of one that an earlier version made, which says none, or else
/// of this one.
const ANY_DUE: Sql = Sql("SELECT env FROM attempts WHERE env IS NULL AND next_at <= $1 \
     UNION ALL SELECT env FROM attempts WHERE env = $2 AND next_at <= $1 LIMIT 1");
/// Says of which environment due attempts are that an earlier version made.
const ADOPT: Sql = Sql("UPDATE attempts SET env = \
       (SELECT a.env FROM accounts a WHERE a.account_id = attempts.account_id) \
     WHERE (account_id, attempt_id) IN (SELECT d.account_id, d.attempt_id FROM attempts d \
       WHERE d.env IS NULL AND d.next_at <= $1 LIMIT $2 /*SKIP LOCKED*/) \
     AND env IS NULL");
/// Takes attempts that are due to be looked at: until then no other node finds them due.
const CLAIM_DUE: Sql = Sql("UPDATE attempts SET next_at = $1 \
     WHERE (account_id, attempt_id) IN (SELECT d.account_id, d.attempt_id FROM attempts d \
       WHERE d.env = $2 AND d.next_at <= $3 ORDER BY d.next_at LIMIT $4 /*SKIP LOCKED*/) \
     AND next_at <= $3 RETURNING attempt_id, object_id, channel, state, credits, lease_until, \
     account_id, give_up_at, kind, carrier, priority, tries, resends, queued_at, next_at, \
     refused_by");
/// What is due of an environment, the longest due first.
const STRETCH: Sql = Sql("SELECT account_id, attempt_id, next_at FROM attempts WHERE env = $1 \
     AND next_at > $2 AND next_at <= $3 ORDER BY next_at LIMIT $4");
/// Takes one of these, unless another node has done so.
const TAKE_DUE: Sql = Sql("UPDATE attempts SET next_at = $1 \
     WHERE (account_id, attempt_id) IN (SELECT d.account_id, d.attempt_id FROM attempts d \
       WHERE d.account_id = $2 AND d.attempt_id = $3 AND d.next_at <= $4 /*SKIP LOCKED*/) \
     AND next_at <= $4 RETURNING attempt_id, object_id, channel, state, \
     credits, lease_until, account_id, give_up_at, kind, carrier, priority, tries, resends, \
     queued_at, next_at, refused_by");
const OLDEST_DUE: Sql = Sql("SELECT MIN(next_at) FROM (\
       SELECT MIN(next_at) AS next_at FROM attempts WHERE env = 'live' AND next_at <= $1 \
       UNION ALL SELECT MIN(next_at) FROM attempts WHERE env = 'sandbox' AND next_at <= $1 \
       UNION ALL SELECT MIN(next_at) FROM attempts WHERE env IS NULL AND next_at <= $1) AS due");
/// How due attempts are claimed.
pub(super) const CLAIMS: Claims = Claims {
    any: ANY_DUE,
    adopt: ADOPT,
    claim: CLAIM_DUE,
    stretch: STRETCH,
    take: TAKE_DUE,
    oldest: OLDEST_DUE,
};
/// What has waited longest for room in a lane, at any node.
const OLDEST_QUEUED: Sql = Sql("SELECT q.queued_at FROM attempts q WHERE q.carrier = $1 \
     AND q.queued_at IS NOT NULL AND EXISTS (SELECT 1 FROM accounts c \
     WHERE c.account_id = q.account_id AND c.env = $2) ORDER BY q.queued_at LIMIT 1");
/// What this node has under way whose lease ends soon.
const ENDING_SOON: Sql = Sql("SELECT account_id, attempt_id FROM attempts WHERE env = $1 \
     AND next_at <= $2 AND node = $3 AND state = 'sending' ORDER BY next_at LIMIT $4");
const PROLONG: Sql = Sql("UPDATE attempts SET lease_until = $1, next_at = $1 \
     WHERE account_id = $2 AND attempt_id = $3 AND node = $4 AND state = 'sending' \
     AND next_at IS NOT NULL");
pub(super) const OLDEST: Sql = Sql("SELECT attempt_id FROM attempts \
     WHERE account_id = $1 AND attempt_id < $2 ORDER BY attempt_id LIMIT 1");
/// What still holds credits or has due work stays: its fate is open.
pub(super) const DELETE: Sql = Sql("DELETE FROM attempts WHERE account_id = $1 \
     AND attempt_id IN (SELECT attempt_id FROM attempts WHERE account_id = $1 \
     AND attempt_id < $2 AND state NOT IN ('queued', 'sending', 'unknown') \
     AND next_at IS NULL \
     ORDER BY attempt_id LIMIT $3 \
     /*SKIP LOCKED*/) AND NOT EXISTS (SELECT 1 FROM submissions s \
     WHERE s.attempt_id = attempts.attempt_id AND s.account_id = attempts.account_id) \
     RETURNING started_at");
/// What leads to the attempts that are deleted next.
pub(super) const UNLINK: Sql = Sql("DELETE FROM submissions WHERE account_id = $1 \
     AND attempt_id IN (SELECT attempt_id FROM attempts WHERE account_id = $1 \
     AND attempt_id < $2 AND state NOT IN ('queued', 'sending', 'unknown') \
     AND next_at IS NULL ORDER BY attempt_id LIMIT $3)");
/// A hidden id names nobody.
pub(super) const UNNAME: Sql = Sql("DELETE FROM submissions WHERE account_id = $1 \
     AND attempt_id IN (SELECT attempt_id FROM attempts WHERE account_id = $1 AND object_id = $2) \
     AND provider_id NOT LIKE ' %'");
pub(super) const FORGET_ERRORS: Sql = Sql("UPDATE attempts SET error = NULL \
     WHERE account_id = $1 AND object_id = $2 AND error IS NOT NULL");
/// How far a chore has come with an account.
pub(super) const MARK: Sql =
    Sql("SELECT done_until FROM retention_marks WHERE account_id = $1 AND chore = $2");
pub(super) const SET_MARK: Sql =
    Sql("INSERT INTO retention_marks (account_id, chore, done_until) \
     VALUES ($1, $2, $3) ON CONFLICT (account_id, chore) DO UPDATE SET \
     done_until = excluded.done_until");

/// An attempt and the word for its channel's messages.
pub(super) struct Found {
    pub(super) attempt: Attempt,
    pub(super) kind: String,
}

impl FromRow for Found {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let attempt = Attempt {
            id: row.take(0)?,
            object_id: row.take(1)?,
            channel: row.take(2)?,
            state: row.take(3)?,
            credits: row.take(4)?,
            lease_until: row.take(5)?,
            account: row.take(6)?,
            give_up_at: row.take(7)?,
            carrier: row.take(9)?,
            priority: Priority::of(row.take(10)?).ok_or(Error::Corrupt { column: 10 })?,
            tries: row.take(11)?,
            resends: row.take(12)?,
            queued_at: row.take(13)?,
            next_at: row.take(14)?,
            refused_by: names(row.take::<Option<String>>(15)?.as_deref()),
        };
        Ok(Self { attempt, kind: row.take(8)? })
    }
}

/// The names of carriers in a stored list.
fn names(stored: Option<&str>) -> Vec<String> {
    stored.into_iter().flat_map(|list| list.split(',')).map(str::to_owned).collect()
}

/// As it is stored.
fn list(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(","))
}

/// One attempt.
///
/// # Errors
/// When the database cannot be read.
pub async fn attempt_of(
    app: &App,
    object_id: &str,
) -> Result<Option<(AccountId, AttemptId)>, Error> {
    app.db.row(OF_OBJECT, args![object_id]).await
}

/// Reads an attempt.
///
/// # Errors
/// When the database cannot be read.
pub async fn attempt(
    app: &App,
    account: &AccountId,
    id: &AttemptId,
) -> Result<Option<Attempt>, Error> {
    Ok(find(app, account, id).await?.map(|found| found.attempt))
}

pub(super) async fn find(
    app: &App,
    account: &AccountId,
    id: &AttemptId,
) -> Result<Option<Found>, Error> {
    app.db.row(ATTEMPT, args![account, id]).await
}

/// Whether another leg of the message brought it or still may.
///
/// # Errors
/// When the database cannot be read.
pub async fn has_other_leg(app: &App, attempt: &Attempt) -> Result<bool, Error> {
    let args = args![&attempt.account, &attempt.object_id, &attempt.id];
    Ok(app.db.row::<(String,)>(OTHER_LEG, args).await?.is_some())
}

pub(super) fn insert<O: Owner>(app: &App, set: &mut WriteSet, attempt: &Attempt) {
    let args = args![
        &attempt.account,
        &attempt.id,
        O::KIND,
        &attempt.object_id,
        attempt.channel.as_str(),
        &attempt.carrier,
        attempt.priority.number(),
        attempt.state.as_str(),
        attempt.credits,
        attempt.tries,
        app.node,
        attempt.lease_until,
        app.now(),
        attempt.queued_at,
        attempt.next_at,
        attempt.give_up_at,
        app.env.as_str()
    ];
    set.guard(INSERT, args, STALE);
}

/// Moves an attempt from the state it was read in, out of any queue; refused if another was faster.
/// The counts tell a submission from one that followed an unknown fate: both are `sending`.
pub(super) fn shift(
    set: &mut WriteSet,
    attempt: &Attempt,
    to: State,
    error: Option<&str>,
    next_at: Option<Millis>,
) {
    let Attempt { account, id, state, tries, resends, .. } = attempt;
    let args = args![to.as_str(), error, next_at, account, id, state.as_str(), *tries, *resends];
    set.guard(SHIFT, args, STALE);
}

/// Keeps what was said at a submission, in the place of what was said before.
pub(super) fn keep_transcript(set: &mut WriteSet, attempt: &Attempt, text: Option<&str>) {
    if let Some(text) = text {
        set.push(KEEP_TRANSCRIPT, args![text, &attempt.account, &attempt.id]);
    }
}

/// Where an attempt is put that goes out again.
#[derive(Clone, Copy)]
pub(super) struct Requeue<'a> {
    /// Why.
    pub(super) error: Option<&'a str>,
    /// Since when a lane may take it; `None` = not before due work says so.
    pub(super) queued_at: Option<Millis>,
    /// When due work looks at it.
    pub(super) next_at: Millis,
    pub(super) tries: i64,
    pub(super) resends: i64,
    pub(super) carrier: &'a str,
    /// Those that did not take it.
    pub(super) refused_by: &'a [String],
}

impl<'a> Requeue<'a> {
    /// As an attempt is, for the time of its next try.
    pub(super) fn later(attempt: &'a Attempt, error: Option<&'a str>, next_at: Millis) -> Self {
        let Attempt { tries, resends, carrier, refused_by, .. } = attempt;
        let (tries, resends) = (*tries, *resends);
        Self { error, queued_at: None, next_at, tries, resends, carrier, refused_by }
    }
}

/// Lets an attempt go out again; refused if another was faster.
pub(super) fn put_back(set: &mut WriteSet, attempt: &Attempt, place: Requeue<'_>) {
    let Requeue { error, queued_at, next_at, tries, resends, carrier, refused_by } = place;
    let args = args![
        error,
        queued_at,
        next_at,
        tries,
        resends,
        carrier,
        list(refused_by),
        &attempt.account,
        &attempt.id,
        attempt.state.as_str(),
        attempt.tries,
        attempt.resends
    ];
    set.guard(PUT_BACK, args, STALE);
}

/// Writes that another carrier gets an attempt that is on its way, before it does; refused if
/// another was faster.
pub(super) fn reroute(set: &mut WriteSet, next: &Attempt) {
    let Attempt { carrier, refused_by, lease_until, account, id, state, .. } = next;
    let (refused_by, state) = (list(refused_by), state.as_str());
    let (tries, resends) = (next.tries, next.resends);
    let args = args![carrier, refused_by, *lease_until, account, id, state, tries, resends];
    set.guard(REROUTE, args, STALE);
}

/// Has an attempt sent by this node that another one took for lost.
pub(super) fn take_back(set: &mut WriteSet, app: &App, attempt: &Attempt, lease_until: Millis) {
    let Attempt { account, id, tries, resends, .. } = attempt;
    set.guard(TAKE_BACK, args![app.node, lease_until, account, id, *tries, *resends], STALE);
}

/// The next account after one that has something in a lane's queue.
pub(super) async fn next_in_line(
    app: &App,
    carrier: &str,
    priority: Priority,
    after: &str,
) -> Result<Option<AccountId>, Error> {
    let args = args![carrier, priority.number(), after, app.env.as_str()];
    Ok(app.db.row::<(AccountId,)>(NEXT_IN_LINE, args).await?.map(|(account,)| account))
}

/// The carrier after one that messages wait for.
pub(super) async fn next_carrier(app: &App, after: &str) -> Result<Option<String>, Error> {
    Ok(app.db.row::<(String,)>(NEXT_CARRIER, args![after]).await?.map(|(carrier,)| carrier))
}

/// Whose messages wait for which carrier.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) carrier: &'a str,
    pub(super) priority: Priority,
    pub(super) account: &'a AccountId,
}

/// At most `limit` that wait there since between two times, the oldest first.
pub(super) async fn waiting(
    app: &App,
    line: Line<'_>,
    after: Millis,
    until: Millis,
    limit: i64,
) -> Result<Vec<Found>, Error> {
    let Line { carrier, priority, account } = line;
    let args = args![carrier, priority.number(), account, after, until, limit];
    app.db.rows(WAITING, args).await
}

/// Puts what waits for a carrier into the queue of another.
pub(super) fn move_to(set: &mut WriteSet, attempt: &Attempt, carrier: &str) {
    let Attempt { account, id, carrier: before, queued_at, .. } = attempt;
    set.push(MOVE, args![carrier, account, id, before, *queued_at]);
}

/// Takes at most `limit` of an account out of a queue, the oldest first.
pub(super) async fn claim(
    app: &App,
    carrier: &str,
    priority: Priority,
    account: &AccountId,
    limit: i64,
) -> Result<Vec<Found>, CommitError> {
    let mut set = WriteSet::of(account.as_str());
    let lease_until = app.now() + QUEUED_LEASE_MS;
    let env = app.env.as_str();
    let args = args![carrier, priority.number(), account, limit, app.node, lease_until, env];
    set.returning_rows(CLAIM, args);
    rows(app.db.commit(set).await?)
}

fn rows(done: Done) -> Result<Vec<Found>, CommitError> {
    let rows = done.rows.into_iter().flatten().map(Found::from_row);
    rows.collect::<Result<_, _>>().map_err(CommitError::from)
}

/// Since when the message has waited that has waited longest for a carrier, at any node.
///
/// # Errors
/// When the database cannot be read.
pub async fn oldest_queued(app: &App, carrier: &str) -> Result<Option<Millis>, Error> {
    let found = app.db.row::<(Millis,)>(OLDEST_QUEUED, args![carrier, app.env.as_str()]).await?;
    Ok(found.map(|(queued_at,)| queued_at))
}

/// What this node has under way whose lease ends before `at`.
pub(super) async fn ending_soon(
    app: &App,
    at: Millis,
    limit: i64,
) -> Result<Vec<(AccountId, AttemptId)>, Error> {
    app.db.rows(ENDING_SOON, args![app.env.as_str(), at, app.node, limit]).await
}

/// Prolongs the leases of these.
pub(super) async fn prolong(
    app: &App,
    attempts: &[(AccountId, AttemptId)],
) -> Result<(), CommitError> {
    let mut set = WriteSet::of(DUE_SHARD);
    let until = app.now() + QUEUED_LEASE_MS;
    for (account, attempt) in attempts {
        set.push(PROLONG, args![until, account, attempt, app.node]);
    }
    app.db.commit(set).await.map(drop)
}
