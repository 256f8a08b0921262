//! The endings that the last four digits of a sandbox recipient script, for every channel: status,
//! handset, times and what is charged.

use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{World, eventually};

on_every_engine!(
    ending_0001_falls_back_in_the_same_answer,
    ending_0002_falls_back_after_a_late_failed_receipt,
    ending_0003_falls_back_when_the_watchdog_ends,
    ending_0004_fails_on_every_channel_and_costs_nothing,
    ending_0005_is_delivered_although_the_answer_was_lost,
    ending_0006_is_accepted_after_two_throttled_tries,
    ending_0007_is_delivered_after_receipts_in_disorder,
    ending_0008_falls_back_in_the_same_answer_after_a_receipt,
    ending_0021_fails_on_sms_after_the_answer_and_is_refunded,
    endings_0031_to_0033_are_refused_as_on_live,
    modes_of_one_channel_never_fall_back,
    a_chatapp_only_message_that_fails_later_stays_failed,
    an_unreachable_recipient_is_remembered_for_a_day,
    an_unreachable_recipient_is_told_in_every_mode,
    both_channels_carry_the_same_code,
    every_valid_number_works_in_the_sandbox,
);

const GRANT: i64 = 1_000_000;

/// Waits until so much of the grant is spent for good.
async fn spent(ada: &Tenant<'_>, credits: i64) {
    let seen = eventually(async || {
        let held = ada.movements().await;
        let count = |kind: &str| held.iter().filter(|(known, _)| known == kind).count();
        let open = count("hold") - count("post") - count("void");
        (open == 0).then_some(held)
    });
    let rows = seen.await;
    assert_eq!(GRANT - ada.balance().await, credits, "{rows:?}");
}

async fn channels(ada: &Tenant<'_>, to: &str) -> Vec<String> {
    let shown = ada.handset(to).await;
    shown.iter().map(|message| message["channel"].as_str().unwrap().to_owned()).collect()
}

async fn ending_0001_falls_back_in_the_same_answer(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0001");
    let sent = ada.send_to(&to).await.ok();
    assert_eq!(sent.word("channel"), "sms");
    assert_eq!(sent.field("fallback_used"), true);
    assert_eq!(sent.field("chatapp_available"), false);
    assert_eq!(channels(&ada, &to).await, ["sms"]);
    ada.until(sent.word("challenge_id"), |now| now["status"] == "delivered").await;
    spent(&ada, world.price("sms", "FR")).await;
    let code = ada.code_on(&to).await;
    ada.guess(sent.word("challenge_id"), &code).await.ok();
}

async fn ending_0002_falls_back_after_a_late_failed_receipt(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0002");
    let sent = ada.send_to(&to).await.ok();
    assert_eq!(sent.word("channel"), "chatapp");
    assert_eq!(sent.word("status"), "sent");
    assert_eq!(sent.field("fallback_used"), false);
    assert_eq!(sent.field("chatapp_available"), true);
    assert!(ada.handset(&to).await.is_empty());
    let id = sent.word("challenge_id");
    world.advance(2_900).await;
    assert_eq!(ada.challenge(id).await.ok().word("channel"), "chatapp");
    world.advance(200).await;
    let good = |now: &Value| now["channel"] == "sms" && now["status"] == "delivered";
    ada.until(id, good).await;
    assert_eq!(channels(&ada, &to).await, ["sms"]);
    spent(&ada, world.price("sms", "FR")).await;
    let code = ada.code_on(&to).await;
    ada.guess(id, &code).await.ok();
}

async fn ending_0003_falls_back_when_the_watchdog_ends(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0003");
    let sent = ada.send_to(&to).await.ok();
    assert_eq!((sent.word("channel"), sent.word("status")), ("chatapp", "sent"));
    let id = sent.word("challenge_id");
    world.advance(19_500).await;
    let read = ada.challenge(id).await.ok();
    assert_eq!((read.word("channel"), read.word("status")), ("chatapp", "sent"));
    world.advance(600).await;
    ada.until(id, |now| now["channel"] == "sms" && now["status"] == "delivered").await;
    assert_eq!(channels(&ada, &to).await, ["sms"]);
    spent(&ada, world.price("sms", "FR")).await;
}

async fn ending_0004_fails_on_every_channel_and_costs_nothing(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0004");
    for mode in ["auto", "chatapp", "sms"] {
        let body = json!({"to": to, "delivery_mode": mode});
        ada.send(body).await.problem("recipient_unreachable");
    }
    assert!(ada.handset(&to).await.is_empty());
    spent(&ada, 0).await;
}

