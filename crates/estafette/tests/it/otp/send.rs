//! Sending: what the answer says, what the handset shows, resending, texts.

use estafette::app::Env;
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::World;
use crate::world::contract::{is_id, is_instant};
use crate::world::tenant::{other_than, phone};

on_every_engine!(
    a_default_send_goes_by_chatapp_and_is_delivered,
    the_send_answer_has_exactly_the_fields_of_the_contract,
    the_status_read_has_the_fields_of_the_contract_and_no_code,
    a_chatapp_only_send_answers_exactly_as_the_contract_says,
    sms_mode_goes_by_sms_only,
    a_generated_code_has_six_digits_or_as_many_as_asked_for,
    code_length_has_no_effect_beside_a_code,
    sending_again_resends_the_same_challenge,
    sending_again_later_keeps_the_expiry_and_the_attempts,
    another_code_supersedes_the_old_one,
    another_code_is_valid_as_long_as_a_first_one,
    another_reference_is_another_challenge,
    after_an_end_a_send_starts_afresh,
    the_language_follows_the_template_language_or_the_country,
    texts_have_the_code_first_and_fit_one_segment,
    live_without_carriers_answers_503_and_keeps_nothing,
);

/// 2026-01-01 and five minutes after it, by the clock of the story.
async fn a_default_send_goes_by_chatapp_and_is_delivered(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let sent = ada.send_to(&to).await.ok();
    assert_eq!(sent.word("channel"), "chatapp");
    assert_eq!(sent.word("status"), "delivered", "{}", sent.text);
    assert_eq!(sent.word("to"), to);
    assert_eq!(sent.field("fallback_used"), false);
    assert_eq!(sent.field("chatapp_available"), true);
    assert_eq!(sent.word("expires_at"), (world.now() + 300_000).to_string());
    let shown = ada.handset(&to).await;
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0]["channel"], "chatapp");
    let code = ada.code_on(&to).await;
    let verified = ada.guess(sent.word("challenge_id"), &code).await.ok();
    assert_eq!(verified.field("verified"), true);
    assert_eq!(verified.word("challenge_id"), sent.word("challenge_id"));
    assert_eq!(verified.word("status"), "verified");
    assert_eq!(verified.word("verified_at"), world.now().to_string());
    assert_eq!(verified.names(), ["challenge_id", "status", "verified", "verified_at"]);
}

async fn the_send_answer_has_exactly_the_fields_of_the_contract(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "reference": "order-7"})).await.ok();
    let expected = [
        "challenge_id",
        "channel",
        "chatapp_available",
        "expires_at",
        "fallback_used",
        "provider",
        "provider_message_id",
        "reference",
        "status",
        "to",
    ];
    assert_eq!(sent.names(), expected);
    assert!(is_id("otp", sent.word("challenge_id")));
    assert_eq!(sent.word("provider"), "svc");
    assert_eq!(sent.word("reference"), "order-7");
    assert!(!sent.word("provider_message_id").is_empty());
    assert!(is_instant(sent.word("expires_at")));
    assert!(sent.field("fallback_used").is_boolean());
    assert!(sent.field("chatapp_available").is_boolean());
    let plain = ada.send_to(&phone("5679")).await.ok();
    assert_eq!(plain.field("reference"), &Value::Null);
}

async fn the_status_read_has_the_fields_of_the_contract_and_no_code(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let sent = ada.send(json!({"to": to, "code": "482916"})).await.ok();
    let created = world.now().to_string();
    let read = ada.challenge(sent.word("challenge_id")).await.ok();
    let required = [
        "attempts",
        "challenge_id",
        "channel",
        "created_at",
        "expires_at",
        "max_attempts",
        "provider",
        "provider_message_id",
        "reference",
        "status",
        "to",
        "verified_at",
    ];
    for name in required {
        read.field(name);
    }
    assert_eq!(read.number("attempts"), 0);
    assert_eq!(read.number("max_attempts"), 5);
    assert_eq!(read.field("verified_at"), &Value::Null);
    assert_eq!(read.word("created_at"), created);
    assert_eq!(read.word("to"), to);
    assert_eq!(read.word("provider"), "svc");
    for name in ["challenge_id", "provider_message_id", "expires_at", "status", "channel"] {
        assert_eq!(read.field(name), sent.field(name), "{name}");
    }
    assert_eq!(read.body.get("code"), None);
    assert!(!read.text.contains("482916"));
}

