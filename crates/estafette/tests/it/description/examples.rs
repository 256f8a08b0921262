//! Examples of requests are sent as they stand, after what their description asks for, and must do
//! what it says. Only what cannot be known beforehand is put in: ids of things. Examples of answers
//! are whole.

use estafette::access::idempotency::Claim;
use serde_json::{Value, json};

use super::{Operation, Things, document, login, operations, resolved};
use crate::emails::noticing::writing;
use crate::on_every_engine;
use crate::smpp::{give, settings};
use crate::world::World;
use crate::world::tenant::PASSWORD;

on_every_engine!(examples_of_requests_work_as_they_are with writing);

/// What others rely on goes first, what ends something goes last.
const FIRST: &[&str] = &["/v1/auth/signup", "/v1/otp/send", TEMPLATES];
const LAST: &[&str] = &[
    ROUTES,
    "/v1/admin/erasures",
    "/v1/admin/support/tickets/{ticket_id}",
    "/v1/support/tickets/{ticket_id}/rating",
    "/v1/admin/support/tickets/{ticket_id}/merge",
    "/v1/auth/password",
    "/v1/auth/logout",
    "/v1/admin/auth/password",
    "/v1/admin/auth/logout",
];

const TEMPLATES: &str = "/v1/chatapp/templates";
const ROUTES: &str = "/v1/admin/routes";

/// What takes a token that only an email has.
const MAILED: &[&str] = &["/v1/auth/verify-email", "/v1/auth/password/reset/confirm"];

async fn examples_of_requests_work_as_they_are(world: &World) {
    let (document, things) = (document(), Things::of(world).await);
    let app = world.app(estafette::app::Env::Live).await;
    let secret = estafette::kit::secret::Secret::new(PASSWORD.to_owned());
    let email = login()["email"].as_str().unwrap().to_owned();
    let credentials = estafette::access::Credentials { email: &email, password: &secret };
    let by = estafette::access::By::CLI;
    estafette::access::add_staff(&app, credentials, by, &Claim::default(), false)
        .await
        .expect("a member of staff");
    let mut all = operations(&document);
    all.retain(|operation| operation.json_body().is_some());
    all.sort_by_key(|operation| rank(&operation.path));
    let mut failed = vec![];
    for operation in &all {
        let mut example = operation.json_body().unwrap()["example"].clone();
        settle(&mut example, &things);
        let path = things.path(&operation.path);
        let call = if operation.path == ROUTES {
            // "The carriers that a route names must be in the settings".
            give(world, settings(&[("main", "127.0.0.1:9".parse().unwrap(), "")])).await;
            world.put(estafette::app::Env::Live, &path).bearer(&things.staff)
        } else {
            things.call(operation, &path)
        };
        let answer = call.json(&example).await;
        if operation.path == TEMPLATES {
            // "… which the sandbox approves a second after it was sent".
            world.advance(1_000).await;
        }
        let wanted = if MAILED.contains(&&*operation.path) { 401 } else { 200 };
        if answer.status != wanted {
            let (status, text) = (answer.status, answer.text);
            failed.push(format!("{} {example}: {status} {text}", operation.name()));
        }
    }
    assert!(all.len() > 25, "only {} examples", all.len());
    assert!(failed.is_empty(), "{} examples fail:\n{}", failed.len(), failed.join("\n"));
}

fn rank(path: &str) -> usize {
    let place = |list: &[&str]| list.iter().position(|known| *known == path);
    match (place(FIRST), place(LAST)) {
        (Some(at), _) => at,
        (_, Some(at)) => 1_000 + at,
        _ => 500,
    }
}

/// Puts real ids in the place of those in an example.
fn settle(example: &mut Value, things: &Things<'_>) {
    let Some(fields) = example.as_object_mut() else { return };
    for (name, value) in fields {
        let name = if name == "id" { "sender_id" } else { name.as_str() };
        if let Some((_, id)) = things.ids.iter().find(|(known, _)| *known == name)
            && value.as_str().is_some_and(|text| text.contains('_'))
        {
            *value = json!(id);
        }
    }
}

