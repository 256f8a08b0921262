//! The SQL of attempts.

use clock::Millis;
use store::{CommitError, Error, FromRow, Row, Sql, WriteSet, args};

use super::{Attempt, Owner, STALE, State};
use crate::app::App;
use crate::carriers::Channel;
use crate::kit::id::{AccountId, AttemptId};

const ATTEMPT: Sql = Sql("SELECT attempt_id, object_id, channel, state, credits, lease_until, \
     account_id, give_up_at, kind FROM attempts WHERE account_id = $1 AND attempt_id = $2");
/// Another leg of the message that brought it or still may.
const OTHER_LEG: Sql = Sql("SELECT attempt_id FROM attempts WHERE account_id = $1 \
     AND object_id = $2 AND attempt_id <> $3 \
     AND state IN ('sending', 'unknown', 'accepted', 'delivered') LIMIT 1");
const INSERT: Sql = Sql("INSERT INTO attempts (account_id, attempt_id, kind, object_id, channel, \
     state, credits, lease_until, started_at, give_up_at) \
     VALUES ($1, $2, $3, $4, $5, 'sending', $6, $7, $8, $9)");
const SHIFT: Sql = Sql("UPDATE attempts SET state = $1, error = $2 \
     WHERE account_id = $3 AND attempt_id = $4 AND state = $5");
const SUBMITTED: Sql =
    Sql("INSERT INTO submissions (carrier, provider_id, account_id, attempt_id, \
     part, fate) VALUES ($1, $2, $3, $4, 0, NULL) ON CONFLICT DO NOTHING");
const SUBMISSION: Sql = Sql("SELECT account_id, attempt_id FROM submissions \
     WHERE carrier = $1 AND provider_id = $2");
const PARK: Sql =
    Sql("INSERT INTO early_receipts (carrier, provider_id, digest, env, fate, error, \
     received_at) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING");
/// Receipts that lead somewhere by now, in the order of the primary key.
const PARKED: Sql = Sql("SELECT carrier, provider_id, digest, fate, error FROM early_receipts e \
     WHERE env = $1 AND EXISTS (SELECT 1 FROM submissions s WHERE s.carrier = e.carrier \
     AND s.provider_id = e.provider_id) AND (carrier, provider_id, digest) > ($2, $3, $4) \
     ORDER BY carrier, provider_id, digest LIMIT $5");
const UNPARK: Sql = Sql("DELETE FROM early_receipts \
     WHERE carrier = $1 AND provider_id = $2 AND digest = $3");

/// What belongs to no account, or not yet.
const SHARD: &str = "receipts";

pub(super) const OLDEST: Sql = Sql("SELECT attempt_id FROM attempts \
     WHERE account_id = $1 AND attempt_id < $2 ORDER BY attempt_id LIMIT 1");
/// What still holds credits stays: its fate is open.
pub(super) const DELETE: Sql = Sql("DELETE FROM attempts WHERE account_id = $1 \
     AND attempt_id IN (SELECT attempt_id FROM attempts WHERE account_id = $1 \
     AND attempt_id < $2 AND state NOT IN ('sending', 'unknown') ORDER BY attempt_id LIMIT $3 \
     /*SKIP LOCKED*/) RETURNING started_at");
pub(super) const DELETE_PARKED: Sql = Sql("DELETE FROM early_receipts \
     WHERE (carrier, provider_id, digest) IN (SELECT carrier, provider_id, digest \
     FROM early_receipts WHERE received_at < $1 ORDER BY received_at LIMIT $2 /*SKIP LOCKED*/) \
     RETURNING received_at");
pub(super) const UNNAME: Sql = Sql("DELETE FROM submissions WHERE account_id = $1 \
     AND attempt_id IN (SELECT attempt_id FROM attempts WHERE account_id = $1 AND object_id = $2)");
const ALL_PARKED: Sql =
    Sql("SELECT carrier, provider_id, digest, fate, error FROM early_receipts \
     WHERE (carrier, provider_id, digest) > ($1, $2, $3) \
     ORDER BY carrier, provider_id, digest LIMIT $4");

struct Stored {
    attempt: Attempt,
    kind: String,
}

impl FromRow for Stored {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let channel: String = row.take(2)?;
        let state: String = row.take(3)?;
        let attempt = Attempt {
            id: row.take(0)?,
            object_id: row.take(1)?,
            channel: Channel::of(&channel).ok_or(Error::Corrupt { column: 2 })?,
            state: State::of(&state).ok_or(Error::Corrupt { column: 3 })?,
            credits: row.take(4)?,
            lease_until: row.take(5)?,
            account: row.take(6)?,
            give_up_at: row.take(7)?,
        };
        Ok(Self { attempt, kind: row.take(8)? })
    }
}

