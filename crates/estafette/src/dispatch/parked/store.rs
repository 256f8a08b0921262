//! The SQL of receipts that led nowhere when they came.

use store::{CommitError, Error, FromRow, Row, Sql, WriteSet, args};

use crate::app::App;

const PARK: Sql =
    Sql("INSERT INTO early_receipts (carrier, provider_id, digest, env, fate, error, \
     recipient_mac, received_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING");
/// Receipts that lead somewhere by now, in the order of the primary key.
const PARKED: Sql = Sql("SELECT carrier, provider_id, digest, fate, error, recipient_mac \
     FROM early_receipts e \
     WHERE env = $1 AND EXISTS (SELECT 1 FROM submissions s WHERE s.carrier = e.carrier \
     AND s.provider_id = e.provider_id) AND (carrier, provider_id, digest) > ($2, $3, $4) \
     ORDER BY carrier, provider_id, digest LIMIT $5");
/// Those about one message.
const PARKED_OF: Sql = Sql("SELECT carrier, provider_id, digest, fate, error, recipient_mac \
     FROM early_receipts WHERE carrier = $1 AND provider_id = $2 ORDER BY digest LIMIT 8");
const UNPARK: Sql = Sql("DELETE FROM early_receipts \
     WHERE carrier = $1 AND provider_id = $2 AND digest = $3");
const ALL_PARKED: Sql =
    Sql("SELECT carrier, provider_id, digest, fate, error, recipient_mac FROM early_receipts \
     WHERE (carrier, provider_id, digest) > ($1, $2, $3) \
     ORDER BY carrier, provider_id, digest LIMIT $4");
pub(in crate::dispatch) const DELETE: Sql = Sql("DELETE FROM early_receipts \
     WHERE (carrier, provider_id, digest) IN (SELECT carrier, provider_id, digest \
     FROM early_receipts WHERE received_at < $1 ORDER BY received_at LIMIT $2 /*SKIP LOCKED*/) \
     RETURNING received_at");

/// What belongs to no account, or not yet.
const SHARD: &str = "receipts";

/// A receipt that led nowhere when it came.
#[derive(Clone, Debug)]
pub(in crate::dispatch) struct Parked {
    pub(in crate::dispatch) carrier: String,
    pub(in crate::dispatch) provider_id: String,
    pub(in crate::dispatch) digest: Vec<u8>,
    pub(in crate::dispatch) fate: String,
    pub(in crate::dispatch) error: Option<String>,
    /// Of the number that it came from, where its id is a guess.
    pub(in crate::dispatch) recipient_mac: Option<Vec<u8>>,
}

impl FromRow for Parked {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            carrier: row.take(0)?,
            provider_id: row.take(1)?,
            digest: row.take(2)?,
            fate: row.take(3)?,
            error: row.take(4)?,
            recipient_mac: row.take(5)?,
        })
    }
}

pub(in crate::dispatch) async fn park(app: &App, all: &[Parked]) -> Result<(), CommitError> {
    let (env, now) = (app.env.as_str(), app.now());
    let mut set = WriteSet::of(SHARD);
    for parked in all {
        let Parked { carrier, provider_id, digest, fate, error, recipient_mac: mac } =
            parked.clone();
        set.push(PARK, args![carrier, provider_id, digest, env, fate, error, mac, now]);
    }
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
pub(in crate::dispatch) async fn leading(
    app: &App,
    last: Option<&Parked>,
    limit: i64,
) -> Result<Vec<Parked>, Error> {
    let (carrier, provider_id, digest) = Parked::place(last);
    app.db.rows(PARKED, args![app.env.as_str(), carrier, provider_id, digest, limit]).await
}

/// The next of all.
pub(in crate::dispatch) async fn all(
    app: &App,
    last: Option<&Parked>,
    limit: i64,
) -> Result<Vec<Parked>, Error> {
    let (carrier, provider_id, digest) = Parked::place(last);
    app.db.rows(ALL_PARKED, args![carrier, provider_id, digest, limit]).await
}

/// The parked receipts about one message of a carrier.
pub(in crate::dispatch) async fn of(
    app: &App,
    carrier: &str,
    provider_id: &str,
) -> Result<Vec<Parked>, Error> {
    app.db.rows(PARKED_OF, args![carrier, provider_id]).await
}

pub(in crate::dispatch) async fn unpark(app: &App, parked: &Parked) -> Result<(), CommitError> {
    let mut set = WriteSet::of(SHARD);
    let (carrier, provider_id) = (&parked.carrier, &parked.provider_id);
    set.push(UNPARK, args![carrier, provider_id, parked.digest.clone()]);
    app.db.commit(set).await.map(drop)
}
