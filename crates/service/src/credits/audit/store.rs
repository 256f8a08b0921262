//! SQL of the audit. It looks at tables of other rooms, read-only: at `attempts`,
//! `challenges`, `sms_messages` and `chatapp_messages`, to compare fates with money, and at
//! everything that names an account.

use store::Sql;

/// The next account, by any table that names one.
pub(super) const NEXT_ACCOUNT: Sql = Sql("SELECT account_id FROM accounts \
     WHERE account_id > $1 ORDER BY account_id LIMIT 1 OFFSET $2");
pub(super) const NEXT_OF_TRANSFERS: Sql = Sql("SELECT account_id FROM transfers \
     WHERE account_id > $1 ORDER BY account_id LIMIT 1 OFFSET $2");
pub(super) const NEXT_OF_CHALLENGES: Sql = Sql("SELECT account_id FROM challenges \
     WHERE account_id > $1 ORDER BY account_id LIMIT 1 OFFSET $2");
pub(super) const NEXT_OF_MESSAGES: Sql = Sql("SELECT account_id FROM sms_messages \
     WHERE account_id > $1 ORDER BY account_id LIMIT 1 OFFSET $2");
pub(super) const NEXT_OF_CHATAPP: Sql = Sql("SELECT account_id FROM chatapp_messages \
     WHERE account_id > $1 ORDER BY account_id LIMIT 1 OFFSET $2");
pub(super) const NEXT_OF_ATTEMPTS: Sql = Sql("SELECT account_id FROM attempts \
     WHERE account_id > $1 ORDER BY account_id LIMIT 1 OFFSET $2");
pub(super) const NEXT_OF_SEALS: Sql = Sql("SELECT account_id FROM seals \
     WHERE account_id > $1 ORDER BY account_id LIMIT 1 OFFSET $2");
pub(super) const NEXT_OF_LATE: Sql = Sql("SELECT account_id FROM late_transfers \
     WHERE account_id > $1 ORDER BY account_id LIMIT 1 OFFSET $2");

/// Tables with rows that no walk comes to: they begin with the lowest id, and this is none.
pub(super) const NAMELESS: Sql = Sql("SELECT 'accounts' FROM accounts WHERE account_id <= $1 \
     UNION ALL SELECT 'accounts' FROM accounts WHERE account_id IS NULL \
     UNION ALL SELECT 'transfers' FROM transfers WHERE account_id <= $1 \
     UNION ALL SELECT 'challenges' FROM challenges WHERE account_id <= $1 \
     UNION ALL SELECT 'attempts' FROM attempts WHERE account_id <= $1 \
     UNION ALL SELECT 'late_transfers' FROM late_transfers WHERE account_id <= $1 \
     UNION ALL SELECT 'audit_log' FROM audit_log WHERE entry_id IS NULL \
     UNION ALL SELECT 'seals' FROM seals WHERE seal_no < 1 LIMIT 1000");

/// An account's counters and the sums of its transfers by kind, in one snapshot.
pub(super) const FOLD: Sql = Sql("SELECT MAX(a.posted), MAX(a.held), MAX(a.credit_limit), \
     CAST(COALESCE(SUM(CASE WHEN t.kind = 'topup' THEN t.amount ELSE 0 END), 0) AS BIGINT), \
     CAST(COALESCE(SUM(CASE WHEN t.kind = 'correction' THEN t.amount ELSE 0 END), 0) AS BIGINT), \
     CAST(COALESCE(SUM(CASE WHEN t.kind = 'hold' THEN t.amount ELSE 0 END), 0) AS BIGINT), \
     CAST(COALESCE(SUM(CASE WHEN t.kind = 'post' THEN t.amount ELSE 0 END), 0) AS BIGINT), \
     CAST(COALESCE(SUM(CASE WHEN t.kind = 'void' THEN t.amount ELSE 0 END), 0) AS BIGINT), \
     CAST(COALESCE(SUM(CASE WHEN t.kind = 'refund' THEN t.amount ELSE 0 END), 0) AS BIGINT) \
     FROM accounts a LEFT JOIN transfers t ON t.account_id = a.account_id \
     WHERE a.account_id = $1");

/// An account's transfers from an id on, whatever the ids are.
pub(super) const TRANSFERS: Sql = Sql("SELECT transfer_id, kind, amount, of_transfer, reason, \
     object_id, created_at, mac FROM transfers WHERE account_id = $1 AND transfer_id >= $2 \
     ORDER BY transfer_id LIMIT $3 OFFSET $4");
/// An account's transfers that came late.
pub(super) const LATE: Sql = Sql("SELECT transfer_id, seal_no FROM late_transfers \
     WHERE account_id = $1 AND transfer_id >= $2 ORDER BY transfer_id LIMIT $3 OFFSET $4");
/// An account's attempts from an id on, whatever the ids are.
pub(super) const ATTEMPTS: Sql = Sql("SELECT attempt_id, state, credits, object_id, \
     give_up_at FROM attempts WHERE account_id = $1 AND attempt_id >= $2 \
     ORDER BY attempt_id LIMIT $3 OFFSET $4");
/// An account's challenges, each with its attempt, if there is one.
pub(super) const CHALLENGES: Sql = Sql("SELECT c.challenge_id, (SELECT a.attempt_id \
     FROM attempts a WHERE a.account_id = c.account_id AND a.attempt_id = c.attempt_id), \
     c.attempt_id FROM challenges c WHERE c.account_id = $1 AND c.challenge_id >= $2 \
     ORDER BY c.challenge_id LIMIT $3 OFFSET $4");

/// The same of an account's SMS.
pub(super) const MESSAGES: Sql = Sql("SELECT m.sms_id, (SELECT a.attempt_id \
     FROM attempts a WHERE a.account_id = m.account_id AND a.attempt_id = m.attempt_id), \
     m.attempt_id FROM sms_messages m WHERE m.account_id = $1 AND m.sms_id >= $2 \
     ORDER BY m.sms_id LIMIT $3 OFFSET $4");

/// The same of an account's chat-app messages.
pub(super) const CHATAPP_MESSAGES: Sql = Sql("SELECT m.message_id, (SELECT a.attempt_id \
     FROM attempts a WHERE a.account_id = m.account_id AND a.attempt_id = m.attempt_id), \
     m.attempt_id FROM chatapp_messages m WHERE m.account_id = $1 AND m.message_id >= $2 \
     ORDER BY m.message_id LIMIT $3 OFFSET $4");

/// A price that was held for an account between two ids.
pub(super) const HELD_BETWEEN: Sql = Sql("SELECT transfer_id FROM transfers \
     WHERE account_id = $1 AND transfer_id > $2 AND transfer_id < $3 AND kind = 'hold' LIMIT 1");

/// Whether an account has a transfer.
pub(super) const HAS_TRANSFER: Sql = Sql("SELECT amount FROM transfers \
     WHERE account_id = $1 AND transfer_id = $2");

/// The transfers of one group.
pub(super) const GROUP: Sql = Sql("SELECT transfer_id, kind, amount, of_transfer, reason, \
     object_id, created_at, mac FROM transfers \
     WHERE account_id = $1 AND transfer_id >= $2 AND transfer_id <= $3 \
     ORDER BY transfer_id LIMIT 4");
/// One attempt.
pub(super) const ATTEMPT: Sql = Sql("SELECT attempt_id, state, credits, object_id, \
     give_up_at FROM attempts WHERE account_id = $1 AND attempt_id = $2");
