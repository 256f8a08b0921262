//! What phones write: in parts, out of order, again, and never to its end.

use playground::smsc::{IdStyle, Mobile};
use serde_json::json;

use super::{Scene, scene};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(what_a_phone_writes_comes_in_whole, stop_by_sms_is_an_opt_out,);

fn write(scene: &Scene<'_>, from: &str, text: &str) {
    let from = from.to_owned();
    let mobile = Mobile { from, to: "ACME".to_owned(), text: text.to_owned() };
    assert!(scene.centre.handsets.write(&mobile));
}

async fn texts(scene: &Scene<'_>) -> Vec<String> {
    let all = scene.ada.get("/v1/inbound-notifications").await.ok();
    all.list().iter().map(|one| one["message"].as_str().unwrap().to_owned()).collect()
}

async fn until(scene: &Scene<'_>, expected: &[&str]) {
    eventually(async || {
        let found = texts(scene).await;
        (found == expected).then_some(())
    })
    .await;
}

async fn what_a_phone_writes_comes_in_whole(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let from = phone("5678");
    write(&scene, &from, "yes");
    until(&scene, &["yes"]).await;
    // Nobody can tell a repeat from what the network brings twice.
    write(&scene, &from, "yes");
    let long = "я".repeat(150);
    write(&scene, &from, &long);
    until(&scene, &[long.as_str(), "yes"]).await;
    world.advance(11 * clock::MINUTE).await;
    write(&scene, &from, "yes");
    until(&scene, &["yes", long.as_str(), "yes"]).await;
    let all = scene.ada.get("/v1/inbound-notifications").await.ok();
    assert_eq!(
        (&all.list()[0]["sender"], &all.list()[0]["recipient"]),
        (&json!(from), &json!("ACME"))
    );
    world.housekeep().await;
    until(&scene, &["yes", long.as_str(), "yes"]).await;
    assert!(crate::erasure::holding(world, &from).await.contains(&"inbound.sender".to_owned()));
    assert!(
        !crate::erasure::holding(world, &from)
            .await
            .iter()
            .any(|at| at.starts_with("inbound_parts"))
    );
}

async fn stop_by_sms_is_an_opt_out(world: &World) {
    let scene = scene(world, IdStyle::Decimal, "").await;
    let to = phone("5678");
    let id = scene.text(&to, json!({})).await;
    scene.until(&id, "delivered").await;
    write(&scene, &to, "Stop");
    until(&scene, &["Stop"]).await;
    scene.ada.text(json!({"to": to, "text": "more"})).await.problem("recipient_opted_out");
}