async fn a_chatapp_only_send_answers_exactly_as_the_contract_says(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let body = json!({"to": to, "code": "4821", "client_id": "shop 9"});
    let path = "/v1/chatapp/otp/send";
    let sent = ada.call("POST", path).json(body).await.ok();
    let expected =
        ["challenge_id", "chatapp_message_id", "client_id", "provider", "reference", "sent", "to"];
    assert_eq!(sent.names(), expected);
    assert_eq!(sent.field("sent"), true);
    assert_eq!(sent.word("to"), to);
    assert_eq!(sent.word("client_id"), "shop 9");
    assert_eq!(sent.field("reference"), &Value::Null);
    assert_eq!(sent.word("provider"), "svc");
    assert!(!sent.word("chatapp_message_id").is_empty());
    let id = sent.word("challenge_id");
    let read = ada.challenge(id).await.ok();
    assert_eq!(read.word("channel"), "chatapp");
    assert_eq!(read.word("provider_message_id"), sent.word("chatapp_message_id"));
    ada.guess(id, "4821").await.ok();
    let missing = ada.call("POST", path).json(json!({"to": to})).await;
    missing.fault("/code", "required");
    let named = json!({"to": phone("5677"), "code": "48211", "reference": "r1"});
    let named = ada.call("POST", path).json(named).await.ok();
    assert_eq!(named.word("reference"), "r1");
}

async fn sms_mode_goes_by_sms_only(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let sent = ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
    assert_eq!(sent.word("channel"), "sms");
    assert_eq!(sent.field("fallback_used"), false);
    assert_eq!(sent.field("chatapp_available"), true);
    let shown = ada.handset(&to).await;
    assert_eq!((shown.len(), &shown[0]["channel"]), (1, &json!("sms")));
    ada.until(sent.word("challenge_id"), |now| now["status"] == "delivered").await;
}

async fn a_generated_code_has_six_digits_or_as_many_as_asked_for(world: &World) {
    let ada = world.account("ada").await;
    let digits = |code: &str| code.bytes().all(|byte| byte.is_ascii_digit());
    ada.send_to(&phone("5600")).await.ok();
    let code = ada.code_on(&phone("5600")).await;
    assert!(code.len() == 6 && digits(&code), "{code}");
    for length in 4..=8_usize {
        let to = phone(&format!("560{length}"));
        ada.send(json!({"to": to, "code_length": length})).await.ok();
        let code = ada.code_on(&to).await;
        assert!(code.len() == length && digits(&code), "{code} for {length}");
    }
    for code in ["0000", "12345", "012345", "1234567", "00000000"] {
        let to = phone(&format!("561{}", code.len()));
        let sent = ada.send(json!({"to": to, "code": code})).await.ok();
        assert_eq!(ada.code_on(&to).await, code);
        ada.guess(sent.word("challenge_id"), code).await.ok();
    }
}

async fn code_length_has_no_effect_beside_a_code(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    ada.send(json!({"to": to, "code": "1234", "code_length": 8})).await.ok();
    assert_eq!(ada.code_on(&to).await, "1234");
}

async fn sending_again_resends_the_same_challenge(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let first = ada.send(json!({"to": to, "reference": "r"})).await.ok();
    let code = ada.code_on(&to).await;
    let again = ada.send(json!({"to": to, "reference": "r"})).await.ok();
    assert_eq!(again.field("challenge_id"), first.field("challenge_id"));
    assert_eq!(again.field("expires_at"), first.field("expires_at"));
    assert_ne!(again.field("provider_message_id"), first.field("provider_message_id"));
    assert_eq!(ada.handset(&to).await.len(), 2);
    assert_eq!(ada.code_on(&to).await, code);
    let same = ada.send(json!({"to": to, "reference": "r", "code": code})).await.ok();
    assert_eq!(same.field("challenge_id"), first.field("challenge_id"));
    ada.guess(first.word("challenge_id"), &code).await.ok();
}

async fn sending_again_later_keeps_the_expiry_and_the_attempts(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let first = ada.send_to(&to).await.ok();
    let id = first.word("challenge_id");
    let code = ada.code_on(&to).await;
    ada.guess(id, &other_than(&code)).await.problem("otp_code_invalid");
    world.advance(60_000).await;
    let again = ada.send_to(&to).await.ok();
    assert_eq!(again.word("challenge_id"), id);
    assert_eq!(again.field("expires_at"), first.field("expires_at"));
    assert_eq!(ada.challenge(id).await.ok().number("attempts"), 1);
    assert_eq!(ada.code_on(&to).await, code);
}

