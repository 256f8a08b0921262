//! Templates: what may be declared, drafts, how the sandbox judges, and who sees them.

use serde_json::{Value, json};

use super::declare;
use crate::on_every_engine;
use crate::world::tenant::Tenant;
use crate::world::{Call, World};

on_every_engine!(
    a_template_is_pending_then_approved_after_a_second,
    a_draft_is_replaced_and_a_submitted_one_is_not,
    a_template_that_is_rejected_says_why,
    faults_of_a_template_are_named,
    lists_are_filtered_and_another_account_sees_nothing,
    a_repeat_declares_once,
    a_value_does_not_make_a_text_without_end,
);

const PATH: &str = "/v1/chatapp/templates";

fn post(ada: &Tenant<'_>, body: &Value) -> Call {
    ada.call("POST", PATH).json(body)
}

async fn a_template_is_pending_then_approved_after_a_second(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"name": "order", "body": "Bonjour {{1}} {{2}}", "category": "MARKETING",
        "buttons": [{"type": "URL", "text": "Voir", "url": "https://ex.test/{{1}}"}]});
    let declared = post(&ada, &body).await.ok();
    let names = ["language", "message", "name", "provider_template_id", "status"];
    assert_eq!(declared.names(), names);
    assert_eq!((declared.word("language"), declared.word("status")), ("fr", "PENDING"));
    assert!(declared.word("message").contains("submitted"), "{}", declared.text);
    let id = declared.word("provider_template_id");
    assert!(!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
    let sync = format!("{PATH}/order/sync");
    let early = ada.call("POST", &sync).await.ok();
    assert_eq!(early.word("status"), "PENDING");
    world.advance(1_000).await;
    let synced = ada.call("POST", &sync).await.ok();
    assert_eq!(synced.names(), ["language", "message", "name", "status"]);
    assert_eq!(synced.word("status"), "APPROVED");
    assert!(synced.word("message").contains("ready for delivery"));
    let read = ada.get(&format!("{PATH}/order?language=fr")).await.ok();
    assert_eq!((read.word("status"), read.word("provider_status")), ("APPROVED", "APPROVED"));
    assert_eq!((read.word("category"), read.number("body_param_count")), ("MARKETING", 2));
    assert_eq!(read.field("has_url_button"), true);
    assert!(read.body.get("rejection_reason").is_none());
    ada.get(&format!("{PATH}/order?language=en")).await.problem("not_found");
    ada.call("POST", &format!("{PATH}/other/sync")).await.problem("not_found");
}

async fn a_draft_is_replaced_and_a_submitted_one_is_not(world: &World) {
    let ada = world.account("ada").await;
    let draft = json!({"name": "order", "body": "un", "submit": false});
    let declared = post(&ada, &draft).await.ok();
    assert_eq!((declared.word("status"), declared.word("provider_template_id")), ("PENDING", ""));
    world.advance(5_000).await;
    assert_eq!(ada.get(&format!("{PATH}/order")).await.ok().word("status"), "PENDING");
    post(&ada, &json!({"name": "order", "body": "a {{1}} b", "submit": false})).await.ok();
    let read = ada.get(&format!("{PATH}/order")).await.ok();
    assert_eq!((read.number("body_param_count"), read.word("provider_status")), (1, ""));
    declare(world, &ada, &json!({"name": "order", "body": "deux"})).await;
    assert_eq!(ada.get(&format!("{PATH}/order")).await.ok().word("status"), "APPROVED");
    for body in [&draft, &json!({"name": "order", "body": "trois"})] {
        post(&ada, body).await.problem("template_exists");
    }
    assert_eq!(ada.get(&format!("{PATH}/order")).await.ok().number("body_param_count"), 0);
    post(&ada, &json!({"name": "order", "body": "one", "language": "en-US"})).await.ok();
    let read = ada.get(&format!("{PATH}/order?language=en_US")).await.ok();
    assert_eq!(read.word("language"), "en_US");
}

async fn a_template_that_is_rejected_says_why(world: &World) {
    let ada = world.account("ada").await;
    declare(world, &ada, &json!({"name": "a_rejected", "body": "x"})).await;
    let read = ada.get(&format!("{PATH}/a_rejected")).await.ok();
    assert_eq!((read.word("status"), read.word("provider_status")), ("REJECTED", "REJECTED"));
    assert_eq!(read.word("rejection_reason"), "INVALID_FORMAT");
    let synced = ada.call("POST", &format!("{PATH}/a_rejected/sync")).await.ok();
    assert!(synced.word("message").contains("INVALID_FORMAT"), "{}", synced.text);
}

