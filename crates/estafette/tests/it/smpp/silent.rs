//! A centre whose connection is open and says nothing: what it owes an answer for may be lost, and
//! nothing more is given to it until it speaks.

use std::sync::Arc;

use serde_json::json;

use super::rude::{Manners, Rude};
use super::{START, carrier, give, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    what_a_silent_centre_may_have_goes_out_again_by_the_new_bind,
    passcodes_go_by_another_carrier_while_one_is_silent,
);

/// Answers are owed after five seconds, so is that to an enquiry, and so is that to the next one.
const TIMES: &str = "response_s = 5\nenquire_s = 30";

/// A centre that stops in the middle of its first answer, and a message that it got.
async fn silent(world: &World, more: &[(&str, &Arc<Rude>, &str)]) -> Arc<Rude> {
    let rude = Rude::open(Manners::HangsAmidItsAnswer).await;
    let carriers = [&[("main", &rude, TIMES)], more].concat();
    let carriers: Vec<_> =
        carriers.into_iter().map(|(name, centre, more)| (name, centre.address, more)).collect();
    give(world, settings(&carriers)).await;
    for (name, ..) in carriers {
        until_up(world, name).await;
    }
    rude
}

async fn until_down(world: &World) {
    eventually(async || {
        world.advance(1_000).await;
        (carrier(world, "main").await["state"] == "down").then_some(())
    })
    .await;
}

async fn what_a_silent_centre_may_have_goes_out_again_by_the_new_bind(world: &World) {
    let rude = silent(world, &[]).await;
    let ada = sender(world, "ada").await;
    let text = json!({"to": phone("5678"), "text": "hi", "validity_s": 600});
    let id = ada.text(text).await.ok().word("id").to_owned();
    eventually(async || (rude.submissions() == 1).then_some(())).await;
    rude.behave(Manners::Good);
    until_down(world).await;
    let reason = carrier(world, "main").await["reason"].to_string();
    assert!(reason.contains("has not answered in time"), "{reason}");
    assert_eq!((rude.submissions(), rude.binds()), (1, 1));
    // The second try waits for a connection on which somebody listens.
    eventually(async || {
        world.advance(1_000).await;
        (rude.submissions() == 2).then_some(())
    })
    .await;
    assert_eq!(rude.binds(), 2);
    ada.sms_until(&id, "submitted").await;
    assert_eq!(ada.balance().await, START - super::PRICE, "charged once");
}

async fn passcodes_go_by_another_carrier_while_one_is_silent(world: &World) {
    let spare = Rude::open(Manners::Good).await;
    let rude = silent(world, &[("spare", &spare, "")]).await;
    let ada = sender(world, "ada").await;
    let text = json!({"to": phone("5678"), "text": "hi", "class": "bulk", "validity_s": 600});
    ada.text(text).await.ok();
    eventually(async || (rude.submissions() == 1).then_some(())).await;
    until_down(world).await;
    let passcode = json!({"to": phone("5679"), "delivery_mode": "sms"});
    ada.send(&passcode).await.ok();
    assert_eq!((rude.submissions(), spare.submissions()), (1, 1));
    // The clock is held: what waits for the silent one at the end would wait for long.
    rude.behave(Manners::Good);
    eventually(async || {
        world.advance(1_000).await;
        (rude.binds() == 2).then_some(())
    })
    .await;
}
