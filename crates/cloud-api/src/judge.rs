//! What the Cloud API refuses of a message, with its own numbers. One judge for all: what tenants
//! ask for, the sandbox's carrier, and the server that plays the upstream.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::template::{Button, Category, variables};

/// Longest text, characters.
const LONGEST_TEXT: usize = 4096;
/// Longest text above buttons, characters.
const LONGEST_QUESTION: usize = 1024;
/// Most reply buttons.
const MOST_BUTTONS: usize = 3;
/// Longest label of a button, and longest id, characters.
const LONGEST_LABEL: usize = 20;
const LONGEST_ID: usize = 256;
/// More spaces in a row are not taken in what fills a template.
const MOST_SPACES: usize = 4;

/// A parameter that is missing.
const MISSING: i64 = 131_008;
/// A parameter that is none of the possible ones.
const NOT_VALID: i64 = 131_009;
/// Another number of values than of variables.
const COUNT: i64 = 132_000;
/// A value of another kind than its place.
const FORMAT: i64 = 132_012;
/// A value that no place takes.
const CONTENT: i64 = 132_018;

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The upstream's number.
    pub code: i64,
    /// Its sentence.
    pub detail: String,
}

fn fault(code: i64, detail: impl Into<String>) -> Fault {
    Fault { code, detail: detail.into() }
}

/// Whether the upstream reads a message, whoever it goes to. Cases and the type of an index do not
/// count.
///
/// # Errors
/// The first fault.
pub fn message(message: &Value) -> Result<(), Fault> {
    if message["messaging_product"] != "whatsapp" {
        return Err(fault(100, "Invalid parameter: messaging_product"));
    }
    let to = message["to"].as_str().unwrap_or_default().trim_start_matches('+');
    if to.len() < 7 || !to.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fault(NOT_VALID, "Parameter value is not valid: to"));
    }
    match message["type"].as_str() {
        Some("text") => text(&message["text"]["body"]),
        Some("template") => template(&message["template"]),
        Some("interactive") if has_buttons(&message["interactive"]) => Ok(()),
        Some("interactive") => Err(fault(NOT_VALID, "Parameter value is not valid: interactive")),
        _ => Err(fault(131_051, "Unsupported message type")),
    }
}

fn text(body: &Value) -> Result<(), Fault> {
    let text = body.as_str().unwrap_or_default();
    if text.trim().is_empty() || text.chars().count() > LONGEST_TEXT {
        return Err(fault(100, "Invalid parameter: text.body"));
    }
    Ok(())
}

/// Whether the upstream reads the `template` of a message.
///
/// # Errors
/// The first fault.
pub fn template(template: &Value) -> Result<(), Fault> {
    if !template["name"].is_string() || !template["language"]["code"].is_string() {
        return Err(fault(MISSING, "Required parameter is missing: template"));
    }
    match &template["components"] {
        Value::Null => Ok(()),
        Value::Array(parts) => parts.iter().try_for_each(component),
        _ => Err(fault(100, "Invalid parameter: components must be an array")),
    }
}

fn component(part: &Value) -> Result<(), Fault> {
    match kind_of(part).as_str() {
        "header" | "body" => {}
        "button" => {
            if index_of(part).is_none() || !part["sub_type"].is_string() {
                return Err(fault(100, "Invalid parameter: a button needs sub_type and index"));
            }
        }
        _ => {
            let what = "Invalid parameter: a component is of type header, body or button";
            return Err(fault(100, what));
        }
    }
    match &part["parameters"] {
        Value::Null => Ok(()),
        Value::Array(values) => values.iter().try_for_each(parameter),
        _ => Err(fault(100, "Invalid parameter: parameters must be an array")),
    }
}

fn parameter(value: &Value) -> Result<(), Fault> {
    let kind = value["type"].as_str().unwrap_or_default().to_ascii_lowercase();
    match kind.as_str() {
        "" => Err(fault(100, "Invalid parameter: a parameter needs a type")),
        "text" => fills(value["text"].as_str().unwrap_or_default()),
        "payload" if value["payload"].as_str().is_none_or(str::is_empty) => {
            Err(fault(MISSING, "Parameter of type payload is missing payload value"))
        }
        _ => Ok(()),
    }
}

/// Whether a text may stand for a variable.
fn fills(text: &str) -> Result<(), Fault> {
    if text.trim().is_empty() {
        return Err(fault(MISSING, "Parameter of type text is missing text value"));
    }
    let spaces = text.split(|letter| letter != ' ').map(str::len).max().unwrap_or(0);
    if text.contains(['\n', '\r', '\t']) || spaces > MOST_SPACES {
        let what = "Param text cannot have new-line/tab characters or more than 4 consecutive \
                    spaces";
        return Err(fault(CONTENT, what));
    }
    Ok(())
}

