//! SQL of forgetting SMS messages. Ids are in the order of time, so an account's primary keys find
//! what is old; no index serves retention alone.

use store::Sql;

/// One stretch of an account's messages, oldest first.
pub(super) const STRETCH: Sql = Sql("SELECT sms_id, recipient, valid_until, created_at \
     FROM sms_messages WHERE account_id = $1 AND sms_id > $2 AND sms_id < $3 \
     ORDER BY sms_id LIMIT $4");
/// The messages to one recipient.
pub(super) const TO: Sql = Sql("SELECT sms_id, recipient, valid_until, created_at \
     FROM sms_messages WHERE account_id = $1 AND recipient = $2 AND sms_id > $3 \
     AND sms_id < $4 ORDER BY sms_id LIMIT $5");
/// A recipient becomes a pseudonym, and what may name it otherwise goes. Not while no carrier has
/// the message: that would send it to nobody.
pub(super) const MASK: Sql = Sql("UPDATE sms_messages SET recipient = $1, reference = NULL, \
     carrier_code = NULL, text_sealed = NULL WHERE account_id = $2 AND sms_id = $3 \
     AND (status <> 'queued' OR valid_until <= $4)");

pub(super) const OLDEST: Sql = Sql("SELECT sms_id FROM sms_messages \
     WHERE account_id = $1 AND sms_id < $2 ORDER BY sms_id LIMIT 1");
/// What still holds credits stays: its fate is open.
pub(super) const DELETE: Sql = Sql("DELETE FROM sms_messages WHERE account_id = $1 \
     AND sms_id IN (SELECT sms_id FROM sms_messages WHERE account_id = $1 AND sms_id < $2 \
     AND status NOT IN ('queued', 'submitted') ORDER BY sms_id LIMIT $3 /*SKIP LOCKED*/) \
     RETURNING created_at");
