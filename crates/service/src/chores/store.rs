//! SQL of the chores: one row for each, with a lease in it.

use clock::Millis;
use store::{Error, FromRow, Row, Sql};

/// All chores that were ever done. There are a handful.
pub(super) const CHORES: Sql = Sql("SELECT chore, lease_until, next_at, done_at, result \
     FROM chores WHERE chore > $1 ORDER BY chore");

/// Takes a chore that is due and that nobody has. What lies too far ahead was written by a clock
/// that was wrong.
pub(super) const CLAIM: Sql = Sql("INSERT INTO chores (chore, holder, lease_until, next_at, \
     result) VALUES ($1, $2, $3, 0, '') ON CONFLICT (chore) DO UPDATE SET \
     holder = excluded.holder, lease_until = excluded.lease_until \
     WHERE (chores.next_at <= $4 OR chores.next_at > $5) \
     AND (chores.lease_until <= $4 OR chores.lease_until > $6)");

/// Keeps a chore that is going on.
pub(super) const EXTEND: Sql =
    Sql("UPDATE chores SET lease_until = $1 WHERE chore = $2 AND holder = $3");

/// Gives a chore back that is not finished.
pub(super) const RELEASE: Sql =
    Sql("UPDATE chores SET lease_until = 0, next_at = $1 WHERE chore = $2 AND holder = $3");

/// Ends a chore until it is due again.
pub(super) const FINISH: Sql = Sql("UPDATE chores SET lease_until = 0, next_at = $1, \
     done_at = $2, result = $3 WHERE chore = $4 AND holder = $5");

/// The instant that was agreed on last.
pub(super) const WITNESS: Sql =
    Sql("SELECT witnessed_at, confirmations FROM clock_witness WHERE witness = $1");

/// A later one, unless an operator has spoken meanwhile.
pub(super) const WITNESSED: Sql = Sql("INSERT INTO clock_witness (witness, witnessed_at, \
     confirmations) VALUES ($1, $2, $3) ON CONFLICT (witness) DO UPDATE SET \
     witnessed_at = excluded.witnessed_at WHERE clock_witness.witnessed_at < excluded.witnessed_at \
     AND clock_witness.confirmations = excluded.confirmations");

/// What an operator says.
pub(super) const CONFIRM: Sql = Sql("INSERT INTO clock_witness (witness, witnessed_at, \
     confirmations) VALUES ($1, $2, 1) ON CONFLICT (witness) DO UPDATE SET \
     witnessed_at = excluded.witnessed_at, confirmations = clock_witness.confirmations + 1");

/// The newest line of the audit log, for a database that was made before there was a witness.
pub(super) const NEWEST_ROW: Sql =
    Sql("SELECT at FROM audit_log WHERE entry_id > $1 ORDER BY entry_id DESC LIMIT 1");

/// One row.
pub(super) struct ChoreRow {
    pub(super) name: String,
    pub(super) lease_until: Millis,
    pub(super) next_at: Millis,
    pub(super) done_at: Option<Millis>,
    pub(super) result: String,
}

impl FromRow for ChoreRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            name: row.take(0)?,
            lease_until: row.take(1)?,
            next_at: row.take(2)?,
            done_at: row.take(3)?,
            result: row.take(4)?,
        })
    }
}
