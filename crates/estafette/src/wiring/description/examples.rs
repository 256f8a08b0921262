//! Examples of request bodies, put together from those of their fields: what can be sent as it is.
//! A test sends them all.

use serde_json::{Map, Value};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::Components;
use utoipa::openapi::{RefOr, Schema};

/// Gives the JSON body of an operation an example.
pub(super) fn add(operation: &mut Operation, components: &Components) {
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    let Some(RefOr::T(content)) = body.content.get_mut("application/json") else { return };
    if let (None, Some(schema)) = (&content.example, &content.schema) {
        let schema = serde_json::to_value(schema).unwrap_or_default();
        content.example = Some(of(&schema, components));
    }
}

/// The example of a schema: its own, or an object of the fields that have one.
fn of(schema: &Value, components: &Components) -> Value {
    if let Some(own) = schema.get("example") {
        return own.clone();
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let found: Option<&RefOr<Schema>> = components.schemas.get(name);
        return of(&serde_json::to_value(found).unwrap_or_default(), components);
    }
    // An optional body is one of nothing and something.
    for part in schema["oneOf"].as_array().into_iter().flatten() {
        if part["type"] != "null" {
            return of(part, components);
        }
    }
    if schema["type"] == "array" {
        let item = of(&schema["items"], components);
        return if is_something(&item) { Value::Array(vec![item]) } else { Value::Null };
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.first().cloned().unwrap_or_default();
    }
    let nothing = Map::new();
    let fields = match schema["properties"].as_object() {
        Some(fields) => fields,
        None if schema["type"] == "object" => &nothing,
        None => return Value::Null,
    };
    let required = schema["required"].as_array();
    let is_needed = |name: &String| required.is_some_and(|all| all.iter().any(|own| own == name));
    // Nothing is chosen for the caller where nothing is needed.
    let is_shown = |name: &String, field: &Value| is_needed(name) || field.get("example").is_some();
    let shown = fields.iter().filter(|(name, field)| is_shown(name, field));
    let examples = shown.map(|(name, field)| (name.clone(), of(field, components)));
    Value::Object(examples.filter(|(_, example)| is_something(example)).collect::<Map<_, _>>())
}

fn is_something(example: &Value) -> bool {
    !example.is_null() && example.as_object().is_none_or(|fields| !fields.is_empty())
}
