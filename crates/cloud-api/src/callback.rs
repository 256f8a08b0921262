//! What the upstream tells by callback: statuses of messages, what people wrote, and news of
//! templates. A body is read leniently, item by item: what is unknown is kept as it came, and one
//! item that cannot be read takes no other one with it.

use serde_json::Value;

use crate::answer::{Class, classify};
use crate::envelope::{is_too_rich, short_word, word};
use crate::salvage;
use crate::template::Category;

pub use crate::envelope::business_accounts;

/// Most items of one body that are read at a time.
const MOST_ITEMS: usize = 10_000;
/// Longest id of a message, bytes.
const MOST_ID_BYTES: usize = 512;

/// One thing that is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// What became of a message.
    Status(Status),
    /// What somebody wrote.
    Message(Message),
    /// How a template stands.
    Template(Template),
    /// What somebody wants to be sent.
    Preference(Preference),
    /// News of a business account.
    Account(Account),
    /// Something else, by the name of its field.
    Other(String),
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The number that sent it, by the upstream's id.
    pub phone_number_id: String,
    /// The upstream's id of the message.
    pub id: String,
    /// What was sent beside it.
    pub echo: Option<String>,
    /// What happened.
    pub fate: Fate,
    /// When, Unix milliseconds.
    pub at_ms: i64,
}

/// What happened to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is on its way.
    Sent,
    /// The phone has it.
    Delivered,
    /// The person read or played it.
    Read,
    /// It will not arrive.
    Failed {
        /// What to do about it.
        class: Class,
        /// The upstream's number, for support.
        code: String,
    },
}

/// What somebody wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The number that was written to, by the upstream's id.
    pub phone_number_id: String,
    /// The same as people dial it, without a plus.
    pub display_phone_number: String,
    /// The upstream's id of the message.
    pub id: String,
    /// Who wrote: digits, or an id of the upstream's where it hides the number.
    pub from: String,
    /// The words; for what has none, its type in brackets.
    pub text: String,
    /// Whether there are words.
    pub is_words: bool,
    /// The payload of the button that was tapped.
    pub button: Option<String>,
    /// The upstream's id of the message that it answers.
    pub context: Option<String>,
    /// When, Unix milliseconds.
    pub at_ms: i64,
    /// As it came.
    pub raw: Value,
}

/// Whether somebody wants a business to write to them, as they told the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    /// The number that would write, by the upstream's id.
    pub phone_number_id: String,
    /// The same as people dial it, without a plus.
    pub display_phone_number: String,
    /// Whose wish it is: digits.
    pub from: String,
    /// Whether they want no more.
    pub is_stop: bool,
    /// When, Unix milliseconds.
    pub at_ms: i64,
}

/// What happened to a business account or its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The business account.
    pub waba_id: String,
    /// The name of the field.
    pub field: String,
    /// The upstream's word for what happened.
    pub event: String,
}

/// How a template stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The business account.
    pub waba_id: String,
    /// Its name.
    pub name: String,
    /// Its language, with an underscore.
    pub language: String,
    /// The upstream's id.
    pub id: String,
    /// The upstream's word for what happened; empty where only the category changed.
    pub event: String,
    /// What it is for from now on, where that changed.
    pub category: Option<Category>,
    /// Why, where it is rejected.
    pub reason: Option<String>,
    /// When, Unix milliseconds.
    pub at_ms: i64,
}

/// Some of the items of a body.
#[derive(Debug, Default, PartialEq)]
pub struct Items {
    /// So many at most that they take no more memory than they are worth.
    pub items: Vec<Item>,
    /// Whether more follow.
    pub is_cut: bool,
    /// Those that were read before, still to be passed.
    passed: usize,
}

impl Items {
    fn extend(&mut self, items: impl Iterator<Item = Item>) {
        for item in items {
            if self.passed > 0 {
                self.passed -= 1;
            } else if self.items.len() < MOST_ITEMS {
                self.items.push(item);
            } else {
                self.is_cut = true;
                return;
            }
        }
    }
}

