//! How large a head may be, and how many connections there may be.

use std::time::Duration;

use estafette::app::Env;
use tokio::time::Instant;

use super::wire::{Raw, SHORT, SLACK, figure, hasty, hurry, is_last_problem};
use crate::world::{Engine, World};

const ASK: &str = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_http_is_answered_in_the_one_shape() {
    let world = hasty().await;
    for said in [
        "HELO example.com\r\n\r\n",
        "GET /livez\r\n\r\n",
        "GET /livez HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: x\r\nbad name: x\r\n\r\n",
        "GET / HTTP/3.0\r\n\r\n",
        "\u{16}\u{3}\u{1}\0\u{f}\r\n\r\n",
        "POST /v1/otp/send HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
    ] {
        let mut raw = Raw::open(&world).await;
        raw.send(said).await;
        let (bytes, _) = raw.rest().await;
        is_last_problem(&String::from_utf8_lossy(&bytes), 400, "invalid_request");
    }
    // Also after a decent request.
    let mut raw = Raw::open(&world).await;
    raw.send(ASK).await;
    raw.answer().await;
    raw.send("nonsense\r\n\r\n").await;
    let (bytes, _) = raw.rest().await;
    is_last_problem(&String::from_utf8_lossy(&bytes), 400, "invalid_request");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_is_too_large_is_refused() {
    let world = World::new(Engine::Lite).await;
    let get = |path: String, header: usize| {
        world.get(Env::Sandbox, &path).header("x-large", &"y".repeat(header))
    };
    get(format!("/livez?{}", "q".repeat(8 * 1024 - 7)), 1).await.ok();
    let answer = get(format!("/livez?{}", "q".repeat(8 * 1024 - 6)), 1).await;
    assert!(answer.problem("invalid_request").word("detail").contains("8192"));
    get("/livez".into(), 15 * 1024).await.ok();
    let answer = get("/livez".into(), 16 * 1024).await.problem("invalid_request");
    assert_eq!(answer.item("header:x-large").as_deref(), Some("too_long"));
    for (url, header) in [(1, 70 * 1024), (70 * 1024, 1)] {
        let mut raw = Raw::open(&world).await;
        let (url, header) = ("u".repeat(url), "h".repeat(header));
        raw.try_send(format!("GET /{url} HTTP/1.1\r\nx: {header}\r\n\r\n").as_bytes()).await;
        let (bytes, _) = raw.rest().await;
        is_last_problem(&String::from_utf8_lossy(&bytes), 400, "invalid_request");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_before_the_end_of_a_large_body_is_not_lost() {
    let world = World::new(Engine::Lite).await;
    let head = "POST /v1/otp/send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 2097152\r\n\r\n";
    for _ in 0..20 {
        let mut raw = Raw::open(&world).await;
        raw.send(head).await;
        // It goes on sending although the answer is there, as most clients do.
        let _sent = raw.try_send(&vec![b' '; 2_097_152]).await;
        let (bytes, _) = raw.rest().await;
        is_last_problem(&String::from_utf8_lossy(&bytes), 413, "payload_too_large");
    }
    world.finish().await;
}

async fn crowded(most: usize) -> World {
    World::with(Engine::Lite, |config| {
        hurry(&mut config.server);
        config.server.max_connections_per_address = most;
        config.server.header_timeout_ms = 5_000;
        config.server.write_timeout_ms = 5_000;
        config.server.idle_timeout_ms = 5_000;
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_gets_so_many_connections_and_the_others_theirs() {
    let world = crowded(20).await;
    let mut taken = vec![];
    for _ in 0..20 {
        let mut raw = Raw::from(&world, 66).await;
        raw.send(ASK).await;
        raw.answer().await;
        taken.push(raw);
    }
    for _ in 0..30 {
        let mut raw = Raw::from(&world, 66).await;
        raw.try_send(ASK.as_bytes()).await;
        let (bytes, after) = raw.rest().await;
        assert!(bytes.is_empty() && after < Duration::from_secs(2), "{after:?}");
    }
    let refused = "estafette_connections_refused_total{reason=\"address_limit\"}";
    assert_eq!(figure(&world, refused).await, 30);
    for last in [67, 68] {
        let mut raw = Raw::from(&world, last).await;
        raw.send(ASK).await;
        assert!(raw.answer().await.0.starts_with("HTTP/1.1 200"));
    }
    // A place that is given back can be taken again.
    taken.pop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut raw = Raw::from(&world, 66).await;
    raw.send(ASK).await;
    raw.answer().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_that_limit_one_address_gets_all_it_asks_for() {
    let world = crowded(10_000).await;
    let mut taken = vec![];
    for _ in 0..50 {
        let mut raw = Raw::from(&world, 66).await;
        raw.send(ASK).await;
        raw.answer().await;
        taken.push(raw);
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_all_places_are_taken_clients_wait_and_are_served_in_turn() {
    let world = World::with(Engine::Lite, |config| {
        hurry(&mut config.server);
        config.server.max_connections = 8;
    })
    .await;
    let begin = Instant::now();
    let mut silent = vec![];
    for last in 1..=8 {
        silent.push(Raw::from(&world, last).await);
    }
    let mut raw = Raw::from(&world, 99).await;
    raw.send(ASK).await;
    assert!(raw.answer().await.0.starts_with("HTTP/1.1 200"));
    let waited = u64::try_from(begin.elapsed().as_millis()).unwrap();
    assert!((SHORT - 50..SHORT + SLACK).contains(&waited), "{waited} ms");
    // The operator's listener has places of its own.
    world.metrics().await.ok();
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_without_clients_takes_no_place_from_the_others() {
    let world = World::with(Engine::Lite, |config| config.server.max_connections = 1).await;
    for env in [Env::Live, Env::Sandbox, Env::Live] {
        let mut raw = Raw::to(world.address(env)).await;
        raw.send("GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        let (bytes, _) = raw.rest().await;
        assert!(bytes.starts_with(b"HTTP/1.1 200"), "{env:?}");
    }
    world.finish().await;
}

/// Sends bodies of which 240 KiB are there, from as many addresses; answers how many of them were
/// waited for to their end, and not refused.
async fn waited_for(world: &World, bodies: u32, addresses: u32) -> usize {
    let head = "POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 262144\r\n\r\n";
    let half = [head.as_bytes(), &vec![b' '; 240 * 1024]].concat();
    let mut all = vec![];
    for number in 0..bodies {
        let mut raw = Raw::from(world, u8::try_from(2 + number % addresses).unwrap()).await;
        raw.try_send(&half).await;
        all.push(tokio::spawn(async move {
            let (bytes, _) = raw.rest().await;
            String::from_utf8_lossy(&bytes).into_owned()
        }));
    }
    // Bodies that come in one piece are taken all the same.
    let body = serde_json::json!({"email": "x@example.com", "password": "wrong"});
    world.post(Env::Sandbox, "/v1/auth/login").json(body).await.problem("invalid_login");
    let mut late = 0;
    for answer in all {
        let answer = answer.await.unwrap();
        if answer.starts_with("HTTP/1.1 503") {
            is_last_problem(&answer, 503, "overloaded");
        } else {
            is_last_problem(&answer, 408, "request_timeout");
            late += 1;
        }
    }
    late
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_half_there_have_64_mib_together() {
    let world = World::new(Engine::Lite).await;
    let late = waited_for(&world, 400, 5).await;
    // 64 MiB are 273 times 240 KiB; those that were too many gave back what they held.
    assert!((200..=273).contains(&late), "{late} waited for");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_half_there_have_16_mib_of_one_client() {
    let world = World::new(Engine::Lite).await;
    let late = waited_for(&world, 200, 1).await;
    assert!((50..=68).contains(&late), "{late} waited for");
    world.finish().await;
}

/// On one thread, so that nobody is accepted before all have come.
#[tokio::test(flavor = "current_thread")]
async fn a_burst_of_connections_is_accepted_and_those_that_say_nothing_are_ended() {
    let world = hasty().await;
    let address = world.address(Env::Sandbox);
    let all: Vec<_> = (0..400).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    for one in all {
        one.set_nonblocking(true).unwrap();
        let mut one = tokio::net::TcpStream::from_std(one).unwrap();
        let ended = tokio::io::AsyncReadExt::read_u8(&mut one);
        let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
        assert!(ended.expect("it is ended, not forgotten").is_err());
    }
    world.finish().await;
}
