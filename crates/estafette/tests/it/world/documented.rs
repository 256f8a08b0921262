//! Whether an answer is one that the API description has for its operation. Every answer of every
//! story is asked, so a code that is not in the description fails the story that first gets it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

/// The statuses of an operation, each with the codes that it can have.
type Answers = BTreeMap<u16, BTreeSet<String>>;

/// A path in segments; what is in braces stands for any.
struct Operation {
    method: String,
    path: Vec<String>,
    answers: Answers,
}

fn operations() -> &'static [Operation] {
    static ALL: OnceLock<Vec<Operation>> = OnceLock::new();
    ALL.get_or_init(|| {
        let document = estafette::wiring::description::openapi();
        let mut all = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in ["get", "put", "post", "patch", "delete"] {
                let Some(operation) = item.get(method) else { continue };
                let path = path.split('/').map(str::to_owned).collect();
                let answers = answers(&document, operation);
                all.push(Operation { method: method.to_uppercase(), path, answers });
            }
        }
        all
    })
}

fn answers(document: &Value, operation: &Value) -> Answers {
    let described = operation["responses"].as_object().unwrap();
    let codes = |answer: &Value| -> BTreeSet<String> {
        let answer = followed(document, answer);
        let schema = &answer["content"]["application/problem+json"]["schema"];
        let mut codes = BTreeSet::new();
        gather(followed(document, schema), &mut codes);
        codes
    };
    described.iter().map(|(status, answer)| (status.parse().unwrap(), codes(answer))).collect()
}

/// What a reference leads to.
fn followed<'v>(document: &'v Value, value: &'v Value) -> &'v Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).expect("a reference that leads on"),
        None => value,
    }
}

/// The words that `code` may be.
fn gather(schema: &Value, codes: &mut BTreeSet<String>) {
    let words = schema["properties"]["code"]["enum"].as_array();
    codes.extend(words.into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()));
    for parts in ["allOf", "oneOf"] {
        for part in schema[parts].as_array().into_iter().flatten() {
            gather(part, codes);
        }
    }
}

fn fits(template: &[String], path: &str) -> bool {
    let mut segments = path.split('/');
    let all = template
        .iter()
        .all(|own| segments.next().is_some_and(|segment| own.starts_with('{') || own == segment));
    all && segments.next().is_none()
}

/// Panics if the description has the operation, but not this answer.
pub fn check(method: &str, path: &str, status: u16, body: &Value) {
    // The router, too, goes by the path first.
    let of_path = || operations().iter().filter(|each| fits(&each.path, path));
    let Some(fewest) = of_path().map(|each| wild(&each.path)).min() else { return };
    let mut meant = of_path().filter(|each| wild(&each.path) == fewest);
    let Some(operation) = meant.find(|each| each.method == method) else { return };
    let code = body["code"].as_str().filter(|_| status >= 400).unwrap_or("");
    // Handsets are on the sandbox's address alone.
    if code == "route_not_found" {
        return;
    }
    let known = operation.answers.get(&status);
    assert!(
        known.is_some_and(|codes| codes.is_empty() || codes.contains(code)),
        "{method} {path} answers {status} {code}, which its description does not have: {body}"
    );
}

/// How many segments of a template stand for any: the one with fewer is meant.
fn wild(path: &[String]) -> usize {
    path.iter().filter(|segment| segment.starts_with('{')).count()
}

#[test]
#[should_panic(expected = "which its description does not have")]
fn an_answer_that_is_not_described_is_noticed() {
    let body = serde_json::json!({"code": "template_exists"});
    check("POST", "/v1/otp/send", 409, &body);
}

#[test]
fn answers_that_are_described_pass() {
    let body = serde_json::json!({"code": "insufficient_credits"});
    check("POST", "/v1/otp/send", 402, &body);
    check("GET", "/v1/otp/otp_1", 200, &Value::Null);
    check("GET", "/v1/nowhere", 404, &Value::Null);
}
