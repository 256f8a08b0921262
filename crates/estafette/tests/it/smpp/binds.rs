//! One bind and two nodes: there is never a second one, what the other node takes goes out all the
//! same, and the bind moves when its node goes.

use std::time::Duration;

use clock::Clock;
use estafette::carriers::{Carriers, Door};
use estafette::wiring::{self, Running};
use playground::smsc::IdStyle;
use serde_json::{Value, json};

use super::rude::{Manners, Rude};
use super::{Centre, carrier, give, sender, settings, until_up};
use crate::world::tenant::phone;
use crate::world::{Call, Engine, World, eventually};

struct Second {
    running: Running,
    http: reqwest::Client,
}

impl Second {
    async fn beside(world: &World, sms: &estafette::config::Sms) -> Self {
        let mut service = wiring::open(world.config().clone(), world.clock().clone()).unwrap();
        let make = |clock: &Clock, door: &Door| {
            Carriers::none().with_sms(sms, clock, "http://127.0.0.1:1", door)
        };
        service.live.carriers = make(world.clock(), &service.live_door).unwrap().into();
        let running = wiring::start(service).await.unwrap();
        Self { running, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    fn post(&self, path: &str, key: &str, body: Value) -> Call {
        let url = format!("http://{}{path}", self.running.addresses.live);
        Call::new(self.http.post(url)).key(key).json(body)
    }

    async fn state(&self, world: &World) -> String {
        let url = format!("http://{}/v1/admin/carriers", self.running.addresses.live);
        let all = Call::new(self.http.get(url)).bearer(world.staff().await).await.ok();
        all.list()[0]["state"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_the_one_bind_of_a_carrier() {
    let world = World::new(Engine::Postgres).await;
    let centre = Centre::new(IdStyle::Decimal).await;
    let sms = settings(&[("main", centre.address, "")]);
    give(&world, sms.clone()).await;
    until_up(&world, "main").await;
    let ada = sender(&world, "ada").await;
    let other = Second::beside(&world, &sms).await;
    eventually(async || (other.state(&world).await == "elsewhere").then_some(())).await;
    // What the other node takes goes out by the one that has the bind.
    let body = json!({"to": phone("5678"), "text": "hi"});
    let sent = other.post("/v1/messages", &ada.key, body).await.ok();
    ada.sms_until(sent.word("id"), "delivered").await;
    let body = json!({"to": phone("5679"), "delivery_mode": "sms", "code": "4821"});
    let sent = other.post("/v1/otp/send", &ada.key, body).await.ok();
    assert!(centre.came_to(&phone("5679"))[0].text.contains("4821"));
    ada.until(sent.word("challenge_id"), |it| it["status"] == "delivered").await;
    assert_eq!(ada.challenge(sent.word("challenge_id")).await.ok().word("channel"), "sms");
    // A node that stops gives the bind back.
    world.give_live(Box::new(|_: &Clock, _: &Door| Carriers::none())).await;
    let begin = tokio::time::Instant::now();
    eventually(async || (other.state(&world).await == "up").then_some(())).await;
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    let body = json!({"to": phone("5680"), "text": "hi"});
    let sent = other.post("/v1/messages", &ada.key, body).await.ok();
    ada.sms_until(sent.word("id"), "delivered").await;
    other.running.stop().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_bind_is_refused_leaves_its_messages_to_the_other() {
    let world = World::new(Engine::Postgres).await;
    let rude = Rude::open(Manners::RefusesSecondBind).await;
    let sms = settings(&[("main", rude.address, "max_binds = 2")]);
    give(&world, sms.clone()).await;
    until_up(&world, "main").await;
    let ada = sender(&world, "ada").await;
    let other = Second::beside(&world, &sms).await;
    eventually(async || (rude.binds() >= 2).then_some(())).await;
    for ending in ["5678", "5679", "5680"] {
        let body = json!({"to": phone(ending), "delivery_mode": "sms"});
        other.post("/v1/otp/send", &ada.key, body).await.ok();
        assert_eq!(other.state(&world).await, "elsewhere");
    }
    assert_eq!(rude.submissions(), 3);
    other.running.stop().await;
    world.finish().await;
}

/// Slots are held on both, and lead nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_carrier_that_refuses_all_binds_is_down_on_every_node() {
    let world = World::new(Engine::Postgres).await;
    let rude = Rude::open(Manners::RefusesBind).await;
    let sms = settings(&[("main", rude.address, "max_binds = 2")]);
    give(&world, sms.clone()).await;
    let other = Second::beside(&world, &sms).await;
    eventually(async || {
        let states = (carrier(&world, "main").await["state"].clone(), other.state(&world).await);
        (states == (json!("down"), "down".to_owned())).then_some(())
    })
    .await;
    rude.behave(Manners::Good);
    until_up(&world, "main").await;
    other.running.stop().await;
    world.finish().await;
}