/// Whoever copies one has two different things, and whoever reads it sees that there are two.
#[test]
fn no_example_of_a_request_names_what_its_path_names() {
    let document = document();
    let (mut seen, mut faults) = (0, vec![]);
    for operation in operations(&document) {
        let parameters = operation.described["parameters"].as_array().into_iter().flatten();
        let named: Vec<&str> = parameters
            .filter(|one| one["in"] == "path")
            .filter_map(|one| one["example"].as_str())
            .collect();
        let Some(example) = operation.json_body().and_then(|body| body["example"].as_object())
        else {
            continue;
        };
        for (name, value) in example.iter().filter(|(_, value)| value.is_string()) {
            seen += 1;
            if named.iter().any(|named| *value == **named) {
                faults.push(format!("{}: {name} is what the path has", operation.name()));
            }
        }
    }
    assert!(seen > 20, "only {seen} members");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn examples_of_answers_have_all_that_is_always_there() {
    let document = document();
    let (mut seen, mut faults) = (0, vec![]);
    for operation in operations(&document) {
        for (status, answer) in operation.described["responses"].as_object().unwrap() {
            let Some(content) = answer["content"].get("application/json") else { continue };
            let place = format!("{} {status}", operation.name());
            missing(&document, &content["schema"], &content["example"], &place, &mut faults);
            seen += 1;
        }
    }
    assert!(seen > 80, "only {seen} answers");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Notes what a schema requires and an example has not.
fn missing(
    document: &Value,
    schema: &Value,
    example: &Value,
    place: &str,
    faults: &mut Vec<String>,
) {
    let schema = resolved(document, schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        missing(document, part, example, place, faults);
    }
    if let (Some(items), Some(first)) = (schema.get("items"), example.get(0)) {
        missing(document, items, first, &format!("{place}/0"), faults);
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let (field, at) = (&schema["properties"][name], format!("{place}/{name}"));
        match example.get(name) {
            None => faults.push(at),
            Some(Value::Null) => {}
            Some(value) => missing(document, field, value, &at, faults),
        }
    }
}

/// Calls `see` with every object in a value, and its place.
fn objects(value: &Value, place: &str, see: &mut impl FnMut(&Value, &str)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| objects(item, place, see)),
        Value::Object(members) => {
            see(value, place);
            for (name, member) in members {
                objects(member, &format!("{place}/{name}"), see);
            }
        }
        _ => {}
    }
}

/// Every example of an answer that is JSON, with its schema.
fn answers(all: &[Operation]) -> Vec<(String, &Operation, &Value, &Value)> {
    let mut found = vec![];
    for operation in all {
        for (status, answer) in operation.described["responses"].as_object().unwrap() {
            if let Some(content) = answer["content"].get("application/json") {
                let place = format!("{} {status}", operation.name());
                found.push((place, operation, &content["schema"], &content["example"]));
            }
        }
    }
    found
}

/// What is wrong where nothing went wrong.
const FAULTS: [&str; 3] = ["error", "failure_reason", "rejection_reason"];
/// The statuses of what did.
const FAILED: [&str; 7] =
    ["failed", "undelivered", "bounced", "expired", "rejected", "REJECTED", "exhausted"];

