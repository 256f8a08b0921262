//! SQL of the handsets and mailboxes that are kept in the database.

use store::Sql;

/// One message on a handset.
pub(super) const INSERT: Sql =
    Sql("INSERT INTO handset_messages (account_id, phone_mac, message_id, \
     sealed, received_at) VALUES ($1, $2, $3, $4, $5) /*BULK*/");

/// What a handset received, newest first.
pub(super) const NEWEST: Sql = Sql("SELECT message_id, sealed, received_at FROM handset_messages \
     WHERE account_id = $1 AND phone_mac = $2 ORDER BY message_id DESC LIMIT $3");

/// Empties a handset.
pub(super) const EMPTY: Sql =
    Sql("DELETE FROM handset_messages WHERE account_id = $1 AND phone_mac = $2");

/// The message of an account that is newer than all but so many.
pub(super) const NTH: Sql = Sql("SELECT message_id FROM handset_messages WHERE account_id = $1 \
     AND received_at > 0 ORDER BY message_id DESC LIMIT 1 OFFSET $2");

/// One chunk of an account's messages from before an id.
pub(super) const FORGET: Sql = Sql("DELETE FROM handset_messages WHERE account_id = $1 \
     AND (phone_mac, message_id) IN (SELECT phone_mac, message_id FROM handset_messages \
       WHERE account_id = $1 AND message_id < $2 AND received_at > 0 \
       ORDER BY message_id LIMIT $3) \
     RETURNING message_id");

/// One email in a mailbox.
pub(super) const INSERT_MAIL: Sql = Sql("INSERT INTO sandbox_mails (account_id, address_mac, \
     mail_id, sealed, received_at) VALUES ($1, $2, $3, $4, $5)");

/// What a mailbox received, newest first.
pub(super) const NEWEST_MAILS: Sql = Sql("SELECT mail_id, sealed FROM sandbox_mails \
     WHERE account_id = $1 AND address_mac = $2 AND mail_id < $3 \
     ORDER BY mail_id DESC LIMIT $4");

/// A stretch of an account's emails, the oldest first.
pub(super) const MAILS_AFTER: Sql = Sql("SELECT mail_id, sealed FROM sandbox_mails \
     WHERE account_id = $1 AND mail_id > $2 ORDER BY mail_id LIMIT $3");
/// Deletes one of them.
pub(super) const DELETE_MAIL: Sql =
    Sql("DELETE FROM sandbox_mails WHERE account_id = $1 AND mail_id = $2");

/// Empties a mailbox.
pub(super) const EMPTY_MAILBOX: Sql =
    Sql("DELETE FROM sandbox_mails WHERE account_id = $1 AND address_mac = $2");

/// The email of an account that is newer than all but so many.
pub(super) const NTH_MAIL: Sql = Sql("SELECT mail_id FROM sandbox_mails WHERE account_id = $1 \
     ORDER BY mail_id DESC LIMIT 1 OFFSET $2");

/// The oldest email of an account that it keeps, the newest first, within so many bytes.
pub(super) const OLDEST_KEPT: Sql = Sql("SELECT MIN(s.mail_id) FROM (SELECT mail_id, \
     SUM(LENGTH(sealed)) OVER (ORDER BY mail_id DESC) AS bytes FROM sandbox_mails \
     WHERE account_id = $1) s WHERE s.bytes <= $2");
/// Deletes what is older than that.
pub(super) const TRIM_MAILS: Sql = Sql("DELETE FROM sandbox_mails WHERE account_id = $1 \
     AND mail_id < (SELECT MIN(s.mail_id) FROM (SELECT mail_id, \
       SUM(LENGTH(sealed)) OVER (ORDER BY mail_id DESC) AS bytes FROM sandbox_mails \
       WHERE account_id = $1) s WHERE s.bytes <= $2)");

/// One chunk of an account's emails from before an id.
pub(super) const FORGET_MAILS: Sql = Sql("DELETE FROM sandbox_mails WHERE account_id = $1 \
     AND mail_id IN (SELECT mail_id FROM sandbox_mails \
       WHERE account_id = $1 AND mail_id < $2 ORDER BY mail_id LIMIT $3) \
     RETURNING mail_id");
