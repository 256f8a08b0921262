//! SQL of the model test: rows of other rooms, and what nobody may ever do to the ledger.

use store::Sql;

/// An account that may go 20 below zero.
pub(super) const ACCOUNT: Sql = Sql("INSERT INTO accounts (account_id, user_id, env, status, \
     billing_mode, credit_limit, posted, held, settings, created_at) \
     VALUES ($1, $1, 'live', 'active', 'postpaid', 20, 0, 0, '{}', 0)");

/// An attempt in some state.
pub(super) const ATTEMPT: Sql = Sql("INSERT INTO attempts (account_id, attempt_id, object_id, \
     channel, state, credits, error, lease_until, started_at) \
     VALUES ($1, $2, 'otp_1', 'sms', $3, $4, NULL, 0, 0) ON CONFLICT DO NOTHING");
/// An attempt moves on.
pub(super) const MOVE: Sql =
    Sql("UPDATE attempts SET state = $1 WHERE account_id = $2 AND attempt_id = $3");

pub(super) const RAISE_BALANCE: Sql =
    Sql("UPDATE accounts SET posted = posted + 1 WHERE account_id = $1");
pub(super) const REWORD: Sql =
    Sql("UPDATE transfers SET reason = 'x' WHERE account_id = $1 AND kind = 'hold'");
pub(super) const FORGET_FATE: Sql =
    Sql("UPDATE attempts SET state = 'unknown' WHERE account_id = $1");
pub(super) const REFUSE: Sql = Sql("UPDATE attempts SET state = 'refused' WHERE account_id = $1");
pub(super) const LOSE_POST: Sql =
    Sql("DELETE FROM transfers WHERE account_id = $1 AND kind = 'post'");
pub(super) const LOSE_HOLD: Sql =
    Sql("DELETE FROM transfers WHERE account_id = $1 AND kind = 'hold'");
pub(super) const LATE: Sql = Sql("SELECT transfer_id FROM late_transfers WHERE account_id = $1");
pub(super) const LOSE_LATE: Sql =
    Sql("DELETE FROM transfers WHERE account_id = $1 AND kind = 'void'");
pub(super) const UNHOLD: Sql = Sql("UPDATE accounts SET held = 10 WHERE account_id = $1");
pub(super) const REVIVE: Sql = Sql("UPDATE attempts SET state = 'unknown' WHERE account_id = $1");
pub(super) const FORGET_LATE: Sql = Sql("DELETE FROM late_transfers WHERE account_id = $1");
pub(super) const LOSE_SEAL: Sql = Sql("DELETE FROM seals WHERE seal_no = $1");
/// When the account's messages end.
pub(super) const GIVE_UP: Sql = Sql("UPDATE attempts SET give_up_at = $1 WHERE account_id = $2");
