//! SQL of the handsets that are kept in the database.

use store::Sql;

/// One message on a handset.
pub(super) const INSERT: Sql =
    Sql("INSERT INTO handset_messages (account_id, phone_mac, message_id, \
     sealed, received_at) VALUES ($1, $2, $3, $4, $5)");

/// What a handset received, newest first.
pub(super) const NEWEST: Sql = Sql("SELECT message_id, sealed, received_at FROM handset_messages \
     WHERE account_id = $1 AND phone_mac = $2 ORDER BY message_id DESC LIMIT $3");

/// One chunk of what is too old, of all accounts.
pub(super) const FORGET: Sql = Sql("DELETE FROM handset_messages \
     WHERE (account_id, phone_mac, message_id) IN (SELECT account_id, phone_mac, message_id \
       FROM handset_messages WHERE received_at < $1 ORDER BY received_at LIMIT $2) \
     RETURNING message_id");
