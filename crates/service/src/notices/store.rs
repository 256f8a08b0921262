//! The SQL of notices.

use store::{Error, FromRow, Row, Sql};

use super::{Notice, Proof};
use crate::kit::id::NoticeId;

/// A reset that somebody asked for. No `Debug`: it holds what they typed.
pub struct Asked {
    /// The notice that it becomes.
    pub(super) id: NoticeId,
    pub(super) sealed: Vec<u8>,
}

pub(super) const ADD: Sql = Sql("INSERT INTO notices (account_id, notice_id, user_id, kind, \
     object_id, token_hash, sealed, state, attempt_id, change_count, used_at, valid_until, \
     created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'waiting', '', 0, NULL, $8, $9)");
/// The same without a proof, to the owner of an account of either environment; nothing if they were
/// told of the same thing since an instant.
pub(super) const ADD_FOR_OWNER: Sql = Sql("INSERT INTO notices (account_id, notice_id, user_id, \
     kind, object_id, token_hash, sealed, state, attempt_id, change_count, used_at, valid_until, \
     created_at) SELECT l.account_id, CAST($1 AS TEXT), l.user_id, CAST($2 AS TEXT), \
     CAST($3 AS TEXT), NULL, NULL, 'waiting', '', 0, NULL, CAST($4 AS BIGINT), \
     CAST($5 AS BIGINT) FROM accounts a JOIN accounts l ON l.user_id = a.user_id \
     AND l.env = 'live' WHERE a.account_id = $6 AND NOT EXISTS (SELECT 1 FROM notices n \
     WHERE n.user_id = a.user_id AND n.kind = $2 AND n.object_id = $3 AND n.created_at > $7)");
pub(super) const ASK_RESET: Sql =
    Sql("INSERT INTO reset_requests (notice_id, sealed, created_at) \
     VALUES ($1, $2, $3)");
pub(super) const RESETS_ASKED: Sql = Sql("SELECT notice_id, sealed FROM reset_requests \
     WHERE created_at > $1 ORDER BY created_at LIMIT $2");
pub(super) const END_ASKED: Sql = Sql("DELETE FROM reset_requests WHERE notice_id = $1");
/// Finds something where a user had so many of a kind since an instant.
pub(super) const IS_ENOUGH: Sql = Sql("SELECT notice_id FROM notices WHERE user_id = $1 \
     AND kind = $2 AND created_at > $3 ORDER BY created_at DESC LIMIT 1 OFFSET $4");
pub(super) const BY_TOKEN: Sql = Sql("SELECT account_id, notice_id, user_id FROM notices \
     WHERE token_hash = $1 AND kind = $2 AND used_at IS NULL AND valid_until > $3");
pub(super) const USE: Sql = Sql("UPDATE notices SET used_at = $1 \
     WHERE account_id = $2 AND notice_id = $3 AND used_at IS NULL");
/// The others of its kind end with it.
pub(super) const END_OTHERS: Sql = Sql("UPDATE notices SET used_at = $1 \
     WHERE user_id = $2 AND kind = $3 AND used_at IS NULL");
pub(super) const WAITING: Sql = Sql("SELECT n.account_id, n.notice_id, n.kind, n.object_id, \
     n.sealed, n.state, n.attempt_id, n.change_count, n.valid_until, n.created_at, u.email \
     FROM notices n JOIN users u ON u.user_id = n.user_id WHERE n.state = 'waiting' \
     AND n.notice_id > '' ORDER BY n.notice_id LIMIT $1");
pub(super) const BY_ID: Sql = Sql("SELECT n.account_id, n.notice_id, n.kind, n.object_id, \
     n.sealed, n.state, n.attempt_id, n.change_count, n.valid_until, n.created_at, u.email \
     FROM notices n JOIN users u ON u.user_id = n.user_id \
     WHERE n.account_id = $1 AND n.notice_id = $2");
/// Moves a notice from the state it was read in.
pub(super) const SHIFT: Sql = Sql("UPDATE notices SET state = $1, attempt_id = $2, \
     change_count = change_count + 1 \
     WHERE account_id = $3 AND notice_id = $4 AND change_count = $5");
pub(super) const DROP_SEALED: Sql =
    Sql("UPDATE notices SET sealed = NULL WHERE account_id = $1 AND notice_id = $2");
/// What nobody took, because the relay is gone from the settings.
pub(super) const FORGET_ASKED: Sql = Sql("DELETE FROM reset_requests WHERE notice_id IN \
     (SELECT notice_id FROM reset_requests WHERE created_at < $1 ORDER BY created_at \
     LIMIT $2 /*SKIP LOCKED*/) RETURNING notice_id");
pub(super) const FORGET: Sql = Sql("DELETE FROM notices WHERE (account_id, notice_id) IN \
     (SELECT account_id, notice_id FROM notices WHERE created_at < $1 ORDER BY created_at \
     LIMIT $2 /*SKIP LOCKED*/) RETURNING kind");

impl FromRow for Notice {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            kind: row.take(2)?,
            object_id: row.take(3)?,
            sealed: row.take(4)?,
            state: row.take(5)?,
            attempt: row.take(6)?,
            change_count: row.take(7)?,
            valid_until: row.take(8)?,
            created_at: row.take(9)?,
            email: row.take(10)?,
        })
    }
}

impl FromRow for Asked {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self { id: row.take(0)?, sealed: row.take(1)? })
    }
}

impl FromRow for Proof {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self { account: row.take(0)?, id: row.take(1)?, user: row.take(2)? })
    }
}
