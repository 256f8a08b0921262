//! Examples of requests are sent as they stand, and must do what their description says. Only what
//! cannot be known beforehand is put in: ids of things. Examples of answers are whole.

use estafette::access::idempotency::Claim;
use serde_json::{Value, json};

use super::{Things, document, login, operations, resolved};
use crate::emails::noticing::writing;
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::PASSWORD;

on_every_engine!(examples_of_requests_work_as_they_are with writing);

/// What others rely on goes first, what ends something goes last.
const FIRST: &[&str] = &["/v1/auth/signup", "/v1/otp/send", "/v1/sandbox/handsets/{phone}/replies"];
const LAST: &[&str] = &[
    "/v1/admin/erasures",
    "/v1/admin/support/tickets/{ticket_id}",
    "/v1/support/tickets/{ticket_id}/rating",
    "/v1/admin/support/tickets/{ticket_id}/merge",
    "/v1/auth/password",
    "/v1/auth/logout",
    "/v1/admin/auth/password",
    "/v1/admin/auth/logout",
];

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
        let answer = things.call(operation, &path).json(&example).await;
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
