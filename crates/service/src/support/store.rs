//! SQL of tickets and their messages, and the rows that come back.

use store::{Args, Error, FromRow, Row, Sql, args};

use super::{Message, Target, Ticket};

/// The ticket that stands for all that an account may have open, if there are so many.
pub(super) const LAST_OF_ALL: Sql = Sql("SELECT ticket_id FROM tickets \
     WHERE account_id = $1 AND closed_at IS NULL ORDER BY ticket_id LIMIT 1 OFFSET $2");

/// A new ticket, which has one message.
pub(super) const OPEN: Sql = Sql("INSERT INTO tickets (account_id, ticket_id, env, subject, \
     category, priority, status, follows, reply_due_at, reply_near_at, resolve_due_at, \
     resolve_near_at, created_at, updated_at, next_at, last_seq, event_count, version, \
     user_read_seq, staff_read_seq, paused_ms, reply_missed, resolve_missed) \
     VALUES ($1, $2, $3, $4, $5, $6, 'open', $7, $8, $9, $10, $11, $12, $12, $13, 1, 1, 1, 0, 0, \
     0, 0, 0)");

/// The next number for a message, unless the ticket changed since it was read. It locks the row. A
/// note ($1 is 1, not 0) changes nothing that a user sees.
pub(super) const BUMP: Sql = Sql("UPDATE tickets SET last_seq = last_seq + 1, \
     updated_at = CASE WHEN CAST($1 AS BIGINT) = 1 THEN updated_at ELSE $2 END \
     WHERE account_id = $3 AND ticket_id = $4 AND version = $5");

/// A change of anything but messages, unless there was another one.
pub(super) const CHANGE: Sql = Sql("UPDATE tickets SET priority = $1, status = $2, \
     assignee = $3, first_reply_at = $4, reply_due_at = $5, reply_near_at = $6, \
     reply_missed = $7, resolve_due_at = $8, resolve_near_at = $9, resolve_missed = $10, \
     paused_at = $11, paused_ms = $12, resolved_at = $13, closed_at = $14, rating = $15, \
     rating_comment = $16, merged_into = $17, updated_at = $18, next_at = $19, \
     version = version + 1, event_count = event_count + 1 \
     WHERE account_id = $20 AND ticket_id = $21 AND version = $22");

/// How far a side has read; never back.
pub(super) const READ_BY_USER: Sql = Sql("UPDATE tickets SET user_read_seq = $1 \
     WHERE account_id = $2 AND ticket_id = $3 AND user_read_seq < $1 AND last_seq >= $1");
pub(super) const READ_BY_STAFF: Sql = Sql("UPDATE tickets SET staff_read_seq = $1 \
     WHERE account_id = $2 AND ticket_id = $3 AND staff_read_seq < $1 AND last_seq >= $1");

pub(super) const TICKET: Sql = Sql("SELECT account_id, ticket_id, env, subject, category, \
     priority, status, assignee, last_seq, version, user_read_seq, staff_read_seq, \
     first_reply_at, reply_due_at, reply_near_at, reply_missed, resolve_due_at, \
     resolve_near_at, resolve_missed, paused_at, paused_ms, resolved_at, closed_at, rating, \
     rating_comment, merged_into, follows, created_at, updated_at, \
     (SELECT said.seq FROM ticket_messages AS said WHERE said.account_id = tickets.account_id \
     AND said.ticket_id = tickets.ticket_id AND said.internal = 0 ORDER BY said.seq DESC LIMIT 1) \
     FROM tickets WHERE account_id = $1 AND ticket_id = $2");
/// For staff, who know no account.
pub(super) const TICKET_BY_ID: Sql = Sql("SELECT account_id, ticket_id, env, subject, category, \
     priority, status, assignee, last_seq, version, user_read_seq, staff_read_seq, \
     first_reply_at, reply_due_at, reply_near_at, reply_missed, resolve_due_at, \
     resolve_near_at, resolve_missed, paused_at, paused_ms, resolved_at, closed_at, rating, \
     rating_comment, merged_into, follows, created_at, updated_at, \
     (SELECT said.seq FROM ticket_messages AS said WHERE said.account_id = tickets.account_id \
     AND said.ticket_id = tickets.ticket_id AND said.internal = 0 ORDER BY said.seq DESC LIMIT 1) \
     FROM tickets WHERE ticket_id = $1");