async fn another_code_supersedes_the_old_one(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let old = ada.send(json!({"to": to, "code": "111111"})).await.ok();
    let new = ada.send(json!({"to": to, "code": "222222"})).await.ok();
    assert_eq!(ada.code_on(&to).await, "222222");
    // A superseded code must not verify.
    ada.guess(old.word("challenge_id"), "111111").await.problem("otp_code_invalid");
    ada.verify(json!({"to": to, "code": "111111"})).await.problem("otp_code_invalid");
    ada.guess(new.word("challenge_id"), "222222").await.ok();
}

async fn another_code_is_valid_as_long_as_a_first_one(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    for code in ["111111", "222222", "333333", "444444"] {
        let sent = ada.send(json!({"to": to, "code": code})).await.ok();
        assert_eq!(sent.word("expires_at"), (world.now() + 300_000).to_string(), "{code}");
        world.advance(200_000).await;
    }
}

async fn another_reference_is_another_challenge(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let one = ada.send(json!({"to": to, "reference": "one"})).await.ok();
    let two = ada.send(json!({"to": to, "reference": "two"})).await.ok();
    let none = ada.send_to(&to).await.ok();
    let ids = [one.word("challenge_id"), two.word("challenge_id"), none.word("challenge_id")];
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
}

async fn after_an_end_a_send_starts_afresh(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let first = ada.send_to(&to).await.ok();
    let code = ada.code_on(&to).await;
    ada.guess(first.word("challenge_id"), &code).await.ok();
    let second = ada.send_to(&to).await.ok();
    assert_ne!(second.field("challenge_id"), first.field("challenge_id"));
    // Expired, but not swept yet: only the clock moves.
    world.advance(300_000).await;
    let third = ada.send_to(&to).await.ok();
    assert_ne!(third.field("challenge_id"), second.field("challenge_id"));
    assert_eq!(third.word("expires_at"), (world.now() + 300_000).to_string());
}

async fn the_language_follows_the_template_language_or_the_country(world: &World) {
    let ada = world.account("ada").await;
    let text = async |to: &str, language: Option<&str>| {
        let body = json!({
            "to": to, "code": "482916", "delivery_mode": "sms", "template_language": language,
        });
        ada.send(body).await.ok();
        ada.handset(to).await[0]["text"].as_str().unwrap().to_owned()
    };
    let french = text("+33612345601", None).await;
    let english = text("+447400125601", None).await;
    assert_ne!(french, english);
    assert_eq!(text("+22890115602", None).await, french, "Togo reads French");
    assert_eq!(text("+33612345603", Some("en")).await, english);
    assert_eq!(text("+447400125604", Some("fr")).await, french);
}

async fn texts_have_the_code_first_and_fit_one_segment(world: &World) {
    let ada = world.account("ada").await;
    for (to, language) in [("+33612345601", "fr"), ("+447400125601", "en")] {
        let body = json!({
            "to": to, "code": "48291637", "delivery_mode": "sms", "template_language": language,
        });
        ada.send(body).await.ok();
        let shown = ada.handset(to).await;
        let text = shown[0]["text"].as_str().unwrap();
        assert!(text.starts_with("48291637"), "{text}");
        assert!(text.chars().count() <= 160, "{text}");
        assert!(text.chars().all(is_gsm7), "{text}");
        assert_eq!(shown[0]["code"], "48291637");
        assert!(text.chars().count() > 12, "says what it is: {text}");
    }
}

/// The basic table of GSM 03.38 without its control characters but the line ends.
fn is_gsm7(letter: char) -> bool {
    letter.is_ascii_alphanumeric()
        || " \n\r@£$¥èéùìòÇØøÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ!\"#¤%&'()*+,-./:;<=>?¡ÄÖÑÜ§¿äöñüà".contains(letter)
}

async fn live_without_carriers_answers_503_and_keeps_nothing(world: &World) {
    let ada = world.live_account("ada", 1_000).await;
    assert_eq!(ada.env, Env::Live);
    for (mode, told) in [
        ("auto", "No chat-app carrier is set up for this account, and no SMS carrier"),
        ("chatapp", "No chat-app carrier is set up for this account."),
        ("sms", "No SMS carrier serves this number."),
    ] {
        let body = json!({"to": phone("5678"), "delivery_mode": mode, "reference": "r"});
        let refused = ada.send(body).await.problem("carrier_unavailable");
        assert!(refused.word("detail").starts_with(told), "{}", refused.text);
    }
    assert_eq!(ada.balance().await, 1_000);
    assert_eq!(ada.movements().await, []);
    ada.verify(json!({"reference": "r", "code": "123456"})).await.problem("not_found");
    ada.verify(json!({"to": phone("5678"), "code": "123456"})).await.problem("not_found");
}
