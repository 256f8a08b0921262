//! SQL of the seals, and of what they cover.

use clock::Millis;
use store::{Error, FromRow, Row, Sql};

use super::{Seal, Tally};

/// Adds a seal; the primary key refuses a second one of the same number.
pub(super) const INSERT: Sql = Sql("INSERT INTO seals (seal_no, kind, account_id, after_id, \
     until_id, row_count, credits, digest, detail, sealed_at, last_hash, hash, mac) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING");

/// A seal of this kind that is newer than the one which the next builds on.
pub(super) const NEWER: Sql = Sql("SELECT seal_no FROM seals \
     WHERE account_id = $1 AND kind = $2 AND seal_no > $3 ORDER BY seal_no LIMIT 1");

/// The newest seal of all.
pub(super) const NEWEST: Sql = Sql("SELECT seal_no, kind, account_id, after_id, until_id, \
     row_count, credits, digest, detail, sealed_at, last_hash, hash, mac FROM seals \
     WHERE seal_no > $1 ORDER BY seal_no DESC LIMIT 1");

/// The newest seal of one kind.
pub(super) const NEWEST_OF: Sql = Sql("SELECT seal_no, kind, account_id, after_id, until_id, \
     row_count, credits, digest, detail, sealed_at, last_hash, hash, mac FROM seals \
     WHERE account_id = $1 AND kind = $2 ORDER BY seal_no DESC LIMIT 1");

/// A stretch of the chain, in its order.
pub(in crate::credits) const CHAIN: Sql = Sql("SELECT seal_no, kind, account_id, after_id, \
     until_id, row_count, credits, digest, detail, sealed_at, last_hash, hash, mac FROM seals \
     WHERE seal_no > $1 ORDER BY seal_no LIMIT $2");

/// A stretch of the seals of one kind, in their order.
pub(in crate::credits) const CHAIN_OF: Sql = Sql("SELECT seal_no, kind, account_id, after_id, \
     until_id, row_count, credits, digest, detail, sealed_at, last_hash, hash, mac FROM seals \
     WHERE account_id = $1 AND kind = $2 AND seal_no > $3 AND seal_no <= $4 \
     ORDER BY seal_no LIMIT $5");

/// A stretch of an account's transfers that is to be sealed.
pub(super) const TRANSFERS: Sql = Sql("SELECT transfer_id, kind, amount, of_transfer, reason, \
     object_id, created_at, mac FROM transfers \
     WHERE account_id = $1 AND transfer_id > $2 AND transfer_id < $3 \
     ORDER BY transfer_id LIMIT $4");

/// One transfer.
pub(in crate::credits) const TRANSFER: Sql =
    Sql("SELECT transfer_id, kind, amount, of_transfer, reason, \
     object_id, created_at, mac FROM transfers WHERE account_id = $1 AND transfer_id = $2");

/// Which transfers of a stretch came late.
pub(super) const LATE_BETWEEN: Sql = Sql("SELECT transfer_id, seal_no FROM late_transfers \
     WHERE account_id = $1 AND transfer_id > $2 AND transfer_id < $3");

/// Late transfers that no seal covers yet.
pub(super) const LATE_OPEN: Sql = Sql("SELECT transfer_id, account_id FROM late_transfers \
     WHERE seal_no = 0 AND (transfer_id, account_id) > ($1, $2) \
     ORDER BY transfer_id, account_id LIMIT $3");

/// A late transfer is covered.
pub(super) const LATE_SEALED: Sql = Sql("UPDATE late_transfers SET seal_no = $1 \
     WHERE account_id = $2 AND transfer_id = $3 AND seal_no = 0");

/// What an account is and how it pays.
pub(in crate::credits) const TERMS: Sql = Sql("SELECT env, user_id, status, billing_mode, \
     credit_limit FROM accounts WHERE account_id = $1");

impl FromRow for Seal {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let bytes = |bytes: Vec<u8>, column| {
            <[u8; 32]>::try_from(bytes).map_err(|_| Error::Corrupt { column })
        };
        Ok(Self {
            number: row.take(0)?,
            kind: row.take(1)?,
            account: row.take(2)?,
            after: row.take(3)?,
            until: row.take(4)?,
            tally: Tally {
                rows: row.take(5)?,
                credits: row.take(6)?,
                digest: bytes(row.take(7)?, 7)?,
            },
            detail: row.take(8)?,
            sealed_at: row.take::<Millis>(9)?,
            last_hash: bytes(row.take(10)?, 10)?,
            hash: bytes(row.take(11)?, 11)?,
            mac: row.take(12)?,
        })
    }
}
