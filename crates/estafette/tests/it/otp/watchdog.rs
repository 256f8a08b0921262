//! The watchdog of the chat-app: when SMS takes over, and what it survives.

use serde_json::json;

use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::phone;

on_every_engine!(
    the_account_may_set_its_own_patience,
    the_watchdog_survives_a_restart,
    a_watchdog_that_ended_while_the_service_was_off_fires_at_its_start,
    nothing_is_sent_after_a_verification,
    nothing_is_sent_after_the_attempts_are_used_up,
    the_same_code_travels_by_sms,
    a_resend_winds_the_watchdog_up_again,
);

async fn the_account_may_set_its_own_patience(world: &World) {
    let ada = world.account("ada").await;
    world.set(&ada, json!({"settings": {"otp_fallback_after_s": 5}})).await.ok();
    let sent = ada.send_to(&phone("0003")).await.ok();
    let id = sent.word("challenge_id");
    world.advance(4_500).await;
    assert_eq!(ada.challenge(id).await.ok().word("channel"), "chatapp");
    world.advance(600).await;
    ada.until(id, |now| now["channel"] == "sms").await;
}

async fn the_watchdog_survives_a_restart(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("0003"), "code": "604417"})).await.ok();
    let id = sent.word("challenge_id");
    world.advance(5_000).await;
    world.restart().await;
    assert_eq!(ada.challenge(id).await.ok().word("channel"), "chatapp");
    world.advance(15_100).await;
    ada.until(id, |now| now["channel"] == "sms" && now["status"] == "delivered").await;
    assert_eq!(ada.code_on(&phone("0003")).await, "604417");
    ada.guess(id, "604417").await.ok();
}

async fn a_watchdog_that_ended_while_the_service_was_off_fires_at_its_start(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send_to(&phone("0003")).await.ok();
    world.restart_after(60_000).await;
    ada.until(sent.word("challenge_id"), |now| now["channel"] == "sms").await;
    // With the service off past the expiry there is nothing left to send.
    let late = json!({"to": phone("0003"), "code": "860123", "reference": "late"});
    let late = ada.send(late).await.ok();
    world.restart_after(400_000).await;
    let read = ada.challenge(late.word("challenge_id")).await.ok();
    assert_eq!((read.word("channel"), read.word("status")), ("chatapp", "expired"));
    let shown = ada.handset(&phone("0003")).await;
    assert!(shown.iter().all(|message| message["code"] != "860123"), "{shown:?}");
}

async fn nothing_is_sent_after_a_verification(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0003");
    let sent = ada.send(json!({"to": to, "code": "4821"})).await.ok();
    ada.guess(sent.word("challenge_id"), "4821").await.ok();
    world.advance(60_000).await;
    let read = ada.challenge(sent.word("challenge_id")).await.ok();
    assert_eq!((read.word("channel"), read.word("status")), ("chatapp", "verified"));
    assert!(ada.handset(&to).await.is_empty());
    let later = ada.send(json!({"to": phone("0002"), "code": "4821"})).await.ok();
    ada.guess(later.word("challenge_id"), "4821").await.ok();
    world.advance(3_100).await;
    let read = ada.challenge(later.word("challenge_id")).await.ok();
    assert_eq!((read.word("channel"), read.word("status")), ("chatapp", "verified"));
    assert!(ada.handset(&phone("0002")).await.is_empty());
}

async fn nothing_is_sent_after_the_attempts_are_used_up(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0003");
    let sent = ada.send(json!({"to": to, "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    for _ in 0..5 {
        ada.guess(id, "0000").await;
    }
    world.advance(60_000).await;
    let read = ada.challenge(id).await.ok();
    assert_eq!((read.word("channel"), read.word("status")), ("chatapp", "failed"));
    assert!(ada.handset(&to).await.is_empty());
}

async fn the_same_code_travels_by_sms(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0003");
    let sent = ada.send(json!({"to": to, "code": "604417"})).await.ok();
    ada.guess(sent.word("challenge_id"), "000000").await.problem("otp_code_invalid");
    world.advance(20_100).await;
    let read = ada.until(sent.word("challenge_id"), |now| now["channel"] == "sms").await;
    assert_eq!(read.number("attempts"), 1, "a fallback gives no new guesses");
    assert_eq!(read.field("expires_at"), sent.field("expires_at"));
    assert_eq!(ada.code_on(&to).await, "604417");
    ada.guess(sent.word("challenge_id"), "604417").await.ok();
}

async fn a_resend_winds_the_watchdog_up_again(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0003");
    let sent = ada.send_to(&to).await.ok();
    world.advance(15_000).await;
    let again = ada.send_to(&to).await.ok();
    assert_eq!(again.field("challenge_id"), sent.field("challenge_id"));
    world.advance(25_000).await;
    ada.until(sent.word("challenge_id"), |now| now["channel"] == "sms").await;
    world.advance(60_000).await;
    assert_eq!(ada.handset(&to).await.len(), 1, "SMS takes over once");
}
