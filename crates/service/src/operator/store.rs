//! SQL of the operator's room: accounts as staff sees and changes them, and the audit log.

use clock::Millis;
use store::{Error, FromRow, Row, Sql};

use super::accounts::AccountRow;
use super::log::LogLine;
use crate::kit::id::UserId;

/// One page of accounts, newest first; empty texts do not filter.
pub(super) const ACCOUNTS: Sql = Sql("SELECT a.account_id, a.user_id, u.email, a.env, a.status, \
     a.billing_mode, a.credit_limit, a.posted, a.held, a.settings, a.created_at, \
     u.email_verified_at \
     FROM accounts a JOIN users u ON u.user_id = a.user_id \
     WHERE a.account_id < $1 AND ($2 = '' OR a.env = $2) AND ($3 = '' OR a.status = $3) \
     ORDER BY a.account_id DESC LIMIT $4");

/// The accounts of one user.
pub(super) const ACCOUNTS_OF_EMAIL: Sql = Sql("SELECT a.account_id, a.user_id, u.email, a.env, \
     a.status, a.billing_mode, a.credit_limit, a.posted, a.held, a.settings, a.created_at, \
     u.email_verified_at \
     FROM users u JOIN accounts a ON a.user_id = u.user_id \
     WHERE u.email IN ($1, $2, $3) AND a.account_id < $4 AND ($5 = '' OR a.env = $5) \
     AND ($6 = '' OR a.status = $6)");

/// One account.
pub(super) const ACCOUNT: Sql = Sql("SELECT a.account_id, a.user_id, u.email, a.env, a.status, \
     a.billing_mode, a.credit_limit, a.posted, a.held, a.settings, a.created_at, \
     u.email_verified_at \
     FROM accounts a JOIN users u ON u.user_id = a.user_id WHERE a.account_id = $1");

/// Changes an account that is still as it was read, where its credits allow the new limit.
pub(super) const CHANGE: Sql = Sql("UPDATE accounts SET status = $1, billing_mode = $2, \
     credit_limit = $3, settings = $4 WHERE account_id = $5 AND status = $6 \
     AND billing_mode = $7 AND credit_limit = $8 AND settings = $9 \
     AND posted - held + $3 >= 0");

/// One page of the audit log, newest first; empty texts do not filter.
pub(super) const LOG: Sql = Sql("SELECT entry_id, at, actor_kind, actor_id, action, object_id, \
     account_id, request_id, detail FROM audit_log WHERE entry_id < $1 \
     AND ($2 = '' OR actor_id = $2) AND ($3 = '' OR action = $3) \
     ORDER BY entry_id DESC LIMIT $4");

/// One page of the audit log of one account.
pub(super) const LOG_OF_ACCOUNT: Sql = Sql("SELECT entry_id, at, actor_kind, actor_id, action, \
     object_id, account_id, request_id, detail FROM audit_log \
     WHERE account_id = $1 AND entry_id < $2 \
     AND ($3 = '' OR actor_id = $3) AND ($4 = '' OR action = $4) \
     ORDER BY entry_id DESC LIMIT $5");

impl FromRow for AccountRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            user: row.take::<UserId>(1)?,
            email: row.take(2)?,
            env: row.take(3)?,
            status: row.take(4)?,
            billing_mode: row.take(5)?,
            credit_limit: row.take(6)?,
            posted: row.take(7)?,
            held: row.take(8)?,
            settings: row.take(9)?,
            created_at: row.take::<Millis>(10)?,
            email_verified_at: row.take(11)?,
        })
    }
}

impl FromRow for LogLine {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            at: row.take(1)?,
            actor_kind: row.take(2)?,
            actor_id: row.take(3)?,
            action: row.take(4)?,
            object_id: row.take(5)?,
            account_id: row.take(6)?,
            request_id: row.take(7)?,
            detail: row.take(8)?,
        })
    }
}
