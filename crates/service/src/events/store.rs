//! SQL of the events.

use store::{Error, FromRow, Row, Sql};

use super::Stored;

/// An event that is certain. It is due only where somebody listens.
pub(super) const EMIT: Sql = Sql("INSERT INTO events (account_id, event_id, kind, object_id, \
     sequence, state, body, node, due) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, \
     (SELECT CAST($8 AS BIGINT) FROM listeners WHERE account_id = $1)) /*BULK*/");

/// An event for one listener only (node -1): its deliveries are made elsewhere, and it is not
/// looked through again.
pub(super) const EMIT_TO_ONE: Sql = Sql("INSERT INTO events (account_id, event_id, kind, \
     object_id, sequence, state, body, node, due) VALUES ($1, $2, $3, $4, $5, $6, $7, -1, NULL)");

/// Somebody listens.
pub(super) const LISTEN: Sql =
    Sql("INSERT INTO listeners (account_id) VALUES ($1) ON CONFLICT DO NOTHING");

/// What this node has to make deliveries of, by account.
pub(super) const DUE: Sql = Sql("SELECT account_id, event_id, kind, object_id, sequence, state, \
     body FROM events WHERE due IS NOT NULL AND account_id > $1 AND node = $2 \
     ORDER BY account_id, event_id LIMIT $3");

/// What a node that died or is too slow left lying. Every node is at least 0, which keeps the look
/// within the index of due events; so does the order, which no other index has.
pub(super) const TAKE_OVER: Sql = Sql("UPDATE events SET node = $1, due = $2 \
     WHERE (account_id, event_id) IN (SELECT account_id, event_id FROM events \
     WHERE due IS NOT NULL AND node >= 0 AND due <= $3 AND node <> $4 \
     ORDER BY node, account_id, event_id LIMIT $5 /*SKIP LOCKED*/) AND due <= $3 \
     RETURNING event_id");

/// What a node that stops leaves lying.
pub(super) const LEAVE: Sql =
    Sql("UPDATE events SET due = $1 WHERE due IS NOT NULL AND node = $2 AND due > $1");

/// Whether there is such. Without an order PostgreSQL reads all events of a young table.
pub(super) const OVERDUE: Sql = Sql("SELECT event_id FROM events WHERE due IS NOT NULL \
     AND node >= 0 AND due <= $1 AND node <> $2 ORDER BY node, account_id, event_id LIMIT 1");

/// Its deliveries are made, of what it says: nobody was erased from it meanwhile.
pub(super) const DONE: Sql = Sql("UPDATE events SET due = NULL WHERE account_id = $1 \
     AND event_id = $2 AND node = $3 AND state = $4 AND due IS NOT NULL /*BULK*/");

/// The JSON of an event that is pushed more than once. Nobody was erased from it meanwhile.
pub(super) const KEEP_BODY: Sql = Sql("UPDATE events SET body = $1 \
     WHERE account_id = $2 AND event_id = $3 AND state = $4 AND body IS NULL /*BULK*/");

/// A stretch of an account's events, oldest first.
pub(super) const BETWEEN: Sql = Sql("SELECT account_id, event_id, kind, object_id, sequence, \
     state, body FROM events WHERE account_id = $1 AND event_id > $2 AND event_id <= $3 \
     AND node >= 0 ORDER BY event_id LIMIT $4");

/// A stretch of an account's events, newest first.
pub(super) const BEFORE: Sql = Sql("SELECT account_id, event_id, kind, object_id, sequence, \
     state, body FROM events WHERE account_id = $1 AND event_id < $2 \
     ORDER BY event_id DESC LIMIT $3");

/// One event.
pub(super) const BY_ID: Sql = Sql("SELECT account_id, event_id, kind, object_id, sequence, \
     state, body FROM events WHERE account_id = $1 AND event_id = $2");

/// Any events of an account, also those for one listener, oldest first.
pub(super) const ALL_BETWEEN: Sql = Sql("SELECT account_id, event_id, kind, object_id, sequence, \
     state, body FROM events WHERE account_id = $1 AND event_id > $2 AND event_id <= $3 \
     ORDER BY event_id LIMIT $4");
/// What named somebody does not any more; the object is shown as it is now. The state is blank, and
/// another blank one each time: who has read it before cannot keep what it said.
pub(super) const ERASE: Sql = Sql("UPDATE events SET body = NULL, \
     state = CASE WHEN TRIM(state) = '' THEN state || ' ' ELSE ' ' END \
     WHERE account_id = $1 AND event_id = $2");
/// The event is made anew from its object and what was so. Its state says the same with a space
/// more: who has read it before cannot keep what it said.
pub(super) const REDRAW: Sql = Sql("UPDATE events SET body = NULL, state = state || ' ' \
     WHERE account_id = $1 AND event_id = $2");
/// Retention: whether an account has events from before an id.
pub(super) const OLD: Sql =
    Sql("SELECT event_id FROM events WHERE account_id = $1 AND event_id < $2 LIMIT 1");
/// Retention: some of them go.
pub(super) const FORGET: Sql = Sql("DELETE FROM events WHERE account_id = $1 AND event_id IN \
     (SELECT event_id FROM events WHERE account_id = $1 AND event_id < $2 \
     ORDER BY event_id LIMIT $3) RETURNING event_id");

impl FromRow for Stored {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            kind: row.take(2)?,
            object_id: row.take(3)?,
            sequence: row.take(4)?,
            state: row.take(5)?,
            body: row.take(6)?,
            is_in_hand: false,
        })
    }
}