async fn ending_0005_is_delivered_although_the_answer_was_lost(world: &World) {
    let ada = world.account("ada").await;
    for (mode, channel) in [("auto", "chatapp"), ("sms", "sms")] {
        let body = json!({"to": phone("0005"), "delivery_mode": mode, "reference": mode});
        let sent = ada.send(body).await.ok();
        assert_eq!(sent.word("channel"), channel);
        assert_eq!(sent.field("fallback_used"), false);
        let id = sent.word("challenge_id");
        ada.until(id, |now| now["status"] == "delivered").await;
        let code = ada.code_on(&phone("0005")).await;
        ada.guess(id, &code).await.ok();
    }
    assert_eq!(channels(&ada, &phone("0005")).await, ["sms", "chatapp"], "each once");
    spent(&ada, world.price("chatapp", "FR") + world.price("sms", "FR")).await;
}

async fn ending_0006_is_accepted_after_two_throttled_tries(world: &World) {
    let ada = world.account("ada").await;
    for (mode, channel) in [("auto", "chatapp"), ("sms", "sms")] {
        let to = phone("0006");
        let body = json!({"to": to, "delivery_mode": mode, "reference": mode});
        let sent = ada.send(body).await.ok();
        assert_eq!(sent.word("channel"), channel);
        assert_eq!(sent.field("fallback_used"), false);
        assert_eq!(channels(&ada, &to).await[0], channel);
        ada.until(sent.word("challenge_id"), |now| now["status"] == "delivered").await;
    }
    assert_eq!(ada.handset(&phone("0006")).await.len(), 2, "each once");
    spent(&ada, world.price("chatapp", "FR") + world.price("sms", "FR")).await;
}

async fn ending_0007_is_delivered_after_receipts_in_disorder(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send_to(&phone("0007")).await.ok();
    assert_eq!((sent.word("channel"), sent.word("status")), ("chatapp", "sent"));
    let id = sent.word("challenge_id");
    world.advance(2_900).await;
    assert_eq!(ada.challenge(id).await.ok().word("status"), "sent");
    world.advance(200).await;
    ada.until(id, |now| now["status"] == "delivered").await;
    // Neither a late `sent` nor the watchdog may change that.
    world.advance(30_000).await;
    let read = ada.challenge(id).await.ok();
    assert_eq!((read.word("channel"), read.word("status")), ("chatapp", "delivered"));
    assert_eq!(channels(&ada, &phone("0007")).await, ["chatapp"]);
    spent(&ada, world.price("chatapp", "FR")).await;
}

async fn ending_0008_falls_back_in_the_same_answer_after_a_receipt(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0008");
    let sent = ada.send_to(&to).await.ok();
    assert_eq!(sent.word("channel"), "sms");
    assert_eq!(sent.field("fallback_used"), true);
    assert_eq!(sent.field("chatapp_available"), false);
    assert_eq!(channels(&ada, &to).await, ["sms"]);
    ada.until(sent.word("challenge_id"), |now| now["status"] == "delivered").await;
    spent(&ada, world.price("sms", "FR")).await;
}

async fn ending_0021_fails_on_sms_after_the_answer_and_is_refunded(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0021");
    let sent = ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
    assert_eq!(sent.word("channel"), "sms");
    let failed = ada.until(sent.word("challenge_id"), |now| now["status"] == "failed").await;
    assert!(!failed.word("failure_reason").is_empty());
    spent(&ada, 0).await;
    // By chat-app the same person is reached.
    let sent = ada.send_to(&to).await.ok();
    assert_eq!((sent.word("channel"), sent.word("status")), ("chatapp", "delivered"));
    spent(&ada, world.price("chatapp", "FR")).await;
}

async fn endings_0031_to_0033_are_refused_as_on_live(world: &World) {
    let ada = world.account("ada").await;
    ada.send_to(&phone("0031")).await.problem("insufficient_credits");
    ada.send_to(&phone("0032")).await.problem("country_not_allowed");
    assert!(ada.movements().await.is_empty());
    let body = json!({"to": phone("0033"), "reference": "a"});
    let sent = ada.send(&body).header("idempotency-key", "k").await.ok();
    let again = ada.send(&body).header("idempotency-key", "k").await.ok();
    assert_eq!(again.word("challenge_id"), sent.word("challenge_id"));
    for reference in ["a", "b"] {
        let body = json!({"to": phone("0033"), "reference": reference});
        ada.send(body).await.problem("resend_too_soon");
    }
    let code = ada.code_on(&phone("0033")).await;
    ada.guess(sent.word("challenge_id"), &code).await.ok();
}

