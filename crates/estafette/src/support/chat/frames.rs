//! Frames as JSON: what comes in, what goes out.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::kit::id::TicketId;
use crate::sockets::{Frame, Present, features};
use crate::support::view::{AdminTicketMessageView, TicketMessageView};
use crate::support::{LONGEST_MESSAGE, Message, Side, Ticket};

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Message { text: String, client_message_id: Option<String>, internal: bool },
    Typing,
    Read(i64),
}

/// A frame as it comes; a plain client sends nothing but `message`.
#[derive(Deserialize)]
struct Raw {
    r#type: Option<String>,
    message: Option<Value>,
    client_message_id: Option<Value>,
    internal: Option<bool>,
    seq: Option<i64>,
}

/// Reads a frame.
///
/// # Errors
/// What is wrong, for the `detail` of an `error` frame.
pub(super) fn read(text: &str) -> Result<Incoming, &'static str> {
    let raw: Raw = serde_json::from_str(text).map_err(|_| "The frame is not a JSON object.")?;
    match raw.r#type.as_deref() {
        Some("typing") => return Ok(Incoming::Typing),
        Some("read") => {
            let seq = raw.seq.filter(|seq| *seq >= 0);
            return seq.map(Incoming::Read).ok_or("seq must be a number from 0 on.");
        }
        None | Some("message") => {}
        Some(_) => return Err("type must be message, typing or read, or left out."),
    }
    let Some(Value::String(text)) = raw.message else {
        return Err("message is required and must be a string.");
    };
    if text.trim().is_empty() || text.contains('\0') {
        return Err("message must not be blank or contain the NUL character.");
    }
    if text.chars().count() > LONGEST_MESSAGE {
        return Err("message must have at most 10000 characters.");
    }
    let client_message_id = match raw.client_message_id {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) if (1..=64).contains(&id.chars().count()) && !id.contains('\0') => {
            Some(id)
        }
        Some(_) => return Err("client_message_id must be a string of 1 to 64 characters."),
    };
    Ok(Incoming::Message { text, client_message_id, internal: raw.internal.unwrap_or(false) })
}

fn text(value: &impl Serialize) -> Option<Utf8Bytes> {
    serde_json::to_string(value).ok().map(Utf8Bytes::from)
}

/// The same for both sides.
fn both(feature: u8, value: &Value) -> Frame {
    let text = text(value);
    Frame { seq: 0, feature, user: text.clone(), staff: text }
}

#[derive(Serialize)]
struct MessageFrame<'a, V> {
    r#type: &'static str,
    ticket_id: &'a str,
    message: V,
}

/// A message as each side sees it; a note only as staff do.
pub(super) fn message(
    ticket: &str,
    seq: i64,
    user: Option<&TicketMessageView>,
    staff: &AdminTicketMessageView,
) -> Frame {
    let frame = |message| MessageFrame { r#type: "message", ticket_id: ticket, message };
    let user = user.and_then(|view| text(&frame(view)));
    let staff = MessageFrame { r#type: "message", ticket_id: ticket, message: staff };
    Frame { seq, feature: 0, user, staff: text(&staff) }
}

/// How far a side has read.
pub(super) fn read_up_to(ticket: &str, side: Side, seq: i64) -> Frame {
    let value =
        json!({ "type": "read", "ticket_id": ticket, "sender_type": side.as_str(), "seq": seq });
    both(features::READ, &value)
}

/// How the ticket stands.
pub(super) fn status(ticket: &Ticket) -> Frame {
    let value = json!({
        "type": "status",
        "ticket_id": ticket.id.as_str(),
        "status": ticket.status.as_str(),
        "priority": ticket.priority.as_str(),
        "assignee": ticket.assignee.as_ref().map(crate::kit::id::StaffId::as_str),
    });
    both(features::STATUS, &value)
}

/// Somebody types.
pub(super) fn typing(ticket: &str, side: Side) -> Frame {
    let value = json!({ "type": "typing", "ticket_id": ticket, "sender_type": side.as_str() });
    both(features::TYPING, &value)
}

/// Which sides have a socket.
pub(super) fn presence(ticket: &str, there: Present) -> Frame {
    let Present { user, staff } = there;
    let value = json!({ "type": "presence", "ticket_id": ticket, "user": user, "admin": staff });
    both(features::PRESENCE, &value)
}

/// What became of a message.
pub(super) fn ack(message: &Message, is_duplicate: bool) -> Utf8Bytes {
    let value = json!({
        "type": "ack",
        "client_message_id": message.client_message_id,
        "id": message.id.as_str(),
        "seq": message.seq,
        "duplicate": is_duplicate,
    });
    value.to_string().into()
}

/// What was wrong with a frame.
pub(super) fn error(code: &str, detail: &str, client_message_id: Option<&str>) -> Utf8Bytes {
    let value = json!({
        "type": "error",
        "code": code,
        "detail": detail,
        "client_message_id": client_message_id,
    });
    value.to_string().into()
}

/// More was missed than is replayed.
pub(super) fn resync(ticket: &TicketId, last_seq: i64) -> Utf8Bytes {
    let id = ticket.as_str();
    json!({ "type": "resync", "ticket_id": id, "last_seq": last_seq }).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::{Incoming, read};

    #[test]
    fn a_plain_frame_is_a_message() {
        let frame = read(r#"{"message": "hi", "more": 1}"#).unwrap();
        let text = "hi".to_owned();
        assert_eq!(frame, Incoming::Message { text, client_message_id: None, internal: false });
        assert_eq!(read(r#"{"type": "read", "seq": 3}"#), Ok(Incoming::Read(3)));
        assert_eq!(read(r#"{"type": "typing"}"#), Ok(Incoming::Typing));
    }

    #[test]
    fn what_is_no_frame_is_told() {
        let long = format!(r#"{{"message": "{}"}}"#, "x".repeat(10_001));
        for bad in [
            "",
            "hi",
            "[]",
            "{}",
            r#"{"message": 1}"#,
            r#"{"message": " "}"#,
            &long,
            r#"{"message": "a\u0000"}"#,
            r#"{"type": "x", "message": "m"}"#,
            r#"{"type": "read"}"#,
            r#"{"message": "m", "client_message_id": 5}"#,
            r#"{"message": "m", "client_message_id": ""}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
