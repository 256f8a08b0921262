//! For every operation with an id in its path: another account's object does not exist. New
//! operations are found in the API description, so none can be forgotten.

use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{Call, World};

on_every_engine!(
    foreign_objects_do_not_exist,
    foreign_handsets_are_empty,
    a_cursor_leads_on_in_ones_own_lists_only,
);

/// Parameters that are no ids of objects: numbers, codes and addresses are everybody's, and
/// carriers are the operator's.
const NO_IDS: [&str; 4] = ["phone", "code", "address", "carrier"];

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
    let mail = json!({"to": ["a@b.example"], "from_email": "a@sandbox.estafette.test",
        "subject": "hello", "text": "hello"});
    let mail = ada.call("POST", "/v1/emails").json(mail).await.ok();
    let body = json!({"address": format!("{}@b.example", mail.word("id"))});
    ada.desk("POST", "/v1/email-suppressions").json(body).await.ok();
    let body = json!({"domain": format!("{}.example", mail.word("id").replace('_', "-"))});
    let domain = ada.desk("POST", "/v1/email-domains").json(body).await.ok();
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
    // A draft, which can be declared again.
    let template = json!({"name": "adas_own", "body": "Bonjour", "submit": false});
    ada.call("POST", "/v1/chatapp/templates").json(template).await.ok();
    let file = written.await.ok().field("attachments")[0]["id"].as_str().unwrap().to_owned();
    vec![
        ("session_id", logins.list()[0]["id"].as_str().unwrap().to_owned()),
        ("challenge_id", sent.word("challenge_id").to_owned()),
        ("email_id", mail.word("id").to_owned()),
        ("domain_id", domain.word("id").to_owned()),
        ("message_id", sms.word("id").to_owned()),
        ("key_id", ada.key_id.clone()),
        ("webhook_id", hook.word("id").to_owned()),
        ("event_id", test.word("event_id").to_owned()),
        ("delivery_id", test.word("id").to_owned()),
        ("notification_id", heard.list()[0]["id"].as_str().unwrap().to_owned()),
        ("file_id", file),
        ("ticket_id", ticket),
        ("name", "adas_own".to_owned()),
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

async fn a_cursor_leads_on_in_ones_own_lists_only(world: &World) {
    let ada = world.account("ada").await;
    let eve = world.account("eve").await;
    for one in [&ada, &eve] {
        objects(one).await;
        objects(one).await;
        one.send(json!({"to": phone("5679"), "code": "4822"})).await.ok();
        one.send(json!({"to": "+447400123456"})).await.ok();
        one.new_key("another", &["otp:send"]).await;
        for ending in ["5671", "5672"] {
            crate::chatapp::open_window(one, ending).await;
            crate::chatapp::text(one, ending).await.ok();
            crate::chatapp::ask(one, ending).await;
            crate::chatapp::prompt_on(one, ending).await;
        }
        for value in ["One", "Two"] {
            one.desk("POST", "/v1/senders").json(json!({"value": value})).await.ok();
        }
    }
    let body = json!({"email": ada.email, "password": crate::world::tenant::PASSWORD});
    world.post(ada.env, "/v1/auth/login").json(body).await.ok();
    let document = world.get(ada.env, "/v1/openapi.json").await.ok();
    let mut tried = vec![];
    for (path, methods) in document.field("paths").as_object().expect("paths") {
        let parameters = methods["get"]["parameters"].as_array();
        let is_cursor = |it: &serde_json::Value| it["$ref"] == "#/components/parameters/Cursor";
        let has_cursor = parameters.is_some_and(|all| all.iter().any(is_cursor));
        if !has_cursor || path.starts_with("/v1/admin/") || path.contains("{webhook_id}") {
            continue;
        }
        let path = path.replace("{phone}", &phone("5678")).replace("{address}", "a@b.example");
        let first = ada.desk("GET", &format!("{path}?limit=1")).await.ok();
        let link = first.head("link");
        let next = link.split(['<', '>']).nth(1).unwrap_or_else(|| panic!("{path}: {link}"));
        ada.desk("GET", next).await.ok();
        eve.desk("GET", next).await.problem("invalid_cursor");
        tried.push(path);
    }
    assert!(tried.len() >= 8, "{tried:?}");
}
