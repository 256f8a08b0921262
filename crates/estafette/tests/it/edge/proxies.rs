//! Who a client is, with and without proxies in front.

use estafette::app::Env;
use serde_json::json;

use crate::world::{Answer, Engine, World};

async fn world(trusted: &[&str]) -> World {
    World::with(Engine::Lite, |config| {
        config.limits.guest_per_min = 2;
        config.server.trusted_proxies = trusted.iter().map(|text| text.parse().unwrap()).collect();
    })
    .await
}

async fn log_in(world: &World, forwarded_for: &str) -> Answer {
    let body = json!({"email": "nobody@example.com", "password": "correct horse battery"});
    let call = world.post(Env::Sandbox, "/v1/auth/login").json(body);
    if forwarded_for.is_empty() {
        call.await
    } else {
        call.header("x-forwarded-for", forwarded_for).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_has_a_budget_and_cannot_get_another_by_a_header() {
    let world = world(&[]).await;
    let first = log_in(&world, "").await.problem("invalid_login");
    assert_eq!(first.head("ratelimit-policy"), "\"guest\";q=2;w=60");
    log_in(&world, "198.51.100.1").await.problem("invalid_login");
    for forged in ["", "198.51.100.2", "203.0.113.9, 198.51.100.3"] {
        let answer = log_in(&world, forged).await.problem("rate_limited");
        assert!(answer.head("ratelimit").contains("r=0"));
    }
    let body = json!({"email": "new@example.com", "password": "correct horse battery"});
    world.post(Env::Sandbox, "/v1/auth/signup").json(&body).await.problem("rate_limited");
    world.post(Env::Live, "/v1/admin/auth/login").json(&body).await.problem("rate_limited");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_trusted_proxy_each_client_has_its_own_budget() {
    let world = world(&["127.0.0.0/8", "10.0.0.0/8"]).await;
    for client in ["198.51.100.1", "198.51.100.2", "2001:db8::1"] {
        log_in(&world, client).await.problem("invalid_login");
        // What the client itself wrote stands further left; a second proxy stands right.
        log_in(&world, &format!("192.0.2.1, {client}, 10.1.1.1")).await.problem("invalid_login");
        log_in(&world, &format!("192.0.2.2, {client}")).await.problem("rate_limited");
    }
    log_in(&world, "2001:db8::2").await.problem("rate_limited");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trusted_proxy_may_have_more_connections_than_one_address() {
    let world = World::with(Engine::Lite, |config| {
        config.server.max_connections_per_address = 2;
        config.server.trusted_proxies = vec!["127.0.0.66/32".parse().unwrap()];
    })
    .await;
    let mut all = vec![];
    for _ in 0..10 {
        let mut raw = super::wire::Raw::from(&world, 66).await;
        raw.send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
        raw.answer().await;
        all.push(raw);
    }
    drop(all);
    world.finish().await;
}
