//! SQL of whom passcodes were sent to.

use store::Sql;

/// The newest submission of each account to a number by a channel, whichever way the passcode took
/// since. Ids are in the order of time. Who only tried has not written to the person: an answer is
/// not for them.
pub(super) const NEWEST_LEGS: Sql = Sql("SELECT c.account_id, MAX(l.attempt_id) \
     FROM challenges c JOIN attempts l ON l.object_id = c.challenge_id \
     AND l.account_id = c.account_id \
     WHERE c.recipient = $1 AND c.attempt_id > $2 AND l.attempt_id > $2 AND l.channel = $3 \
     AND l.state NOT IN ('queued', 'refused', 'failed', 'expired') \
     AND EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = c.account_id AND a.env = $4) \
     GROUP BY c.account_id LIMIT $5");
