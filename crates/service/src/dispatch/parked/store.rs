//! The SQL of receipts that led nowhere when they came.

use clock::Millis;
use store::{CommitError, Error, FromRow, Row, Sql, WriteSet, args};

use crate::app::App;

const PARK: Sql =
    Sql("INSERT INTO early_receipts (carrier, provider_id, digest, env, fate, error, \
     recipient_mac, guessed, siblings, received_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING");
/// Receipts that lead somewhere by now, in the order of the primary key.
const PARKED: Sql = Sql("SELECT carrier, provider_id, digest, fate, error, recipient_mac, \
     guessed, siblings, received_at FROM early_receipts e \
     WHERE env = $1 AND EXISTS (SELECT 1 FROM submissions s WHERE s.carrier = e.carrier \
     AND s.provider_id = e.provider_id) AND (carrier, provider_id, digest) > ($2, $3, $4) \
     ORDER BY carrier, provider_id, digest LIMIT $5");
/// Those about one message.
const PARKED_OF: Sql = Sql("SELECT carrier, provider_id, digest, fate, error, recipient_mac, \
     guessed, siblings, received_at FROM early_receipts WHERE carrier = $1 AND provider_id = $2 \
     ORDER BY digest LIMIT 8");
const UNPARK: Sql = Sql("DELETE FROM early_receipts \
     WHERE carrier = $1 AND provider_id = $2 AND digest = $3");
const ALL_PARKED: Sql =
    Sql("SELECT carrier, provider_id, digest, fate, error, recipient_mac, guessed, siblings, \
     received_at FROM early_receipts WHERE (carrier, provider_id, digest) > ($1, $2, $3) \
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
    /// Of the number that it came from, where its id may be written in another form.
    pub(in crate::dispatch) recipient_mac: Option<Vec<u8>>,
    /// Whether this id is one that it may mean, and not its own.
    pub(in crate::dispatch) is_guess: bool,
    /// The other ids that it is parked under.
    pub(in crate::dispatch) siblings: Vec<String>,
    pub(in crate::dispatch) received_at: Millis,
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
            is_guess: row.take::<i64>(6)? == 1,
            siblings: row.take::<String>(7)?.split_whitespace().map(str::to_owned).collect(),
            received_at: row.take(8)?,
        })
    }
}

pub(in crate::dispatch) async fn park(app: &App, all: &[Parked]) -> Result<(), CommitError> {
    let env = app.env.as_str();
    let mut set = WriteSet::of(SHARD);
    for parked in all {
        let Parked { carrier, provider_id, digest, fate, error, .. } = parked.clone();
        let (mac, guessed) = (parked.recipient_mac.clone(), i64::from(parked.is_guess));
        let (siblings, at) = (parked.siblings.join(" "), parked.received_at);
        let args =
            args![carrier, provider_id, digest, env, fate, error, mac, guessed, siblings, at];
        set.push(PARK, args);
    }
    app.db.commit(set).await.map(drop)
}

impl Parked {
    /// Whether both are the same receipt, under another id.
    pub(in crate::dispatch) fn is_one_with(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.carrier.clone(), it.digest.clone());
        of(self) == of(other) && self.siblings.contains(&other.provider_id)
    }

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

/// Deletes a receipt, under all the ids that it is parked under.
pub(in crate::dispatch) async fn unpark(app: &App, parked: &Parked) -> Result<(), CommitError> {
    let mut set = WriteSet::of(SHARD);
    for provider_id in std::iter::once(&parked.provider_id).chain(&parked.siblings) {
        set.push(UNPARK, args![&parked.carrier, provider_id, parked.digest.clone()]);
    }
    app.db.commit(set).await.map(drop)
}