/// One stretch of an account's tickets, newest first.
pub(super) const OF_ACCOUNT: Sql = Sql("SELECT account_id, ticket_id, env, subject, category, \
     priority, status, assignee, last_seq, version, user_read_seq, staff_read_seq, \
     first_reply_at, reply_due_at, reply_near_at, reply_missed, resolve_due_at, \
     resolve_near_at, resolve_missed, paused_at, paused_ms, resolved_at, closed_at, rating, \
     rating_comment, merged_into, follows, created_at, updated_at, \
     (SELECT said.seq FROM ticket_messages AS said WHERE said.account_id = tickets.account_id \
     AND said.ticket_id = tickets.ticket_id AND said.internal = 0 ORDER BY said.seq DESC LIMIT 1) \
     FROM tickets WHERE account_id = $1 AND ticket_id < $2 ORDER BY ticket_id DESC LIMIT $3");
/// One stretch of all tickets, newest first, for staff.
pub(super) const OF_ALL: Sql = Sql("SELECT account_id, ticket_id, env, subject, category, \
     priority, status, assignee, last_seq, version, user_read_seq, staff_read_seq, \
     first_reply_at, reply_due_at, reply_near_at, reply_missed, resolve_due_at, \
     resolve_near_at, resolve_missed, paused_at, paused_ms, resolved_at, closed_at, rating, \
     rating_comment, merged_into, follows, created_at, updated_at, \
     (SELECT said.seq FROM ticket_messages AS said WHERE said.account_id = tickets.account_id \
     AND said.ticket_id = tickets.ticket_id AND said.internal = 0 ORDER BY said.seq DESC LIMIT 1) \
     FROM tickets WHERE ticket_id < $1 ORDER BY ticket_id DESC LIMIT $2");

/// A message with the number that [`BUMP`] took. Nothing when its client sent it before.
pub(super) const WRITE: Sql = Sql("INSERT INTO ticket_messages (account_id, ticket_id, seq, \
     message_id, side, author_id, internal, body, client_message_id, text_id, created_at) \
     SELECT account_id, ticket_id, last_seq, CAST($1 AS TEXT), CAST($2 AS TEXT), \
     CAST($3 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT), CAST($6 AS TEXT), \
     CAST($7 AS BIGINT), CAST($8 AS BIGINT) FROM tickets \
     WHERE account_id = $9 AND ticket_id = $10 ON CONFLICT DO NOTHING RETURNING seq");
pub(super) const INDEX: Sql = Sql("INSERT INTO ticket_texts (rowid, words) VALUES ($1, $2)");

/// Messages after a number, oldest first; notes only where $4 is 1, not 0.
pub(super) const MESSAGES: Sql = Sql("SELECT account_id, ticket_id, seq, message_id, side, \
     author_id, internal, body, client_message_id, created_at FROM ticket_messages \
     WHERE account_id = $1 AND ticket_id = $2 AND seq > $3 AND internal <= $4 \
     ORDER BY seq LIMIT $5");
pub(super) const MESSAGE_BY_ID: Sql = Sql("SELECT account_id, ticket_id, seq, message_id, side, \
     author_id, internal, body, client_message_id, created_at FROM ticket_messages \
     WHERE message_id = $1");
pub(super) const MESSAGE_OF_CLIENT: Sql = Sql("SELECT account_id, ticket_id, seq, message_id, \
     side, author_id, internal, body, client_message_id, created_at FROM ticket_messages \
     WHERE client_message_id = $1 AND ticket_id = $2 AND author_id = $3");

/// The files at messages of a ticket, from one number to another.
pub(super) const FILES: Sql = Sql("SELECT seq, file_id, filename, content_type, size \
     FROM ticket_files WHERE ticket_id = $1 AND account_id = $2 AND seq >= $3 AND seq <= $4 \
     ORDER BY seq, file_id");

/// Tickets with a message that has all these words; notes only where $2 is 1, not 0. Staff (no
/// account in $3) find those of all accounts.
pub(super) const SEARCH: Sql = Sql("SELECT ticket_messages.account_id, ticket_messages.ticket_id \
     FROM ticket_texts JOIN ticket_messages ON ticket_messages.text_id = ticket_texts.rowid \
     WHERE ticket_texts MATCH $1 AND ticket_messages.internal <= $2 \
     AND ($3 = '' OR ticket_messages.account_id = $3) LIMIT $4");

/// A message that a user may see is told of.
pub(super) const TELL_MESSAGE: Sql = Sql("INSERT INTO events (account_id, event_id, kind, \
     object_id, sequence, state, body, node, due) SELECT account_id, CAST($1 AS TEXT), \
     'support.message', message_id, 1, 'written', NULL, CAST($2 AS BIGINT), \
     (SELECT CAST($3 AS BIGINT) FROM listeners WHERE account_id = $4) \
     FROM ticket_messages WHERE message_id = $5 AND account_id = $4 AND internal = 0");
