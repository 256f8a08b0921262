//! The JSON of an event, as it is pushed and read: the same envelope for every kind, around the
//! object as its own endpoint shows it.

use std::fmt::Write;

use store::Error;

use super::Stored;
use crate::app::{App, EventRef};
use crate::kit::id::EventId;

/// Longest JSON of an event, bytes.
pub const MOST_BYTES: usize = 64 * 1024;

/// The JSON of an event: what was pushed, else made from what is stored.
///
/// # Errors
/// When the database cannot be read.
pub async fn render(app: &App, event: &Stored) -> Result<String, Error> {
    if let Some(body) = &event.body {
        return Ok(body.clone());
    }
    Ok(ready(event, &data(app, event).await?))
}

/// The JSON of an event whose data are known.
pub(super) fn ready(event: &Stored, data: &str) -> String {
    let whole = envelope(event, &with_sequence(data, event.sequence));
    if whole.len() <= MOST_BYTES {
        return whole;
    }
    tracing::warn!(event = %event.id, kind = event.kind, "the data of an event is too long");
    let data = serde_json::json!({ "object_id": event.object_id, "truncated": true });
    envelope(event, &with_sequence(&data.to_string(), event.sequence))
}

/// The object as JSON: stored, or told by its room. One that is gone leaves its id.
async fn data(app: &App, event: &Stored) -> Result<String, Error> {
    if event.state.starts_with('{') {
        return Ok(event.state.clone());
    }
    let news = EventRef {
        account: &event.account,
        kind: &event.kind,
        object_id: &event.object_id,
        state: &event.state,
    };
    let told = (app.tell)(app, news).await?;
    Ok(told.unwrap_or_else(|| serde_json::json!({ "object_id": event.object_id }).to_string()))
}

/// `data` is a JSON object with at least one member.
fn with_sequence(data: &str, sequence: i64) -> String {
    let members = data.trim_end().strip_suffix('}').unwrap_or(data);
    let comma = if members.trim_end().ends_with('{') { "" } else { "," };
    format!("{members}{comma}\"sequence\":{sequence}}}")
}

/// Written by hand: the order of the members is part of what is signed, and no library decides it.
/// Ids, kinds and times hold nothing that JSON would escape.
fn envelope(event: &Stored, data: &str) -> String {
    let mut body = String::with_capacity(data.len() + 200);
    let (id, kind, account) = (&event.id, &event.kind, &event.account);
    let at = EventId::time(id);
    // Writing into a String cannot fail.
    let _infallible = write!(
        body,
        "{{\"id\":\"{id}\",\"type\":\"{kind}\",\"timestamp\":\"{at}\",\
         \"account_id\":\"{account}\",\"data\":{data}}}"
    );
    body
}

#[cfg(test)]
mod tests {
    use super::{envelope, with_sequence};
    use crate::events::Stored;
    use crate::kit::id::{AccountId, EventId};
    use uuid::Uuid;

    fn event() -> Stored {
        let uuid = Uuid::parse_str("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
        Stored {
            account: AccountId::of(uuid),
            id: EventId::of(uuid),
            kind: "otp.status".to_owned(),
            object_id: "otp_1".to_owned(),
            sequence: 3,
            state: String::new(),
            body: None,
            is_in_hand: false,
        }
    }

    #[test]
    fn the_envelope_is_this_byte_for_byte() {
        let data = with_sequence(r#"{"challenge_id":"otp_1"}"#, 3);
        assert_eq!(
            envelope(&event(), &data),
            r#"{"id":"evt_01h455vb4pex5vsknk084sn02q","type":"otp.status","#.to_owned()
                + r#""timestamp":"2023-06-30T03:34:18.518Z","#
                + r#""account_id":"acc_01h455vb4pex5vsknk084sn02q","#
                + r#""data":{"challenge_id":"otp_1","sequence":3}}"#
        );
    }

    #[test]
    fn the_sequence_is_added_to_any_object() {
        assert_eq!(with_sequence("{}", 1), r#"{"sequence":1}"#);
        assert_eq!(with_sequence(r#"{"a":{}}"#, 2), r#"{"a":{},"sequence":2}"#);
    }
}
