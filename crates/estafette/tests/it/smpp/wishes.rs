//! STOP and START by SMS, where networks give messages no id, and while messages wait.

use estafette::app::Env;
use playground::smsc::{IdStyle, Mobile};
use serde_json::json;

use super::gateways::{Far, give};
use super::{START, Scene, scene, sender};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    a_wish_that_changes_is_never_a_repeat,
    stop_to_another_account_is_not_the_stop_to_the_first,
    who_says_stop_gets_nothing_that_waited,
);

fn write(scene: &Scene<'_>, to: &str, text: &str) {
    let mobile = Mobile { from: phone("5678"), to: to.to_owned(), text: text.to_owned() };
    assert!(scene.centre.handsets.write(&mobile));
}

async fn a_wish_that_changes_is_never_a_repeat(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let to = phone("5678");
    let id = scene.text(&to, json!({})).await;
    scene.until(&id, "delivered").await;
    let heard = async |count: usize| {
        eventually(async || {
            let all = scene.ada.get("/v1/inbound-notifications").await.ok();
            (all.list().len() == count).then_some(())
        })
        .await;
    };
    let wishes = [("STOP", true), ("START", false), ("STOP", true), ("START", false)];
    for (count, (wish, is_silent)) in (1..).zip(wishes) {
        write(&scene, "ACME", wish);
        heard(count).await;
        let answer = scene.ada.text(json!({"to": to, "text": "more"})).await;
        if is_silent {
            answer.problem("recipient_opted_out");
        } else {
            answer.ok();
        }
        world.advance(1_000).await;
    }
    // What holds already is a repeat, as the network brings it again.
    write(&scene, "ACME", "START");
    write(&scene, "ACME", "thanks");
    heard(5).await;
    let newest = scene.ada.get("/v1/inbound-notifications").await.ok();
    assert_eq!(newest.list()[0]["message"], "thanks");
}

async fn stop_to_another_account_is_not_the_stop_to_the_first(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let eve = sender(world, "eve").await;
    let body = json!({"to": phone("5678"), "text": "hello"});
    for tenant in [&scene.ada, &eve] {
        // A number that is nobody's sender: what is written to it is for whoever wrote last.
        let id = tenant.text(&body).await.ok().word("id").to_owned();
        tenant.sms_until(&id, "delivered").await;
        world.advance(1_000).await;
        write(&scene, "99000", "STOP");
        eventually(async || {
            let answer = tenant.text(&body).await;
            (answer.status == 403).then(|| answer.problem("recipient_opted_out"))
        })
        .await;
        world.advance(1_000).await;
    }
}

async fn who_says_stop_gets_nothing_that_waited(world: &World) {
    let (far, address) = Far::open(400, r#"{"messages": [{"status": "5"}]}"#).await;
    give(world, "vonage", address).await;
    let ada = sender(world, "ada").await;
    let text = async |to: String| {
        ada.text(json!({"to": to, "text": "hello"})).await.ok().word("id").to_owned()
    };
    let (stopped, other) = (text(phone("5678")).await, text(phone("5679")).await);
    let asked = || far.asked.lock().unwrap().len();
    eventually(async || (asked() == 2).then_some(())).await;
    for id in [&stopped, &other] {
        ada.sms_until(id, "queued").await;
    }
    let told = format!("msisdn={}&to=ACME&text=STOP&messageId=V1", &phone("5678")[1..]);
    let path = format!("/v1/upstream/sms/main?token=token+1&{told}");
    world.get(Env::Live, &path).await.ok();
    *far.answer.lock().unwrap() =
        (200, r#"{"messages": [{"status": "0", "message-id": "A1"}]}"#.to_owned());
    eventually(async || {
        world.advance(20_000).await;
        (ada.sms(&other).await.ok().word("status") == "submitted").then_some(())
    })
    .await;
    let read = ada.sms_until(&stopped, "failed").await;
    let error = read.field("error");
    assert_eq!(
        (&error["code"], &error["carrier_code"]),
        (&json!("recipient_opted_out"), &json!(null)),
    );
    let sent = far.asked.lock().unwrap().clone();
    let of_stopped = sent.iter().filter(|(_, body)| body.contains(&phone("5678")[1..]));
    assert_eq!(of_stopped.count(), 1, "only what went before");
    assert_eq!(ada.balance().await, START - super::PRICE);
}
