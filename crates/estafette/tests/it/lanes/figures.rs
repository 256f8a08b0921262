//! A figure, not a rule: how long a passcode takes alone, and beside bulk that waits. To be run by
//! hand, on a release build and a quiet machine:
//! `cargo nextest run --release -p estafette --run-ignored only --no-capture lanes::figures`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use estafette::app::Env;
use estafette::carriers::Priority;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::time::Instant;

use super::{Scene, scene};
use crate::world::tenant::phone;
use crate::world::{Engine, World};

/// Messages that wait.
const BULK: usize = 10_000;
/// Passcodes that are timed.
const TIMED: usize = 500;
/// What the carrier takes for each, milliseconds.
const CARRIER_MS: u64 = 20;

/// Median and 99th percentile of a send.
async fn timed(scene: &Scene<'_>, series: usize) -> [Duration; 2] {
    let mut times = Vec::with_capacity(TIMED);
    for number in 0..TIMED {
        let reference = format!("{series} {number}");
        let to = phone(&format!("{series}{number:03}"));
        let body = json!({"to": to, "delivery_mode": "sms", "reference": reference});
        let begin = Instant::now();
        let sent = scene.ada.send(body).await;
        times.push(begin.elapsed());
        sent.ok();
    }
    times.sort_unstable();
    [times[TIMED / 2], times[TIMED * 99 / 100]]
}

#[expect(clippy::print_stdout, reason = "figures are for whoever runs this by hand")]
async fn figure(engine: Engine) {
    let world = World::new(engine).await;
    let scene = scene(&world, 10, false).await;
    world.credit(&scene.ada, 100_000_000).await.ok();
    scene.sms.delay_ms.store(CARRIER_MS, Ordering::SeqCst);
    let alone = timed(&scene, 1).await;
    let ids: Vec<_> = (0..BULK).map(|number| format!("bulk {number}")).collect();
    stream::iter(&ids)
        .map(|id| scene.send(id, Priority::Bulk))
        .buffer_unordered(64)
        .collect::<()>()
        .await;
    scene.open_the_gate();
    let given = scene.sms.given().len();
    let begin = Instant::now();
    let beside = timed(&scene, 2).await;
    let took = begin.elapsed();
    let bulk = scene.sms.given().len() - given - TIMED;
    println!("{engine:?}: alone {alone:?}, beside bulk {beside:?} (p50, p99)");
    println!("{bulk} of {BULK} bulk messages went out in {took:?}");
    let left = world.app(Env::Live).await.carriers.lane("stage").map(|lane| lane.taken());
    println!("under way at the end: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a figure, not a rule"]
async fn a_passcode_beside_bulk_lite() {
    figure(Engine::Lite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a figure, not a rule"]
async fn a_passcode_beside_bulk_postgres() {
    figure(Engine::Postgres).await;
}