/// Whether this is a question with one to three reply buttons, each with an id of its own.
fn has_buttons(interactive: &Value) -> bool {
    let is = |value: &Value, most: usize| {
        value.as_str().is_some_and(|text| (1..=most).contains(&text.chars().count()))
    };
    let Some(buttons) = interactive["action"]["buttons"].as_array() else { return false };
    let ids: BTreeSet<&str> =
        buttons.iter().filter_map(|button| button["reply"]["id"].as_str()).collect();
    interactive["type"] == "button"
        && is(&interactive["body"]["text"], LONGEST_QUESTION)
        && (1..=MOST_BUTTONS).contains(&buttons.len())
        && ids.len() == buttons.len()
        && buttons
            .iter()
            .map(|button| &button["reply"])
            .all(|reply| is(&reply["id"], LONGEST_ID) && is(&reply["title"], LONGEST_LABEL))
}

fn kind_of(part: &Value) -> String {
    part["type"].as_str().unwrap_or_default().to_ascii_lowercase()
}

fn index_of(part: &Value) -> Option<usize> {
    match &part["index"] {
        Value::String(text) => text.parse().ok(),
        number => usize::try_from(number.as_u64()?).ok(),
    }
}

/// What of a template a message fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    header: usize,
    body: usize,
    buttons: Vec<Slot>,
}

/// A button, as far as a message fills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// Opens an address that ends in a variable, or copies the passcode.
    Filled,
    /// Sends something back.
    Reply,
    /// Is as it is.
    Fixed,
}

impl Known {
    /// A template of a tenant.
    #[must_use]
    pub fn of(category: Category, body: &str, buttons: &[Button]) -> Self {
        if category == Category::Authentication {
            return Self { header: 0, body: 1, buttons: vec![Slot::Filled] };
        }
        let slot = |button: &Button| match button {
            Button::Url { url, .. } if url.contains("{{") => Slot::Filled,
            Button::QuickReply { .. } => Slot::Reply,
            Button::Url { .. } | Button::PhoneNumber { .. } => Slot::Fixed,
        };
        let buttons = buttons.iter().map(slot).collect();
        Self { header: 0, body: variables(body).unwrap_or(0), buttons }
    }

    /// A template as it was declared at the upstream.
    #[must_use]
    pub fn declared(template: &Value) -> Self {
        let parts = template["components"].as_array().map(Vec::as_slice).unwrap_or_default();
        let part = |kind: &str| parts.iter().find(|part| kind_of(part) == kind);
        let header = part("header").map_or(0, |header| match header["format"].as_str() {
            Some(format) if !format.eq_ignore_ascii_case("text") => 1,
            _ => names(&header["text"]),
        });
        let is_passcode = template["category"] == "AUTHENTICATION";
        let body = part("body").map_or(0, |body| names(&body["text"]));
        let buttons = part("buttons").and_then(|part| part["buttons"].as_array());
        let slot = |button: &Value| match kind_of(button).as_str() {
            "otp" => Slot::Filled,
            "url" if button["url"].as_str().is_some_and(|url| url.contains("{{")) => Slot::Filled,
            "quick_reply" => Slot::Reply,
            _ => Slot::Fixed,
        };
        let buttons = buttons.map(|all| all.iter().map(slot).collect()).unwrap_or_default();
        Self { header, body: if is_passcode { 1 } else { body }, buttons }
    }

    /// Whether what is sent (`template` of a message) fits.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self, sent: &Value) -> Result<(), Fault> {
        let parts = sent["components"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (kind, wanted) in [("header", self.header), ("body", self.body)] {
            let part = parts.iter().find(|part| kind_of(part) == kind);
            let given = part.and_then(|part| part["parameters"].as_array()).map_or(0, Vec::len);
            if given != wanted {
                let what = format!(
                    "{kind}: number of localizable_params ({given}) does not match the expected \
                     number of params ({wanted})"
                );
                return Err(fault(COUNT, what));
            }
        }
        let buttons: Vec<&Value> = parts.iter().filter(|part| kind_of(part) == "button").collect();
        for (index, slot) in self.buttons.iter().enumerate() {
            let part = buttons.iter().find(|part| index_of(part) == Some(index));
            let values = part.and_then(|part| part["parameters"].as_array()).map_or(0, Vec::len);
            if *slot == Slot::Filled && values != 1 {
                let what =
                    format!("buttons: Button at index {index} of type Url requires a parameter");
                return Err(fault(MISSING, what));
            }
        }
        buttons.into_iter().try_for_each(|part| self.check_button(part))
    }

    fn check_button(&self, part: &Value) -> Result<(), Fault> {
        let index = index_of(part).unwrap_or(usize::MAX);
        let kind = part["sub_type"].as_str().unwrap_or_default().to_ascii_lowercase();
        let fits = match self.buttons.get(index) {
            Some(Slot::Filled) => kind == "url" || kind == "copy_code",
            Some(Slot::Reply) => kind == "quick_reply",
            Some(Slot::Fixed) | None => false,
        };
        if fits {
            return Ok(());
        }
        let what = format!("buttons: Button at index {index} of the template takes no {kind}");
        Err(fault(FORMAT, what))
    }
}

