//! For every operation with an id in its path: another account's object does not exist. New
//! operations are found in the API description, so none can be forgotten.

use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{Call, World};

on_every_engine!(foreign_objects_do_not_exist, foreign_handsets_are_empty);

/// Parameters that are no ids of an account's objects.
const NO_IDS: [&str; 3] = ["phone", "code", "carrier"];

/// All operations of the description with a parameter in their path.
fn operations(document: &Value) -> Vec<(String, String)> {
    let mut found = vec![];
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            if path.contains('{') {
                found.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    found
}

async fn objects(ada: &Tenant<'_>) -> Vec<(&'static str, String)> {
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let sms = ada.text(json!({"to": phone("5678"), "text": "hello"})).await.ok();
    let body = json!({"url": "https://127.0.0.1:9999/"});
    let hook = ada.desk("POST", "/v1/webhooks").json(body).await.ok();
    let path = format!("/v1/webhooks/{}/test", hook.word("id"));
    let test = ada.desk("POST", &path).json(json!({})).await.ok();
    let logins = ada.desk("GET", "/v1/auth/sessions").await.ok();
    let path = format!("/v1/sandbox/handsets/{}/replies", phone("5678"));
    ada.call("POST", &path).json(json!({"text": "hello"})).await.ok();
    let heard = ada.get("/v1/inbound-notifications").await.ok();
    let ticket = crate::support::open(ada, "subject", "message").await;
    let png = crate::support::files::png();
    let written = crate::support::files::upload(ada, &ticket, ("a.png", None, &png), &[]);
    let file = written.await.ok().field("attachments")[0]["id"].as_str().unwrap().to_owned();
    vec![
        ("session_id", logins.list()[0]["id"].as_str().unwrap().to_owned()),
        ("challenge_id", sent.word("challenge_id").to_owned()),
        ("message_id", sms.word("id").to_owned()),
        ("key_id", ada.key_id.clone()),
        ("webhook_id", hook.word("id").to_owned()),
        ("event_id", test.word("event_id").to_owned()),
        ("delivery_id", test.word("id").to_owned()),
        ("notification_id", heard.list()[0]["id"].as_str().unwrap().to_owned()),
        ("file_id", file),
        ("ticket_id", ticket),
    ]
}

fn filled(path: &str, objects: &[(&str, String)]) -> String {
    objects
        .iter()
        .fold(path.to_owned(), |path, (name, id)| path.replace(&format!("{{{name}}}"), id))
}

fn ask(eve: &Tenant<'_>, method: &str, path: &str, by_key: bool) -> Call {
    let call = if by_key { eve.call(method, path) } else { eve.desk(method, path) };
    if ["POST", "PUT", "PATCH"].contains(&method) { call.json(json!({})) } else { call }
}

async fn foreign_objects_do_not_exist(world: &World) {
    let ada = world.account("ada").await;
    let eve = world.account("eve").await;
    let objects = objects(&ada).await;
    let document = world.get(ada.env, "/v1/openapi.json").await.ok();
    let operations = operations(&document.body);
    let mut asked = 0;
    for (method, path) in &operations {
        // A socket answers 101 to everybody, and tells by the code of a close; see support/chat.
        if path.ends_with("/ws") {
            continue;
        }
        if path.starts_with("/v1/admin/") {
            let path = filled(path, &[("account_id", eve.account_id.clone())]);
            let answer = ask(&eve, method, &path, false).await;
            assert_eq!(answer.status, 401, "{method} {path}: {}", answer.text);
            continue;
        }
        if NO_IDS.iter().any(|name| path.contains(&format!("{{{name}}}"))) {
            continue;
        }
        let path = filled(path, &objects);
        assert!(!path.contains('{'), "{method} {path}: make such an object above");
        let (by_key, by_desk) =
            (ask(&eve, method, &path, true).await, ask(&eve, method, &path, false).await);
        let codes = [by_key.word("code"), by_desk.word("code")];
        assert!(codes.contains(&"not_found"), "{method} {path}: {codes:?}");
        let closed = ["not_found", "missing_credentials"];
        assert!(codes.iter().all(|code| closed.contains(code)), "{method} {path}: {codes:?}");
        asked += 1;
    }
    assert!(asked >= 2, "at least the challenge and the key: {operations:?}");
    // Nothing of it touched the owner.
    ada.guess(&objects[1].1, "4821").await.ok();
}

async fn foreign_handsets_are_empty(world: &World) {
    let ada = world.account("ada").await;
    let eve = world.account("eve").await;
    ada.send_to(&phone("5678")).await.ok();
    assert_eq!(ada.handset(&phone("5678")).await.len(), 1);
    assert!(eve.handset(&phone("5678")).await.is_empty());
}
