//! SQL of the messages that people sent, and of opt-outs.

use clock::Millis;
use store::{Error, FromRow, Row, Sql};

use super::Notification;

/// A message is taken in once, or once since an instant.
pub(super) const SEE: Sql = Sql("INSERT INTO inbound_seen (upstream_mac, seen_at) \
     VALUES ($1, $2) ON CONFLICT (upstream_mac) DO UPDATE SET seen_at = excluded.seen_at \
     WHERE inbound_seen.seen_at < $3");

/// The parts of a message, in their order.
pub(super) const PARTS: Sql = Sql("SELECT number, total, carrier, sender, recipient, body, \
     body_mac, done, received_at FROM inbound_parts WHERE group_mac = $1 ORDER BY number");
pub(super) const ADD_PART: Sql = Sql("INSERT INTO inbound_parts (group_mac, number, total, \
     carrier, sender, recipient, body, body_mac, done, received_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9) ON CONFLICT DO NOTHING");
/// Ends a part as it was read, once.
pub(super) const END_PART: Sql = Sql("UPDATE inbound_parts SET done = 1, sender = '', body = '' \
     WHERE group_mac = $1 AND number = $2 AND body_mac = $3 AND done = 0");
/// Not those of another message that came meanwhile, whose reference is the same.
pub(super) const DROP_PARTS: Sql =
    Sql("DELETE FROM inbound_parts WHERE group_mac = $1 AND done = 1");
/// The same of one part, as it was read.
pub(super) const DROP_PART: Sql =
    Sql("DELETE FROM inbound_parts WHERE group_mac = $1 AND number = $2 AND body_mac = $3");
/// One group as often as it has old parts.
pub(super) const OLD_PARTS: Sql = Sql("SELECT group_mac FROM inbound_parts \
     WHERE received_at < $1 ORDER BY received_at LIMIT $2");
/// Whom somebody writes to, one after the other.
pub(super) const WRITTEN_TO: Sql = Sql("SELECT recipient FROM inbound_parts \
     WHERE sender = $1 AND recipient > $2 ORDER BY recipient LIMIT 1");
pub(super) const ERASE_PARTS: Sql = Sql("DELETE FROM inbound_parts \
     WHERE (group_mac, number) IN (SELECT group_mac, number FROM inbound_parts \
     WHERE sender = $1 AND recipient = $2 LIMIT $3 /*SKIP LOCKED*/) RETURNING number");
pub(super) const INSERT: Sql = Sql("INSERT INTO inbound (account_id, inbound_id, channel, \
     carrier, upstream_id, sender, recipient, message, raw_json, received_at, created_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");

/// A stretch of an account's messages, newest first.
pub(super) const STRETCH: Sql = Sql("SELECT inbound_id, channel, sender, recipient, message, \
     received_at, created_at FROM inbound \
     WHERE account_id = $1 AND inbound_id < $2 AND inbound_id >= $3 \
     ORDER BY inbound_id DESC LIMIT $4");
/// The same of one sender.
pub(super) const STRETCH_OF_SENDER: Sql = Sql("SELECT inbound_id, channel, sender, recipient, \
     message, received_at, created_at FROM inbound \
     WHERE sender = $1 AND account_id = $2 AND inbound_id < $3 AND inbound_id >= $4 \
     ORDER BY inbound_id DESC LIMIT $5");
pub(super) const BY_ID: Sql = Sql("SELECT inbound_id, channel, sender, recipient, message, \
     received_at, created_at, raw_json FROM inbound WHERE account_id = $1 AND inbound_id = $2");

pub(super) const IS_OPTED_OUT: Sql = Sql("SELECT said_at FROM opt_outs \
     WHERE account_id = $1 AND recipient_mac = $2 AND opted_out = 1 /*BULK*/");
pub(super) const SET_OPT_OUT: Sql = Sql("INSERT INTO opt_outs (account_id, recipient_mac, \
     opted_out, channel, said_at) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (account_id, recipient_mac) DO UPDATE SET opted_out = excluded.opted_out, \
     channel = excluded.channel, said_at = excluded.said_at \
     WHERE opt_outs.said_at <= excluded.said_at");

/// Finds something where a person wrote nothing to an account by the chat-app since an instant.
pub(super) const IS_WINDOW_CLOSED: Sql =
    Sql("SELECT CAST(1 AS BIGINT) WHERE NOT EXISTS (SELECT inbound_id FROM inbound \
     WHERE sender = $1 AND account_id = $2 AND inbound_id > $3 AND channel = 'chatapp' \
     AND received_at > $4) /*BULK*/");

/// Erasure: what one person sent, under either form of the number.
pub(super) const OF_SENDER: Sql = Sql("SELECT inbound_id, upstream_id FROM inbound \
     WHERE sender IN ($1, $2) AND account_id = $3 LIMIT $4");
pub(super) const DELETE: Sql = Sql("DELETE FROM inbound WHERE account_id = $1 AND inbound_id = $2");

/// Retention: whether an account has messages from before an id.
pub(super) const OLD: Sql =
    Sql("SELECT inbound_id FROM inbound WHERE account_id = $1 AND inbound_id < $2 LIMIT 1");
/// The message of an account that is newer than all but so many.
pub(super) const NTH: Sql = Sql("SELECT inbound_id FROM inbound WHERE account_id = $1 \
     ORDER BY inbound_id DESC LIMIT 1 OFFSET $2");
pub(super) const FORGET: Sql = Sql("DELETE FROM inbound WHERE account_id = $1 AND inbound_id IN \
     (SELECT inbound_id FROM inbound WHERE account_id = $1 AND inbound_id < $2 \
     ORDER BY inbound_id LIMIT $3) RETURNING inbound_id");
pub(super) const FORGET_SEEN: Sql = Sql("DELETE FROM inbound_seen WHERE upstream_mac IN \
     (SELECT upstream_mac FROM inbound_seen WHERE seen_at < $1 ORDER BY seen_at LIMIT $2) \
     RETURNING seen_at");
pub(super) const FORGET_LIFTED: Sql = Sql("DELETE FROM opt_outs \
     WHERE (account_id, recipient_mac) IN (SELECT account_id, recipient_mac FROM opt_outs \
     WHERE opted_out = 0 AND said_at < $1 ORDER BY said_at LIMIT $2) \
     AND opted_out = 0 RETURNING said_at");

impl FromRow for Notification {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            channel: row.take(1)?,
            sender: row.take(2)?,
            recipient: row.take(3)?,
            message: row.take(4)?,
            received_at: row.take(5)?,
            created_at: row.take(6)?,
        })
    }
}

/// One message with the carrier's payload.
pub(super) struct Whole {
    pub(super) notification: Notification,
    pub(super) raw_json: String,
}

impl FromRow for Whole {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let raw_json = row.take(7)?;
        Ok(Self { notification: Notification::from_row(row)?, raw_json })
    }
}

/// One part of a message.
pub(super) struct PartRow {
    pub(super) number: i64,
    pub(super) total: i64,
    pub(super) carrier: String,
    pub(super) sender: String,
    pub(super) recipient: String,
    pub(super) text: String,
    pub(super) text_mac: Vec<u8>,
    pub(super) is_done: bool,
    pub(super) received_at: Millis,
}

impl FromRow for PartRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            number: row.take(0)?,
            total: row.take(1)?,
            carrier: row.take(2)?,
            sender: row.take(3)?,
            recipient: row.take(4)?,
            text: row.take(5)?,
            text_mac: row.take(6)?,
            is_done: row.take::<i64>(7)? == 1,
            received_at: row.take(8)?,
        })
    }
}
