//! A stop: who waits for nothing is let go at once, who waits for an answer gets it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::wire::{PATIENCE, Raw};
use crate::world::tenant::phone;
use crate::world::{Engine, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_idle_connections_at_once_and_finishes_what_is_under_way() {
    let world = World::with(Engine::Lite, |config| config.otp.receipt_wait_ms = 1_000).await;
    let ada = world.account("ada").await;
    let (mut silent, mut idle) = (Raw::open(&world).await, Raw::open(&world).await);
    idle.send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
    idle.answer().await;
    let body = json!({"to": phone("0003")}).to_string();
    let mut busy = Raw::open(&world).await;
    busy.send(format!(
        "POST /v1/otp/send HTTP/1.1\r\nHost: x\r\nX-API-Key: {}\r\nContent-Length: {}\r\n\
         Content-Type: application/json\r\n\r\n{body}",
        ada.key,
        body.len()
    ))
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begin = Instant::now();
    let gone = async {
        silent.rest().await;
        idle.rest().await;
        begin.elapsed()
    };
    let answered = async {
        let (head, _) = busy.answer().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        busy.rest().await;
        begin.elapsed()
    };
    let (gone, answered, ()) = tokio::join!(gone, answered, world.restart());
    assert!(gone < Duration::from_millis(500), "idle connections were kept for {gone:?}");
    assert!(answered > gone && answered < PATIENCE, "{answered:?}");
    drop(ada);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_longer_than_its_limit() {
    let world = World::with(Engine::Lite, |config| {
        config.server.header_timeout_ms = 600_000;
        config.server.drain_timeout_ms = 500;
    })
    .await;
    let mut half = Raw::open(&world).await;
    half.send("GET /livez HTTP/1.1\r\nHost:").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let world = Arc::new(world);
    let begin = Instant::now();
    let (_, ()) = tokio::join!(half.rest(), world.restart());
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    Arc::into_inner(world).unwrap().finish().await;
}
