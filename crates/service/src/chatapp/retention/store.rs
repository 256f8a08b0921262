//! SQL of forgetting chat-app messages and sessions. Ids are in the order of time, so an account's
//! primary keys find what is old; no index serves retention alone.

use store::Sql;

/// One stretch of an account's messages, oldest first.
pub(super) const MESSAGES: Sql = Sql("SELECT message_id, recipient, valid_until, created_at \
     FROM chatapp_messages WHERE account_id = $1 AND message_id > $2 AND message_id < $3 \
     ORDER BY message_id LIMIT $4");
/// The messages to one recipient.
pub(super) const MESSAGES_TO: Sql = Sql("SELECT message_id, recipient, valid_until, created_at \
     FROM chatapp_messages WHERE account_id = $1 AND recipient = $2 AND message_id > $3 \
     AND message_id < $4 ORDER BY message_id LIMIT $5");
/// A recipient becomes a pseudonym, and what may name it otherwise goes.
pub(super) const MASK_MESSAGE: Sql = Sql("UPDATE chatapp_messages SET recipient = $1, \
     reference = NULL, client_id = NULL, carrier_code = NULL, content_sealed = NULL \
     WHERE account_id = $2 AND message_id = $3 AND (status <> 'submitted' OR valid_until <= $4 \
     OR content_sealed IS NULL)");
pub(super) const OLDEST_MESSAGE: Sql = Sql("SELECT message_id FROM chatapp_messages \
     WHERE account_id = $1 AND message_id < $2 ORDER BY message_id LIMIT 1");
/// What still holds credits stays: its fate is open.
pub(super) const DELETE_MESSAGES: Sql = Sql("DELETE FROM chatapp_messages WHERE account_id = $1 \
     AND message_id IN (SELECT message_id FROM chatapp_messages WHERE account_id = $1 \
     AND message_id < $2 AND status <> 'submitted' ORDER BY message_id LIMIT $3 \
     /*SKIP LOCKED*/) RETURNING created_at");

/// One stretch of an account's sessions, oldest first.
pub(super) const SESSIONS: Sql = Sql("SELECT session_id, recipient, expires_at, created_at \
     FROM chatapp_sessions WHERE account_id = $1 AND session_id > $2 AND session_id < $3 \
     ORDER BY session_id LIMIT $4");
/// The sessions with one person.
pub(super) const SESSIONS_WITH: Sql = Sql("SELECT session_id, recipient, expires_at, created_at \
     FROM chatapp_sessions WHERE account_id = $1 AND session_id IN (SELECT session_id \
       FROM chatapp_sessions WHERE recipient = $2 AND account_id = $1 \
       AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END = 'open' \
       AND session_id > $3 AND session_id < $4 \
       UNION ALL SELECT session_id FROM (SELECT session_id FROM chatapp_sessions \
       WHERE recipient = $2 AND account_id = $1 \
       AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END >= 'ses_' \
       AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END > $3 \
       AND CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END < $4 \
       ORDER BY CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END \
       LIMIT $5) AS oldest) ORDER BY session_id LIMIT $5");
/// A person becomes a pseudonym, unless the session still goes on.
pub(super) const MASK_SESSION: Sql = Sql("UPDATE chatapp_sessions SET recipient = $1 \
     WHERE account_id = $2 AND session_id = $3 \
     AND (status NOT IN ('pending', 'active') OR expires_at <= $4)");
pub(super) const OLDEST_SESSION: Sql = Sql("SELECT session_id FROM chatapp_sessions \
     WHERE account_id = $1 AND session_id < $2 ORDER BY session_id LIMIT 1");
pub(super) const DELETE_SESSIONS: Sql = Sql("DELETE FROM chatapp_sessions WHERE account_id = $1 \
     AND session_id IN (SELECT session_id FROM chatapp_sessions WHERE account_id = $1 \
     AND session_id < $2 AND status NOT IN ('pending', 'active') ORDER BY session_id LIMIT $3 \
     /*SKIP LOCKED*/) RETURNING created_at");
