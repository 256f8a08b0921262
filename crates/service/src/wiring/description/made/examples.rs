//! Examples of request and answer bodies, put together from those of their fields. What is sent
//! works as it is (a test sends them all), and names nothing that can be left out; an answer shows
//! all that can be in it.

use serde_json::{Map, Value, json};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::Components;
use utoipa::openapi::{Content, RefOr, Schema};

use super::shown;

const JSON: &str = "application/json";

/// What fields of answers hold that mean the same wherever they stand, and whose schemas have no
/// example of their own.
const USUAL: &[(&str, &str)] = &[
    ("account_id", "acc_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("actor_id", "usr_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("api_key", "est_test_8GJ0xkq2mZr4Vd1Ws7Ty3Nb6Hc9Lf51W8l0c"),
    ("challenge_id", "otp_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("chatapp_message_id", "msg_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("content_type", "application/pdf"),
    ("email", "ana@example.com"),
    ("event_id", "evt_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("filename", "invoice.pdf"),
    ("from", "Shop <hello@shop.example>"),
    ("live", "acc_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("object_id", "otp_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("password", "correct-horse-battery"),
    ("provider", "svc"),
    ("provider_message_id", "sim.4f1d2c7a90be3358d16a07c2"),
    ("request_id", "req_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("sandbox", "acc_01kdvqh6m4e5s8w2t9zb3y7n1g"),
    ("sender", "SHOP"),
    ("sender_id", "usr_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("subject", "Your invoice"),
    ("text", "482915 is your code for Shop."),
    ("to", "+33612345678"),
    ("token", "est_pt_8GJ0xkq2mZr4Vd1Ws7Ty3Nb6Hc9Lf5Pa"),
    ("user_id", "usr_01kdvqh6m4e5s8w2t9zb3y7n1f"),
    ("webhook_id", "whk_01kdvqh6m4e5s8w2t9zb3y7n1f"),
];

/// Flags that are set in the answers that people look at first.
const SET: &[&str] =
    &["accepted", "active", "chatapp_available", "current", "ok", "sent", "verified"];

/// Gives the JSON bodies of an operation, and of its answers, an example.
pub(super) fn add(operation: &mut Operation, components: &Components) {
    if let Some(RefOr::T(body)) = &mut operation.request_body
        && let Some(content) = body.content.get_mut(JSON)
    {
        complete(content, Side::Request, components);
    }
    let otherwise = operation.operation_id.as_deref().and_then(shown::otherwise);
    for answer in operation.responses.responses.values_mut() {
        if let RefOr::T(answer) = answer
            && let Some(content) = answer.content.get_mut(JSON)
        {
            complete(content, Side::Answer, components);
            if let (RefOr::T(Content { example: Some(example), .. }), Some(otherwise)) =
                (content, otherwise)
            {
                shown::merge(example, otherwise);
            }
        }
    }
}

/// Who writes a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Answer,
}

fn complete(content: &mut RefOr<Content>, side: Side, components: &Components) {
    let RefOr::T(content) = content else { return };
    if let (None, Some(schema)) = (&content.example, &content.schema) {
        let schema = serde_json::to_value(schema).unwrap_or_default();
        content.example = Some(Composer { side, components }.of(&schema));
    }
}

struct Composer<'c> {
    side: Side,
    components: &'c Components,
}

impl Composer<'_> {
    /// The example of a schema: its own, or one put together from those of its parts.
    fn of(&self, schema: &Value) -> Value {
        if let Some(own) = schema.get("example") {
            return own.clone();
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return self.named(name);
        }
        // Something that may be missing is one of nothing and something.
        for part in schema["oneOf"].as_array().into_iter().flatten() {
            if part["type"] != "null" {
                return self.of(part);
            }
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let objects = parts.iter().filter_map(|part| self.of(part).as_object().cloned());
            return Value::Object(objects.flatten().collect());
        }
        if let Some(words) = schema["enum"].as_array() {
            return words.first().cloned().unwrap_or_default();
        }
        if schema["type"] == "array" {
            let item = self.of(&schema["items"]);
            return if is_something(&item) { json!([item]) } else { Value::Null };
        }
        self.object(schema)
    }

    fn named(&self, name: &str) -> Value {
        let of_answer = |known: fn(&str) -> Option<&'static Value>| {
            if self.side == Side::Answer { known(name) } else { None }
        };
        if let Some(whole) = of_answer(shown::whole) {
            return whole.clone();
        }
        let found: Option<&RefOr<Schema>> = self.components.schemas.get(name);
        let mut example = self.of(&serde_json::to_value(found).unwrap_or_default());
        if let Some(otherwise) = of_answer(shown::otherwise) {
            shown::merge(&mut example, otherwise);
        }
        example
    }

    fn object(&self, schema: &Value) -> Value {
        let nothing = Map::new();
        let fields = match schema["properties"].as_object() {
            Some(fields) => fields,
            None if schema["type"] == "object" => &nothing,
            None => return Value::Null,
        };
        let required = schema["required"].as_array();
        let is_needed =
            |name: &String| required.is_some_and(|all| all.iter().any(|own| own == name));
        // Nothing is chosen for the caller where nothing is needed.
        let is_shown = |name: &String, field: &Value| {
            self.side == Side::Answer || is_needed(name) || field.get("example").is_some()
        };
        let shown = fields.iter().filter(|(name, field)| is_shown(name, field));
        let examples = shown.filter_map(|(name, field)| {
            let own = Some(self.of(field)).filter(is_something);
            let usual = || (self.side == Side::Answer).then(|| usual(name, field)).flatten();
            Some((name.clone(), own.or_else(usual)?))
        });
        Value::Object(examples.collect())
    }
}

/// What a field of an answer holds that has no example.
fn usual(name: &str, field: &Value) -> Option<Value> {
    if let Some((_, known)) = USUAL.iter().find(|(known, _)| *known == name)
        && field["type"] == "string"
    {
        return Some(json!(known));
    }
    match &field["type"] {
        Value::Array(_) => Some(Value::Null),
        kind if kind == "array" => Some(json!([])),
        kind if kind == "object" => Some(json!({})),
        kind if kind == "boolean" => Some(json!(SET.contains(&name))),
        kind if kind == "integer" => Some(json!(if name == "max_attempts" { 5 } else { 1 })),
        _ if field["format"] == "date-time" => Some(json!("2026-11-23T18:30:00.000Z")),
        _ => None,
    }
}

fn is_something(example: &Value) -> bool {
    !example.is_null() && example.as_object().is_none_or(|fields| !fields.is_empty())
}
