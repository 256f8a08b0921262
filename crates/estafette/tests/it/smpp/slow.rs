//! Carriers that take their time: who waits for an answer gets one in time, and nobody waits for
//! the carrier of somebody else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use estafette::carriers::handsets::MemoryShelf;
use estafette::carriers::{Carriers, Door, Handsets};
use estafette::config::{Config, Sms};
use serde_json::json;
use tokio::time::Instant;

use super::gateways::{Far, HOME};
use super::{START, sender};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    a_send_is_answered_in_time_however_slow_its_carriers_are with impatient,
    a_fallback_by_a_carrier_that_hangs_delays_no_other,
    a_queue_goes_out_as_fast_as_its_carrier_takes_it,
);

const TAKEN: &str = "0: Accepted for delivery";
/// How long a request may take, milliseconds.
const LIMIT_MS: u64 = 3_000;

fn impatient(config: &mut Config) {
    config.server.request_timeout_ms = LIMIT_MS;
}

/// Two gateways, and what goes by which: by the first, and by the second what it does not take.
fn two(routes: &str, addresses: [SocketAddr; 2]) -> Sms {
    let mut text = format!("routes = [{routes}]\n");
    for (name, address) in ["one", "two"].into_iter().zip(addresses) {
        text += &format!(
            "[carriers.{name}]\nkind = 'http'\npreset = 'kannel'\n\
             base_url = 'http://{address}'\nusername = 'a'\npassword = 'b'\n\
             callback_token = 'token 1'\n"
        );
    }
    toml::from_str(&text).unwrap()
}

async fn a_send_is_answered_in_time_however_slow_its_carriers_are(world: &World) {
    let (one, first) = Far::open(503, "Temporal failure, try again later.").await;
    let (other, second) = Far::open(202, TAKEN).await;
    *one.takes.lock().unwrap() = Duration::from_millis(LIMIT_MS / 2);
    *other.takes.lock().unwrap() = Duration::from_millis(LIMIT_MS);
    let sms = two("{prefix = '+', carriers = ['one', 'two']}", [first, second]);
    let make = move |clock: &Clock, door: &Door| {
        Carriers::none().with_sms(&sms, clock, HOME, door).unwrap()
    };
    world.give_live(Box::new(make)).await;
    let ada = sender(world, "ada").await;
    let begun = Instant::now();
    let sent = ada.send(json!({"to": phone("5678"), "delivery_mode": "sms"})).await.ok();
    assert!(begun.elapsed() < Duration::from_millis(LIMIT_MS), "{:?}", begun.elapsed());
    assert_eq!(sent.word("status"), "sent", "{}", sent.text);
    let price = world.price("sms", "FR");
    assert_eq!(ada.balance().await, START - price);
    // What the second says later is heard, and whoever it tells of the phone is believed.
    let id = sent.word("challenge_id");
    eventually(async || {
        let movements = ada.movements().await;
        movements.iter().any(|(kind, _)| kind == "post").then_some(())
    })
    .await;
    assert_eq!(ada.challenge(id).await.ok().word("status"), "sent");
    let asked = |far: &Far| far.asked.lock().unwrap().len();
    assert_eq!((asked(&one), asked(&other)), (1, 1));
    assert_eq!(ada.balance().await, START - price);
}

async fn a_fallback_by_a_carrier_that_hangs_delays_no_other(world: &World) {
    let (hangs, first) = Far::open(202, TAKEN).await;
    let (good, second) = Far::open(202, TAKEN).await;
    *hangs.takes.lock().unwrap() = Duration::from_mins(1);
    let routes = "{prefix = '+44', carriers = ['one']}, {prefix = '+', carriers = ['two']}";
    let sms = two(routes, [first, second]);
    let make = move |clock: &Clock, door: &Door| {
        let handsets = Handsets::on(Arc::new(MemoryShelf::default()));
        let both = Carriers::simulated(clock, door, handsets);
        both.with_sms(&sms, clock, HOME, door).unwrap()
    };
    world.give_live(Box::new(make)).await;
    let ada = sender(world, "ada").await;
    // The chat-app takes both and says no more.
    ada.send_to("+447400120003").await.ok();
    world.stand_still_for(3_000).await;
    ada.send_to(&phone("0003")).await.ok();
    let comes = async |far: &Far| {
        let came = eventually(async || (!far.asked.lock().unwrap().is_empty()).then_some(()));
        tokio::time::timeout(Duration::from_secs(5), came).await.is_ok()
    };
    // Only the service's own job looks for what is due.
    world.stand_still_for(18_000).await;
    assert!(comes(&hangs).await);
    world.stand_still_for(3_000).await;
    assert!(comes(&good).await, "it waited for the carrier of another");
}

async fn a_queue_goes_out_as_fast_as_its_carrier_takes_it(world: &World) {
    let (far, address) = Far::open(202, TAKEN).await;
    let text = format!(
        "routes = [{{prefix = '+', carriers = ['main']}}]\n[carriers.main]\nkind = 'http'\n\
         preset = 'kannel'\nbase_url = 'http://{address}'\nusername = 'a'\npassword = 'b'\n\
         callback_token = 'token 1'\nrate = 20\n"
    );
    let sms: Sms = toml::from_str(&text).unwrap();
    let make = move |clock: &Clock, door: &Door| {
        Carriers::none().with_sms(&sms, clock, HOME, door).unwrap()
    };
    world.give_live(Box::new(make)).await;
    assert_eq!(super::carrier(world, "main").await["rate_per_s"], 20, "what staff see of it");
    let ada = sender(world, "ada").await;
    let begun = Instant::now();
    for number in 0..60 {
        let to = phone(&format!("56{number:02}"));
        ada.text(json!({"to": to, "text": "hi", "class": "bulk"})).await.ok();
    }
    let asked = || far.asked.lock().unwrap().len();
    eventually(async || (asked() == 60).then_some(())).await;
    // Three seconds at this rate; it was as many as go at once, twice a second.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(begun.elapsed() > Duration::from_millis(2_500), "{:?}", begun.elapsed());
}
