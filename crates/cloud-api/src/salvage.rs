//! JSON of which a part cannot be read: a cut emoji in somebody's name, a number that is too large,
//! a field that is nested too deep. All the rest is read, since the upstream never says it again.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// How deep it is looked for what can be read.
const DEEPEST: usize = 12;
/// What stands for a character that is none.
const REPLACEMENT: &str = "\\ufffd";

/// As much of a text as can be read; what cannot is null.
pub(crate) fn salvage(text: &str) -> Value {
    part(text, DEEPEST)
}

fn part(text: &str, depth: usize) -> Value {
    if let Ok(value) = serde_json::from_str(text) {
        return value;
    }
    if let Ok(value) = serde_json::from_str(&whole_pairs(text)) {
        return value;
    }
    if depth == 0 {
        return Value::Null;
    }
    if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
        let read = |(name, raw): (String, &RawValue)| (name, part(raw.get(), depth - 1));
        return Value::Object(members.into_iter().map(read).collect::<Map<String, Value>>());
    }
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(elements) => elements.into_iter().map(|raw| part(raw.get(), depth - 1)).collect(),
        Err(_) => Value::Null,
    }
}

/// The text with another character for each half of a pair (`\ud83d`) that stands alone.
fn whole_pairs(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let length = match (half(escape), escape.get(6..).and_then(half)) {
            (Some(Half::High), Some(Half::Low)) => 12,
            (Some(_), _) => {
                whole.push_str(REPLACEMENT);
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            // A backslash, and whatever it escapes.
            (None, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at(length);
        whole.push_str(kept);
        rest = after;
    }
    whole.push_str(rest);
    whole
}

/// One of the two units of a character beyond the first 65,536 (RFC 8259 §7).
enum Half {
    High,
    Low,
}

/// The half that this escape is, if it is one.
fn half(escape: &str) -> Option<Half> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    match u32::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::High),
        0xdc00..=0xdfff => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::salvage;

    #[test]
    fn a_cut_emoji_is_one_character_that_is_none() {
        let read = salvage(r#"{"a":"Ann \ud83d","b":"\ud83d\ude00 \\ud83d","c":["\udc00x"]}"#);
        assert_eq!(read, json!({"a": "Ann \u{fffd}", "b": "😀 \\ud83d", "c": ["\u{fffd}x"]}));
    }

    #[test]
    fn what_cannot_be_read_keeps_nothing_else_away() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let text = format!(
            r#"{{"list":[{{"id":1}},{{"id":2,"x":1e999,"y":{deep},"z":"\ud800"}},{{"id":3}}]}}"#
        );
        let read = salvage(&text);
        assert_eq!(read["list"][0], json!({"id": 1}));
        assert_eq!(read["list"][1]["id"], 2);
        assert_eq!(
            (&read["list"][1]["x"], &read["list"][1]["z"]),
            (&Value::Null, &"\u{fffd}".into())
        );
        assert_eq!(read["list"][2], json!({"id": 3}));
    }

    #[test]
    fn what_is_no_json_is_nothing() {
        for text in ["", "{", "{\"a\":NaN}", "\\", "\"\\u", "\"\\ud83d"] {
            assert_eq!(salvage(text), Value::Null, "{text}");
        }
    }
}