async fn faults_of_a_template_are_named(world: &World) {
    let ada = world.account("ada").await;
    let good = json!({"name": "order", "body": "x"});
    for (name, value, pointer, code) in [
        ("name", json!("Order"), "/name", "invalid_enum"),
        ("name", json!(null), "/name", "required"),
        ("name", json!("a".repeat(500)), "/name", "too_long"),
        ("body", json!("a {{2}} b"), "/body", "invalid_template_params"),
        ("body", json!("a {{1}} {{3}}"), "/body", "invalid_template_params"),
        ("body", json!("x".repeat(1_025)), "/body", "too_long"),
        ("body", json!(" \n "), "/body", "too_short"),
        ("footer", json!("a {{1}}"), "/footer", "invalid_template_params"),
        ("category", json!("OTHER"), "/category", "invalid_enum"),
        ("language", json!("français"), "/language", "invalid_enum"),
        ("buttons", json!([{"type": "LINK", "text": "x"}]), "/buttons/0/type", "invalid_enum"),
        ("buttons", json!([{"type": "URL", "text": "x"}]), "/buttons/0/url", "required"),
        ("submit", json!("yes"), "/submit", "invalid_type"),
        ("colour", json!(1), "/colour", "unknown_field"),
    ] {
        let mut body = good.clone();
        body[name] = value;
        post(&ada, &body).await.fault(pointer, code);
    }
    assert!(ada.get(PATH).await.ok().field("templates").as_array().unwrap().is_empty());
    post(&ada, &json!({"name": "a".repeat(499), "body": "x"})).await.ok();
    let few = ada.new_key("few", &["sms:send", "account:read"]).await;
    let by = world.get(ada.env, PATH).key(few.word("api_key")).await;
    by.problem("insufficient_scope");
}

async fn lists_are_filtered_and_another_account_sees_nothing(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    declare(world, &ada, &json!({"name": "one", "body": "x"})).await;
    post(&ada, &json!({"name": "one", "body": "x", "language": "en"})).await.ok();
    post(&ada, &json!({"name": "two", "body": "x", "submit": false})).await.ok();
    let listed = async |query: &str| {
        let list = ada.get(&format!("{PATH}{query}")).await.ok();
        let names = list.field("templates").as_array().unwrap().clone();
        names.iter().map(|one| format!("{} {}", one["name"], one["language"])).count()
    };
    assert_eq!(listed("").await, 3);
    assert_eq!((listed("?name=one").await, listed("?language=en").await), (2, 1));
    assert_eq!((listed("?status=APPROVED").await, listed("?status=PENDING").await), (1, 2));
    ada.get(&format!("{PATH}?status=approved")).await.problem("invalid_request");
    assert_eq!(eve.get(PATH).await.ok().body, json!({"templates": []}));
    eve.get(&format!("{PATH}/one")).await.problem("not_found");
}

async fn a_repeat_declares_once(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"name": "one", "body": "x"});
    let first = post(&ada, &body).header("idempotency-key", "k").await.ok();
    world.advance(1_000).await;
    let again = post(&ada, &body).header("idempotency-key", "k").await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(again.word("status"), "APPROVED", "as it stands now");
    assert_eq!(again.word("provider_template_id"), first.word("provider_template_id"));
    post(&ada, &body).await.problem("template_exists");
}

async fn a_value_does_not_make_a_text_without_end(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"name": "echo", "body": format!("a {}", "{{1}}".repeat(200))});
    post(&ada, &body).await.ok();
    world.advance(1_000).await;
    let send = |value: usize| {
        let text = "x".repeat(value);
        let parts = json!([{"type": "body", "parameters": [{"type": "text", "text": text}]}]);
        let body = json!({"to": crate::world::tenant::phone("5678"), "billing_mode": "direct",
            "template_name": "echo", "components": parts});
        ada.call("POST", "/v1/chatapp/messages").json(body)
    };
    send(163).await.ok();
    send(164).await.fault("/components", "invalid_template_params");
    send(200_000).await.fault("/components", "invalid_template_params");
}
