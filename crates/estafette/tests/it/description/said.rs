//! What a problem says for example is what the service says at that operation, word for word.

use serde_json::{Value, json};

use super::{Operation, Things, WrongKeys, document, operations};
use crate::world::{Answer, Engine, World};

/// It is about the edge and the parsers, which storage has no part in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn problems_say_what_their_examples_say() {
    let world = World::new(Engine::Lite).await;
    let (document, things) = (document(), Things::of(&world).await);
    let keys = WrongKeys::of(&things).await;
    let (mut count, mut wrong) = (0, vec![]);
    for operation in &operations(&document) {
        let path = things.path(&operation.path);
        let bare = || world.call(&operation.method, things.ada.env, &path);
        let mut asked = vec![];
        if let Some(shown) = operation.example(&document, "insufficient_scope") {
            asked.push((shown, bare().key(keys.weak_at(operation)).await));
        }
        if let Some(shown) = operation.example(&document, "wrong_environment") {
            asked.push((shown, bare().key(&keys.live).await));
        }
        if let Some(shown) = operation.example(&document, "validation_failed") {
            asked.push((shown, faulty(operation, &things, &path, shown).await));
        }
        for (shown, answer) in asked {
            count += 1;
            if ["code", "detail", "errors"].iter().any(|name| answer.body[*name] != shown[*name]) {
                wrong.push(format!("{}: {shown}\n    {}", operation.name(), answer.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} say something else:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 120, "only {count} examples were compared");
    world.finish().await;
}

/// The answer to the example of a request, with the fault that the example of its problem has.
async fn faulty(operation: &Operation, things: &Things<'_>, path: &str, shown: &Value) -> Answer {
    let call = things.call(operation, path);
    let Some(body) = operation.json_body() else {
        return call.raw("multipart/form-data; boundary=B", "--B--\r\n").await;
    };
    let fault = &shown["errors"][0];
    let name = fault["pointer"].as_str().unwrap().trim_start_matches('/');
    let mut request = body["example"].clone();
    let members = request.as_object_mut().expect("an object");
    if fault["code"] == "required" {
        members.remove(name).unwrap_or_else(|| panic!("{} has no {name}", operation.name()));
    } else {
        members.insert(name.to_owned(), json!(0.5));
    }
    call.json(request).await
}