/// One attempt.
///
/// # Errors
/// When the database cannot be read.
pub async fn attempt(
    app: &App,
    account: &AccountId,
    id: &AttemptId,
) -> Result<Option<Attempt>, Error> {
    Ok(attempt_and_kind(app, account, id).await?.map(|(_, attempt)| attempt))
}

pub(super) async fn attempt_and_kind(
    app: &App,
    account: &AccountId,
    id: &AttemptId,
) -> Result<Option<(String, Attempt)>, Error> {
    let found: Option<Stored> = app.db.row(ATTEMPT, args![account, id]).await?;
    Ok(found.map(|Stored { attempt, kind }| (kind, attempt)))
}

/// Whether another leg of the message brought it or still may.
pub(super) async fn has_other_leg(app: &App, a: &Attempt) -> Result<bool, Error> {
    let args = args![&a.account, &a.object_id, &a.id];
    Ok(app.db.row::<(String,)>(OTHER_LEG, args).await?.is_some())
}

pub(super) fn insert<O: Owner>(set: &mut WriteSet, a: &Attempt, now: Millis) {
    let args = args![
        &a.account,
        &a.id,
        O::KIND,
        &a.object_id,
        a.channel.word(),
        a.credits,
        a.lease_until,
        now,
        a.give_up_at
    ];
    set.push(INSERT, args);
}

/// Moves an attempt from the state it was read in; refused if another was faster.
pub(super) fn shift(set: &mut WriteSet, a: &Attempt, to: State, error: Option<&str>) {
    let args = args![to.word(), error, &a.account, &a.id, a.state.word()];
    set.guard(SHIFT, args, STALE);
}

/// Keeps the carrier's id of an attempt, for receipts that name nothing else.
pub(super) fn submitted(set: &mut WriteSet, carrier: &str, provider_id: &str, a: &Attempt) {
    set.push(SUBMITTED, args![carrier, provider_id, &a.account, &a.id]);
}

/// The attempt that a carrier's id leads to.
pub(super) async fn submission(
    app: &App,
    carrier: &str,
    provider_id: &str,
) -> Result<Option<(AccountId, AttemptId)>, Error> {
    app.db.row(SUBMISSION, args![carrier, provider_id]).await
}

/// A receipt that led nowhere when it came.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) carrier: String,
    pub(super) provider_id: String,
    pub(super) digest: Vec<u8>,
    pub(super) fate: String,
    pub(super) error: Option<String>,
}

impl FromRow for Parked {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            carrier: row.take(0)?,
            provider_id: row.take(1)?,
            digest: row.take(2)?,
            fate: row.take(3)?,
            error: row.take(4)?,
        })
    }
}

pub(super) async fn park(app: &App, parked: &Parked) -> Result<(), CommitError> {
    let Parked { carrier, provider_id, digest, fate, error } = parked.clone();
    let (env, now) = (app.env.word(), app.now());
    let mut set = WriteSet::of(SHARD);
    set.push(PARK, args![carrier, provider_id, digest, env, fate, error, now]);
    app.db.commit(set).await.map(drop)
}

impl Parked {
    /// Its place in the order of all.
    fn place(last: Option<&Self>) -> (String, String, Vec<u8>) {
        last.map_or_else(Default::default, |last| {
            (last.carrier.clone(), last.provider_id.clone(), last.digest.clone())
        })
    }
}

/// The next of those that lead somewhere by now.
pub(super) async fn parked(
    app: &App,
    last: Option<&Parked>,
    limit: i64,
) -> Result<Vec<Parked>, Error> {
    let (carrier, provider_id, digest) = Parked::place(last);
    app.db.rows(PARKED, args![app.env.word(), carrier, provider_id, digest, limit]).await
}

/// The next of all.
pub(super) async fn all_parked(
    app: &App,
    last: Option<&Parked>,
    limit: i64,
) -> Result<Vec<Parked>, Error> {
    let (carrier, provider_id, digest) = Parked::place(last);
    app.db.rows(ALL_PARKED, args![carrier, provider_id, digest, limit]).await
}

pub(super) async fn unpark(app: &App, parked: &Parked) -> Result<(), CommitError> {
    let mut set = WriteSet::of(SHARD);
    let (carrier, provider_id) = (&parked.carrier, &parked.provider_id);
    set.push(UNPARK, args![carrier, provider_id, parked.digest.clone()]);
    app.db.commit(set).await.map(drop)
}
