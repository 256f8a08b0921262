//! What a problem says for example, where that depends on the operation: its scopes, its body, its
//! own limits. It is what the service says there, a story compares both.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::Components;
use utoipa::openapi::{Content, RefOr};

use super::facts::Facts;
use crate::access::Scope;
use crate::access::refused::{lacks_scope, of_other_environment};
use crate::app::Env;
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;
use crate::kit::words::one_of;

/// Where the live address is in examples.
const LIVE: &str = "http://127.0.0.1:8080";
/// A name that no body has.
const UNKNOWN: &str = "colour";

/// The words of one operation's problem.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// Tells it from what other operations say with the same code; empty where all say the same.
    pub(super) variant: String,
    pub(super) problem: Problem,
}

/// A problem that a handler declares among its codes, because its words are its own.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(2))?;
        members.serialize_entry("code", &self.code())?;
        members.serialize_entry("detail", self.said())?;
        members.end()
    }
}

/// What an operation's problems say, as far as it is not what their code advises.
pub(super) fn of(
    operation: &Operation,
    facts: &Facts,
    components: &Components,
) -> BTreeMap<Code, Said> {
    let all_the_same = |problem| Said { variant: String::new(), problem };
    let mut said = BTreeMap::from([
        (Code::WrongEnvironment, all_the_same(of_other_environment(Env::Live, LIVE, Env::Sandbox))),
        (Code::InsufficientScope, missing_scope(facts.scopes())),
    ]);
    if let Some(invalid) = invalid(operation, components) {
        said.insert(Code::ValidationFailed, invalid);
    }
    let id = operation.operation_id.as_deref().unwrap_or_default();
    for (code, detail) in super::facts::declared_words(operation) {
        let problem = Problem::new(code).detail(detail);
        said.insert(code, Said { variant: id.to_owned(), problem });
    }
    said
}

fn missing_scope(words: &[String]) -> Said {
    let scopes: Vec<Scope> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let variant = words.join("-").replace(':', "_");
    Said { variant, problem: lacks_scope(Scope::set(&scopes)) }
}

/// A body that lacks the first field that it needs; without such a field, one that has the first it
/// may have in a type that is not taken.
fn invalid(operation: &Operation, components: &Components) -> Option<Said> {
    let Some(RefOr::T(body)) = &operation.request_body else { return None };
    if body.content.contains_key("multipart/form-data") {
        let item = Item::at("/file", "required", "is required: one part with a file name");
        return Some(invalid_field("file", item));
    }
    let RefOr::T(Content { schema: Some(schema), .. }) = body.content.values().next()? else {
        return None;
    };
    let schema = resolved(&serde_json::to_value(schema).unwrap_or_default(), components);
    let mut required = schema["required"].as_array().into_iter().flatten();
    let mut fields = schema["properties"].as_object().into_iter().flatten();
    let (name, item) = if let Some(name) = required.find_map(Value::as_str) {
        let field = resolved(&schema["properties"][name], components);
        (name, Item::at(&format!("/{name}"), "required", needed(&field)))
    } else if let Some((name, field)) = fields.next() {
        let field = resolved(field, components);
        (name.as_str(), Item::at(&format!("/{name}"), "invalid_type", mistyped(&field)))
    } else {
        let detail = "is not a field of this request, which has none";
        (UNKNOWN, Item::at(&format!("/{UNKNOWN}"), "unknown_field", detail))
    };
    let kind = item.code;
    let mut said = invalid_field(name, item);
    if kind != "required" {
        said.variant = format!("{name}.{kind}");
    }
    Some(said)
}

fn invalid_field(name: &str, item: Item) -> Said {
    Said { variant: name.to_owned(), problem: Problem::invalid(vec![item]) }
}

fn needed(field: &Value) -> String {
    let words: Vec<&str> =
        field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if words.is_empty() {
        "is required".to_owned()
    } else {
        format!("is required, and {}", one_of(&words))
    }
}

fn mistyped(field: &Value) -> &'static str {
    // Of one that may be null as well, it is the first.
    let kind = field["type"].as_array().map_or(&field["type"], |all| &all[0]);
    match kind.as_str() {
        Some("integer") => "must be an integer",
        Some("boolean") => "must be true or false",
        Some("array") => "must be an array of strings",
        Some("object") => "must be an object",
        _ => "must be a string",
    }
}

/// What a reference, or the part of a choice that is not null, leads to.
fn resolved(schema: &Value, components: &Components) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let found = components.schemas.get(name);
        return resolved(&serde_json::to_value(found).unwrap_or_default(), components);
    }
    let mut parts = schema["oneOf"].as_array().into_iter().flatten();
    match parts.find(|part| part["type"] != "null") {
        Some(part) => resolved(part, components),
        None => schema.clone(),
    }
}
