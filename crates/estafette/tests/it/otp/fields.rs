//! Every field of the requests: wrong types, too long, out of range, and what is allowed.

use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::phone;

on_every_engine!(
    faulty_fields_of_a_send_are_named,
    faulty_fields_of_a_chatapp_send_are_named,
    faulty_fields_of_a_verification_are_named,
    all_faults_are_named_at_once,
    a_number_as_dialled_at_home_is_told_what_it_lacks,
    null_counts_as_absent,
    an_sms_sender_must_be_approved,
    countries_may_be_closed,
);

fn long(length: usize) -> String {
    "x".repeat(length)
}

async fn faulty_fields_of_a_send_are_named(world: &World) {
    let ada = world.account("ada").await;
    let cases: Vec<(&str, Value, &str)> = vec![
        ("to", json!(33_612_345_678_i64), "invalid_type"),
        ("to", json!(""), "invalid_phone_number"),
        ("to", json!("12"), "invalid_phone_number"),
        ("to", json!("0612345678"), "invalid_phone_number"),
        ("to", json!("+33000000000"), "invalid_phone_number"),
        ("to", json!("+33892123456"), "invalid_phone_number"),
        ("to", json!(long(500)), "invalid_phone_number"),
        ("reference", json!(7), "invalid_type"),
        ("reference", json!(long(5_000)), "too_long"),
        ("code", json!(1234), "invalid_type"),
        ("code", json!("123"), "invalid_code"),
        ("code", json!("123456789"), "invalid_code"),
        ("code", json!("12a4"), "invalid_code"),
        ("code", json!(""), "invalid_code"),
        ("delivery_mode", json!("pigeon"), "invalid_enum"),
        ("delivery_mode", json!(1), "invalid_type"),
        ("sms_sender", json!(true), "invalid_type"),
        ("template_name", json!(1), "invalid_type"),
        ("template_name", json!(long(5_000)), "too_long"),
        ("template_language", json!([]), "invalid_type"),
        ("template_language", json!(long(100)), "too_long"),
        ("code_length", json!(3), "out_of_range"),
        ("code_length", json!(9), "out_of_range"),
        ("code_length", json!("6"), "invalid_type"),
        ("code_length", json!(5.5), "out_of_range"),
        ("request_messaging_consent", json!("yes"), "invalid_type"),
    ];
    for (field, value, item) in cases {
        let mut body = json!({"to": phone("5678")});
        body[field] = value;
        let answer = ada.send(&body).await;
        let found = answer.item(&format!("/{field}"));
        assert_eq!(found.as_deref(), Some(item), "{body}: {} {}", answer.status, answer.text);
        answer.problem("validation_failed");
    }
    ada.send(json!({})).await.fault("/to", "required");
    assert!(ada.handset(&phone("5678")).await.is_empty());
    assert_eq!(ada.movements().await, []);
}

async fn faulty_fields_of_a_chatapp_send_are_named(world: &World) {
    let ada = world.account("ada").await;
    let cases = [
        ("to", json!("12"), "invalid_phone_number"),
        ("code", json!("12"), "invalid_code"),
        ("code", json!(1234), "invalid_type"),
        ("client_id", json!(1), "invalid_type"),
        ("client_id", json!(long(5_000)), "too_long"),
        ("reference", json!({}), "invalid_type"),
        ("template_name", json!(1), "invalid_type"),
        ("template_language", json!(1), "invalid_type"),
        ("delivery_mode", json!("sms"), "unknown_field"),
    ];
    for (field, value, item) in cases {
        let mut body = json!({"to": phone("5678"), "code": "4821"});
        body[field] = value;
        let answer = ada.call("POST", "/v1/chatapp/otp/send").json(&body).await;
        let found = answer.item(&format!("/{field}"));
        assert_eq!(found.as_deref(), Some(item), "{body}: {} {}", answer.status, answer.text);
    }
}

