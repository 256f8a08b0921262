//! SQL of whom passcodes were sent to.

use store::Sql;

/// The newest submission of each account to a number by a channel. Ids are in the order of time.
/// Who only tried has not written to the person: an answer is not for them.
pub(super) const NEWEST_LEGS: Sql = Sql("SELECT c.account_id, MAX(c.attempt_id) \
     FROM challenges c WHERE c.recipient = $1 AND c.channel = $2 AND c.attempt_id > $3 \
     AND (c.failure_reason IS NULL OR c.failure_reason = 'attempts_exhausted') \
     AND EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = c.account_id AND a.env = $4) \
     GROUP BY c.account_id LIMIT $5");
