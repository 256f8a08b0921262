//! The SQL of bind slots.

use store::Sql;

pub(super) const SLOTS: Sql =
    Sql("SELECT slot, node, lease_until FROM bind_slots WHERE carrier = $1 AND slot < $2");
/// Takes a slot that is free, or renews one's own. A lease longer than any lease is of a clock that
/// was wrong, and over.
pub(super) const CLAIM: Sql = Sql("INSERT INTO bind_slots (carrier, slot, node, lease_until) \
     VALUES ($1, $2, $3, $4) ON CONFLICT (carrier, slot) DO UPDATE SET node = excluded.node, \
     lease_until = excluded.lease_until \
     WHERE bind_slots.node = excluded.node OR bind_slots.lease_until < $5 \
     OR bind_slots.lease_until > $6");
pub(super) const RELEASE: Sql = Sql("DELETE FROM bind_slots WHERE carrier = $1 AND node = $2");
