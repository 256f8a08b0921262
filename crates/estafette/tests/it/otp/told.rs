//! What is told of a passcode: one event for each change of how it reads, in the words of its own
//! endpoint, and never the code.

use playground::ReceiverZoo;
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::webhooks::{hook, json_of, like_its_example, log, visited};
use crate::world::tenant::{Tenant, other_than, phone};
use crate::world::{Answer, World, eventually};

on_every_engine!(
    delivery_and_verification_are_told_as_the_passcode_reads,
    a_fallback_is_told_by_its_channel,
    a_failure_is_told_with_its_reason,
    the_last_wrong_guess_is_told_once,
    the_end_of_its_time_is_told_once,
    a_receipt_after_the_right_guess_tells_nothing,
    a_target_hears_it_signed_and_without_the_code,
    an_erased_recipient_is_in_no_event,
);

/// The events of a challenge, oldest first. Their sequences rise, but not by one: what the carrier
/// says first, its answer or the receipt, decides how many steps the challenge takes.
async fn told(ada: &Tenant<'_>, id: &str) -> Vec<Value> {
    let all = ada.get("/v1/events?type=otp.status&limit=200").await.ok();
    let mut of_it: Vec<Value> = all
        .list()
        .iter()
        .map(|event| event["data"].clone())
        .filter(|d| d["challenge_id"] == id)
        .collect();
    of_it.sort_by_key(|data| data["sequence"].as_i64());
    let sequences: Vec<i64> = of_it.iter().map(|data| data["sequence"].as_i64().unwrap()).collect();
    assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]), "{sequences:?}");
    of_it
}

fn statuses(told: &[Value]) -> Vec<(&str, &str)> {
    told.iter().map(|d| (d["status"].as_str().unwrap(), d["channel"].as_str().unwrap())).collect()
}

/// An event without what only events have.
fn plain(told: &Value) -> Value {
    let mut plain = told.clone();
    plain.as_object_mut().unwrap().remove("sequence");
    plain
}

async fn delivery_and_verification_are_told_as_the_passcode_reads(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "reference": "say \"hello\""});
    let sent = ada.send(body).await.ok();
    let id = sent.word("challenge_id");
    let read = ada.until(id, |c| c["status"] == "delivered").await;
    let events = told(&ada, id).await;
    assert_eq!(statuses(&events), [("sent", "chatapp"), ("delivered", "chatapp")]);
    assert_eq!(events[0]["provider_message_id"], read.body["provider_message_id"]);
    assert_eq!(events.last().map(plain).as_ref(), Some(&read.body));
    let code = ada.code_on(&phone("5678")).await;
    ada.guess(id, &other_than(&code)).await.problem("otp_code_invalid");
    ada.guess(id, &code).await.ok();
    let read = ada.challenge(id).await.ok();
    let events = told(&ada, id).await;
    assert_eq!(statuses(&events).last(), Some(&("verified", "chatapp")));
    assert_eq!(events.last().map(plain).as_ref(), Some(&read.body));
    assert_eq!(events.last().unwrap()["attempts"], 2);
    assert!(!json!(events).to_string().contains(&code));
    // Nothing that happens later is told once more.
    world.advance(clock::HOUR).await;
    assert_eq!(told(&ada, id).await, events);
}

async fn a_fallback_is_told_by_its_channel(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send_to(&phone("0003")).await.ok();
    let id = sent.word("challenge_id");
    assert_eq!(statuses(&told(&ada, id).await), [("sent", "chatapp")]);
    world.advance(20_001).await;
    ada.until(id, |c| c["channel"] == "sms" && c["status"] == "delivered").await;
    let events = told(&ada, id).await;
    let seen = statuses(&events);
    assert_eq!(seen.first(), Some(&("sent", "chatapp")));
    assert_eq!(seen.last(), Some(&("delivered", "sms")));
    assert!(seen.iter().filter(|one| **one == ("delivered", "sms")).count() == 1, "{seen:?}");
}

async fn a_failure_is_told_with_its_reason(world: &World) {
    let ada = world.account("ada").await;
    let refused = ada.send_to(&phone("0004")).await.problem("recipient_unreachable");
    let events = told(&ada, refused.word("challenge_id")).await;
    let last = events.last().unwrap();
    assert_eq!(
        (&last["status"], &last["failure_reason"]),
        (&json!("failed"), &json!("unreachable"))
    );
    assert_eq!(statuses(&events).iter().filter(|(status, _)| *status == "failed").count(), 1);
}

