//! Who goes out when: windows, turns, priorities.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use estafette::carriers::{Carriers, Channel, Priority};
use serde_json::json;

use super::{CHANNELS, Script, Stage, heard, scene, send};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    what_finds_room_goes_out_at_once,
    a_lane_holds_no_more_than_its_window,
    accounts_take_turns,
    who_is_urgent_goes_first,
    bulk_delays_no_passcode,
    a_dead_carrier_delays_no_other,
    what_waits_is_found_after_a_restart,
);

/// Long enough for whatever should not happen.
const A_WHILE: Duration = Duration::from_millis(300);

async fn what_finds_room_goes_out_at_once(world: &World) {
    let scene = scene(world, 4, true).await;
    scene.send("note", Priority::Transactional).await;
    scene.until("note", "accepted").await;
    assert_eq!(scene.attempt("note").await, ("accepted".to_owned(), 1, 0));
    assert_eq!(heard("note"), ["accepted"]);
    assert_eq!(scene.ada.balance().await, 999);
}

async fn a_lane_holds_no_more_than_its_window(world: &World) {
    let scene = scene(world, 4, false).await;
    scene.send_many("note", 12, Priority::Transactional).await;
    scene.sms.until_given(3).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(scene.sms.given().len(), 3, "a quarter is kept free");
    assert_eq!(scene.count("queued").await, 9);
    let page = world.metrics().await.ok();
    assert!(page.text.contains("estafette_lane_submissions{carrier=\"stage\"} 3"), "{}", page.text);
    assert!(page.text.contains("estafette_lane_wait_seconds{carrier=\"stage\"} "), "{}", page.text);
    let none = "estafette_lane_wait_seconds{carrier=\"stage\"} 0.0\n";
    assert!(!page.text.contains(none), "{}", page.text);
    scene.open_the_gate();
    scene.until_count("accepted", 12).await;
    let given = scene.sms.given();
    let each: BTreeSet<_> = given.iter().collect();
    assert_eq!((given.len(), each.len()), (12, 12), "each once");
    assert_eq!(scene.sms.most.load(Ordering::SeqCst), 3);
}

async fn accounts_take_turns(world: &World) {
    let scene = scene(world, 4, false).await;
    let ben = world.live_account("ben", 1_000).await;
    scene.send_many("ada", 20, Priority::Transactional).await;
    scene.sms.until_given(3).await;
    for number in 0..3 {
        let way = (Channel::Sms, Priority::Transactional);
        send(world, &ben, &format!("ben {number}"), way).await;
    }
    for given in 3..10 {
        scene.sms.gate.add_permits(1);
        scene.sms.until_given(given + 1).await;
    }
    let of_ben = scene.sms.given().iter().filter(|id| id.starts_with("ben")).count();
    assert_eq!(of_ben, 3, "{:?}", scene.sms.given());
    scene.open_the_gate();
    scene.until_count("accepted", 23).await;
}

async fn who_is_urgent_goes_first(world: &World) {
    let scene = scene(world, 4, false).await;
    scene.send_many("bulk", 6, Priority::Bulk).await;
    scene.sms.until_given(2).await;
    scene.send_many("urgent", 6, Priority::Transactional).await;
    scene.sms.until_given(3).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(scene.sms.given().len(), 3, "bulk has half, the others three quarters");
    for given in 3..12 {
        scene.sms.gate.add_permits(1);
        scene.sms.until_given(given).await;
    }
    scene.open_the_gate();
    let given = scene.sms.until_given(12).await;
    let last_urgent = given.iter().rposition(|id| id.starts_with("urgent")).unwrap();
    let bulk_before = given[..last_urgent].iter().filter(|id| id.starts_with("bulk")).count();
    assert_eq!(bulk_before, 2, "{given:?}");
    scene.until_count("accepted", 12).await;
}

async fn bulk_delays_no_passcode(world: &World) {
    let scene = scene(world, 4, false).await;
    scene.send_many("bulk", 30, Priority::Bulk).await;
    scene.sms.until_given(2).await;
    for number in 0..5 {
        let to = phone(&format!("56{number}0"));
        let sent = scene.ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
        assert_eq!(sent.word("status"), "sent");
    }
    let passcodes = scene.sms.given().iter().filter(|id| *id == "passcode").count();
    assert_eq!((passcodes, scene.sms.given().len()), (5, 7), "bulk still waits");
    scene.open_the_gate();
    scene.until_count("accepted", 35).await;
}

async fn a_dead_carrier_delays_no_other(world: &World) {
    let (dead, healthy) = (Script::new(false), Script::new(true));
    let (of_chatapp, of_sms) = (dead.clone(), healthy.clone());
    let make = move |_: &clock::Clock, _: &estafette::carriers::Door| {
        let chatapp = Stage::carrier("dead", 4, &of_chatapp);
        Carriers::of(vec![chatapp], vec![Stage::carrier("healthy", 4, &of_sms)])
    };
    world.give_channels(&CHANNELS, Box::new(make)).await;
    let ada = world.live_account("ada", 1_000).await;
    for number in 0..30 {
        let way = (Channel::Chatapp, Priority::Transactional);
        send(world, &ada, &format!("dead {number}"), way).await;
    }
    for number in 0..30 {
        let way = (Channel::Sms, Priority::Transactional);
        send(world, &ada, &format!("healthy {number}"), way).await;
    }
    healthy.until_given(30).await;
    ada.send(json!({"to": phone("5678"), "delivery_mode": "sms"})).await.ok();
    assert_eq!(dead.given().len(), 3, "those that it holds");
    // What it does not take costs nothing in the end.
    world.advance(super::LIFE_MS + 1_000).await;
    dead.gate.add_permits(1_000_000);
    let passcode = world.price("sms", "FR");
    eventually(async || (ada.balance().await == 1_000 - 30 - 3 - passcode).then_some(())).await;
}

async fn what_waits_is_found_after_a_restart(world: &World) {
    let scene = scene(world, 4, false).await;
    scene.send_many("note", 9, Priority::Transactional).await;
    scene.sms.until_given(3).await;
    scene.open_the_gate();
    world.restart().await;
    scene.until_count("accepted", 9).await;
    let given = scene.sms.given();
    let each: BTreeSet<_> = given.iter().collect();
    assert_eq!((given.len(), each.len()), (9, 9), "a stop sends nothing twice");
}
