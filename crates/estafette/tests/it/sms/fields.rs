//! What a send takes: fields and their faults, alphabets and segments, senders, scopes.

use estafette::app::Env;
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::{Tenant, phone};

on_every_engine!(
    every_fault_of_a_send_is_named,
    a_text_is_weighed_and_priced_by_the_segment,
    more_than_ten_segments_are_too_long,
    transliteration_is_never_dearer_and_leaves_something,
    an_approved_sender_is_what_the_phone_shows,
    without_a_sender_the_default_one_is_used,
    live_sends_nothing_without_an_approved_sender,
    each_of_many_at_once_is_judged_by_itself,
    a_country_off_the_list_is_not_sent_to,
    a_key_needs_the_scope_of_sms,
);

async fn transliteration_is_never_dearer_and_leaves_something(world: &World) {
    let ada = world.account("ada").await;
    let plain =
        |text: &str| ada.text(json!({"to": phone("5678"), "text": text, "transliterate": true}));
    plain("\u{200b}").await.fault("/text", "too_short");
    let dots = plain(&"…".repeat(60)).await.ok();
    assert_eq!((dots.number("segments"), dots.word("encoding")), (1, "ucs2"));
    let accents = plain(&"ê".repeat(71)).await.ok();
    assert_eq!((accents.number("segments"), accents.word("encoding")), (1, "gsm7"));
}

async fn every_fault_of_a_send_is_named(world: &World) {
    let ada = world.account("ada").await;
    let nothing = ada.text(json!({})).await.problem("validation_failed");
    for pointer in ["/to", "/text"] {
        assert_eq!(nothing.item(pointer).as_deref(), Some("required"), "{}", nothing.text);
    }
    let bad = json!({
        "to": "12", "text": "", "sender": "x".repeat(17), "reference": "", "validity_s": 59,
        "class": "marketing", "transliterate": "yes", "colour": "red",
    });
    let refused = ada.text(bad).await.problem("validation_failed");
    for (pointer, code) in [
        ("/to", "invalid_phone_number"),
        ("/text", "too_short"),
        ("/sender", "too_long"),
        ("/reference", "too_short"),
        ("/validity_s", "out_of_range"),
        ("/class", "invalid_enum"),
        ("/transliterate", "invalid_type"),
        ("/colour", "unknown_field"),
    ] {
        assert_eq!(refused.item(pointer).as_deref(), Some(code), "{pointer}: {}", refused.text);
    }
    // Only passcodes are kept from numbers that cost their caller.
    ada.text(json!({"to": "+33892123456", "text": "x"})).await.ok();
    ada.text(json!({"to": phone("5678"), "text": 5})).await.fault("/text", "invalid_type");
    let query = ada.call("POST", "/v1/messages?to=1").json(json!({})).await;
    query.problem("invalid_request");
}

async fn a_text_is_weighed_and_priced_by_the_segment(world: &World) {
    let ada = world.account("ada").await;
    let a = |times: usize| "a".repeat(times);
    let ya = |times: usize| "я".repeat(times);
    for (text, is_plain, encoding, segments) in [
        (a(160), false, "gsm7", 1),
        (a(161), false, "gsm7", 2),
        (a(306), false, "gsm7", 2),
        (a(307), false, "gsm7", 3),
        (a(1_530), false, "gsm7", 10),
        (a(159) + "€", false, "gsm7", 2),
        (ya(70), false, "ucs2", 1),
        (ya(71), false, "ucs2", 2),
        (ya(134), false, "ucs2", 2),
        (ya(135), false, "ucs2", 3),
        ("ê".repeat(160), false, "ucs2", 3),
        ("ê".repeat(160), true, "gsm7", 1),
        (a(66) + &"😀".repeat(10), true, "ucs2", 2),
    ] {
        let body = json!({"to": phone("5678"), "text": text, "transliterate": is_plain});
        let sent = ada.text(body).await.ok();
        let found = (sent.word("encoding"), sent.number("segments"));
        assert_eq!(found, (encoding, segments), "{} characters", text.chars().count());
        assert_eq!(sent.number("charged_credits"), 8 * segments);
        ada.sms_until(sent.word("id"), "delivered").await;
    }
    let shown = ada.handset(&phone("5678")).await;
    let texts: Vec<&str> = shown.iter().map(|message| message["text"].as_str().unwrap()).collect();
    assert!(texts.contains(&"e".repeat(160).as_str()), "what is weighed is what goes out");
    assert!(texts.contains(&"ê".repeat(160).as_str()));
}

async fn more_than_ten_segments_are_too_long(world: &World) {
    let ada = world.account("ada").await;
    for text in ["a".repeat(1_531), "я".repeat(671), "a".repeat(200_000)] {
        ada.text(json!({"to": phone("5678"), "text": text})).await.fault("/text", "too_long");
    }
    assert!(ada.movements().await.is_empty());
}

/// Asks for a sender; staff decides.
async fn sender(world: &World, ada: &Tenant<'_>, value: &str, status: &str) {
    let asked = ada.desk("POST", "/v1/senders").json(json!({"value": value})).await.ok();
    let path = format!("/v1/admin/senders/{}", asked.word("id"));
    let decided = world.patch(ada.env, &path).bearer(world.staff().await);
    decided.json(json!({"status": status})).await.ok();
}

fn from(value: &str) -> Value {
    json!({"to": phone("5678"), "text": "x", "sender": value})
}

