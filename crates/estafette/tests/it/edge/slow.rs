//! Slow clients: each shape is ended at its deadline, while decent clients are served. The last
//! story takes the deadlines away and sees the same clients stay.

use std::time::Duration;

use tokio::time::Instant;

use super::wire::{Decent, IDLE, PATIENCE, Raw, SHORT, figure, hasty, is_last_problem};
use crate::world::{Engine, World, eventually};

const HALF_HEAD: &str = "GET /livez HTTP/1.1\r\nHost: x\r\n";
const WHOLE: &str = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
const HALF_BODY: &str = "POST /v1/auth/login HTTP/1.1\r\nHost: x\r\n\
    Content-Type: application/json\r\nContent-Length: 40\r\n\r\n{\"email\"";
/// All of the beginning of an HTTP/2 connection but its last byte.
const HALF_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r";
/// An answer that no socket buffer holds.
const LARGE: &str = "GET /docs/viewer.js HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_says_nothing_is_ended() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    for said in [&b""[..], b"P", HALF_PREFACE] {
        let mut raw = Raw::open(&world).await;
        let since = raw.since;
        raw.send(said).await;
        raw.since = since;
        assert_eq!(raw.ends_after(SHORT).await, "");
    }
    decent.end().await;
    assert!(figure(&world, "estafette_connections_cut_total{reason=\"header\"}").await >= 3);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_stops_half_way_is_answered_408() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    for said in ["G", "GET /livez HTTP/1.1\r\n", HALF_HEAD] {
        let mut raw = Raw::open(&world).await;
        raw.send(said).await;
        is_last_problem(&raw.ends_after(SHORT).await, 408, "request_timeout");
    }
    // Not only the first head of a connection.
    let mut raw = Raw::open(&world).await;
    raw.send(WHOLE).await;
    raw.answer().await;
    raw.send(HALF_HEAD).await;
    is_last_problem(&raw.ends_after(SHORT).await, 408, "request_timeout");
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_drips_gains_no_time() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    let mut raw = Raw::open(&world).await;
    raw.send(HALF_HEAD).await;
    let since = raw.since;
    for _ in 0..SHORT / 50 - 1 {
        raw.send("a: b\r\n").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    raw.since = since;
    is_last_problem(&raw.ends_after(SHORT).await, 408, "request_timeout");
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_stops_half_way_is_answered_408() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    let mut raw = Raw::open(&world).await;
    raw.send(HALF_BODY).await;
    is_last_problem(&raw.ends_after(SHORT).await, 408, "request_timeout");
    let chunked = HALF_BODY.replace("Content-Length: 40", "Transfer-Encoding: chunked");
    let mut raw = Raw::open(&world).await;
    raw.send(chunked.replace("{\"email\"", "8\r\n{\"email\"\r\n")).await;
    is_last_problem(&raw.ends_after(SHORT).await, 408, "request_timeout");
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_drips_gains_hardly_any_time() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    let mut raw = Raw::open(&world).await;
    raw.send(HALF_BODY).await;
    let since = raw.since;
    for _ in 0..SHORT / 50 - 1 {
        raw.send(" ").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    raw.since = since;
    is_last_problem(&raw.ends_after(SHORT).await, 408, "request_timeout");
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_keeps_its_pace_is_waited_for() {
    let world = World::with(Engine::Lite, |config| {
        super::wire::hurry(&mut config.server);
        config.server.slowest_bytes_per_s = 100;
    })
    .await;
    let mut raw = Raw::open(&world).await;
    raw.send(HALF_BODY.replace("40", "528")).await;
    let since = Instant::now();
    for _ in 0..13 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        raw.send(" ".repeat(40)).await;
    }
    let (head, _) = raw.answer().await;
    assert!(head.starts_with("HTTP/1.1 400"), "it was read to its end, and is no JSON: {head}");
    assert!(since.elapsed() > Duration::from_millis(SHORT));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_request_is_ended_in_silence() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    let mut raw = Raw::open(&world).await;
    raw.send(WHOLE).await;
    raw.answer().await;
    assert_eq!(raw.ends_after(IDLE).await, "");
    decent.end().await;
    world.finish().await;
}

/// Asks for more than the sockets hold and reads nothing of it.
async fn deaf(world: &World) -> Raw {
    let mut raw = Raw::open(world).await;
    raw.send(LARGE.repeat(20)).await;
    raw
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_ended() {
    let world = hasty().await;
    let decent = Decent::begin(&world);
    let raw = deaf(&world).await;
    let cut = "estafette_connections_cut_total{reason=\"write\"}";
    eventually(async || (figure(&world, cut).await >= 1).then_some(())).await;
    assert!(raw.since.elapsed() < Duration::from_millis(SHORT) + PATIENCE / 4);
    // Not only let go: what the system holds for it is thrown away as well.
    let reset = raw.stream.ready(tokio::io::Interest::ERROR);
    tokio::time::timeout(PATIENCE, reset).await.expect("a reset").unwrap();
    decent.end().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_deadlines_all_of_them_would_stay() {
    let world = World::with(Engine::Lite, |config| {
        let server = &mut config.server;
        server.header_timeout_ms = 600_000;
        server.body_timeout_ms = 600_000;
        server.write_timeout_ms = 600_000;
        server.idle_timeout_ms = 600_000;
        server.drain_timeout_ms = 100;
    })
    .await;
    let mut all = vec![];
    for said in [&b""[..], b"P", HALF_PREFACE, HALF_HEAD.as_bytes(), HALF_BODY.as_bytes()] {
        let mut raw = Raw::open(&world).await;
        raw.send(said).await;
        all.push(raw);
    }
    let mut idle = Raw::open(&world).await;
    idle.send(WHOLE).await;
    idle.answer().await;
    all.push(idle);
    let deaf = deaf(&world).await;
    for raw in &mut all {
        raw.stays_for(SHORT).await;
    }
    let open = figure(&world, "estafette_connections_open{listener=\"sandbox\"}").await;
    assert!(open >= 7, "{open} are open");
    assert_eq!(figure(&world, "estafette_connections_cut_total").await, 0);
    drop((all, deaf));
    world.finish().await;
}
