//! The SQL of callbacks, and of whom an answer is for.

use clock::Millis;
use store::{CommitError, Error, FromRow, Reject, Sql, WriteSet, args};

use crate::app::App;
use crate::kit::id::{AccountId, CallbackId, ConsentId};

const INSERT: Sql = Sql("INSERT INTO chatapp_callbacks (callback_id, waba_id, body_sealed, \
     received_at, next_at) VALUES ($1, $2, $3, $4, $4)");
/// Finds the one that is beyond the last that may wait of a signer.
const BEYOND: Sql = Sql("SELECT next_at FROM chatapp_callbacks WHERE waba_id = $1 \
     ORDER BY next_at LIMIT 1 OFFSET $2");
const ANY_DUE_OF: Sql = Sql("SELECT waba_id FROM chatapp_callbacks WHERE waba_id = $1 \
     AND next_at <= $2 LIMIT 1");
/// The signer after one, of those with a callback that is due.
const NEXT_SIGNER: Sql = Sql("SELECT waba_id FROM chatapp_callbacks WHERE waba_id > $1 \
     AND next_at <= $2 ORDER BY waba_id LIMIT 1");
/// Takes callbacks of a signer that are due: until then no other node finds them due.
const CLAIM_DUE: Sql = Sql("UPDATE chatapp_callbacks SET next_at = $1 WHERE callback_id IN \
     (SELECT callback_id FROM chatapp_callbacks WHERE waba_id = $2 AND next_at <= $3 \
     ORDER BY next_at LIMIT $4 /*SKIP LOCKED*/) AND next_at <= $3 \
     RETURNING callback_id, waba_id, body_sealed, received_at");
const POSTPONE: Sql = Sql("UPDATE chatapp_callbacks SET next_at = $1 WHERE callback_id = $2");
const DELETE: Sql = Sql("DELETE FROM chatapp_callbacks WHERE callback_id = $1");
/// Whose session this is, in an environment.
const OF_SESSION: Sql = Sql("SELECT s.account_id FROM chatapp_sessions s WHERE s.session_id = $1 \
     AND EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = s.account_id AND a.env = $2)");
/// Whose message the upstream knows by this id.
const OF_MESSAGE: Sql = Sql("SELECT m.account_id FROM submissions m WHERE m.carrier = $1 \
     AND m.provider_id = $2 AND EXISTS (SELECT 1 FROM accounts a \
     WHERE a.account_id = m.account_id AND a.env = $3)");
/// Who has a session with this person that is active: one at most of each account.
const WITH_SESSION: Sql = Sql("SELECT s.account_id, s.consent_at FROM chatapp_sessions s \
     WHERE s.recipient = $1 AND s.status = 'active' AND s.expires_at > $2 \
     AND EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = s.account_id AND a.env = $3) \
     LIMIT 200");

/// As many callbacks of a signer wait as may.
pub(super) const FULL: Reject = Reject("callbacks_full");

/// Callbacks belong to no account.
const SHARD: &str = "callbacks";

/// A callback as stored.
pub(super) struct Stored {
    pub(super) id: CallbackId,
    /// Whom it may speak for; empty = everybody.
    pub(super) waba_id: String,
    pub(super) body_sealed: Vec<u8>,
    pub(super) received_at: Millis,
}

impl FromRow for Stored {
    fn from_row(mut row: store::Row) -> Result<Self, Error> {
        let (id, waba_id) = (row.take(0)?, row.take(1)?);
        Ok(Self { id, waba_id, body_sealed: row.take(2)?, received_at: row.take(3)? })
    }
}

/// Keeps callbacks, all of them or none: none ([`FULL`]) where `most` of a linked business account
/// wait that signed one.
pub(super) async fn keep(
    app: &App,
    callbacks: Vec<Stored>,
    most: i64,
    bell: store::Bell,
) -> Result<(), CommitError> {
    let mut set = WriteSet::of(SHARD);
    for Stored { waba_id, .. } in callbacks.iter().filter(|stored| !stored.waba_id.is_empty()) {
        set.absent(BEYOND, args![waba_id, most - 1], FULL);
    }
    for Stored { id, waba_id, body_sealed, received_at } in callbacks {
        set.push(INSERT, args![&id, waba_id, body_sealed, received_at]);
    }
    set.ring(bell);
    app.db.commit(set).await.map(drop)
}

/// Those who signed callbacks that are due, each once: the deployment first.
pub(super) async fn signers_due(app: &App) -> Result<Vec<String>, Error> {
    let now = app.now();
    let own = app.db.row::<(String,)>(ANY_DUE_OF, args!["", now]).await?;
    let mut all: Vec<String> = own.into_iter().map(|(signer,)| signer).collect();
    let mut after = String::new();
    while let Some((signer,)) = app.db.row(NEXT_SIGNER, args![&after, now]).await? {
        after.clone_from(&signer);
        all.push(signer);
    }
    Ok(all)
}

/// Claims at most `limit` callbacks of a signer until `until`, the longest due first.
pub(super) async fn claim_due(
    app: &App,
    signer: &str,
    limit: i64,
    until: Millis,
) -> Result<Vec<Stored>, CommitError> {
    let mut set = WriteSet::of(SHARD);
    set.returning_rows(CLAIM_DUE, args![until, signer, app.now(), limit]);
    let rows = app.db.commit(set).await?.rows.into_iter().flatten();
    rows.map(FromRow::from_row).collect::<Result<_, _>>().map_err(CommitError::from)
}

pub(super) async fn postpone(app: &App, id: &CallbackId, until: Millis) -> Result<(), CommitError> {
    let mut set = WriteSet::of(SHARD);
    set.push(POSTPONE, args![until, id]);
    app.db.commit(set).await.map(drop)
}

pub(super) async fn forget(app: &App, id: &CallbackId) -> Result<(), CommitError> {
    let mut set = WriteSet::of(SHARD);
    set.push(DELETE, args![id]);
    app.db.commit(set).await.map(drop)
}

pub(super) async fn of_session(app: &App, id: &ConsentId) -> Result<Option<AccountId>, Error> {
    let found = app.db.row::<(AccountId,)>(OF_SESSION, args![id, app.env.as_str()]).await?;
    Ok(found.map(|(account,)| account))
}

pub(super) async fn of_message(
    app: &App,
    carrier: &str,
    provider_id: &str,
) -> Result<Option<AccountId>, Error> {
    let args = args![carrier, provider_id, app.env.as_str()];
    Ok(app.db.row::<(AccountId,)>(OF_MESSAGE, args).await?.map(|(account,)| account))
}

/// Which of the accounts that may be meant has the newest session with this person.
pub(super) async fn with_session(
    app: &App,
    person: &str,
    may: impl Fn(&AccountId) -> bool,
) -> Result<Option<AccountId>, Error> {
    let args = args![person, app.now(), app.env.as_str()];
    let all: Vec<(AccountId, Option<Millis>)> = app.db.rows(WITH_SESSION, args).await?;
    let meant = all.into_iter().filter(|(account, _)| may(account));
    Ok(meant.max_by_key(|(_, consent_at)| *consent_at).map(|(account, _)| account))
}
