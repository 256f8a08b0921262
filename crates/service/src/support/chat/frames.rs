//! Frames as JSON: what comes in, what goes out.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::kit::id::TicketId;
use crate::kit::json;
use crate::sockets::{Frame, Present, features};
use crate::support::view::{AdminTicketMessageView, TicketMessageView};
use crate::support::{LONGEST_MESSAGE, Message, Side, Ticket};

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Message { text: String, client_message_id: Option<String>, internal: bool },
    Typing { internal: bool },
    Read(i64),
}

/// What is wrong with a frame, for an `error` frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) detail: String,
    /// The frame's own id, where it has a good one.
    pub(super) client_message_id: Option<String>,
}

/// Members of frames that a client sends; a plain one sends nothing but `message`.
const MEMBERS: [&str; 5] = ["type", "message", "client_message_id", "internal", "seq"];

/// Reads a frame. `is_strict` as for bodies: what is unknown is refused, not passed over.
///
/// # Errors
/// What is wrong.
pub(super) fn read(text: &str, side: Side, is_strict: bool) -> Result<Incoming, Fault> {
    let refused = |detail: String| Err(Fault { detail, client_message_id: None });
    let members = match json::read(text.as_bytes()) {
        Ok(Value::Object(members)) => members,
        Err(json::Fault::Doubled { pointer }) => {
            return refused(format!("{pointer} is given twice."));
        }
        _ => return refused("The frame is not a JSON object.".to_owned()),
    };
    let client_message_id = client_message_id(&members);
    let known = client_message_id.clone().ok().flatten();
    let read = if let Some(name) = unknown(&members).filter(|_| is_strict) {
        let name: String = name.chars().take(64).collect();
        Err(format!("{name} is not a member of frames; known: {}.", MEMBERS.join(", ")))
    } else {
        of_members(&members, client_message_id, side)
    };
    read.map_err(|detail| Fault { detail, client_message_id: known })
}

fn unknown(members: &Map<String, Value>) -> Option<&String> {
    members.keys().find(|name| !MEMBERS.contains(&name.as_str()))
}

fn client_message_id(members: &Map<String, Value>) -> Result<Option<String>, String> {
    match members.get("client_message_id") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) if (1..=64).contains(&id.chars().count()) && !id.contains('\0') => {
            Ok(Some(id.clone()))
        }
        Some(_) => Err("client_message_id must be a string of 1 to 64 characters.".to_owned()),
    }
}

fn of_members(
    members: &Map<String, Value>,
    client_message_id: Result<Option<String>, String>,
    side: Side,
) -> Result<Incoming, String> {
    let fault = |detail: &str| Err(detail.to_owned());
    let internal = match members.get("internal") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        // What a user takes for hidden must not become public.
        Some(Value::Bool(true)) if side == Side::Admin => true,
        Some(Value::Bool(true)) => return fault("internal is for staff only."),
        Some(_) => return fault("internal must be true or false."),
    };
    match members.get("type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) => match kind.as_str() {
            "message" => {}
            "typing" => return Ok(Incoming::Typing { internal }),
            "read" => {
                let seq = members.get("seq").and_then(Value::as_i64).filter(|seq| *seq >= 0);
                return seq
                    .map(Incoming::Read)
                    .ok_or_else(|| "`seq` must be a number from 0 on.".to_owned());
            }
            _ => return fault("`type` must be message, typing or read, or left out."),
        },
        Some(_) => return fault("`type` must be message, typing or read, or left out."),
    }
    let Some(Value::String(text)) = members.get("message") else {
        return fault("`message` is required and must be a string.");
    };
    if text.trim().is_empty() || text.contains('\0') {
        return fault("`message` must not be blank or contain the NUL character.");
    }
    if text.chars().count() > LONGEST_MESSAGE {
        return fault("`message` must have at most 10,000 characters.");
    }
    Ok(Incoming::Message { text: text.clone(), client_message_id: client_message_id?, internal })
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
    use super::{Fault, Incoming, read};
    use crate::support::Side;

    fn of_user(text: &str) -> Result<Incoming, Fault> {
        read(text, Side::User, false)
    }

    #[test]
    fn a_plain_frame_is_a_message() {
        let frame = of_user(r#"{"message": "hi", "more": 1}"#).unwrap();
        let text = "hi".to_owned();
        assert_eq!(frame, Incoming::Message { text, client_message_id: None, internal: false });
        assert_eq!(of_user(r#"{"type": "read", "seq": 3}"#), Ok(Incoming::Read(3)));
        let typing = Incoming::Typing { internal: false };
        assert_eq!(of_user(r#"{"type": "typing"}"#), Ok(typing));
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
            r#"{"message": "a", "message": "b"}"#,
            r#"{"type": "read"}"#,
            r#"{"message": "m", "client_message_id": 5}"#,
            r#"{"message": "m", "client_message_id": ""}"#,
            r#"{"message": "m", "internal": 1}"#,
        ] {
            assert!(of_user(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_user_has_no_notes_and_a_fault_names_what_it_is_about() {
        let note = r#"{"message": "m", "client_message_id": "7", "internal": true}"#;
        let Fault { detail, client_message_id } = of_user(note).unwrap_err();
        assert_eq!(detail, "internal is for staff only.");
        assert_eq!(client_message_id.as_deref(), Some("7"));
        assert!(read(note, Side::Admin, true).is_ok());
        let unknown = r#"{"message": "m", "mesage": "n"}"#;
        assert!(read(unknown, Side::User, true).is_err());
        assert!(read(unknown, Side::User, false).is_ok());
    }
}
