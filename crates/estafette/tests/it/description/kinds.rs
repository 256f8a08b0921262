//! The problems that follow from the kind of a route are given where they are described. That those
//! which are given are described is asked of every answer (`world/documented.rs`).

use serde_json::{Value, json};

use super::{Operation, Things, WrongKeys, document, operations};
use crate::world::{Answer, Engine, World};

/// No such key, cursor, parameter.
const NONSENSE: &str = "zzz";

/// It is about the edge and the extractors, which storage has no part in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn problems_of_every_kind_of_route_are_given_where_they_are_described() {
    let world = World::new(Engine::Lite).await;
    let (document, things) = (document(), Things::of(&world).await);
    let keys = WrongKeys::of(&things).await;
    let (mut count, mut wrong) = (0, vec![]);
    for operation in &operations(&document) {
        for (code, answer) in provoked(operation, &things, &document, &keys).await {
            count += 1;
            if answer.body["code"] == code {
                answer.problem(code);
            } else {
                wrong.push(format!("{} for {code}: {}", operation.name(), answer.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are not given:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 500, "only {count} problems were asked for");
    world.finish().await;
}

/// What an operation answers to requests that must lead to these codes, where it has them.
async fn provoked(
    operation: &Operation,
    things: &Things<'_>,
    document: &Value,
    keys: &WrongKeys,
) -> Vec<(&'static str, Answer)> {
    let (world, env) = (things.ada.world, things.ada.env);
    let path = things.path(&operation.path);
    let has = |code: &str| operation.has_code(document, code);
    let bare = |path: &str| world.call(&operation.method, env, path);
    let with = |query: &str| things.call(operation, &format!("{path}?{query}"));
    let open = || things.call(operation, &path);
    let mut all = vec![];
    if has("missing_credentials") {
        all.push(("missing_credentials", bare(&path)));
    }
    if has("invalid_api_key") {
        all.push(("invalid_api_key", bare(&path).key("est_test_nonsense")));
        all.push(("wrong_environment", bare(&path).key(&keys.live)));
    }
    if has("insufficient_scope") {
        all.push(("insufficient_scope", bare(&path).key(keys.weak_at(operation))));
    }
    // Elsewhere the token is in the body, and came by email.
    if has("invalid_token") && has("missing_credentials") {
        all.push(("invalid_token", bare(&path).bearer("est_pt_nonsense")));
    }
    all.push(("invalid_request", with("zzz=1")));
    if has("not_acceptable") {
        all.push(("not_acceptable", open().header("accept", "text/css")));
    }
    if has("invalid_cursor") {
        all.push(("invalid_cursor", with(&format!("cursor={NONSENSE}"))));
    }
    if has("unsupported_media_type") && operation.json_body().is_some() {
        all.push(("unsupported_media_type", open().raw("text/plain", "x")));
    }
    if has("invalid_json") {
        all.push(("invalid_json", open().raw("application/json", "{")));
        all.push(("validation_failed", open().json(json!({NONSENSE: 1}))));
    }
    if has("invalid_idempotency_key") && operation.json_body().is_some() {
        let example = operation.json_body().unwrap()["example"].clone();
        let long = "x".repeat(256);
        all.push((
            "invalid_idempotency_key",
            open().json(example).header("idempotency-key", &long),
        ));
    }
    let mut answers = vec![];
    for (code, call) in all {
        answers.push((code, call.await));
    }
    answers
}
