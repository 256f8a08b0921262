//! SQL of forgetting emails. Ids are in the order of time, so an account's primary keys find what
//! is old; no index serves retention alone.

use store::Sql;

/// How far a chore has come with an account.
pub(super) const MARK: Sql =
    Sql("SELECT done_until FROM retention_marks WHERE account_id = $1 AND chore = $2");
pub(super) const SET_MARK: Sql =
    Sql("INSERT INTO retention_marks (account_id, chore, done_until) \
     VALUES ($1, $2, $3) ON CONFLICT (account_id, chore) DO UPDATE SET \
     done_until = excluded.done_until");
/// One stretch of an account's emails, oldest first.
pub(super) const STRETCH: Sql = Sql("SELECT email_id, valid_until FROM emails \
     WHERE account_id = $1 AND email_id > $2 AND email_id < $3 ORDER BY email_id LIMIT $4");
/// What names people in an email, and what may. Not while it may still go out.
pub(super) const MASK: Sql = Sql("UPDATE emails SET from_email = '', reply_to = NULL, \
     subject = '', reference = NULL WHERE account_id = $1 AND email_id = $2");
pub(super) const MASK_RECIPIENTS: Sql = Sql("UPDATE email_recipients SET mailbox = '', \
     detail = NULL WHERE account_id = $1 AND email_id = $2");
/// Takes out one recipient, unless a relay is being given the copy right now. It counts as a
/// change: who has read the address before reads anew, and keeps it nowhere.
pub(super) const MASK_RECIPIENT: Sql = Sql("UPDATE email_recipients SET mailbox = '', \
     detail = NULL, change_count = change_count + 1 \
     WHERE account_id = $1 AND email_id = $2 AND position = $3 AND status <> 'queued'");
/// As `MASK`, of an email that names no recipient any more.
pub(super) const MASK_NAMELESS: Sql = Sql("UPDATE emails SET from_email = '', reply_to = NULL, \
     subject = '', reference = NULL WHERE account_id = $1 AND email_id = $2 \
     AND NOT EXISTS (SELECT 1 FROM email_recipients WHERE account_id = $1 AND email_id = $2 \
     AND mailbox <> '')");
/// What was said with the relay about an email, and about one recipient's copy.
pub(super) const DROP_TRANSCRIPTS: Sql = Sql("UPDATE attempts SET transcript = NULL, \
     error = NULL WHERE account_id = $1 AND attempt_id IN (SELECT r.attempt_id \
     FROM email_recipients r WHERE r.account_id = $1 AND r.email_id = $2)");
pub(super) const DROP_TRANSCRIPT: Sql = Sql("UPDATE attempts SET transcript = NULL, \
     error = NULL WHERE account_id = $1 AND attempt_id IN (SELECT r.attempt_id \
     FROM email_recipients r WHERE r.account_id = $1 AND r.email_id = $2 AND r.position = $3)");
pub(super) const DROP_CONTENT: Sql =
    Sql("DELETE FROM email_contents WHERE account_id = $1 AND email_id = $2");
pub(super) const OLDEST: Sql = Sql("SELECT email_id FROM emails \
     WHERE account_id = $1 AND email_id < $2 ORDER BY email_id LIMIT 1");
/// What still holds credits stays: its fate is open.
pub(super) const DELETE: Sql = Sql("DELETE FROM emails WHERE account_id = $1 \
     AND email_id IN (SELECT email_id FROM emails WHERE account_id = $1 AND email_id < $2 \
     AND queued = 0 ORDER BY email_id LIMIT $3 /*SKIP LOCKED*/) RETURNING created_at");
pub(super) const OLDEST_RECIPIENT: Sql = Sql("SELECT email_id FROM email_recipients \
     WHERE account_id = $1 AND email_id < $2 ORDER BY email_id LIMIT 1");
/// Recipients go when their email is gone.
pub(super) const DELETE_RECIPIENTS: Sql = Sql("DELETE FROM email_recipients \
     WHERE account_id = $1 AND (email_id, position) IN (SELECT r.email_id, r.position \
       FROM email_recipients r WHERE r.account_id = $1 AND r.email_id < $2 AND NOT EXISTS \
       (SELECT 1 FROM emails e WHERE e.account_id = r.account_id AND e.email_id = r.email_id) \
       ORDER BY r.email_id, r.position LIMIT $3 /*SKIP LOCKED*/) RETURNING position");
/// The emails of an account to a person, by the keyed hash.
pub(super) const TO: Sql = Sql("SELECT r.email_id, r.position, e.created_at, r.mailbox \
     FROM email_recipients r JOIN emails e \
     ON e.account_id = r.account_id AND e.email_id = r.email_id \
     WHERE r.address_mac = $1 AND r.account_id = $2 AND r.email_id > $3 \
     ORDER BY r.email_id LIMIT $4");
