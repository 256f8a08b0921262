//! A body before it is read: how much memory it is worth, and whose it may be. Anybody can send
//! one.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Longest id of a number or a business account, bytes: each item has a copy of it.
const MOST_NUMBER_BYTES: usize = 64;
/// Brackets, colons and commas of a body that is read: tiny values take a hundred times their
/// length in memory.
const MOST_MARKS: usize = 400_000;

/// Whether a body has more values than any that makes sense.
pub(crate) fn is_too_rich(body: &[u8]) -> bool {
    marks(body) > MOST_MARKS
}

/// How many brackets, colons and commas stand between the texts of a body, by what they take.
fn marks(body: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (0, false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            // An object takes most.
            b'{' if !is_text => count += 4,
            b'[' | b':' | b',' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

/// The business accounts that a body is about, each once; read without what else it says.
#[must_use]
pub fn business_accounts(body: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        entry: Vec<Entry<'a>>,
    }
    // Whoever sent it, nobody has proved yet: what is no short word is not even read.
    #[derive(Deserialize)]
    struct Entry<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(body) else { return Vec::new() };
    let short = |entry: &Entry<'_>| {
        let text = Some(entry.id.get()).filter(|text| text.len() <= MOST_NUMBER_BYTES + 2)?;
        word(&serde_json::from_str(text).ok()?)
    };
    let mut ids: Vec<String> = envelope.entry.iter().filter_map(short).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A word of the upstream's, without NUL: no database has it, so a callback that had one would be
/// taken in again and again.
pub(crate) fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.replace('\0', "\u{fffd}")),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The id of a number or a business account.
pub(crate) fn short_word(value: &Value) -> Option<String> {
    word(value).filter(|id| id.len() <= MOST_NUMBER_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::business_accounts;
    use crate::callback::{self, Item};

    fn decode(body: &[u8]) -> Option<Vec<Item>> {
        callback::decode(body, 0).map(|items| items.items)
    }

    fn body_of(value: &Value) -> String {
        json!({"entry": [{"id": "1", "changes": [{"field": "messages", "value": value}]}]})
            .to_string()
    }

    #[test]
    fn a_body_takes_no_more_memory_than_it_is_worth() {
        let statuses = vec![json!({"id": "a", "status": "sent"}); 20_000];
        let body = |number: &str| {
            json!({"entry": [{"id": "1", "changes": [{"field": "messages", "value": {
                "metadata": {"phone_number_id": number}, "statuses": statuses}}]}]})
            .to_string()
        };
        let items = decode(body(&"a".repeat(1_000_000)).as_bytes()).unwrap();
        assert_eq!(items.len(), 10_000);
        let number = |item: &Item| match item {
            Item::Status(status) => status.phone_number_id.clone(),
            _ => unreachable!(),
        };
        assert_eq!(number(&items[0]), "", "that is no number's");
        let items = decode(body("106540352242922").as_bytes()).unwrap();
        assert_eq!(number(&items[9_999]), "106540352242922", "control");
        let tiny = format!("{{\"entry\":[{{\"id\":[{}0]}}]}}", "{\"\":0},".repeat(400_000));
        assert_eq!(decode(tiny.as_bytes()), None);
        assert!(business_accounts(tiny.as_bytes()).is_empty());
        let commas = ",".repeat(500_000);
        let text = json!({"type": "text", "id": "a", "from": "1", "text": {"body": commas}});
        assert_eq!(
            decode(body_of(&json!({"messages": [text]})).as_bytes()).unwrap().len(),
            1,
            "words"
        );
        let own =
            json!({"entry": [{"id": "102"}, {"id": 103}, {"id": "x".repeat(65)}]}).to_string();
        assert_eq!(business_accounts(own.as_bytes()), ["102", "103"]);
    }
}