/// Reads the items of a body behind the first so many; `None` = it is no JSON object. What of it
/// cannot be read is left out.
#[must_use]
pub fn decode(body: &[u8], passed: usize) -> Option<Items> {
    if is_too_rich(body) {
        return None;
    }
    let json: Value = match serde_json::from_slice(body) {
        Ok(json) => json,
        Err(_) => salvage::salvage(&String::from_utf8_lossy(body)),
    };
    json.as_object()?;
    let mut items = Items { passed, ..Items::default() };
    for entry in list(&json["entry"]) {
        for change in list(&entry["changes"]) {
            if items.is_cut {
                return Some(items);
            }
            let field = change["field"].as_str().unwrap_or_default();
            match field {
                "messages" => of_messages(&mut items, &change["value"]),
                "message_template_status_update" | "template_category_update" => {
                    let told = template(entry, &change["value"]);
                    items.extend(told.map(Item::Template).into_iter());
                }
                "user_preferences" => preferences(&mut items, &change["value"]),
                "account_update" | "phone_number_quality_update" => {
                    items.extend(account(entry, change).map(Item::Account).into_iter());
                }
                _ => items.extend(std::iter::once(Item::Other(field.chars().take(64).collect()))),
            }
        }
    }
    Some(items)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Seconds as a string or a number; some write milliseconds.
fn instant(value: &Value) -> i64 {
    let seconds = word(value).and_then(|text| text.parse::<i64>().ok()).unwrap_or_default();
    if seconds > 100_000_000_000 { seconds } else { seconds.saturating_mul(1_000) }
}

/// The number that a change is about.
struct Number {
    /// The upstream's id of it.
    id: String,
    /// As people dial it, without a plus.
    display: String,
}

impl Number {
    fn of(value: &Value) -> Self {
        let said = |name: &str| short_word(&value["metadata"][name]).unwrap_or_default();
        Self { id: said("phone_number_id"), display: said("display_phone_number") }
    }
}

fn of_messages(items: &mut Items, value: &Value) {
    let number = Number::of(value);
    let statuses = list(&value["statuses"]).iter();
    items.extend(statuses.filter_map(|it| status(&number, it)).map(Item::Status));
    let messages = list(&value["messages"]).iter();
    items.extend(messages.filter_map(|it| message(&number, it)).map(Item::Message));
}

fn status(number: &Number, value: &Value) -> Option<Status> {
    let fate = match value["status"].as_str()? {
        "sent" => Fate::Sent,
        "delivered" => Fate::Delivered,
        "read" | "played" => Fate::Read,
        "failed" => {
            let code = value["errors"][0]["code"].as_i64();
            let class = classify(code.unwrap_or(-1), 400);
            Fate::Failed { class, code: code.map_or_else(String::new, |code| code.to_string()) }
        }
        _ => return None,
    };
    Some(Status {
        phone_number_id: number.id.clone(),
        // A longer one was never given, and could not be kept in an index.
        id: word(&value["id"]).filter(|id| id.len() <= MOST_ID_BYTES)?,
        echo: word(&value["biz_opaque_callback_data"]),
        fate,
        at_ms: instant(&value["timestamp"]),
    })
}

fn message(number: &Number, value: &Value) -> Option<Message> {
    let kind = value["type"].as_str().unwrap_or("unknown");
    let reply = &value["interactive"]["button_reply"];
    let (text, button) = match kind {
        "text" => (word(&value["text"]["body"]), None),
        "button" => (word(&value["button"]["text"]), word(&value["button"]["payload"])),
        "interactive" => (word(&reply["title"]), word(&reply["id"])),
        _ => (word(&value[kind]["caption"]), None),
    };
    Some(Message {
        phone_number_id: number.id.clone(),
        display_phone_number: number.display.clone(),
        id: word(&value["id"])?,
        from: word(&value["from"]).or_else(|| word(&value["from_user_id"]))?,
        is_words: text.is_some(),
        text: text.unwrap_or_else(|| format!("[{}]", kind.chars().take(32).collect::<String>())),
        button,
        context: word(&value["context"]["id"]),
        at_ms: instant(&value["timestamp"]),
        raw: value.clone(),
    })
}

fn preferences(items: &mut Items, value: &Value) {
    let number = Number::of(value);
    let told = list(&value["user_preferences"]).iter();
    items.extend(told.filter_map(|it| preference(&number, it)).map(Item::Preference));
}

fn preference(number: &Number, value: &Value) -> Option<Preference> {
    let is_stop = match value["value"].as_str()? {
        "stop" => true,
        "resume" => false,
        _ => return None,
    };
    Some(Preference {
        phone_number_id: number.id.clone(),
        display_phone_number: number.display.clone(),
        from: word(&value["wa_id"])?,
        is_stop,
        at_ms: instant(&value["timestamp"]),
    })
}

fn account(entry: &Value, change: &Value) -> Option<Account> {
    Some(Account {
        waba_id: short_word(&entry["id"])?,
        field: word(&change["field"])?,
        event: word(&change["value"]["event"])?.chars().take(64).collect(),
    })
}

fn template(entry: &Value, value: &Value) -> Option<Template> {
    let reason = word(&value["reason"]).filter(|reason| reason != "NONE");
    Some(Template {
        waba_id: short_word(&entry["id"])?,
        name: word(&value["message_template_name"])?,
        language: word(&value["message_template_language"])?.replace('-', "_"),
        id: word(&value["message_template_id"])?,
        // Of a change that is only announced, nothing is so yet: there is no category before.
        category: word(&value["previous_category"])
            .and_then(|_| Category::of(&word(&value["new_category"])?)),
        event: word(&value["event"]).unwrap_or_default(),
        reason,
        at_ms: instant(&entry["time"]),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Fate, Item, MOST_ITEMS, decode};
    use crate::answer::Class;
    use crate::template::Category;

    fn all(body: &[u8]) -> Option<Vec<Item>> {
        decode(body, 0).map(|items| items.items)
    }

    #[test]
    fn what_is_behind_the_most_items_is_read_next() {
        let statuses = vec![json!({"id": "a", "status": "sent"}); MOST_ITEMS + 1];
        let last = json!([{"id": "b", "type": "text", "from": "1", "text": {"body": "STOP"}}]);
        let body = body(&json!({"statuses": statuses, "messages": last}));
        let first = decode(&body, 0).unwrap();
        assert_eq!((first.items.len(), first.is_cut), (MOST_ITEMS, true));
        let rest = decode(&body, MOST_ITEMS).unwrap();
        let is_stop = |item: &Item| matches!(item, Item::Message(said) if said.text == "STOP");
        assert!(rest.items.len() == 2 && is_stop(&rest.items[1]) && !rest.is_cut);
        assert_eq!(decode(&body, MOST_ITEMS + 2).unwrap().items, []);
    }

    fn body(value: &Value) -> Vec<u8> {
        let metadata =
            json!({"display_phone_number": "15550783881", "phone_number_id": "106540352242922"});
        let mut value = value.clone();
        value["metadata"] = metadata;
        json!({"object": "whatsapp_business_account", "entry": [{"id": "102290129340398",
            "changes": [{"field": "messages", "value": value}]}]})
        .to_string()
        .into_bytes()
    }

    #[test]
    fn what_people_write_and_tap_is_read() {
        let items = all(&body(&json!({"messages": [
            {"from": "16505551234", "id": "wamid.1", "timestamp": "1749416383", "type": "text",
             "text": {"body": "STOP"}},
            {"context": {"from": "15550783881", "id": "wamid.ours"}, "from": "16505551234",
             "id": "wamid.2", "timestamp": "1749416384", "type": "button",
             "button": {"payload": "c1:x:y", "text": "Oui"}},
            {"from_user_id": "US.1349", "id": "wamid.3", "timestamp": "1749416385",
             "type": "interactive", "interactive": {"type": "button_reply",
             "button_reply": {"id": "c1:x:n", "title": "Non"}}},
            {"from": "16505551234", "id": "wamid.4", "timestamp": "1749416385", "type": "image",
             "image": {"id": "7"}},
            {"no": "id"}, 7
        ]})))
        .unwrap();
        let Item::Message(stop) = &items[0] else { panic!() };
        assert_eq!((stop.text.as_str(), stop.at_ms), ("STOP", 1_749_416_383_000));
        assert_eq!(
            (stop.from.as_str(), stop.phone_number_id.as_str()),
            ("16505551234", "106540352242922")
        );
        let Item::Message(yes) = &items[1] else { panic!() };
        assert_eq!((yes.text.as_str(), yes.button.as_deref()), ("Oui", Some("c1:x:y")));
        assert_eq!(yes.context.as_deref(), Some("wamid.ours"));
        let Item::Message(no) = &items[2] else { panic!() };
        assert_eq!((no.from.as_str(), no.button.as_deref()), ("US.1349", Some("c1:x:n")));
        let Item::Message(image) = &items[3] else { panic!() };
        assert_eq!(image.text, "[image]");
        assert_eq!(image.raw["image"]["id"], "7");
        assert_eq!(items.len(), 4, "what has no id is left out, and takes nothing with it");
    }

    #[test]
    fn statuses_are_read_with_what_was_sent_beside_them() {
        let items = all(&body(&json!({"statuses": [
            {"id": "wamid.1", "status": "sent", "timestamp": "1750030073",
             "biz_opaque_callback_data": "att_1", "pricing": {"billable": true}},
            {"id": "wamid.1", "status": "failed", "timestamp": "1751142888",
             "errors": [{"code": 131_026, "title": "Message undeliverable"}]},
            {"id": "wamid.1", "status": "warning"}
        ]})))
        .unwrap();
        let Item::Status(sent) = &items[0] else { panic!() };
        assert_eq!((sent.echo.as_deref(), &sent.fate), (Some("att_1"), &Fate::Sent));
        let Item::Status(failed) = &items[1] else { panic!() };
        let expected = Fate::Failed { class: Class::Unreachable, code: "131026".to_owned() };
        assert_eq!((&failed.fate, items.len()), (&expected, 2));
    }

    #[test]
    fn templates_are_read_with_integer_ids_and_other_fields_by_name() {
        let body = json!({"object": "whatsapp_business_account", "entry": [
            {"id": "102", "time": 1_751_247_548, "changes": [
                {"field": "message_template_status_update", "value": {"event": "REJECTED",
                 "message_template_id": 1_689_556_908_129_835_i64,
                 "message_template_name": "abandoned_cart",
                 "message_template_language": "en-US", "reason": "INVALID_FORMAT"}},
                {"field": "account_update", "value": {}}]}]});
        let items = all(body.to_string().as_bytes()).unwrap();
        let Item::Template(template) = &items[0] else { panic!() };
        assert_eq!(
            (template.language.as_str(), template.id.as_str()),
            ("en_US", "1689556908129835")
        );
        assert_eq!(template.reason.as_deref(), Some("INVALID_FORMAT"));
        assert_eq!(items.len(), 1, "an update of an account that names no event says nothing");
    }

    #[test]
    fn wishes_and_news_of_accounts_and_categories_are_read() {
        let change = |field: &str, value: Value| json!({"field": field, "value": value});
        let body = json!({"entry": [{"id": "102", "time": 1_751_247_548, "changes": [
            change("user_preferences", json!({"metadata": {"phone_number_id": "7",
                "display_phone_number": "155"}, "user_preferences": [
                {"wa_id": "16505551234", "category": "marketing_messages", "value": "stop",
                 "timestamp": 1_731_705_721}, {"wa_id": "1", "value": "perhaps"}, 7]})),
            change("account_update", json!({"event": "ACCOUNT_RESTRICTION"})),
            change("template_category_update", json!({"message_template_id": 9,
                "message_template_name": "n", "message_template_language": "en-US",
                "previous_category": "UTILITY", "new_category": "MARKETING"})),
            change("template_category_update", json!({"message_template_id": 9,
                "message_template_name": "n", "message_template_language": "en-US",
                "correct_category": "MARKETING", "new_category": "UTILITY"})),
            change("flows", json!({}))]}]});
        let items = all(body.to_string().as_bytes()).unwrap();
        let Item::Preference(wish) = &items[0] else { panic!() };
        assert_eq!((wish.from.as_str(), wish.is_stop), ("16505551234", true));
        assert_eq!(wish.at_ms, 1_731_705_721_000);
        let Item::Account(account) = &items[1] else { panic!() };
        assert_eq!(account.event, "ACCOUNT_RESTRICTION");
        let (Item::Template(done), Item::Template(announced)) = (&items[2], &items[3]) else {
            panic!()
        };
        assert_eq!((done.category, announced.category), (Some(Category::Marketing), None));
        assert_eq!((items.len(), &items[4]), (5, &Item::Other("flows".to_owned())));
    }

    #[test]
    fn what_is_no_object_is_no_callback() {
        assert!(all(b"[]").is_none() && all(b"x").is_none() && all(b"").is_none());
        assert_eq!(all(b"{}"), Some(vec![]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn no_body_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200),
            word in "[a-z]{1,12}", number in any::<i64>()) {
            let _items = all(&bytes);
            let value = json!({"statuses": [{"id": number, "status": word, "errors": number},
                number, {word.clone(): [word.clone()]}], "messages": [{"id": word, "type": number,
                "from": [number]}]});
            prop_assert!(all(&body(&value)).is_some());
        }
    }
}
