//! Sending again: the newest request says by which way, and one message that fails never takes
//! back what another brought.

use serde_json::json;

use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    a_resend_by_chatapp_only_never_goes_out_by_sms,
    an_auto_resend_after_sms_falls_back,
    a_resend_speaks_the_language_that_it_asks_for,
    a_resend_does_not_bear_a_sender_that_staff_have_rejected,
    a_resend_that_is_refused_does_not_end_what_was_delivered,
    a_resend_that_fails_later_does_not_end_what_was_delivered,
    a_resend_that_nobody_can_pay_does_not_end_what_was_delivered,
);

const GRANT: i64 = 1_000_000;

async fn a_resend_by_chatapp_only_never_goes_out_by_sms(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0003");
    let sent = ada.send_to(&to).await.ok();
    let again = ada.send(json!({"to": to, "delivery_mode": "chatapp"})).await.ok();
    assert_eq!(again.field("challenge_id"), sent.field("challenge_id"));
    world.advance(25_000).await;
    world.advance(25_000).await;
    let read = ada.challenge(sent.word("challenge_id")).await.ok();
    assert_eq!((read.word("channel"), read.word("status")), ("chatapp", "sent"));
    assert!(ada.handset(&to).await.is_empty(), "no SMS was asked for");
    // The next one asks for it.
    ada.send_to(&to).await.ok();
    world.advance(20_100).await;
    ada.until(sent.word("challenge_id"), |now| now["channel"] == "sms").await;
}

async fn an_auto_resend_after_sms_falls_back(world: &World) {
    let ada = world.account("ada").await;
    for (ending, is_at_once) in [("0001", true), ("0003", false)] {
        let to = phone(ending);
        let sent = ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
        let id = sent.word("challenge_id");
        ada.until(id, |now| now["status"] == "delivered").await;
        let again = ada.send(json!({"to": to, "delivery_mode": "auto"})).await.ok();
        assert_eq!(again.word("challenge_id"), id);
        assert_eq!(again.field("fallback_used"), is_at_once, "{}", again.text);
        world.advance(20_100).await;
        ada.until(id, |now| now["channel"] == "sms" && now["status"] == "delivered").await;
        assert_eq!(ada.handset(&to).await.len(), 2);
        let code = ada.code_on(&to).await;
        ada.guess(id, &code).await.ok();
    }
}

async fn a_resend_that_is_refused_does_not_end_what_was_delivered(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0001");
    let sent = ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
    let id = sent.word("challenge_id");
    let delivered = ada.until(id, |now| now["status"] == "delivered").await;
    let again = ada.send(json!({"to": to, "delivery_mode": "chatapp"})).await;
    let again = again.problem("recipient_unreachable");
    assert_eq!(again.word("challenge_id"), id);
    let read = ada.challenge(id).await.ok();
    let legs = ["status", "channel", "provider_message_id"];
    for name in legs {
        assert_eq!(
            read.field(name),
            delivered.field(name),
            "it shows the leg that arrived: {name}"
        );
    }
    assert_eq!((read.word("status"), read.word("channel")), ("delivered", "sms"));
    assert_eq!(GRANT - ada.balance().await, world.price("sms", "FR"), "the refusal costs nothing");
    let code = ada.code_on(&to).await;
    ada.guess(id, &code).await.ok();
}

async fn a_resend_that_fails_later_does_not_end_what_was_delivered(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0021");
    let sent = ada.send_to(&to).await.ok();
    let id = sent.word("challenge_id");
    assert_eq!(sent.word("status"), "delivered");
    let code = ada.code_on(&to).await;
    ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
    let chatapp = world.price("chatapp", "FR");
    crate::world::eventually(async || (GRANT - ada.balance().await == chatapp).then_some(())).await;
    let read = ada.challenge(id).await.ok();
    assert_eq!(read.word("status"), "delivered", "{}", read.text);
    ada.guess(id, &code).await.ok();
}

async fn a_resend_that_nobody_can_pay_does_not_end_what_was_delivered(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0001");
    let (sms, chatapp) = (world.price("sms", "FR"), world.price("chatapp", "FR"));
    world.credit(&ada, sms + chatapp - GRANT).await.ok();
    let sent = ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
    let id = sent.word("challenge_id");
    ada.until(id, |now| now["status"] == "delivered").await;
    ada.send_to(&to).await.problem("insufficient_credits");
    assert_eq!(ada.balance().await, chatapp, "the refused message is given back");
    let code = ada.code_on(&to).await;
    ada.guess(id, &code).await.ok();
}

async fn a_resend_does_not_bear_a_sender_that_staff_have_rejected(world: &World) {
    let (ada, to) = (world.sender("ada").await, phone("5678"));
    let send = async || {
        let before = ada.handset(&to).await.len();
        ada.send(json!({"to": to, "delivery_mode": "sms", "code": "482916"})).await.ok();
        let all = eventually(async || Some(ada.handset(&to).await).filter(|it| it.len() > before));
        all.await[0]["sender"].clone()
    };
    assert_eq!(send().await, "ACME");
    world.advance(31_000).await;
    assert_eq!(send().await, "ACME", "control");
    let own = ada.desk("GET", "/v1/senders").await.ok();
    let path = format!("/v1/admin/senders/{}", own.list()[0]["id"].as_str().unwrap());
    let decided = world.patch(ada.env, &path).bearer(world.staff().await);
    decided.json(json!({"status": "rejected", "reason": "no"})).await.ok();
    world.advance(31_000).await;
    assert_ne!(send().await, "ACME");
}

async fn a_resend_speaks_the_language_that_it_asks_for(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let says = async |more: serde_json::Value, words: &str| {
        let mut body = json!({"to": to, "delivery_mode": "sms", "code": "482916"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let before = ada.handset(&to).await.len();
        ada.send(body).await.ok();
        let all =
            eventually(async || Some(ada.handset(&to).await).filter(|all| all.len() > before))
                .await;
        let text = all[0]["text"].as_str().unwrap();
        assert!(text.contains(words), "{more}: {text}");
    };
    says(json!({}), "est votre code").await;
    says(json!({"template_language": "en"}), "is your verification code").await;
    // What a request leaves out stays.
    says(json!({}), "is your verification code").await;
    says(json!({"template_language": "fr"}), "est votre code").await;
}
