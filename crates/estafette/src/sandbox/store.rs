//! SQL of the handsets that are kept in the database.

use store::Sql;

/// One message on a handset.
pub(super) const INSERT: Sql =
    Sql("INSERT INTO handset_messages (account_id, phone_mac, message_id, \
     sealed, received_at) VALUES ($1, $2, $3, $4, $5)");

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