async fn faulty_fields_of_a_verification_are_named(world: &World) {
    let ada = world.account("ada").await;
    let cases = [
        ("challenge_id", json!(1), "invalid_type"),
        ("reference", json!(1), "invalid_type"),
        ("to", json!(1), "invalid_type"),
        ("to", json!("12"), "invalid_phone_number"),
        ("code", json!("x"), "invalid_code"),
        ("code", json!(1), "invalid_type"),
        ("extra", json!(1), "unknown_field"),
    ];
    for (field, value, item) in cases {
        let mut body = json!({"challenge_id": "otp_01kdv00000000000000000000z", "code": "4821"});
        body[field] = value;
        let answer = ada.verify(&body).await;
        let found = answer.item(&format!("/{field}"));
        assert_eq!(found.as_deref(), Some(item), "{body}: {} {}", answer.status, answer.text);
    }
}

async fn all_faults_are_named_at_once(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": "12", "code": "x", "delivery_mode": "z", "code_length": 99, "odd": 1});
    let answer = ada.send(body).await.problem("validation_failed");
    for pointer in ["/to", "/code", "/delivery_mode", "/code_length", "/odd"] {
        assert!(answer.item(pointer).is_some(), "{pointer}: {}", answer.text);
    }
    let detail = answer.word("detail");
    assert!(detail.ends_with("5 fields are invalid; see `errors`."), "{detail}");
}

async fn a_number_as_dialled_at_home_is_told_what_it_lacks(world: &World) {
    let ada = world.account("ada").await;
    for number in ["0612345678", "612345678"] {
        let refused = ada.send_to(number).await.fault("/to", "invalid_phone_number");
        let detail = refused.word("detail");
        assert!(detail.starts_with("The field `to` is not a valid phone number"), "{detail}");
        assert!(detail.contains("write + and the country code first"), "{detail}");
    }
}

async fn null_counts_as_absent(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({
        "to": phone("5678"), "reference": null, "code": null, "delivery_mode": null,
        "sms_sender": null, "template_name": null, "template_language": null,
        "code_length": null, "request_messaging_consent": null,
    });
    ada.send(body).await.ok();
    let whole =
        json!({"to": phone("5679"), "code_length": 6.0, "request_messaging_consent": false});
    ada.send(whole).await.ok();
}

async fn an_sms_sender_must_be_approved(world: &World) {
    let ada = world.account("ada").await;
    let asked = ada.desk("POST", "/v1/senders").json(json!({"value": "AdaShop"})).await.ok();
    let body = json!({"to": phone("0001"), "sms_sender": "AdaShop"});
    for (sender, says) in [
        ("AdaShop", "`sms_sender`, AdaShop, is not approved yet"),
        ("Nobody", "ask for it with POST /v1/senders"),
        ("no\nsender", "`sms_sender` must be 3 to 15 digits"),
    ] {
        let body = json!({"to": phone("5678"), "sms_sender": sender});
        let refused = ada.send(body).await.problem("sender_not_approved");
        assert!(refused.word("detail").contains(says), "{}", refused.text);
    }
    assert_eq!(ada.movements().await, []);
    let path = format!("/v1/admin/senders/{}", asked.word("id"));
    let staff = world.staff().await;
    let change = json!({"status": "approved"});
    world.patch(ada.env, &path).bearer(staff).json(change).await.ok();
    let sent = ada.send(&body).await.ok();
    assert_eq!(sent.word("channel"), "sms");
    assert_eq!(ada.handset(&phone("0001")).await[0]["sender"], "AdaShop");
    // Approved for one account is not approved for another.
    let bob = world.account("bob").await;
    bob.send(&body).await.problem("sender_not_approved");
}

async fn countries_may_be_closed(world: &World) {
    let ada = world.account("ada").await;
    world.set(&ada, json!({"settings": {"countries": ["TG", "GB"]}})).await.ok();
    ada.send_to(&phone("5678")).await.problem("country_not_allowed");
    let body = json!({"to": phone("5678"), "code": "4821"});
    let answer = ada.call("POST", "/v1/chatapp/otp/send").json(body).await;
    answer.problem("country_not_allowed");
    ada.send_to("+22890112345").await.ok();
    assert!(ada.handset(&phone("5678")).await.is_empty());
    world.set(&ada, json!({"settings": {"countries": null}})).await.ok();
    ada.send_to(&phone("5678")).await.ok();
}
