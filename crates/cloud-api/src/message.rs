//! What is sent: the body of `POST /{phone_number_id}/messages`.

use serde_json::{Map, Value, json};

/// Longest `biz_opaque_callback_data`, characters.
pub const LONGEST_ECHO: usize = 512;

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The recipient, digits with or without a plus.
    pub to: &'a str,
    /// Comes back on every status.
    pub echo: &'a str,
    /// What it says.
    pub content: Content<'a>,
}

/// What a message says.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A text, while the recipient's window is open.
    Text(&'a str),
    /// An approved template.
    Template(Template<'a>),
    /// A question with buttons, while the recipient's window is open.
    Question {
        /// The question.
        text: &'a str,
        /// What comes back with a tap, and what is written on it.
        buttons: &'a [(&'a str, &'a str)],
    },
    /// A template that carries a passcode: its text and its button both have the code.
    Passcode {
        /// Its name.
        name: &'a str,
        /// Its language.
        language: &'a str,
        /// The code.
        code: &'a str,
    },
}

/// A template and what fills it.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its language.
    pub language: &'a str,
    /// What the variables of its body stand for, in order.
    pub params: &'a [&'a str],
    /// What its quick replies send back, by their place; empty ones send their text.
    pub payloads: &'a [&'a str],
    /// Parts that are sent as they are; one of type `body` takes the place of `params`.
    pub components: &'a [Value],
}

/// The body of the request.
#[must_use]
pub fn encode(message: &Message<'_>) -> Value {
    let mut body = Map::new();
    body.insert("messaging_product".to_owned(), "whatsapp".into());
    body.insert("recipient_type".to_owned(), "individual".into());
    body.insert("to".to_owned(), message.to.trim_start_matches('+').into());
    let echo: String = message.echo.chars().take(LONGEST_ECHO).collect();
    body.insert("biz_opaque_callback_data".to_owned(), echo.into());
    let (kind, content) = match &message.content {
        Content::Text(text) => ("text", json!({ "preview_url": false, "body": text })),
        Content::Template(template) => ("template", filled(template)),
        Content::Question { text, buttons } => ("interactive", question(text, buttons)),
        Content::Passcode { name, language, code } => ("template", passcode(name, language, code)),
    };
    body.insert("type".to_owned(), kind.into());
    body.insert(kind.to_owned(), content);
    Value::Object(body)
}

fn text(value: &str) -> Value {
    json!({ "type": "text", "text": value })
}

fn question(text: &str, buttons: &[(&str, &str)]) -> Value {
    let replies = buttons.iter().map(|(id, title)| json!({ "id": id, "title": title }));
    let buttons: Vec<Value> =
        replies.map(|reply| json!({ "type": "reply", "reply": reply })).collect();
    json!({ "type": "button", "body": { "text": text }, "action": { "buttons": buttons } })
}

fn named(name: &str, language: &str, components: Vec<Value>) -> Value {
    let mut template = json!({ "name": name, "language": { "code": language } });
    if let (Some(map), false) = (template.as_object_mut(), components.is_empty()) {
        map.insert("components".to_owned(), components.into());
    }
    template
}

/// The button under a passcode, which copies it.
#[must_use]
pub fn copies(code: &str) -> Value {
    json!({ "type": "button", "sub_type": "url", "index": "0", "parameters": [text(code)] })
}

fn passcode(name: &str, language: &str, code: &str) -> Value {
    let button = copies(code);
    let body = json!({ "type": "body", "parameters": [text(code)] });
    named(name, language, vec![body, button])
}

/// The `template` of a message.
#[must_use]
pub fn filled(template: &Template<'_>) -> Value {
    let Template { name, language, params, payloads, components } = template;
    let mut parts = components.to_vec();
    let is_body =
        |part: &Value| part["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("body"));
    if !params.is_empty() && !parts.iter().any(is_body) {
        let params: Vec<Value> = params.iter().map(|value| text(value)).collect();
        parts.push(json!({ "type": "body", "parameters": params }));
    }
    for (place, payload) in payloads.iter().enumerate().filter(|(_, payload)| !payload.is_empty()) {
        parts.push(json!({
            "type": "button", "sub_type": "quick_reply", "index": place.to_string(),
            "parameters": [{ "type": "payload", "payload": payload }],
        }));
    }
    named(name, language, parts)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Content, Message, Template, encode};

    fn sent(content: Content<'_>) -> Value {
        encode(&Message { to: "+16505551234", echo: "att_1", content })
    }

    #[test]
    fn a_text_is_this() {
        let expected = json!({"messaging_product": "whatsapp", "recipient_type": "individual",
            "to": "16505551234", "type": "text", "biz_opaque_callback_data": "att_1",
            "text": {"preview_url": false, "body": "Bonjour"}});
        assert_eq!(sent(Content::Text("Bonjour")), expected);
    }

    #[test]
    fn a_passcode_has_its_code_twice() {
        let expected = json!({"name": "verification_code", "language": {"code": "en_US"},
            "components": [
                {"type": "body", "parameters": [{"type": "text", "text": "123456"}]},
                {"type": "button", "sub_type": "url", "index": "0",
                 "parameters": [{"type": "text", "text": "123456"}]}]});
        let (name, language, code) = ("verification_code", "en_US", "123456");
        let body = sent(Content::Passcode { name, language, code });
        assert_eq!((&body["type"], &body["template"]), (&json!("template"), &expected));
    }

    #[test]
    fn a_question_has_its_buttons() {
        let buttons = [("c1:x:y", "Oui"), ("c1:x:n", "Non")];
        let expected = json!({"type": "button", "body": {"text": "Pouvons-nous ?"}, "action":
            {"buttons": [{"type": "reply", "reply": {"id": "c1:x:y", "title": "Oui"}},
                {"type": "reply", "reply": {"id": "c1:x:n", "title": "Non"}}]}});
        let body = sent(Content::Question { text: "Pouvons-nous ?", buttons: &buttons });
        assert_eq!((&body["type"], &body["interactive"]), (&json!("interactive"), &expected));
    }

    #[test]
    fn a_template_has_its_values_and_payloads() {
        let expected = json!({"name": "bienvenue", "language": {"code": "fr"}, "components": [
            {"type": "body", "parameters": [
                {"type": "text", "text": "Ana"}, {"type": "text", "text": "12"}]},
            {"type": "button", "sub_type": "quick_reply", "index": "1",
             "parameters": [{"type": "payload", "payload": "c1:x:y"}]}]});
        let template = Template {
            name: "bienvenue",
            language: "fr",
            params: &["Ana", "12"],
            payloads: &["", "c1:x:y"],
            components: &[],
        };
        assert_eq!(sent(Content::Template(template))["template"], expected);
        let own = [json!({"type": "BODY", "parameters": []})];
        let body =
            sent(Content::Template(Template { payloads: &[], components: &own, ..template }));
        assert_eq!(body["template"]["components"], json!(own));
        let bare = Template { params: &[], payloads: &[], ..template };
        assert!(sent(Content::Template(bare))["template"].get("components").is_none());
    }
}
