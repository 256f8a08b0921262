//! The description at the live address: without virtual handsets and mailboxes, and without the
//! components that only those have.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// What only the sandbox answers.
const SANDBOX: &str = "/v1/sandbox/";
const TAG: &str = "Sandbox";
const COMPONENTS: &str = "#/components/";
/// The components that nothing but references leads to.
const KINDS: [&str; 5] = ["schemas", "responses", "parameters", "headers", "examples"];

/// What is left of a description of both.
pub(super) fn without_sandbox(mut document: Value) -> Value {
    if let Some(paths) = object(&mut document, "/paths") {
        paths.retain(|path, _| !path.starts_with(SANDBOX));
    }
    if let Some(tags) = document.pointer_mut("/tags").and_then(Value::as_array_mut) {
        tags.retain(|tag| tag.pointer("/name").and_then(Value::as_str) != Some(TAG));
    }
    let used = used(&document);
    for kind in KINDS {
        if let Some(parts) = object(&mut document, &format!("/components/{kind}")) {
            parts.retain(|name, _| used.contains(&format!("{kind}/{name}")));
        }
    }
    document
}

fn object<'a>(document: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    document.pointer_mut(pointer).and_then(Value::as_object_mut)
}

/// The components that something leads to, other than each other alone: `schemas/Problem`.
fn used(document: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = Vec::new();
    for root in ["/paths", "/webhooks"].iter().filter_map(|root| document.pointer(root)) {
        references(root, &mut open);
    }
    while let Some(place) = open.pop() {
        if let Some(component) = document.pointer(&format!("/components/{place}"))
            && found.insert(place)
        {
            references(component, &mut open);
        }
    }
    found
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let to = members.get("$ref").and_then(Value::as_str);
            found.extend(to.and_then(|to| to.strip_prefix(COMPONENTS)).map(str::to_owned));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::without_sandbox;

    #[test]
    fn what_only_the_sandbox_has_is_left_out() {
        let to = |name| json!({ "$ref": format!("#/components/schemas/{name}") });
        let document = json!({
            "paths": {
                "/v1/otp": { "get": to("Shared") },
                "/v1/sandbox/handsets": { "get": [to("Shared"), to("Handset")] },
            },
            "tags": [{ "name": "OTP" }, { "name": "Sandbox" }],
            "components": { "schemas": {
                "Shared": to("Inner"), "Inner": {},
                "Handset": to("Screen"), "Screen": to("Handset"),
            }, "responses": { "Handset403": to("Inner") } },
        });
        let expected = json!({
            "paths": { "/v1/otp": { "get": to("Shared") } },
            "tags": [{ "name": "OTP" }],
            "components": { "schemas": { "Shared": to("Inner"), "Inner": {} }, "responses": {} },
        });
        assert_eq!(without_sandbox(document), expected);
    }
}
