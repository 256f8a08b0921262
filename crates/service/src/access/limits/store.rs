//! SQL of the limits.

use store::Sql;

/// Locks the row of an account and a thing until the set is over.
pub(super) const NEXT: Sql = Sql("INSERT INTO limits (account_id, limited, turn) \
     VALUES ($1, $2, 1) ON CONFLICT (account_id, limited) DO UPDATE SET turn = limits.turn + 1");
