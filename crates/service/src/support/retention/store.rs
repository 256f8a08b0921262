//! SQL of forgetting tickets.

use store::{Error, FromRow, Row, Sql};

use crate::kit::id::{TicketId, TicketMessageId};

pub(super) const OLDEST: Sql = Sql("SELECT account_id, ticket_id FROM tickets \
     WHERE closed_at < $1 ORDER BY closed_at LIMIT 1");
pub(super) const DELETE_WORDS: Sql =
    Sql("DELETE FROM ticket_texts WHERE rowid IN (SELECT text_id \
     FROM ticket_messages WHERE account_id = $1 AND ticket_id = $2 ORDER BY seq LIMIT $3)");
pub(super) const DELETE_WORDS_OF: Sql = Sql("DELETE FROM ticket_texts WHERE rowid = $1");
pub(super) const DELETE_MESSAGES: Sql = Sql("DELETE FROM ticket_messages WHERE account_id = $1 \
     AND ticket_id = $2 AND seq IN (SELECT seq FROM ticket_messages WHERE account_id = $1 \
     AND ticket_id = $2 ORDER BY seq LIMIT $3) RETURNING seq");
pub(super) const DELETE_CHANGES: Sql =
    Sql("DELETE FROM ticket_changes WHERE account_id = $1 AND ticket_id = $2");
pub(super) const DELETE_FILES: Sql =
    Sql("DELETE FROM ticket_files WHERE ticket_id = $1 AND account_id = $2");
pub(super) const DELETE: Sql = Sql("DELETE FROM tickets WHERE account_id = $1 AND ticket_id = $2");

/// One stretch of an account's messages, in the order of the primary key.
pub(super) const STRETCH: Sql = Sql("SELECT ticket_id, seq, message_id, internal, body, \
     client_message_id, text_id, COALESCE((SELECT MIN(filename) FROM ticket_files \
     WHERE ticket_files.ticket_id = ticket_messages.ticket_id \
     AND ticket_files.account_id = ticket_messages.account_id \
     AND ticket_files.seq = ticket_messages.seq), '') FROM ticket_messages \
     WHERE account_id = $1 AND (ticket_id, seq) > ($2, $3) ORDER BY ticket_id, seq LIMIT $4");
pub(super) const MESSAGE: Sql = Sql("SELECT ticket_id, seq, message_id, internal, body, \
     client_message_id, text_id, '' FROM ticket_messages \
     WHERE account_id = $1 AND ticket_id = $2 AND seq = $3");
/// One stretch of an account's tickets.
pub(super) const TICKETS: Sql = Sql("SELECT ticket_id, subject, category, rating_comment, \
     version FROM tickets WHERE account_id = $1 AND ticket_id > $2 ORDER BY ticket_id LIMIT $3");
pub(super) const NAMED: Sql = Sql("SELECT ticket_id, subject, category, rating_comment, \
     version FROM tickets WHERE account_id = $1 AND ticket_id = $2");
/// Other texts, if the ticket is as it was read. Whoever changes it at the same time must read it
/// again: they would write the old ones.
pub(super) const WIPE_TICKET: Sql = Sql("UPDATE tickets SET subject = $1, category = $2, \
     rating_comment = $3, version = version + 1 \
     WHERE account_id = $4 AND ticket_id = $5 AND version = $6");
/// Another text, if the message says what was read.
pub(super) const WIPE_MESSAGE: Sql = Sql("UPDATE ticket_messages SET body = $1, \
     client_message_id = NULL WHERE account_id = $2 AND ticket_id = $3 AND seq = $4 AND body = $5");
/// Nothing changes a ticket and its message from here on, if they say what was read.
pub(super) const HOLD_TICKET: Sql = Sql("UPDATE tickets SET subject = $1 WHERE account_id = $2 \
     AND ticket_id = $3 AND subject = $1");
pub(super) const HOLD_MESSAGE: Sql = Sql("UPDATE ticket_messages SET body = $1 \
     WHERE account_id = $2 AND ticket_id = $3 AND seq = $4 AND body = $1");

/// A message, as far as an erasure needs it.
pub(super) struct Said {
    pub(super) ticket: TicketId,
    pub(super) seq: i64,
    pub(super) message: TicketMessageId,
    pub(super) internal: bool,
    pub(super) body: String,
    pub(super) client_message_id: Option<String>,
    pub(super) text_id: i64,
    pub(super) filename: String,
}

impl FromRow for Said {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            ticket: row.take(0)?,
            seq: row.take(1)?,
            message: row.take(2)?,
            internal: row.take(3)?,
            body: row.take(4)?,
            client_message_id: row.take(5)?,
            text_id: row.take(6)?,
            filename: row.take(7)?,
        })
    }
}

/// The texts of a ticket that are not messages.
pub(super) struct Named {
    pub(super) id: TicketId,
    pub(super) subject: String,
    pub(super) category: String,
    pub(super) rating_comment: Option<String>,
    pub(super) version: i64,
}

impl FromRow for Named {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            subject: row.take(1)?,
            category: row.take(2)?,
            rating_comment: row.take(3)?,
            version: row.take(4)?,
        })
    }
}
