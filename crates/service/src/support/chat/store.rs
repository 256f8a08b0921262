//! SQL of live chat: one-use tokens, and what nodes leave for each other.

use store::Sql;

pub(super) const ADD_TOKEN: Sql = Sql("INSERT INTO ticket_tokens (token_hash, ticket_id, side, \
     session_hash, expires_at) VALUES ($1, $2, $3, $4, $5)");
pub(super) const TOKEN: Sql = Sql("SELECT side FROM ticket_tokens WHERE token_hash = $1");
/// Used once: whoever comes second finds none.
pub(super) const USE_TOKEN: Sql = Sql("DELETE FROM ticket_tokens WHERE token_hash = $1 \
     AND ticket_id = $2 AND side = $3 AND expires_at > $4 RETURNING session_hash");
pub(super) const FORGET_TOKENS: Sql = Sql("DELETE FROM ticket_tokens WHERE token_hash IN \
     (SELECT token_hash FROM ticket_tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 \
     /*SKIP LOCKED*/) RETURNING side");

/// A note for every other node that is alive and has sockets of the ticket.
pub(super) const LEAVE_MAIL: Sql = Sql("INSERT INTO chat_mail (node, mail_id, account_id, \
     ticket_id, typing) SELECT chat_watchers.node, CAST($1 AS TEXT), CAST($2 AS TEXT), \
     chat_watchers.ticket_id, CAST($3 AS TEXT) FROM chat_watchers JOIN chat_nodes \
     ON chat_nodes.node = chat_watchers.node WHERE chat_watchers.ticket_id = $4 \
     AND chat_watchers.node <> $5 AND chat_nodes.alive_until > $6");
pub(super) const ANY_MAIL: Sql = Sql("SELECT mail_id FROM chat_mail WHERE node = $1 LIMIT 1");
pub(super) const TAKE_MAIL: Sql = Sql("DELETE FROM chat_mail WHERE node = $1 AND mail_id IN \
     (SELECT mail_id FROM chat_mail WHERE node = $1 ORDER BY mail_id LIMIT $2) \
     RETURNING ticket_id, typing");

/// Waits for whoever writes in the ticket now: what they commit is read after this, what is written
/// later leaves a note.
pub(super) const LOCK: Sql = Sql("UPDATE tickets SET user_read_seq = user_read_seq \
     WHERE account_id = $1 AND ticket_id = $2");
pub(super) const WATCH: Sql = Sql("INSERT INTO chat_watchers (ticket_id, node, has_user, \
     has_staff) VALUES ($1, $2, $3, $4) ON CONFLICT (ticket_id, node) DO UPDATE SET \
     has_user = CASE WHEN excluded.has_user = 1 THEN 1 ELSE chat_watchers.has_user END, \
     has_staff = CASE WHEN excluded.has_staff = 1 THEN 1 ELSE chat_watchers.has_staff END");
/// Which sides have a socket at a node.
pub(super) const SET_PRESENT: Sql = Sql("UPDATE chat_watchers SET has_user = $1, has_staff = $2 \
     WHERE ticket_id = $3 AND node = $4");
/// Which sides have a socket at other nodes that are alive; NULL where there is no such node.
pub(super) const ELSEWHERE: Sql = Sql("SELECT MAX(chat_watchers.has_user), \
     MAX(chat_watchers.has_staff) FROM chat_watchers JOIN chat_nodes \
     ON chat_nodes.node = chat_watchers.node WHERE chat_watchers.ticket_id = $1 \
     AND chat_watchers.node <> $2 AND chat_nodes.alive_until > $3");
pub(super) const UNWATCH: Sql = Sql("DELETE FROM chat_watchers WHERE ticket_id = $1 AND node = $2");
pub(super) const LIVE_ON: Sql = Sql("INSERT INTO chat_nodes (node, alive_until) VALUES ($1, $2) \
     ON CONFLICT (node) DO UPDATE SET alive_until = $2");
/// The nodes that are alive; there are few.
pub(super) const ALIVE: Sql = Sql("SELECT node FROM chat_nodes WHERE node > 0 \
     AND alive_until > $1 ORDER BY node");
/// A node that is gone for good; there are few, so all of them are looked at.
pub(super) const DEAD: Sql = Sql("SELECT node FROM chat_nodes WHERE node > 0 \
     AND alive_until < $1 LIMIT 1");
pub(super) const BURY_MAIL: Sql = Sql("DELETE FROM chat_mail WHERE node = $1");
pub(super) const BURY_WATCHERS: Sql = Sql("DELETE FROM chat_watchers WHERE node = $1");
pub(super) const BURY: Sql = Sql("DELETE FROM chat_nodes WHERE node = $1 AND alive_until < $2");