async fn an_approved_sender_is_what_the_phone_shows(world: &World) {
    let ada = world.account("ada").await;
    let refused = async |value: &str, says: &str| {
        let refused = ada.text(from(value)).await.problem("sender_not_approved");
        assert!(refused.word("detail").contains(says), "{}", refused.text);
    };
    refused("ACME", "ask for it with POST /v1/senders").await;
    refused("no sender\n", "The sender must be 3 to 15 digits").await;
    ada.desk("POST", "/v1/senders").json(json!({"value": "ACME"})).await.ok();
    refused("ACME", "is not approved yet").await;
    sender(world, &ada, "ACME", "approved").await;
    let sent = ada.text(from("ACME")).await.ok();
    assert_eq!(sent.word("sender"), "ACME");
    ada.sms_until(sent.word("id"), "delivered").await;
    assert_eq!(ada.handset(&phone("5678")).await[0]["sender"], "ACME");
    sender(world, &ada, "ACME", "rejected").await;
    refused("ACME", "was rejected").await;
    let eve = world.account("eve").await;
    sender(world, &ada, "ACME", "approved").await;
    eve.text(from("ACME")).await.problem("sender_not_approved");
}

async fn without_a_sender_the_default_one_is_used(world: &World) {
    let ada = world.account("ada").await;
    let settings = json!({"settings": {"default_sender": "Default"}});
    let bob = world.live_account("bob", 0).await;
    for whose in [&ada, &bob] {
        let refused = world.set(whose, settings.clone()).await;
        refused.fault("/settings/default_sender", "invalid_enum");
    }
    sender(world, &ada, "Default", "approved").await;
    world.set(&ada, json!({"settings": {"default_sender": "Default"}})).await.ok();
    let sent = ada.text(json!({"to": phone("5678"), "text": "x"})).await.ok();
    assert_eq!(sent.word("sender"), "Default");
    let passcode = async |number: &str| {
        ada.send(json!({"to": phone(number), "delivery_mode": "sms"})).await.ok();
        ada.handset(&phone(number)).await[0]["sender"].clone()
    };
    assert_eq!(passcode("5671").await, "Default");
    // What staff takes back is not used by default either; a passcode is the carrier's own then.
    sender(world, &ada, "Default", "rejected").await;
    assert_ne!(passcode("5672").await, "Default");
    ada.text(json!({"to": phone("5678"), "text": "x"})).await.problem("sender_not_approved");
}

/// Many at once are one statement where the engine can do that.
async fn each_of_many_at_once_is_judged_by_itself(world: &World) {
    let ada = world.account("ada").await;
    sender(world, &ada, "ACME", "approved").await;
    let first = ada.text(from("ACME")).await.ok();
    ada.sms_until(first.word("id"), "delivered").await;
    let path = format!("/v1/sandbox/handsets/{}/replies", phone("5678"));
    ada.call("POST", &path).json(json!({"text": "STOP", "channel": "sms"})).await.ok();
    let sends = (0..60).map(async |number| {
        let (to, sender, code) = match number % 3 {
            0 => (phone("5679"), "ACME", None),
            1 => (phone("5679"), "Other", Some("sender_not_approved")),
            _ => (phone("5678"), "ACME", Some("recipient_opted_out")),
        };
        let answer = ada.text(json!({"to": to, "text": "x", "sender": sender})).await;
        match code {
            None => drop(answer.ok()),
            Some(code) => drop(answer.problem(code)),
        }
    });
    futures_util::future::join_all(sends).await;
    assert_eq!(ada.movements().await.iter().filter(|(kind, _)| kind == "hold").count(), 21);
    assert_eq!(ada.get("/v1/messages?limit=100").await.ok().list().len(), 21);
}

async fn live_sends_nothing_without_an_approved_sender(world: &World) {
    world.give_live_carriers().await;
    let ada = world.live_account("ada", 100).await;
    ada.text(json!({"to": phone("5678"), "text": "x"})).await.problem("sender_not_approved");
    sender(world, &ada, "ACME", "approved").await;
    let sent = ada.text(from("ACME")).await.ok();
    ada.sms_until(sent.word("id"), "delivered").await;
    assert_eq!(ada.balance().await, 92);
}

async fn a_country_off_the_list_is_not_sent_to(world: &World) {
    let ada = world.account("ada").await;
    world.set(&ada, json!({"settings": {"countries": ["DE"]}})).await.ok();
    let refused = ada.text(json!({"to": phone("5678"), "text": "x"})).await;
    refused.problem("country_not_allowed");
    ada.text(json!({"to": "+4915112345678", "text": "x"})).await.ok();
}

async fn a_key_needs_the_scope_of_sms(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "text": "x"});
    let others = ["otp:send", "otp:verify", "chatapp:send", "email:send", "account:read"];
    let weak = ada.new_key("weak", &others).await;
    let weak = weak.word("api_key");
    let refused = world.post(Env::Sandbox, "/v1/messages").key(weak).json(&body).await;
    let refused = refused.problem("insufficient_scope");
    assert!(refused.word("detail").contains("sms:send"), "{}", refused.text);
    ada.desk("POST", "/v1/messages").json(&body).await.problem("missing_credentials");
    let sender = ada.new_key("sender", &["sms:send"]).await;
    let sender = sender.word("api_key");
    let sent = world.post(Env::Sandbox, "/v1/messages").key(sender).json(&body).await.ok();
    let path = format!("/v1/messages/{}", sent.word("id"));
    world.get(Env::Sandbox, &path).key(sender).await.problem("insufficient_scope");
    world.get(Env::Sandbox, "/v1/messages").key(sender).await.problem("insufficient_scope");
    for path in [path.as_str(), "/v1/messages"] {
        world.get(Env::Sandbox, path).key(weak).await.ok();
        ada.desk("GET", path).await.ok();
        world.get(Env::Sandbox, path).await.problem("missing_credentials");
    }
}
