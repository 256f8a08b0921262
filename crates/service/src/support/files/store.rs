//! SQL of attachments.

use store::Sql;

/// Takes so much of an account's storage, if it is left.
pub(super) const TAKE_STORAGE: Sql = Sql("INSERT INTO ticket_storage (account_id, bytes) \
     SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT) WHERE CAST($2 AS BIGINT) <= $3 \
     ON CONFLICT (account_id) DO UPDATE SET bytes = ticket_storage.bytes + $2 \
     WHERE ticket_storage.bytes + $2 <= $3");
pub(super) const KEPT: Sql = Sql("SELECT bytes FROM ticket_storage WHERE account_id = $1");
pub(super) const GIVE_STORAGE: Sql =
    Sql("UPDATE ticket_storage SET bytes = bytes - COALESCE((SELECT \
     CAST(SUM(size) AS BIGINT) FROM ticket_files JOIN ticket_messages \
     ON ticket_messages.account_id = ticket_files.account_id \
     AND ticket_messages.ticket_id = ticket_files.ticket_id \
     AND ticket_messages.seq = ticket_files.seq \
     WHERE ticket_files.account_id = $1 AND ticket_files.ticket_id = $2 \
     AND ticket_files.seq >= $3 AND ticket_files.seq <= $4 AND deleted_at IS NULL \
     AND side = 'user'), 0) WHERE account_id = $1");

/// A file at the message that the ticket's row numbered last.
pub(super) const ATTACH: Sql =
    Sql("INSERT INTO ticket_files (account_id, file_id, ticket_id, seq, \
     filename, content_type, size, sha256, preview, created_at) SELECT account_id, \
     CAST($1 AS TEXT), ticket_id, last_seq, CAST($2 AS TEXT), CAST($3 AS TEXT), \
     CAST($4 AS BIGINT), $5, CAST($6 AS BIGINT), CAST($7 AS BIGINT) \
     FROM tickets WHERE account_id = $8 AND ticket_id = $9");

pub(super) const FILE: Sql = Sql("SELECT ticket_files.account_id, file_id, filename, \
     content_type, size, preview, deleted_at FROM ticket_files JOIN ticket_messages \
     ON ticket_messages.account_id = ticket_files.account_id \
     AND ticket_messages.ticket_id = ticket_files.ticket_id \
     AND ticket_messages.seq = ticket_files.seq \
     WHERE ticket_files.account_id = $1 AND file_id = $2 AND internal = 0");
/// For staff, who know no account.
pub(super) const FILE_BY_ID: Sql =
    Sql("SELECT account_id, file_id, filename, content_type, size, \
     preview, deleted_at FROM ticket_files WHERE file_id = $1");

/// What is put into the storage next; if nothing comes of it, it goes again.
pub(super) const WILL_PUT: Sql = Sql("INSERT INTO object_trash (object_key, due_at) \
     VALUES ($1, $2) ON CONFLICT (object_key) DO NOTHING");
/// The storage does not delete it now.
pub(super) const KEEP_TRASH: Sql = Sql("UPDATE object_trash SET due_at = $1 WHERE object_key = $2");
pub(super) const UNTRASH: Sql = Sql("DELETE FROM object_trash WHERE object_key = $1");

/// The objects of attachments are to go.
pub(super) const TRASH: Sql = Sql("INSERT INTO object_trash (object_key, due_at) \
     SELECT 'support/' || account_id || '/' || file_id, CAST($1 AS BIGINT) FROM ticket_files \
     WHERE account_id = $2 AND ticket_id = $3 AND seq >= $4 AND seq <= $5 \
     AND deleted_at IS NULL ON CONFLICT (object_key) DO NOTHING");
pub(super) const TRASH_PREVIEWS: Sql = Sql("INSERT INTO object_trash (object_key, due_at) \
     SELECT 'support/' || account_id || '/' || file_id || '.preview', CAST($1 AS BIGINT) \
     FROM ticket_files WHERE account_id = $2 AND ticket_id = $3 AND seq >= $4 AND seq <= $5 \
     AND deleted_at IS NULL AND preview = 1 ON CONFLICT (object_key) DO NOTHING");
pub(super) const DELETE: Sql = Sql("UPDATE ticket_files SET deleted_at = $1, sha256 = $2, \
     filename = 'deleted' WHERE ticket_id = $3 AND account_id = $4 AND seq >= $5 AND seq <= $6 \
     AND deleted_at IS NULL");

pub(super) const GONE: Sql =
    Sql("SELECT object_key FROM object_trash WHERE due_at <= $1 ORDER BY due_at LIMIT $2");
/// Tickets that ended long ago and still have files.
pub(super) const OLD: Sql = Sql("SELECT account_id, ticket_id FROM tickets \
     WHERE closed_at < $1 AND (SELECT MIN(file_id) FROM ticket_files \
     WHERE ticket_files.ticket_id = tickets.ticket_id \
     AND ticket_files.account_id = tickets.account_id AND deleted_at IS NULL) IS NOT NULL \
     ORDER BY closed_at LIMIT 1");
