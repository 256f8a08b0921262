//! The SQL of bind slots.

use clock::Millis;
use store::{Error, FromRow, Row, Sql};

pub(super) const SLOTS: Sql =
    Sql("SELECT slot, node, lease_until, failing FROM bind_slots WHERE carrier = $1 AND slot < $2");
/// Takes a slot that is free, or renews one's own. A lease longer than any lease is of a clock that
/// was wrong, and over.
pub(super) const CLAIM: Sql = Sql("INSERT INTO bind_slots (carrier, slot, node, lease_until, \
     failing) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (carrier, slot) DO UPDATE SET \
     node = excluded.node, lease_until = excluded.lease_until, failing = excluded.failing \
     WHERE bind_slots.node = excluded.node OR bind_slots.lease_until < $6 \
     OR bind_slots.lease_until > $7");
/// Gives back all that a node holds of a carrier.
pub(super) const RELEASE: Sql = Sql("DELETE FROM bind_slots WHERE carrier = $1 AND node = $2");
/// Holds what a node has of a carrier for longer.
pub(super) const PROLONG: Sql =
    Sql("UPDATE bind_slots SET lease_until = $1 WHERE carrier = $2 AND node = $3");

/// A slot that some node took.
pub(super) struct Slot {
    pub(super) number: i64,
    pub(super) node: i64,
    pub(super) lease_until: Millis,
    pub(super) is_failing: bool,
}

impl FromRow for Slot {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let lease_until: Millis = row.take(2)?;
        Ok(Self {
            number: row.take(0)?,
            node: row.take(1)?,
            lease_until,
            is_failing: row.take::<Millis>(3)? == lease_until,
        })
    }
}
