//! SQL of forgetting passcodes. Ids are in the order of time, so an account's primary keys find
//! what is old; no index serves retention alone.

use clock::Millis;
use store::{Error, FromRow, Row, Sql};

use crate::kit::id::AccountId;

/// One stretch of an account's passcodes, oldest first.
pub(super) const STRETCH: Sql = Sql("SELECT challenge_id, recipient, expires_at, created_at \
     FROM challenges WHERE account_id = $1 AND challenge_id > $2 AND challenge_id < $3 \
     ORDER BY challenge_id LIMIT $4");
/// The passcodes of one recipient.
pub(super) const OF_RECIPIENT: Sql = Sql("SELECT challenge_id, recipient, expires_at, created_at \
     FROM challenges WHERE account_id = $1 AND challenge_id IN (SELECT challenge_id \
       FROM challenges WHERE recipient = $2 AND account_id = $1 \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) = $2 || '|' \
       AND challenge_id > $3 AND challenge_id < $4 \
       UNION ALL SELECT challenge_id FROM (SELECT challenge_id FROM challenges \
       WHERE recipient = $2 AND account_id = $1 \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) >= 'otp_' \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) > $3 \
       AND COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) < $4 \
       ORDER BY COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id) \
       LIMIT $5) AS oldest) ORDER BY challenge_id LIMIT $5");

/// A recipient becomes a pseudonym, and what may name it otherwise goes. Not while the passcode
/// can still be verified or sent.
pub(super) const MASK: Sql = Sql("UPDATE challenges SET recipient = $1, reference = NULL, \
     slot = NULL, provider_message_id = attempt_id, delivered_id = NULL \
     WHERE account_id = $2 AND challenge_id = $3 \
     AND (status NOT IN ('sent', 'delivered') OR expires_at <= $4)");
pub(super) const UNNAME: Sql = Sql("UPDATE challenges SET provider_message_id = attempt_id, \
     delivered_id = NULL WHERE account_id = $1 AND challenge_id = $2 \
     AND (provider_message_id <> attempt_id OR delivered_id IS NOT NULL)");

pub(super) const OLDEST_CHALLENGE: Sql = Sql("SELECT challenge_id FROM challenges \
     WHERE account_id = $1 AND challenge_id < $2 ORDER BY challenge_id LIMIT 1");
/// What has due work stays until that is done.
pub(super) const DELETE_CHALLENGES: Sql = Sql("DELETE FROM challenges WHERE account_id = $1 \
     AND challenge_id IN (SELECT challenge_id FROM challenges WHERE account_id = $1 \
     AND challenge_id < $2 AND next_at IS NULL ORDER BY challenge_id LIMIT $3 \
     /*SKIP LOCKED*/) RETURNING created_at");
/// One stretch of all recipients that are remembered, in the order of the primary key.
pub(super) const RECIPIENTS: Sql = Sql("SELECT account_id, recipient, unreachable_until, sent_1 \
     FROM recipients WHERE (account_id, recipient) > ($1, $2) \
     ORDER BY account_id, recipient LIMIT $3");
/// A guess comes at most ten minutes after a send, the longest validity.
pub(super) const DELETE_RECIPIENT: Sql = Sql("DELETE FROM recipients \
     WHERE account_id = $1 AND recipient = $2 AND unreachable_until <= $3 AND sent_1 <= $4");
pub(super) const IS_REMEMBERED: Sql =
    Sql("SELECT sent_1 FROM recipients WHERE account_id = $1 AND recipient = $2");
pub(super) const ERASE_RECIPIENT: Sql =
    Sql("DELETE FROM recipients WHERE account_id = $1 AND recipient = $2");

/// What is remembered of a recipient, as far as retention needs it.
pub(super) struct Remembered {
    pub(super) account: AccountId,
    pub(super) recipient: String,
    pub(super) unreachable_until: Millis,
    pub(super) sent_at: Millis,
}

impl FromRow for Remembered {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            account: row.take(0)?,
            recipient: row.take(1)?,
            unreachable_until: row.take(2)?,
            sent_at: row.take(3)?,
        })
    }
}
