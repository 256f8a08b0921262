//! The words of the description: what a stranger reads in a list of operations.

use serde_json::Value;

use super::{document, operations};

/// Why a text is no summary, if it is none.
fn fault(summary: &str) -> Option<&'static str> {
    let first = summary.split(' ').next().unwrap_or_default();
    let is_told_of = first.ends_with('s') && !first.ends_with("ss");
    let begins = first.chars().next().is_some_and(char::is_uppercase);
    match () {
        () if summary.chars().count() > 60 => Some("is longer than 60 characters"),
        () if summary.contains('\n') => Some("has several lines"),
        () if summary.contains('.') => Some("has a full stop"),
        () if !begins => Some("begins without a capital"),
        () if is_told_of => Some("tells of it, and does not say what to do"),
        () => None,
    }
}

#[test]
fn summaries_are_short_and_say_what_one_does() {
    let document = document();
    let mut faults = vec![];
    let mut judge = |name: String, summary: &Value| {
        let summary = summary.as_str().unwrap_or_default();
        faults.extend(fault(summary).map(|why| format!("{name}: {summary:?} {why}")));
    };
    for operation in operations(&document) {
        judge(operation.name(), &operation.described["summary"]);
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        if item["x-websocket"].is_object() {
            judge(path.clone(), &item["summary"]);
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn what_is_no_summary_is_noticed() {
    assert_eq!(fault("Suppress an address"), None);
    for wrong in ["Sends an SMS", "send an SMS", "Log in. It works", "Log\nin"] {
        assert!(fault(wrong).is_some(), "{wrong:?}");
    }
    assert!(fault(&"Send ".repeat(13)).is_some());
}

/// The names in the code, its links and its types are nothing to those who call.
#[test]
fn nothing_of_the_code_shows() {
    let text = document().to_string();
    for trace in ["[`", "::", "Option<", "Vec<"] {
        let at = text.find(trace);
        let around = at.and_then(|at| text.get(at.saturating_sub(60)..)).unwrap_or_default();
        let around: String = around.chars().take(120).collect();
        assert!(at.is_none(), "{trace} in {around:?}");
    }
}

/// What people read first is told in words: every field of the passcodes' answers and requests.
#[test]
fn every_field_of_a_passcode_is_described() {
    let document = document();
    for schema in [
        "SendRequest",
        "VerifyRequest",
        "SentView",
        "ChatappSentView",
        "VerifiedView",
        "ChallengeView",
        "HandsetMessage",
        "WrongCode",
    ] {
        let fields = document["components"]["schemas"][schema]["properties"].as_object();
        for (name, field) in fields.unwrap_or_else(|| panic!("there is no {schema}")) {
            // What may be missing is one of nothing and something.
            let something = field["oneOf"].as_array().into_iter().flatten();
            let is_told = something.chain([field]).any(|part| part["description"].is_string());
            assert!(is_told, "{schema}.{name} is not described");
        }
    }
}