async fn modes_of_one_channel_never_fall_back(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0001");
    let body = json!({"to": to, "delivery_mode": "chatapp", "reference": "r"});
    ada.send(body).await.problem("recipient_unreachable");
    let body = json!({"to": to, "code": "1234", "reference": "r"});
    let refused = ada.call("POST", "/v1/chatapp/otp/send").json(body).await;
    refused.problem("recipient_unreachable");
    assert!(ada.handset(&to).await.is_empty());
    spent(&ada, 0).await;
    let held = ada.movements().await;
    assert!(held.iter().all(|(kind, _)| kind != "post"), "{held:?}");
}

async fn a_chatapp_only_message_that_fails_later_stays_failed(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0002");
    let sent = ada.send(json!({"to": to, "delivery_mode": "chatapp"})).await.ok();
    assert_eq!(sent.word("status"), "sent");
    let id = sent.word("challenge_id");
    world.advance(3_100).await;
    let failed = ada.until(id, |now| now["status"] == "failed").await;
    assert_eq!(failed.word("channel"), "chatapp");
    assert!(!failed.word("failure_reason").is_empty());
    spent(&ada, 0).await;
    // Silence is no failure: without a receipt it stays sent, on its channel, until it expires.
    let silent = json!({"to": phone("0003"), "delivery_mode": "chatapp"});
    let silent = ada.send(silent).await.ok();
    world.advance(60_000).await;
    let read = ada.challenge(silent.word("challenge_id")).await.ok();
    assert_eq!((read.word("channel"), read.word("status")), ("chatapp", "sent"));
    assert!(ada.handset(&phone("0003")).await.is_empty());
}

async fn an_unreachable_recipient_is_remembered_for_a_day(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0002");
    let late = ada.send_to(&to).await.ok();
    assert_eq!(late.field("chatapp_available"), true);
    world.advance(3_100).await;
    ada.until(late.word("challenge_id"), |now| now["channel"] == "sms").await;
    // Known to be unreachable now: straight to SMS.
    let sent = ada.send(json!({"to": to, "reference": "soon"})).await.ok();
    assert_eq!(sent.word("channel"), "sms");
    assert_eq!(sent.field("chatapp_available"), false);
    world.advance(24 * 3_600_000 - 10_000).await;
    let sent = ada.send(json!({"to": to, "reference": "almost"})).await.ok();
    assert_eq!(sent.field("chatapp_available"), false);
    world.advance(20_000).await;
    let sent = ada.send(json!({"to": to, "reference": "after"})).await.ok();
    assert_eq!(sent.word("channel"), "chatapp");
    assert_eq!(sent.field("chatapp_available"), true);
    // Another account learned nothing from it.
    let bob = world.account("bob").await;
    assert_eq!(bob.send_to(&to).await.ok().field("chatapp_available"), true);
}

async fn an_unreachable_recipient_is_told_in_every_mode(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0001");
    let send = async |mode: &str, is_available: bool| {
        let body = json!({"to": to, "delivery_mode": mode, "reference": world.now().to_string()});
        let sent = ada.send(body).await.ok();
        assert_eq!(sent.field("chatapp_available"), is_available, "{mode}");
    };
    send("sms", true).await;
    send("auto", false).await;
    send("sms", false).await;
    send("auto", false).await;
    world.advance(24 * 3_600_000 + 1_000).await;
    send("sms", true).await;
}

async fn both_channels_carry_the_same_code(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0007");
    // Its receipts come after 3 s, so a watchdog of 20 s set off early is the second message.
    let sent = ada.send(json!({"to": to, "code": "604417"})).await.ok();
    let sms = json!({"to": to, "delivery_mode": "sms"});
    let again = ada.send(sms).await.ok();
    assert_eq!(again.field("challenge_id"), sent.field("challenge_id"));
    let shown = ada.handset(&to).await;
    assert_eq!(channels(&ada, &to).await, ["sms", "chatapp"]);
    assert!(shown.iter().all(|message| message["code"] == "604417"), "{shown:?}");
}

async fn every_valid_number_works_in_the_sandbox(world: &World) {
    let ada = world.account("ada").await;
    for to in ["+12015550123", "+447400123456", "+22890112345", "+919876543210", "+4915123456789"] {
        let sent = ada.send_to(to).await.ok();
        assert_eq!(sent.word("status"), "delivered", "{to}");
        assert_eq!(sent.word("to"), to);
    }
    let written = ada.send_to("0033 6 12 34 56 78").await.ok();
    assert_eq!(written.word("to"), "+33612345678");
}
