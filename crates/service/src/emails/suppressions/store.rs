//! The SQL of suppressions.

use store::{Error, FromRow, Row, Sql};

use super::Suppression;

/// One that is there stays as it is.
pub(super) const INSERT: Sql = Sql("INSERT INTO email_suppressions (account_id, address_mac, \
     suppression_id, address, reason, created_at) VALUES ($1, $2, $3, $4, $5, $6) \
     ON CONFLICT DO NOTHING");
/// The account's own word shows the address again of one that was forgotten.
pub(super) const NAME: Sql = Sql("UPDATE email_suppressions SET address = $1 \
     WHERE account_id = $2 AND address_mac = $3 AND address = ''");
pub(super) const BY_MAC: Sql = Sql("SELECT suppression_id, address, reason, created_at \
     FROM email_suppressions WHERE account_id = $1 AND address_mac = $2");
/// One page, newest first.
pub(super) const PAGE: Sql = Sql("SELECT suppression_id, address, reason, created_at \
     FROM email_suppressions WHERE account_id = $1 AND suppression_id < $2 \
     ORDER BY suppression_id DESC LIMIT $3");
pub(super) const DELETE: Sql =
    Sql("DELETE FROM email_suppressions WHERE account_id = $1 AND address_mac = $2");
/// The wish outlives the address.
pub(super) const FORGET: Sql = Sql("UPDATE email_suppressions SET address = '' \
     WHERE account_id = $1 AND address_mac = $2");

impl FromRow for Suppression {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            address: row.take(1)?,
            reason: row.take(2)?,
            created_at: row.take(3)?,
        })
    }
}
