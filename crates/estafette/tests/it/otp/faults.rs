//! The service fails after a message was recorded and paid: that is never the answer, nothing is
//! lost, and nothing is charged for what did not arrive.

use estafette::config::Config;
use serde_json::json;

use crate::on_every_engine;
use crate::world::World;
use crate::world::faults::{COMMIT_B, How};
use crate::world::tenant::{Tenant, phone};

on_every_engine!(
    an_acceptance_that_cannot_be_written_is_found_again,
    an_acceptance_of_sms_that_cannot_be_written_is_found_again,
    a_refusal_that_cannot_be_written_is_given_back_at_the_end,
    a_fallback_that_cannot_be_written_follows_later,
    a_contradiction_is_counted_and_is_not_the_answer,
    a_refusal_is_given_back_where_the_fallback_has_no_price with without_prices_of_sms,
    a_silent_leg_is_given_back_where_the_fallback_has_no_price with without_prices_of_sms,
);

const GRANT: i64 = 1_000_000;
const FAILURES: [How; 4] = [How::Overloaded, How::Unavailable, How::LostBefore, How::LostAfter];

fn without_prices_of_sms(config: &mut Config) {
    config
        .credits
        .prices
        .retain(|price| price.channel != "sms" || price.category != "authentication");
}

/// Sends while a commit B fails, which must not show.
async fn send_in_spite_of(world: &World, ada: &Tenant<'_>, how: How, mode: &str) -> String {
    world.faults.plan(COMMIT_B, how, 1);
    let body = json!({
        "to": phone("5678"), "code": "482916", "reference": format!("{how:?}"),
        "delivery_mode": mode,
    });
    let sent = ada.send(body).await.ok();
    assert!(["sent", "delivered"].contains(&sent.word("status")), "{how:?}: {}", sent.text);
    assert_eq!(world.faults.left(), 0, "{how:?}: nothing failed");
    sent.word("challenge_id").to_owned()
}

async fn an_acceptance_that_cannot_be_written_is_found_again(world: &World) {
    let ada = world.account("ada").await;
    for (index, how) in FAILURES.into_iter().enumerate() {
        let id = send_in_spite_of(world, &ada, how, "auto").await;
        let id = id.as_str();
        world.advance(16_000).await;
        ada.until(id, |now| now["status"] == "delivered").await;
        ada.guess(id, "482916").await.ok();
        assert_eq!(ada.handset(&phone("5678")).await.len(), index + 1, "{how:?}: sent once");
    }
    world.advance(400_000).await;
    assert_eq!(GRANT - ada.balance().await, 4 * world.price("chatapp", "FR"));
}

async fn an_acceptance_of_sms_that_cannot_be_written_is_found_again(world: &World) {
    let ada = world.account("ada").await;
    for how in FAILURES {
        let id = send_in_spite_of(world, &ada, how, "sms").await;
        ada.until(&id, |now| now["status"] == "delivered").await;
        ada.guess(&id, "482916").await.ok();
    }
    world.advance(400_000).await;
    assert_eq!(ada.handset(&phone("5678")).await.len(), 4, "each once");
    assert_eq!(GRANT - ada.balance().await, 4 * world.price("sms", "FR"));
}

async fn a_refusal_that_cannot_be_written_is_given_back_at_the_end(world: &World) {
    let ada = world.account("ada").await;
    for how in [How::Overloaded, How::Unavailable, How::LostBefore] {
        world.faults.plan(COMMIT_B, how, 1);
        let body = json!({"to": phone("0004"), "delivery_mode": "sms"});
        let sent = ada.send(body).await.ok();
        assert_eq!(sent.word("status"), "sent", "{how:?}");
        assert_eq!(world.faults.left(), 0, "{how:?}");
        world.advance(16_000).await;
        world.advance(300_000).await;
        ada.until(sent.word("challenge_id"), |now| now["status"] == "expired").await;
        let full = crate::world::eventually(async || (ada.balance().await == GRANT).then_some(()));
        full.await;
    }
}

async fn a_fallback_that_cannot_be_written_follows_later(world: &World) {
    let ada = world.account("ada").await;
    for (how, to) in [(How::Overloaded, "+33612350002"), (How::LostBefore, "+33612360002")] {
        world.faults.plan(COMMIT_B, how, 1);
        let sent = ada.send_to(to).await.ok();
        assert_eq!((sent.word("status"), sent.word("channel")), ("sent", "chatapp"));
        world.advance(16_000).await;
        world.advance(6_000).await;
        let id = sent.word("challenge_id");
        ada.until(id, |now| now["channel"] == "sms" && now["status"] == "delivered").await;
        assert_eq!(ada.handset(to).await.len(), 1, "{how:?}: once");
    }
    let spent = 2 * world.price("sms", "FR");
    crate::world::eventually(async || (GRANT - ada.balance().await == spent).then_some(())).await;
}

async fn a_contradiction_is_counted_and_is_not_the_answer(world: &World) {
    let ada = world.account("ada").await;
    let id = send_in_spite_of(world, &ada, How::Contradiction, "auto").await;
    let page = world.metrics().await.ok();
    let counted = "estafette_settlements_unwritten_total{cause=\"refused\"} 1";
    assert!(page.text.contains(counted), "{}", page.text);
    world.advance(16_000).await;
    ada.until(&id, |now| now["status"] == "delivered").await;
}

async fn set_price(world: &World, ada: &Tenant<'_>) {
    let price = json!({
        "channel": "sms", "category": "authentication", "country": "*", "credits": 7,
    });
    let body = json!({"prices": [price]});
    world.put(ada.env, "/v1/admin/prices").bearer(world.staff().await).json(body).await.ok();
}

async fn a_refusal_is_given_back_where_the_fallback_has_no_price(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send_to(&phone("0001")).await.ok();
    let id = sent.word("challenge_id");
    assert_eq!((sent.word("status"), sent.word("channel")), ("sent", "chatapp"));
    assert_eq!(sent.field("chatapp_available"), false);
    assert_eq!(ada.balance().await, GRANT, "given back before it was said");
    world.advance(2_100).await;
    assert!(ada.handset(&phone("0001")).await.is_empty());
    set_price(world, &ada).await;
    world.advance(2_100).await;
    ada.until(id, |now| now["channel"] == "sms" && now["status"] == "delivered").await;
    assert_eq!(GRANT - ada.balance().await, 7);
    // Without a price until the end, it expires and costs nothing.
    let never = ada.send(json!({"to": phone("0001"), "delivery_mode": "sms"})).await.ok();
    assert_eq!(never.word("challenge_id"), id, "a resend");
}

async fn a_silent_leg_is_given_back_where_the_fallback_has_no_price(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send_to(&phone("0003")).await.ok();
    let id = sent.word("challenge_id");
    world.advance(20_100).await;
    crate::world::eventually(async || (ada.balance().await == GRANT).then_some(())).await;
    assert_eq!(ada.challenge(id).await.ok().word("status"), "sent");
    world.advance(300_000).await;
    ada.until(id, |now| now["status"] == "expired").await;
    assert_eq!(ada.balance().await, GRANT);
}
