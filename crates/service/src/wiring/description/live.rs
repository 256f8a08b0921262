//! The description at the live address: without virtual handsets and mailboxes, and without the
//! schemas that only those have.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// What only the sandbox answers.
const SANDBOX: &str = "/v1/sandbox/";
const TAG: &str = "Sandbox";
const SCHEMAS: &str = "#/components/schemas/";

/// What is left of a description of both.
pub(super) fn without_sandbox(mut document: Value) -> Value {
    if let Some(paths) = object(&mut document, "/paths") {
        paths.retain(|path, _| !path.starts_with(SANDBOX));
    }
    if let Some(tags) = document.pointer_mut("/tags").and_then(Value::as_array_mut) {
        tags.retain(|tag| tag.pointer("/name").and_then(Value::as_str) != Some(TAG));
    }
    let used = used(&document);
    if let Some(schemas) = object(&mut document, "/components/schemas") {
        schemas.retain(|name, _| used.contains(name));
    }
    document
}

fn object<'a>(document: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    document.pointer_mut(pointer).and_then(Value::as_object_mut)
}

/// The schemas that something leads to, other than each other alone.
fn used(document: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = Vec::new();
    let roots = ["/paths", "/webhooks", "/components/responses", "/components/headers"];
    for root in roots.iter().filter_map(|root| document.pointer(root)) {
        references(root, &mut open);
    }
    while let Some(name) = open.pop() {
        if let Some(schema) = document.pointer(&format!("/components/schemas/{name}"))
            && found.insert(name)
        {
            references(schema, &mut open);
        }
    }
    found
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let to = members.get("$ref").and_then(Value::as_str);
            found.extend(to.and_then(|to| to.strip_prefix(SCHEMAS)).map(str::to_owned));
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
            }},
        });
        let expected = json!({
            "paths": { "/v1/otp": { "get": to("Shared") } },
            "tags": [{ "name": "OTP" }],
            "components": { "schemas": { "Shared": to("Inner"), "Inner": {} } },
        });
        assert_eq!(without_sandbox(document), expected);
    }
}
