//! What is held, spent and given back, and what a repeat costs: nothing.

use serde_json::json;

use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::phone;

on_every_engine!(
    a_message_that_cannot_be_paid_is_not_taken,
    the_price_of_all_segments_is_held_or_nothing,
    a_repeat_with_its_key_sends_once_and_shows_it_as_it_stands,
    without_a_carrier_nothing_is_held,
    who_said_stop_is_not_sent_to_and_costs_nothing,
    parallel_sends_never_spend_more_than_there_is,
);

async fn a_message_that_cannot_be_paid_is_not_taken(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, -999_993).await.ok();
    let refused = ada.text(json!({"to": phone("5678"), "text": "x"})).await;
    let refused = refused.problem("insufficient_credits");
    let detail = refused.word("detail");
    assert!(detail.starts_with("This costs 8 credits, and 7 are available. Top up"), "{detail}");
    assert!(ada.handset(&phone("5678")).await.is_empty());
    assert!(ada.get("/v1/messages").await.ok().list().is_empty());
}

async fn the_price_of_all_segments_is_held_or_nothing(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, -999_977).await.ok();
    let long = json!({"to": phone("5678"), "text": "a".repeat(307)});
    ada.text(&long).await.problem("insufficient_credits");
    world.credit(&ada, 1).await.ok();
    let sent = ada.text(&long).await.ok();
    assert_eq!(sent.number("charged_credits"), 24);
    assert_eq!(ada.balance().await, 0);
    ada.sms_until(sent.word("id"), "delivered").await;
}

async fn a_repeat_with_its_key_sends_once_and_shows_it_as_it_stands(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "text": "once", "reference": "r"});
    let first = ada.text(&body).header("idempotency-key", "k1").await.ok();
    assert_eq!(first.head("idempotent-replayed"), "");
    ada.sms_until(first.word("id"), "delivered").await;
    let again = ada.text(&body).header("idempotency-key", "k1").await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!((again.word("id"), again.word("status")), (first.word("id"), "delivered"));
    let other = json!({"to": phone("5678"), "text": "twice"});
    ada.text(&other).header("idempotency-key", "k1").await.problem("idempotency_key_reused");
    assert_eq!(ada.handset(&phone("5678")).await.len(), 1);
    assert_eq!(ada.movements().await.len(), 2);
    // Without a key, the same again is another message.
    ada.text(&body).await.ok();
    assert_eq!(ada.get("/v1/messages?reference=r").await.ok().list().len(), 2);
}

async fn without_a_carrier_nothing_is_held(world: &World) {
    let ada = world.live_sender("ada", 100).await;
    let refused = ada.text(json!({"to": phone("5678"), "text": "x"})).await;
    refused.problem("carrier_unavailable");
    assert_eq!(ada.balance().await, 100);
    assert!(ada.movements().await.is_empty());
}

async fn who_said_stop_is_not_sent_to_and_costs_nothing(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "text": "x"});
    let sent = ada.text(&body).await.ok();
    ada.sms_until(sent.word("id"), "delivered").await;
    let path = format!("/v1/sandbox/handsets/{}/replies", phone("5678"));
    for (word, is_open) in [("STOP", false), ("START", true)] {
        let reply = json!({"text": word, "channel": "sms"});
        ada.call("POST", &path).json(reply).await.ok();
        for class in ["transactional", "bulk"] {
            let body = json!({"to": phone("5678"), "text": "x", "class": class});
            let answer = ada.text(body).await;
            if is_open {
                answer.ok()
            } else {
                answer.problem("recipient_opted_out")
            };
        }
    }
    let heard = ada.get("/v1/inbound-notifications?provider=ngh").await.ok();
    let texts: Vec<_> = heard.list().iter().map(|row| &row["message"]).collect();
    assert_eq!(texts, ["START", "STOP"]);
    assert_eq!(ada.movements().await.iter().filter(|(kind, _)| kind == "hold").count(), 3);
    // Passcodes are asked for by the person, and other numbers said nothing.
    ada.text(json!({"to": phone("5679"), "text": "x"})).await.ok();
}

async fn parallel_sends_never_spend_more_than_there_is(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, -999_960).await.ok();
    let body = json!({"to": phone("5678"), "text": "x"});
    let sends = futures_util::future::join_all((0..12).map(|_| async { ada.text(&body).await }));
    let answers = sends.await;
    let taken: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    let refused = answers.iter().filter(|answer| answer.body["code"] == "insufficient_credits");
    assert_eq!((taken.len(), refused.count()), (5, 7), "40 credits are five messages");
    for answer in taken {
        ada.sms_until(answer.word("id"), "delivered").await;
    }
    assert_eq!(ada.balance().await, 0);
}
