//! Two nodes on one database: what one has no room for goes out by the other, and neither takes
//! what the other has under way.

use std::collections::BTreeSet;
use std::sync::Arc;

use estafette::app::Env;
use estafette::carriers::{Carriers, Priority};
use estafette::wiring::{self, Running};
use store::{Sql, args};

use super::{CHANNELS, Script, Stage, scene};
use crate::world::{Engine, World, eventually};

/// A second process on the world's database, with a carrier of the same name.
async fn second(world: &World, script: &Arc<Script>) -> Running {
    let mut service = wiring::open(world.config().clone(), world.clock().clone()).unwrap();
    service.live.carriers = Carriers::of(vec![], vec![Stage::carrier("stage", 4, script)]).into();
    service.owners = &CHANNELS;
    wiring::start(service).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_has_no_room_for_goes_out_by_another() {
    let world = World::new(Engine::Postgres).await;
    let scene = scene(&world, 4, false).await;
    scene.send_many("note", 12, Priority::Transactional).await;
    scene.sms.until_given(3).await;
    let other = Script::new(true);
    let second = second(&world, &other).await;
    let by_other = other.until_given(9).await;
    assert_eq!((by_other.len(), scene.sms.given().len()), (9, 3));
    scene.open_the_gate();
    scene.until_count("accepted", 12).await;
    let given = [scene.sms.given(), by_other].concat();
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 12, "each once: {given:?}");
    second.stop().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_living_node_has_under_way_is_not_taken_from_it() {
    let world = World::new(Engine::Postgres).await;
    let scene = scene(&world, 4, false).await;
    scene.send("again", Priority::Transactional).await;
    scene.sms.until_given(1).await;
    let other = Script::new(true);
    let second = second(&world, &other).await;
    let db = world.app(Env::Live).await.db.clone();
    let is_prolonged = Sql("SELECT attempt_id FROM attempts WHERE lease_until > $1");
    for _ in 0..8 {
        world.stand_still_for(1_500).await;
        let soon = world.now() + 2_000;
        eventually(async || {
            db.row::<(String,)>(is_prolonged, args![soon]).await.unwrap().map(drop)
        })
        .await;
    }
    assert_eq!(scene.attempt("again").await, ("sending".to_owned(), 1, 0));
    scene.open_the_gate();
    scene.until("again", "accepted").await;
    assert!(other.given().is_empty() && scene.sms.given().len() == 1, "once");
    second.stop().await;
    world.finish().await;
}