/// How many variables a text has, numbered or named.
fn names(text: &Value) -> usize {
    let text = text.as_str().unwrap_or_default();
    let names = text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    names.map(|(name, _)| name.trim()).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Known, message};
    use crate::message::{Content, Message, encode};
    use crate::template::{Button, Category};

    fn code(body: &Value) -> i64 {
        message(body).err().map_or(0, |fault| fault.code)
    }

    fn sent(kind: &str, content: &Value) -> Value {
        json!({"messaging_product": "whatsapp", "to": "+16505551234", "type": kind, kind: content})
    }

    fn filled(parts: &Value) -> Value {
        sent("template", &json!({"name": "n", "language": {"code": "fr"}, "components": parts}))
    }

    #[test]
    fn what_we_send_ourselves_is_taken() {
        for content in [
            Content::Text("Bonjour"),
            Content::Passcode { name: "otp", language: "fr", code: "123456" },
        ] {
            assert_eq!(
                message(&encode(&Message { to: "+16505551234", echo: "a", content })),
                Ok(())
            );
        }
    }

    #[test]
    fn texts_and_values_that_say_nothing_are_refused() {
        assert_eq!(code(&sent("text", &json!({"body": "x"}))), 0);
        for body in ["", "  ", "\n\t"] {
            assert_eq!(code(&sent("text", &json!({"body": body}))), 100, "{body:?}");
        }
        assert_eq!(code(&sent("text", &json!({"body": "x".repeat(4_097)}))), 100);
        assert_eq!(code(&sent("video", &json!({}))), 131_051);
        let value = |text: &str| {
            let values = json!([{"type": "text", "text": text}]);
            code(&filled(&json!([{"type": "BODY", "parameters": values}])))
        };
        for (text, expected) in [
            ("Ana", 0),
            ("a    b", 0),
            ("", 131_008),
            ("  ", 131_008),
            ("a\nb", 132_018),
            ("a\tb", 132_018),
            ("a     b", 132_018),
        ] {
            assert_eq!(value(text), expected, "{text:?}");
        }
    }

    #[test]
    fn parts_have_a_known_shape_in_any_case() {
        let button = |index: Value| {
            json!([{"type": "BUTTON", "sub_type": "URL", "index": index,
                "parameters": [{"type": "text", "text": "12"}]}])
        };
        assert_eq!((code(&filled(&button(json!(0)))), code(&filled(&button(json!("1"))))), (0, 0));
        for bad in [
            json!([7]),
            json!([{"type": "footer"}]),
            json!([{"type": "button", "index": 0}]),
            json!([{"type": "body", "parameters": {}}]),
            json!([{"type": "body", "parameters": [{"text": "x"}]}]),
            button(json!("first")),
            json!("x"),
        ] {
            assert_eq!(code(&filled(&bad)), 100, "{bad}");
        }
    }

    #[test]
    fn a_template_is_filled_as_it_was_declared() {
        let buttons = [
            Button::Url { text: "Voir".into(), url: "https://ex.test/{{1}}".into() },
            Button::QuickReply { text: "STOP".into() },
            Button::Url { text: "Site".into(), url: "https://ex.test/".into() },
        ];
        let ours = Known::of(Category::Utility, "Bonjour {{1}}", &buttons);
        let theirs = Known::declared(&json!({"category": "UTILITY", "components": [
            {"type": "BODY", "text": "Bonjour {{1}}"},
            {"type": "BUTTONS", "buttons": [
                {"type": "URL", "url": "https://ex.test/{{1}}"}, {"type": "QUICK_REPLY"},
                {"type": "URL", "url": "https://ex.test/"}]}]}));
        assert_eq!(ours, theirs);
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let body = json!({"type": "body", "parameters": text("Ana")});
        let button = |kind: &str, index: i64| {
            let values = text("1");
            json!({"type": "button", "sub_type": kind, "index": index, "parameters": values})
        };
        let check = |parts: Value| {
            ours.check(&json!({"components": parts})).err().map_or(0, |fault| fault.code)
        };
        assert_eq!(check(json!([body, button("url", 0)])), 0);
        assert_eq!(check(json!([body, button("url", 0), button("quick_reply", 1)])), 0);
        assert_eq!(check(json!([button("url", 0)])), 132_000);
        assert_eq!(check(json!([body])), 131_008);
        let header = json!({"type": "header", "parameters": text("x")});
        assert_eq!(check(json!([header, body, button("url", 0)])), 132_000);
        for (kind, index) in [("url", 2), ("quick_reply", 2), ("url", 9), ("url", 1)] {
            assert_eq!(check(json!([body, button("url", 0), button(kind, index)])), 132_012);
        }
        let passcode = Known::of(Category::Authentication, "preview", &[]);
        let otp = json!({"category": "AUTHENTICATION", "components": [{"type": "BODY"},
            {"type": "BUTTONS", "buttons": [{"type": "OTP", "otp_type": "COPY_CODE"}]}]});
        assert_eq!(passcode, Known::declared(&otp));
    }
}
