//! Several nodes on one database: what one leaves, another finishes, and both together keep the
//! bounds of one.

use std::time::Duration;

use clock::{Clock, Millis};
use estafette::app::App;
use estafette::events::Kind;
use estafette::webhooks;
use estafette::wiring;
use playground::ReceiverZoo;
use serde_json::json;

use super::{ada, happen, happen_by, hook, quiet, settled, visited};
use crate::on_every_engine;
use crate::world::World;

on_every_engine!(
    events_of_a_node_that_died_are_taken_over,
    events_of_another_node_do_not_wait_for_a_pause_of_this_one,
    a_target_of_a_node_that_died_is_taken_over,
    two_nodes_deliver_each_event_once,
);

/// A second process on the same database, whose jobs do not run until a story starts them.
fn second(world: &World) -> wiring::Service {
    wiring::open(world.config().clone(), world.clock().clone()).unwrap()
}

async fn events_of_a_node_that_died_are_taken_over(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    hook(&ada, &zoo.url("/ok"), &["*"]).await;
    let other = second(world);
    happen_by(&other.sandbox, &ada, Kind::SmsDelivery, 10).await;
    other.close().await;
    assert_eq!(quiet(&zoo, "/ok").await, 0, "they are left to whoever wrote them, at first");
    world.advance(2_001).await;
    visited(&zoo, "/ok", 10).await;
    assert_eq!(quiet(&zoo, "/ok").await, 10);
}

async fn events_of_another_node_do_not_wait_for_a_pause_of_this_one(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    hook(&ada, &zoo.url("/ok"), &["*"]).await;
    let busy = world.account("busy").await;
    // Its clock is behind, so what it leaves is overdue at once: time that moves would be a pause.
    let behind = Clock::held(Millis(world.now().0 - 3_000), 7);
    let other = wiring::open(world.config().clone(), behind).unwrap();
    // Somebody else's events ring all the time, much more often than the database is looked at.
    let rings = async {
        loop {
            happen(&busy, Kind::SmsDelivery, 1).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let left = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        happen_by(&other.sandbox, &ada, Kind::SmsDelivery, 1).await;
        visited(&zoo, "/ok", 1).await
    };
    tokio::select! {
        () = rings => {}
        visits = left => assert_eq!(visits.len(), 1),
    }
    other.close().await;
}

async fn a_target_of_a_node_that_died_is_taken_over(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/hang"), &["*"]).await;
    let other = second(world);
    let engine = tokio::spawn(webhooks::run(other.live.clone()));
    happen_by(&other.sandbox, &ada, Kind::SmsDelivery, 3).await;
    visited(&zoo, "/hang", 2).await;
    // The process ends in the middle of its tries. Nothing of it can be written down any more.
    engine.abort();
    other.close().await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    ada.desk("PATCH", &path).json(json!({"url": zoo.url("/ok")})).await.ok();
    assert_eq!(quiet(&zoo, "/ok").await, 0, "the target is the other node's until its lease ends");
    world.advance(20_001).await;
    visited(&zoo, "/ok", 3).await;
    let done = settled(&ada, &made, |one| one["status"] == "delivered").await;
    assert_eq!(done["attempt_count"], 1, "a try that nobody wrote down is no try");
}

async fn two_nodes_deliver_each_event_once(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    for path in ["/ok/1", "/ok/2", "/ok/3"] {
        hook(&ada, &zoo.url(path), &["*"]).await;
    }
    let other = second(world);
    let engine = tokio::spawn(webhooks::run(other.live.clone()));
    let (here, there) = tokio::join!(
        happen(&ada, Kind::SmsDelivery, 150),
        happen_by(&other.sandbox, &ada, Kind::SmsDelivery, 150)
    );
    for path in ["/ok/1", "/ok/2", "/ok/3"] {
        visited(&zoo, path, 300).await;
        assert_eq!(quiet(&zoo, path).await, 300);
        let mut ids: Vec<String> =
            zoo.visits_to(path).iter().map(|visit| visit.headers["webhook-id"].clone()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), here.len() + there.len());
    }
    stop(&other.live, engine).await;
    other.close().await;
}

async fn stop(app: &App, engine: tokio::task::JoinHandle<()>) {
    app.draining.store(true, std::sync::atomic::Ordering::SeqCst);
    engine.await.unwrap();
}
