//! SQL of the senders.

use store::{Error, FromRow, Row, Sql};

use super::Sender;

/// A new sender; one row for each value.
pub(super) const INSERT: Sql = Sql("INSERT INTO senders (account_id, sender_id, value, status, \
     reason, created_at) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING");

/// The sender that stands for all that an account may have, if there are so many and the one that
/// is asked for is not among them.
pub(super) const LAST_OF_ALL: Sql = Sql("SELECT sender_id FROM senders WHERE account_id = $1 \
     AND NOT EXISTS (SELECT value FROM senders WHERE account_id = $1 AND value = $2) \
     ORDER BY sender_id LIMIT 1 OFFSET $3");

/// Makes room for a new sender where all places are taken: the oldest rejected one goes.
pub(super) const MAKE_ROOM: Sql = Sql("DELETE FROM senders WHERE account_id = $1 \
     AND sender_id IN (SELECT sender_id FROM senders WHERE account_id = $1 \
       AND status = 'rejected' \
       AND NOT EXISTS (SELECT value FROM senders WHERE account_id = $1 AND value = $2) \
       AND (SELECT COUNT(*) FROM senders WHERE account_id = $1) >= $3 \
       ORDER BY sender_id LIMIT 1) AND status = 'rejected'");

/// The sender of a value.
pub(super) const BY_VALUE: Sql = Sql("SELECT account_id, sender_id, value, status, reason, \
     created_at FROM senders WHERE account_id = $1 AND value = $2");

/// Finds something where an account may not use a value.
pub(super) const IS_NOT_APPROVED: Sql = Sql("SELECT 1 WHERE NOT EXISTS (SELECT sender_id \
     FROM senders WHERE account_id = $1 AND value = $2 AND status = 'approved') /*BULK*/");

/// The sender of an id, for staff, who know no account.
pub(super) const BY_ID: Sql = Sql("SELECT account_id, sender_id, value, status, reason, \
     created_at FROM senders WHERE sender_id = $1");

/// One page of an account's senders, newest first.
pub(super) const OF_ACCOUNT: Sql = Sql("SELECT account_id, sender_id, value, status, reason, \
     created_at FROM senders WHERE account_id = $1 AND sender_id < $2 \
     AND ($3 = '' OR status = $3) ORDER BY sender_id DESC LIMIT $4");

/// One page of all senders, newest first, for staff.
pub(super) const OF_ALL: Sql = Sql("SELECT account_id, sender_id, value, status, reason, \
     created_at FROM senders WHERE sender_id < $1 \
     AND ($2 = '' OR status = $2) ORDER BY sender_id DESC LIMIT $3");

/// The accounts of an environment that may use a value, in either form of a number.
pub(super) const OWNERS: Sql = Sql("SELECT s.account_id FROM senders s \
     WHERE s.value IN ($1, $2) AND s.status = 'approved' \
     AND EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = s.account_id AND a.env = $3) \
     LIMIT $4");

/// The operator's decision.
pub(super) const DECIDE: Sql = Sql("UPDATE senders SET status = $1, reason = $2 \
     WHERE account_id = $3 AND sender_id = $4");

impl FromRow for Sender {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            value: row.take(2)?,
            status: row.take(3)?,
            reason: row.take(4)?,
            created_at: row.take(5)?,
        })
    }
}