#[test]
fn examples_of_answers_do_not_contradict_themselves() {
    let document = document();
    let all = operations(&document);
    let mut faults = vec![];
    for (place, operation, _, example) in answers(&all) {
        objects(example, &place, &mut |object, place| {
            let word = |name: &str| object[name].as_str().unwrap_or_default();
            let is_fine = object["status"].is_string() && !FAILED.contains(&word("status"));
            for name in FAULTS.iter().filter(|name| is_fine && !object[**name].is_null()) {
                faults.push(format!("{place}: {name} with {}", word("status")));
            }
            if object["secret"].is_string() && operation.method != "POST" {
                faults.push(format!("{place}: a secret that is shown once is read"));
            }
            if object["active"] == true && !object["disabled_reason"].is_null() {
                faults.push(format!("{place}: active and disabled"));
            }
            if object["verified"] == true && word("status") != "verified" {
                faults.push(format!("{place}: verified and {}", word("status")));
            }
            let is_checked = object["verified_at"].is_string();
            if is_checked && word("status") != "verified" {
                faults.push(format!("{place}: verified once and {}", word("status")));
            }
            let (made, ends) = (word("created_at"), word("expires_at"));
            if !made.is_empty() && !ends.is_empty() && made >= ends {
                faults.push(format!("{place}: it ends when it begins"));
            }
            if word("kind") == "topup" && object["amount"].as_i64() < Some(0) {
                faults.push(format!("{place}: a top-up that takes"));
            }
        });
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn examples_of_answers_follow_from_those_of_their_requests() {
    let document = document();
    let all = operations(&document);
    let (mut seen, mut faults) = (0, vec![]);
    for (place, operation, _, example) in answers(&all) {
        let request = operation.json_body().and_then(|body| body["example"].as_object());
        for (name, asked) in request.into_iter().flatten() {
            let Some(given) = example.get(name) else { continue };
            let is_same = match (asked.as_str(), given.as_str()) {
                (Some(asked), Some(given)) => {
                    asked.trim_start_matches('+') == given.trim_start_matches('+')
                }
                _ => asked == given,
            };
            seen += 1;
            if !is_same {
                faults.push(format!("{place}: {name} is {given}, and {asked} was asked for"));
            }
        }
    }
    assert!(seen > 20, "only {seen} members were compared");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_part_of_a_path_has_an_example() {
    let document = document();
    let (mut seen, mut faults) = (0, vec![]);
    for (path, item) in document["paths"].as_object().unwrap() {
        objects(item, path, &mut |object, place| {
            let parameters = object.get("parameters").and_then(Value::as_array);
            for one in parameters.into_iter().flatten().filter(|one| one["in"] == "path") {
                seen += 1;
                if !one["example"].is_string() {
                    faults.push(format!("{place}: {}", one["name"]));
                }
            }
        });
    }
    assert!(seen > 60, "only {seen} parts of paths");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_key_of_the_examples_is_well_formed() {
    let key = document()["paths"]["/v1/api-keys"]["post"]["responses"]["200"]["content"]
        ["application/json"]["example"]["api_key"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(estafette::access::key::check(&key).is_ok(), "{key}");
}

#[test]
fn nobody_opens_a_socket_without_a_token() {
    let document = document();
    let sockets = document["paths"].as_object().unwrap().values();
    let sockets: Vec<&Value> =
        sockets.map(|item| &item["x-websocket"]).filter(|socket| socket.is_object()).collect();
    assert_eq!(sockets.len(), 2);
    for socket in sockets {
        assert!(!socket["security"].as_array().unwrap().is_empty(), "{socket}");
        let told = socket["description"].as_str().unwrap();
        assert!(told.contains("Needs a ") && told.contains("one-use token"), "{told}");
    }
}

#[test]
fn examples_of_answers_have_only_what_is_described() {
    let document = document();
    let all = operations(&document);
    let mut faults = vec![];
    for (place, _, schema, example) in answers(&all) {
        strange(&document, schema, example, &place, &mut faults);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Notes members that a schema has not, and words that are none of its.
fn strange(
    document: &Value,
    schema: &Value,
    example: &Value,
    place: &str,
    faults: &mut Vec<String>,
) {
    let schema = resolved(document, schema);
    if let (Some(items), Some(first)) = (schema.get("items"), example.get(0)) {
        return strange(document, items, first, &format!("{place}/0"), faults);
    }
    if let (Some(words), false) = (schema["enum"].as_array(), example.is_null())
        && !words.contains(example)
    {
        faults.push(format!("{place}: {example} is no word of {words:?}"));
    }
    let parts = schema["allOf"].as_array().into_iter().flatten().chain([schema]);
    let parts = parts.filter_map(|part| resolved(document, part)["properties"].as_object());
    let fields: Vec<_> = parts.flatten().collect();
    // An object of free form, such as an event's, has none.
    for (name, value) in example.as_object().into_iter().flatten().filter(|_| !fields.is_empty()) {
        let at = format!("{place}/{name}");
        match fields.iter().find(|(known, _)| *known == name) {
            Some((_, field)) => strange(document, field, value, &at, faults),
            None => faults.push(format!("{at} is not described")),
        }
    }
}
