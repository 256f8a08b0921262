//! Pairs of connections of which one stands: what goes out does so, and the operator is told that
//! nothing comes back.

use serde_json::json;

use super::rude::{Manners, Rude};
use super::{carrier, give, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    a_pair_that_cannot_receive_is_not_up,
    a_pair_is_seen_receiving_again,
    a_pair_that_cannot_send_is_down,
);

/// Whether the operator's figures say that it only sends.
async fn counts_as_sending_only(world: &World, is_so: bool) {
    let line = format!("estafette_lane_sends_only{{carrier=\"main\"}} {}\n", u8::from(is_so));
    eventually(async || world.metrics().await.text.contains(&line).then_some(())).await;
}

async fn until_it_only_sends(world: &World) {
    eventually(async || {
        let seen = carrier(world, "main").await;
        (seen["state"] == "sends_only" && !seen["reason"].is_null()).then_some(())
    })
    .await;
}

async fn a_pair_that_cannot_receive_is_not_up(world: &World) {
    let rude = Rude::open(Manners::RefusesReceivers).await;
    give(world, settings(&[("main", rude.address, "bind = 'pair'")])).await;
    until_it_only_sends(world).await;
    let seen = carrier(world, "main").await;
    let reason = seen["reason"].as_str().unwrap();
    assert!(reason.starts_with("receiver: the carrier refuses the bind"), "{seen}");
    counts_as_sending_only(world, true).await;
    // Those that wait for a passcode get it all the same.
    let ada = sender(world, "ada").await;
    let sent = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    ada.sms_until(sent.word("id"), "submitted").await;
    assert_eq!(rude.submissions(), 1);
}

async fn a_pair_is_seen_receiving_again(world: &World) {
    let rude = Rude::open(Manners::RefusesReceivers).await;
    give(world, settings(&[("main", rude.address, "bind = 'pair'")])).await;
    until_it_only_sends(world).await;
    counts_as_sending_only(world, true).await;
    rude.behave(Manners::Good);
    eventually(async || {
        world.advance(5_000).await;
        (carrier(world, "main").await["state"] == "up").then_some(())
    })
    .await;
    assert_eq!(carrier(world, "main").await["reason"], json!(null));
    counts_as_sending_only(world, false).await;
}

async fn a_pair_that_cannot_send_is_down(world: &World) {
    let rude = Rude::open(Manners::RefusesBind).await;
    give(world, settings(&[("main", rude.address, "bind = 'pair'")])).await;
    eventually(async || {
        let seen = carrier(world, "main").await;
        (seen["state"] == "down" && !seen["reason"].is_null()).then_some(())
    })
    .await;
    let seen = carrier(world, "main").await;
    assert!(seen["reason"].as_str().unwrap().starts_with("transmitter: "), "{seen}");
    // Control: one that does both has nothing to be told of.
    rude.behave(Manners::Good);
    give(world, settings(&[("main", rude.address, "bind = 'pair'")])).await;
    until_up(world, "main").await;
    eventually(async || (carrier(world, "main").await["reason"].is_null()).then_some(())).await;
}
