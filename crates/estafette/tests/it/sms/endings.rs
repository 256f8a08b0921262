//! The endings that the last four digits of a sandbox recipient script: status, handset, error and
//! what is charged.

use serde_json::json;

use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, World, contract};

on_every_engine!(
    a_message_is_answered_queued_and_arrives,
    endings_of_the_chatapp_are_none_of_sms,
    ending_0004_is_refused_and_costs_nothing,
    ending_0005_is_delivered_once_although_the_answer_was_lost,
    ending_0006_is_accepted_after_two_throttled_tries,
    ending_0007_is_delivered_once_after_receipts_in_disorder,
    ending_0021_is_undelivered_and_stays_charged,
    endings_0031_and_0032_are_refused_as_on_live,
);

const GRANT: i64 = 1_000_000;
const PRICE: i64 = 8;

async fn send(ada: &Tenant<'_>, ending: &str) -> Answer {
    ada.text(json!({"to": phone(ending), "text": "Your parcel is here."})).await.ok()
}

async fn kinds(ada: &Tenant<'_>) -> Vec<String> {
    ada.movements().await.into_iter().map(|(kind, _)| kind).collect()
}

async fn a_message_is_answered_queued_and_arrives(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, "5678").await;
    let names = [
        "charged_credits",
        "created_at",
        "encoding",
        "id",
        "reference",
        "segments",
        "sender",
        "status",
        "to",
    ];
    assert_eq!(sent.names(), names);
    let id = sent.word("id");
    assert!(contract::is_id("sms", id) && contract::is_instant(sent.word("created_at")));
    assert_eq!((sent.word("status"), sent.word("to")), ("queued", phone("5678").as_str()));
    assert_eq!((sent.number("segments"), sent.word("encoding")), (1, "gsm7"));
    assert_eq!(sent.number("charged_credits"), PRICE);
    assert_eq!((sent.field("sender"), sent.field("reference")), (&json!(null), &json!(null)));
    let read = ada.sms_until(id, "delivered").await;
    assert_eq!(read.field("error"), &json!(null));
    assert!(contract::is_instant(read.word("updated_at")));
    let mut added = read.names();
    added.retain(|name| !names.contains(name));
    assert_eq!(added, ["error", "updated_at"]);
    let shown = ada.handset(&phone("5678")).await;
    assert_eq!(shown.len(), 1);
    assert_eq!((&shown[0]["channel"], &shown[0]["code"]), (&json!("sms"), &json!(null)));
    assert_eq!(shown[0]["text"], "Your parcel is here.");
    assert_eq!((kinds(&ada).await, ada.balance().await), (words(&["hold", "post"]), GRANT - PRICE));
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

async fn endings_of_the_chatapp_are_none_of_sms(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["0001", "0002", "0003", "0008", "0011", "0012", "0013", "0033"] {
        let sent = send(&ada, ending).await;
        ada.sms_until(sent.word("id"), "delivered").await;
        assert_eq!(ada.handset(&phone(ending)).await.len(), 1, "{ending}");
    }
}

async fn ending_0004_is_refused_and_costs_nothing(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, "0004").await;
    let read = ada.sms_until(sent.word("id"), "failed").await;
    let error = read.field("error");
    assert_eq!(
        (&error["code"], &error["carrier_code"]),
        (&json!("recipient_unreachable"), &json!("11"))
    );
    assert!(error["detail"].as_str().is_some_and(|detail| detail.ends_with('.')), "{error}");
    assert_eq!(read.number("charged_credits"), 0);
    assert_eq!((kinds(&ada).await, ada.balance().await), (words(&["hold", "void"]), GRANT));
    assert!(ada.handset(&phone("0004")).await.is_empty());
}

async fn ending_0005_is_delivered_once_although_the_answer_was_lost(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, "0005").await;
    ada.sms_until(sent.word("id"), "delivered").await;
    world.advance(clock::MINUTE).await;
    assert_eq!(ada.handset(&phone("0005")).await.len(), 1);
    assert_eq!(kinds(&ada).await, ["hold", "post"]);
}

async fn ending_0006_is_accepted_after_two_throttled_tries(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, "0006").await;
    world.advance(clock::MINUTE).await;
    ada.sms_until(sent.word("id"), "delivered").await;
    assert_eq!(ada.handset(&phone("0006")).await.len(), 1);
    assert_eq!(kinds(&ada).await, ["hold", "post"]);
}

async fn ending_0007_is_delivered_once_after_receipts_in_disorder(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, "0007").await;
    let id = sent.word("id");
    ada.sms_until(id, "submitted").await;
    world.advance(2_900).await;
    assert_eq!(ada.sms(id).await.ok().word("status"), "submitted");
    world.advance(200).await;
    let read = ada.sms_until(id, "delivered").await;
    world.advance(clock::MINUTE).await;
    assert_eq!(ada.sms(id).await.ok().body, read.body);
    let events = ada.get("/v1/events?type=sms.delivery").await.ok();
    let seen: Vec<_> = events.list().iter().map(|event| &event["data"]["status"]).collect();
    assert_eq!(seen, ["delivered", "submitted"], "newest first, each once");
}

async fn ending_0021_is_undelivered_and_stays_charged(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, "0021").await;
    let read = ada.sms_until(sent.word("id"), "undelivered").await;
    let error = read.field("error");
    assert_eq!(
        (&error["code"], &error["carrier_code"]),
        (&json!("undelivered"), &json!("UNDELIV"))
    );
    assert_eq!(read.number("charged_credits"), PRICE);
    assert_eq!((kinds(&ada).await, ada.balance().await), (words(&["hold", "post"]), GRANT - PRICE));
    assert!(ada.handset(&phone("0021")).await.is_empty());
}

async fn endings_0031_and_0032_are_refused_as_on_live(world: &World) {
    let ada = world.account("ada").await;
    for (ending, code) in [("0031", "insufficient_credits"), ("0032", "country_not_allowed")] {
        ada.text(json!({"to": phone(ending), "text": "x"})).await.problem(code);
    }
    assert_eq!(kinds(&ada).await, Vec::<String>::new());
    assert!(ada.get("/v1/messages").await.ok().list().is_empty());
}