/// A change of a ticket is told of, as it stands in this set.
pub(super) const TELL_TICKET: Sql = Sql("INSERT INTO events (account_id, event_id, kind, \
     object_id, sequence, state, body, node, due) SELECT account_id, CAST($1 AS TEXT), \
     'support.ticket', ticket_id, event_count, CAST($2 AS TEXT) || ' ' || status || ' ' \
     || priority || ' ' || COALESCE(assignee, '-') || ' ' || updated_at || ' ' \
     || COALESCE((SELECT MAX(said.seq) FROM ticket_messages AS said \
       WHERE said.account_id = tickets.account_id AND said.ticket_id = tickets.ticket_id \
       AND said.internal = 0), 0) || ' ' || user_read_seq \
     || ' ' || COALESCE(CAST(resolved_at AS TEXT), '-') \
     || ' ' || COALESCE(CAST(closed_at AS TEXT), '-') \
     || ' ' || COALESCE(CAST(rating AS TEXT), '-') || ' ' || COALESCE(merged_into, '-'), \
     NULL, CAST($3 AS BIGINT), \
     (SELECT CAST($4 AS BIGINT) FROM listeners WHERE account_id = $5) \
     FROM tickets WHERE account_id = $5 AND ticket_id = $6");
pub(super) const NOTE_CHANGE: Sql = Sql("INSERT INTO ticket_changes (account_id, ticket_id, \
     change_id, at, actor_kind, actor_id, field, was, became) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)");
pub(super) const CHANGES: Sql = Sql("SELECT change_id, at, actor_kind, actor_id, field, was, \
     became FROM ticket_changes WHERE account_id = $1 AND ticket_id = $2 AND change_id < $3 \
     ORDER BY change_id DESC LIMIT $4");
pub(super) const STAFF: Sql = Sql("SELECT staff_id FROM staff WHERE staff_id = $1");

pub(super) const ANY_DUE: Sql =
    Sql("SELECT next_at FROM tickets WHERE next_at <= $1 ORDER BY next_at LIMIT 1");
/// Whoever comes second finds them moved on.
pub(super) const CLAIM_DUE: Sql = Sql("UPDATE tickets SET next_at = $1 \
     WHERE (account_id, ticket_id) IN (SELECT account_id, ticket_id FROM tickets \
     WHERE next_at <= $2 ORDER BY next_at LIMIT $3 /*SKIP LOCKED*/) AND next_at <= $2 \
     RETURNING account_id, ticket_id");
pub(super) const POSTPONE: Sql = Sql("UPDATE tickets SET next_at = $1 \
     WHERE account_id = $2 AND ticket_id = $3 AND version = $4");

impl FromRow for Ticket {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let reply = Target { due_at: row.take(13)?, near_at: row.take(14)?, missed: row.take(15)? };
        let resolution =
            Target { due_at: row.take(16)?, near_at: row.take(17)?, missed: row.take(18)? };
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            env: row.take(2)?,
            subject: row.take(3)?,
            category: row.take(4)?,
            priority: row.take(5)?,
            status: row.take(6)?,
            assignee: row.take(7)?,
            last_seq: row.take(8)?,
            version: row.take(9)?,
            user_read_seq: row.take(10)?,
            staff_read_seq: row.take(11)?,
            first_reply_at: row.take(12)?,
            reply,
            resolution,
            paused_at: row.take(19)?,
            paused_ms: row.take(20)?,
            resolved_at: row.take(21)?,
            closed_at: row.take(22)?,
            rating: row.take(23)?,
            rating_comment: row.take(24)?,
            merged_into: row.take(25)?,
            follows: row.take(26)?,
            created_at: row.take(27)?,
            updated_at: row.take(28)?,
            shown_seq: row.take::<Option<i64>>(29)?.unwrap_or(0),
        })
    }
}

impl FromRow for Message {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            account: row.take(0)?,
            ticket: row.take(1)?,
            seq: row.take(2)?,
            id: row.take(3)?,
            side: row.take(4)?,
            author: row.take(5)?,
            internal: row.take(6)?,
            body: row.take(7)?,
            client_message_id: row.take(8)?,
            created_at: row.take(9)?,
        })
    }
}

/// The arguments of [`CHANGE`]: the ticket as it is to be, and the version that was read.
pub(super) fn changed(after: &Ticket, next_at: Option<clock::Millis>) -> Args {
    let Ticket { reply, resolution, .. } = after;
    args![
        after.priority.as_str(),
        after.status.as_str(),
        after.assignee.as_ref(),
        after.first_reply_at,
        reply.due_at,
        reply.near_at,
        reply.missed,
        resolution.due_at,
        resolution.near_at,
        resolution.missed,
        after.paused_at,
        after.paused_ms,
        after.resolved_at,
        after.closed_at,
        after.rating,
        after.rating_comment.clone(),
        after.merged_into.as_ref(),
        after.updated_at,
        next_at,
        &after.account,
        &after.id,
        after.version,
    ]
}
