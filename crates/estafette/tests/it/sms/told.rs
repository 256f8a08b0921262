//! What is told of a message: `sms.delivery` for each change of its status, as its own read shows
//! it, and never what it says.

use playground::ReceiverZoo;
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::webhooks::{hook, json_of, like_its_example, visited};
use crate::world::World;
use crate::world::tenant::{Tenant, phone};

on_every_engine!(
    every_change_is_told_as_the_message_reads,
    a_failure_is_told_with_its_error,
    a_target_hears_it_without_asking_and_without_the_text,
    an_erased_recipient_is_in_no_event,
);

const TEXT: &str = "The cat sat on the mat.";

/// The events of a message, oldest first.
async fn told(ada: &Tenant<'_>, id: &str) -> Vec<Value> {
    let all = ada.get("/v1/events?type=sms.delivery&limit=200").await.ok();
    let data = all.list().iter().rev().map(|event| event["data"].clone());
    data.filter(|data| data["id"] == id).collect()
}

/// An event without what only events have.
fn plain(told: &Value) -> Value {
    let mut plain = told.clone();
    plain.as_object_mut().unwrap().remove("sequence");
    plain
}

async fn every_change_is_told_as_the_message_reads(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("0007"), "text": TEXT, "reference": "say \"hello\""});
    let sent = ada.text(body).await.ok();
    let id = sent.word("id");
    let submitted = ada.sms_until(id, "submitted").await;
    world.advance(3_100).await;
    let delivered = ada.sms_until(id, "delivered").await;
    let events = told(&ada, id).await;
    let plain: Vec<Value> = events.iter().map(plain).collect();
    assert_eq!(plain, [submitted.body, delivered.body]);
    let sequences: Vec<&Value> = events.iter().map(|data| &data["sequence"]).collect();
    assert_eq!(sequences, [1, 2]);
    assert!(!json!(events).to_string().contains("cat"));
}

async fn a_failure_is_told_with_its_error(world: &World) {
    let ada = world.account("ada").await;
    for (ending, status, statuses) in [
        ("0004", "failed", vec!["failed"]),
        ("0021", "undelivered", vec!["submitted", "undelivered"]),
    ] {
        let sent = ada.text(json!({"to": phone(ending), "text": TEXT})).await.ok();
        let read = ada.sms_until(sent.word("id"), status).await;
        let events = told(&ada, sent.word("id")).await;
        let seen: Vec<&Value> = events.iter().map(|data| &data["status"]).collect();
        assert_eq!(seen, statuses, "{ending}");
        assert_eq!(events.last().map(plain), Some(read.body));
    }
}

async fn a_target_hears_it_without_asking_and_without_the_text(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    // A target that names no events gets this one.
    let body = json!({"url": zoo.url("/ok")});
    let named = ada.desk("POST", "/v1/webhooks").json(body).await.ok();
    assert_eq!(named.field("events"), &json!(["sms.delivery"]));
    hook(&ada, &zoo.url("/other"), &["sms.delivery", "otp.status"]).await;
    let sent = ada.text(json!({"to": phone("0021"), "text": TEXT})).await.ok();
    ada.sms_until(sent.word("id"), "undelivered").await;
    let visits = visited(&zoo, "/ok", 2).await;
    for visit in &visits {
        let event = json_of(visit);
        assert_eq!(
            (&event["type"], &event["data"]["id"]),
            (&json!("sms.delivery"), &json!(sent.word("id")))
        );
        like_its_example(&event);
        assert!(!event.to_string().contains("cat"));
    }
}

async fn an_erased_recipient_is_in_no_event(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.text(json!({"to": phone("5678"), "text": TEXT})).await.ok();
    ada.sms_until(sent.word("id"), "delivered").await;
    let erasure = world.post(ada.env, "/v1/admin/erasures").bearer(world.staff().await);
    let erased = erasure.json(json!({"phone": phone("5678")})).await.ok();
    assert_eq!((erased.number("messages"), erased.number("ended")), (1, 0));
    let events = told(&ada, sent.word("id")).await;
    assert_eq!(events.len(), 2);
    assert!(!json!(events).to_string().contains(&phone("5678")[1..]));
    assert!(events.iter().all(|data| data["to"] == ""));
}
