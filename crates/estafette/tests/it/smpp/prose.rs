//! Gateways that answer in prose, with the number and the text in it: nothing of that is kept.

use estafette::app::Env;
use serde_json::json;

use super::gateways::{Far, give};
use super::sender;
use crate::erasure::holding;
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    what_a_gateway_says_in_prose_is_not_kept,
    what_a_gateway_says_after_an_erasure_is_not_kept,
);

async fn what_a_gateway_says_in_prose_is_not_kept(world: &World) {
    let to = phone("5678");
    let said = format!("Error \"Cannot send SECRETBODY to {} (482913)\"", &to[1..]);
    let (far, address) = Far::open(412, &said).await;
    give(world, "jasmin", address).await;
    let ada = sender(world, "ada").await;
    let text = async || {
        let body = json!({"to": to, "text": "SECRETBODY"});
        let id = ada.text(body).await.ok().word("id").to_owned();
        ada.sms_until(&id, "failed").await.field("error")["carrier_code"].clone()
    };
    assert_eq!(text().await, "http 412");
    // A code alone is kept, unless it is a piece of what was sent.
    for (said, kept) in [("NoCredit", json!("NoCredit")), ("SECRETBODY", json!("http 412"))] {
        *far.answer.lock().unwrap() = (412, format!("Error \"{said}\""));
        assert_eq!(text().await, kept);
    }
    for code in ["482913", "4829"] {
        *far.answer.lock().unwrap() = (412, format!("Error \"{code}\""));
        let body = json!({"to": phone("5679"), "code": code, "delivery_mode": "sms"});
        let refused = ada.send(body).await;
        assert!(!refused.text.contains(code), "{}", refused.text);
        assert_eq!(holding(world, code).await, Vec::<String>::new());
    }
    assert!(!holding(world, "SECRETBODY").await.iter().any(|at| at.starts_with("attempts")));
}

async fn what_a_gateway_says_after_an_erasure_is_not_kept(world: &World) {
    let (_far, address) = Far::open(200, "Success \"abc-1\"").await;
    give(world, "jasmin", address).await;
    let ada = sender(world, "ada").await;
    let to = phone("5678");
    let body = json!({"to": to, "text": "hello"});
    let id = ada.text(body).await.ok().word("id").to_owned();
    ada.sms_until(&id, "submitted").await;
    let erase = world.post(Env::Live, "/v1/admin/erasures").bearer(world.staff().await);
    erase.json(json!({"phone": to})).await.ok();
    for error in [&to[1..], "011"] {
        let told = format!("token=token+1&id=abc-1&level=2&message_status=UNDELIV&err={error}");
        world.get(Env::Live, &format!("/v1/upstream/sms/main?{told}")).await;
    }
    eventually(async || Some(holding(world, &to).await).filter(Vec::is_empty)).await;
    let read = ada.sms(&id).await.ok();
    let error = read.field("error");
    assert!(error.is_null() || error["carrier_code"].is_null(), "{}", read.text);
}