async fn the_last_wrong_guess_is_told_once(world: &World) {
    let ada = world.account("ada").await;
    // A failure comes three seconds after the chat-app took it.
    let sent = ada.send(json!({"to": phone("0002"), "delivery_mode": "chatapp"})).await.ok();
    let id = sent.word("challenge_id");
    for _ in 0..5 {
        ada.guess(id, "00000000").await;
    }
    world.advance(4_000).await;
    world.advance(clock::HOUR).await;
    let events = told(&ada, id).await;
    let failures: Vec<&Value> = events.iter().filter(|d| d["status"] == "failed").collect();
    assert_eq!(failures.len(), 1, "{events:?}");
    assert_eq!(failures[0]["failure_reason"], "attempts_exhausted");
}

async fn the_end_of_its_time_is_told_once(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send_to(&phone("5678")).await.ok();
    let id = sent.word("challenge_id");
    world.advance(300_001).await;
    // A new one for the same person does not wait for the old one's end to be told.
    let next = ada.send_to(&phone("5678")).await.ok();
    assert_ne!(next.word("challenge_id"), id);
    let events = eventually(|| async {
        let events = told(&ada, id).await;
        events.iter().any(|d| d["status"] == "expired").then_some(events)
    })
    .await;
    world.advance(clock::HOUR).await;
    assert_eq!(told(&ada, id).await, events);
    assert_eq!(statuses(&events).iter().filter(|(status, _)| *status == "expired").count(), 1);
    assert_eq!(ada.challenge(id).await.ok().word("status"), "expired");
}

async fn a_receipt_after_the_right_guess_tells_nothing(world: &World) {
    let ada = world.account("ada").await;
    // Its receipts come three seconds later, out of order and twice.
    let sent = ada.send(json!({"to": phone("0007"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    ada.guess(id, "4821").await.ok();
    world.advance(4_000).await;
    world.advance(4_000).await;
    let events = told(&ada, id).await;
    assert_eq!(statuses(&events), [("sent", "chatapp"), ("verified", "chatapp")]);
}

async fn a_target_hears_it_signed_and_without_the_code(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    hook(&ada, &zoo.url("/ok"), &["otp.status"]).await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "73519264"})).await.ok();
    let id = sent.word("challenge_id");
    ada.guess(id, "73519264").await.ok();
    let seen = eventually(|| async {
        let events: Vec<Value> = zoo.visits_to("/ok").iter().map(json_of).collect();
        let is_last = |event: &Value| event["data"]["status"] == "verified";
        events.iter().any(is_last).then_some(events)
    })
    .await;
    for event in &seen {
        assert_eq!(event["type"], "otp.status");
        assert_eq!(event["data"]["challenge_id"], id);
        like_its_example(event);
        assert!(!event.to_string().contains("73519264"), "{event}");
    }
    visited(&zoo, "/ok", 3).await;
}

/// Everything that a target answered, once all of it is in the log.
async fn answers(ada: &Tenant<'_>, hook: &Answer) -> String {
    let all = eventually(|| async {
        let all = log(ada, hook).await;
        all.iter().all(|one| one["status"] == "delivered").then_some(all)
    });
    let mut answers = String::new();
    for one in all.await {
        let path = format!("/v1/webhook-deliveries/{}", one["id"].as_str().unwrap());
        answers += &ada.get(&path).await.ok().text;
    }
    answers
}

async fn an_erased_recipient_is_in_no_event(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    // It answers with what it was told, and the log of deliveries keeps that.
    let made = hook(&ada, &zoo.url("/echo"), &["*"]).await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    ada.guess(id, "4821").await.ok();
    visited(&zoo, "/echo", 2).await;
    let digits = phone("5678")[1..].to_owned();
    assert!(ada.get("/v1/events").await.ok().text.contains(&digits));
    assert!(answers(&ada, &made).await.contains(&digits));
    let erasure = world.post(ada.env, "/v1/admin/erasures").bearer(world.staff().await);
    erasure.json(json!({"phone": phone("5678")})).await.ok();
    let after = ada.get("/v1/events").await.ok();
    assert!(!after.text.contains(&digits), "{}", after.text);
    assert!(!told(&ada, id).await.is_empty(), "that it happened is still told");
    assert!(!answers(&ada, &made).await.contains(&digits));
    if let Some(held) = world.app(ada.env).await.db.holds(digits.as_bytes()).await.unwrap() {
        assert!(!held, "the number is still in the files");
    }
}
