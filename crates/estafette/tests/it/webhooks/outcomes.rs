//! What becomes of a delivery that fails, and of its target.

use std::time::Duration;

use estafette::events::Kind;
use playground::ReceiverZoo;
use serde_json::{Value, json};
use store::Val;

use super::{SlowReceiver, ada, happen, hook, json_of, like_its_example, log, quiet};
use super::{settled, target, visited};
use crate::world::{World, eventually};
use crate::{on_every_engine, support};

on_every_engine!(
    a_server_error_is_tried_again_with_the_same_bytes,
    an_event_of_a_ticket_says_the_same_at_every_try,
    what_failed_is_tried_again_in_time_at_a_busy_target,
    the_schedule_is_kept_and_ends,
    refusals_and_redirects_end_a_delivery_at_once,
    a_target_that_is_gone_is_disabled_and_told_of,
    a_url_that_was_changed_meanwhile_ends_no_target,
    a_receiver_that_asks_for_time_gets_it,
    what_a_receiver_asked_for_does_not_hold_for_another_url,
    a_try_at_the_old_url_says_nothing_of_the_new_one,
    what_failed_at_another_url_does_not_count,
    every_failure_without_an_answer_is_tried_again,
    five_failures_park_a_target_and_one_probe_frees_it,
    five_days_of_failure_disable_a_target,
    the_log_shows_every_try_and_filters,
    a_delivery_shows_its_newest_hundred_tries,
);

const SCHEDULE_S: [i64; 9] = [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400];

fn ms(text: &Value) -> i64 {
    clock::Millis::parse(text.as_str().unwrap()).unwrap().0
}

/// Moves the clock to when a delivery is due.
async fn advance_to_next(world: &World, delivery: &Value) {
    let wait = ms(&delivery["next_attempt_at"]) - world.now().0;
    world.advance(wait.max(0)).await;
}

async fn a_server_error_is_tried_again_with_the_same_bytes(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    zoo.tell("/ok", &[500, 503, 429]);
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    for tries in 1..=3 {
        let waiting = settled(&ada, &made, move |one| one["attempt_count"] == tries).await;
        assert_eq!(waiting["status"], "pending");
        assert_eq!(zoo.visits_to("/ok").len(), tries);
        advance_to_next(world, &waiting).await;
    }
    let done = settled(&ada, &made, |one| one["status"] == "delivered").await;
    assert_eq!((&done["attempt_count"], &done["next_attempt_at"]), (&json!(4), &json!(null)));
    let visits = zoo.visits_to("/ok");
    for (index, visit) in visits.iter().enumerate() {
        assert_eq!(visit.body, visits[0].body);
        assert_eq!(visit.headers["webhook-id"], visits[0].headers["webhook-id"]);
        assert_eq!(visit.headers["webhook-attempt"], (index + 1).to_string());
    }
    assert_ne!(visits[0].headers["webhook-timestamp"], visits[3].headers["webhook-timestamp"]);
    assert_ne!(visits[0].headers["webhook-signature"], visits[3].headers["webhook-signature"]);
    assert_eq!(quiet(&zoo, "/ok").await, 4);
}

async fn an_event_of_a_ticket_says_the_same_at_every_try(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    zoo.tell("/ok", &[503]);
    let made = hook(&ada, &zoo.url("/ok"), &["support.ticket"]).await;
    let ticket = support::open(&ada, "No receipts", "Since noon.").await;
    let waiting = settled(&ada, &made, |one| one["attempt_count"] == 1).await;
    // Much is another one before the second try.
    world.advance(1_000).await;
    support::write(&ada, &ticket, "Still none.").await.ok();
    support::change(world, &ticket, json!({"status": "resolved"})).await.ok();
    advance_to_next(world, &waiting).await;
    eventually(async || {
        let visits = zoo.visits_to("/ok");
        let of = |visit: &playground::Visit| visit.headers["webhook-id"].clone();
        let same = visits.iter().filter(|visit| of(visit) == of(&visits[0]));
        let bodies: Vec<_> = same.map(|visit| visit.body.clone()).collect();
        (bodies.len() == 2).then(|| assert_eq!(bodies[0], bodies[1]))
    })
    .await;
    // Control: what changed is told.
    eventually(async || {
        let told = zoo.visits_to("/ok").iter().any(|visit| {
            let body: Value = serde_json::from_slice(&visit.body).unwrap();
            body["data"]["status"] == "resolved" && body["data"]["resolved_at"].is_string()
        });
        told.then_some(())
    })
    .await;
}

async fn what_failed_is_tried_again_in_time_at_a_busy_target(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    zoo.tell("/ok", &[500]);
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    let failed = happen(&ada, Kind::SmsDelivery, 1).await.remove(0);
    settled(&ada, &made, |one| one["attempt_count"] == 1).await;
    // From here on the target has no quiet moment.
    let busy = async {
        loop {
            happen(&ada, Kind::SmsDelivery, 1).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let again = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.advance(6_500).await;
        eventually(async || {
            let visits = zoo.visits_to("/ok");
            let tries = visits.iter().filter(|visit| visit.headers["webhook-id"] == failed);
            (tries.count() == 2).then_some(())
        })
        .await;
    };
    tokio::select! {
        () = busy => {}
        () = again => {}
    }
}

async fn the_schedule_is_kept_and_ends(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/status/500"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    for (index, pause_s) in SCHEDULE_S.iter().enumerate() {
        let waiting = settled(&ada, &made, move |one| one["attempt_count"] == index + 1).await;
        let last = waiting["attempts"].as_array().unwrap().last().unwrap().clone();
        let pause = ms(&waiting["next_attempt_at"]) - ms(&last["at"]);
        let (least, most) = (pause_s * 800 - 100, pause_s * 1_200 + 100);
        assert!((least..=most).contains(&pause), "try {}: {pause} ms", index + 1);
        advance_to_next(world, &waiting).await;
    }
    let over = settled(&ada, &made, |one| one["status"] == "exhausted").await;
    assert_eq!(over["attempt_count"], 10);
    world.advance(30 * clock::HOUR).await;
    assert_eq!(quiet(&zoo, "/status/500").await, 10);
}

async fn refusals_and_redirects_end_a_delivery_at_once(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let elsewhere = format!("/redirect/{}", zoo.url("/ok"));
    for path in ["/status/400", "/status/404", "/status/302", &elsewhere] {
        let made = hook(&ada, &zoo.url(path), &["*"]).await;
        happen(&ada, Kind::SmsDelivery, 1).await;
        let failed = settled(&ada, &made, |one| one["status"] == "failed").await;
        assert_eq!(failed["attempt_count"], 1, "{path}");
        assert_eq!(target(&ada, &made).await.body["active"], json!(true));
        ada.desk("DELETE", &format!("/v1/webhooks/{}", made.word("id"))).await.ok();
    }
    world.advance(clock::HOUR).await;
    assert!(zoo.visits_to("/ok").is_empty());
    assert_eq!(zoo.visits().len(), 4);
}

async fn a_target_that_is_gone_is_disabled_and_told_of(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/status/410?key=k1"), &["sms.delivery"]).await;
    hook(&ada, &zoo.url("/ok"), &["webhook.disabled"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    let told = visited(&zoo, "/ok", 1).await.remove(0);
    let event = json_of(&told);
    assert_eq!(event["data"]["id"], made.word("id"));
    assert_eq!(event["data"]["reason"], "gone");
    like_its_example(&event);
    assert!(!event.to_string().contains("k1"), "{event}");
    let now = target(&ada, &made).await;
    assert_eq!(now.body["active"], json!(false));
    assert_eq!(now.word("disabled_reason"), "gone");
    assert_eq!(log(&ada, &made).await[0]["status"], "failed");
    happen(&ada, Kind::SmsDelivery, 1).await;
    assert_eq!(quiet(&zoo, "/status/410?key=k1").await, 1);
    let entries = world.get(ada.env, "/v1/admin/audit-log").bearer(world.staff().await).await.ok();
    let entry = entries.list().iter().find(|entry| entry["action"] == "webhook.disable").unwrap();
    assert_eq!(entry["object_id"], made.word("id"));
}

async fn a_url_that_was_changed_meanwhile_ends_no_target(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let old = SlowReceiver::asking_for(0).await;
    let made = hook(&ada, &old.url, &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    old.comes().await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    ada.desk("PATCH", &path).json(json!({"url": zoo.url("/ok")})).await.ok();
    old.answers(410);
    settled(&ada, &made, |one| one["status"] == "failed").await;
    assert_eq!(target(&ada, &made).await.body["active"], json!(true));
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 1).await;
}

async fn a_receiver_that_asks_for_time_gets_it(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/later/429/600"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    let waiting = settled(&ada, &made, |one| one["attempt_count"] == 1).await;
    let at = ms(&waiting["attempts"][0]["at"]);
    assert!(ms(&waiting["next_attempt_at"]) - at >= 600_000);
    // The whole target is left alone.
    happen(&ada, Kind::SmsDelivery, 1).await;
    world.advance(500_000).await;
    assert_eq!(quiet(&zoo, "/later/429/600").await, 1);
    world.advance(101_000).await;
    visited(&zoo, "/later/429/600", 2).await;
}

async fn what_a_receiver_asked_for_does_not_hold_for_another_url(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/later/503/86400"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    settled(&ada, &made, |one| one["attempt_count"] == 1).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    assert_eq!(quiet(&zoo, "/ok").await, 0);
    let path = format!("/v1/webhooks/{}", made.word("id"));
    ada.desk("PATCH", &path).json(json!({"events": ["*"]})).await.ok();
    assert_eq!(quiet(&zoo, "/later/503/86400").await, 1, "other events are no other receiver");
    ada.desk("PATCH", &path).json(json!({"url": zoo.url("/ok")})).await.ok();
    world.advance(1_000).await;
    visited(&zoo, "/ok", 1).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 2).await;
}

async fn a_try_at_the_old_url_says_nothing_of_the_new_one(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let old = SlowReceiver::asking_for(86_400).await;
    let made = hook(&ada, &old.url, &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    old.comes().await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    ada.desk("PATCH", &path).json(json!({"url": zoo.url("/ok")})).await.ok();
    // It is tried at the new URL by now, so the target was read anew.
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 1).await;
    old.answers(503);
    eventually(|| async {
        let oldest = log(&ada, &made).await.pop()?;
        (oldest["attempt_count"] == 1).then_some(())
    })
    .await;
    assert_eq!(target(&ada, &made).await.body["failing_since"], json!(null));
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 2).await;
    // What the old receiver asked for is no reason to wait with its delivery.
    world.advance(6_001).await;
    visited(&zoo, "/ok", 3).await;
}

async fn what_failed_at_another_url_does_not_count(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/status/500"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    eventually(|| async {
        (target(&ada, &made).await.body["failing_since"] != json!(null)).then_some(())
    })
    .await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    ada.desk("PATCH", &path).json(json!({"events": ["*"]})).await.ok();
    assert_ne!(target(&ada, &made).await.body["failing_since"], json!(null));
    let moved = ada.desk("PATCH", &path).json(json!({"url": zoo.url("/ok")})).await.ok();
    assert_eq!(moved.body["failing_since"], json!(null));
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 1).await;
}

async fn every_failure_without_an_answer_is_tried_again(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}/", nobody.local_addr().unwrap());
    drop(nobody);
    for (url, error) in [
        (zoo.url("/hang"), "timeout"),
        (zoo.url("/drip"), "timeout"),
        (zoo.url("/close"), "connection_reset"),
        (zoo.url("/reset"), "connection_reset"),
        (zoo.url("/half"), "connection_reset"),
        (zoo.url("/garbage"), "invalid_response"),
        (zoo.url("/head"), "invalid_response"),
        (closed, "connection_failed"),
        ("https://no-such-host.test/".to_owned(), "dns_error"),
        (zoo.url("/ok").replace("http:", "https:"), "tls_error"),
    ] {
        let made = hook(&ada, &url, &["*"]).await;
        happen(&ada, Kind::SmsDelivery, 1).await;
        let waiting = settled(&ada, &made, |one| one["attempt_count"] == 1).await;
        assert_eq!(waiting["status"], "pending", "{url}");
        assert_eq!(waiting["attempts"][0]["error"], error, "{url}: {waiting}");
        assert!(waiting["attempts"][0]["detail"].is_string());
        ada.desk("DELETE", &format!("/v1/webhooks/{}", made.word("id"))).await.ok();
    }
}

async fn five_failures_park_a_target_and_one_probe_frees_it(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    zoo.tell("/ok", &[500, 500, 500, 500, 500, 500]);
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    for tries in 1..=5 {
        happen(&ada, Kind::SmsDelivery, 1).await;
        visited(&zoo, "/ok", tries).await;
    }
    assert_eq!(quiet(&zoo, "/ok").await, 5);
    happen(&ada, Kind::SmsDelivery, 20).await;
    assert_eq!(quiet(&zoo, "/ok").await, 5, "it is parked");
    // What waits for it says so, alone and in the list.
    let waits = log(&ada, &made).await;
    assert_eq!(waits.len(), 25);
    for one in &waits {
        assert!(ms(&one["next_attempt_at"]) > world.now().0, "{one}");
        let path = format!("/v1/webhook-deliveries/{}", one["id"].as_str().unwrap());
        assert_eq!(ada.get(&path).await.ok().body["next_attempt_at"], one["next_attempt_at"]);
    }
    // One probe fails, the next one succeeds, and everything that waited goes out; what failed
    // keeps to its schedule.
    world.advance(1_001).await;
    visited(&zoo, "/ok", 6).await;
    assert_eq!(quiet(&zoo, "/ok").await, 6);
    world.advance(2_001).await;
    visited(&zoo, "/ok", 6 + 19).await;
    assert_eq!(quiet(&zoo, "/ok").await, 6 + 19);
    world.advance(10_000).await;
    visited(&zoo, "/ok", 6 + 25).await;
    assert_eq!(quiet(&zoo, "/ok").await, 6 + 25);
}

async fn five_days_of_failure_disable_a_target(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/status/404"), &["sms.delivery"]).await;
    for day in 0..5 {
        for _ in 0..2 {
            happen(&ada, Kind::SmsDelivery, 1).await;
        }
        // A lease that ran out with the day may leave the events to a look two seconds later.
        eventually(|| async {
            world.stand_still_for(20).await;
            let over = log(&ada, &made).await.into_iter().filter(|one| one["status"] == "failed");
            (over.count() == 2 * (day + 1)).then_some(())
        })
        .await;
        world.advance(clock::DAY).await;
    }
    assert_eq!(target(&ada, &made).await.body["active"], json!(true));
    assert!(target(&ada, &made).await.body["failing_since"].is_string());
    happen(&ada, Kind::SmsDelivery, 1).await;
    let disabled = eventually(|| async {
        world.stand_still_for(20).await;
        Some(target(&ada, &made).await).filter(|now| now.body["active"] == json!(false))
    })
    .await;
    assert_eq!(disabled.word("disabled_reason"), "failing");
    let events = ada.get("/v1/events?type=webhook.disabled").await.ok();
    assert_eq!(events.list()[0]["data"]["reason"], "failing");
    // Somebody mends it and switches it on again.
    let path = format!("/v1/webhooks/{}", made.word("id"));
    let on = ada.desk("PATCH", &path).json(json!({"active": true})).await.ok();
    assert_eq!(on.field("failing_since"), &json!(null));
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/status/404", 12).await;
    assert_eq!(target(&ada, &made).await.body["active"], json!(true));
}

async fn the_log_shows_every_try_and_filters(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    zoo.tell("/body/9000", &[]);
    let made = hook(&ada, &zoo.url("/body/9000"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    let done = settled(&ada, &made, |one| one["status"] == "delivered").await;
    assert_eq!(done["attempts"][0]["status"], 200);
    assert_eq!(done["attempts"][0]["response"], json!(null));
    let path = format!("/v1/webhook-deliveries/{}", done["id"].as_str().unwrap());
    let whole = ada.get(&path).await.ok();
    assert_eq!(whole.body["attempts"][0]["response"].as_str().unwrap().len(), 4_096);
    assert!(whole.body["attempts"][0]["latency_ms"].as_i64().unwrap() >= 0);
    happen(&ada, Kind::OtpStatus, 3).await;
    eventually(|| async { (log(&ada, &made).await.len() == 4).then_some(()) }).await;
    let list =
        |query: &str| ada.get(&format!("/v1/webhooks/{}/deliveries{query}", made.word("id")));
    assert_eq!(list("?type=sms.delivery").await.ok().list().len(), 1);
    assert_eq!(list("?type=otp.status&limit=2").await.ok().list().len(), 2);
    eventually(|| async { (list("?status=delivered").await.ok().list().len() == 4).then_some(()) })
        .await;
    assert!(list("?status=failed").await.ok().list().is_empty());
    list("?status=lost").await.problem("invalid_request");
    list("?type=lost").await.problem("invalid_request");
}

async fn a_delivery_shows_its_newest_hundred_tries(world: &World) {
    const TRIED: store::Sql = store::Sql(
        "INSERT INTO webhook_attempts (account_id, webhook_id, delivery_id, number, at, status, \
         latency_ms, body) VALUES ($1, $2, $3, $4, $5, 500, 1, $6)",
    );
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    let done = settled(&ada, &made, |one| one["status"] == "delivered").await;
    let id = done["id"].as_str().unwrap();
    let numbers = |delivery: &Value| -> Vec<i64> {
        let tries = delivery["attempts"].as_array().unwrap();
        tries.iter().map(|one| one["number"].as_i64().unwrap()).collect()
    };
    let app = world.app(ada.env).await;
    let write = async |numbers: std::ops::RangeInclusive<i64>| {
        let mut set = store::WriteSet::of(ada.account_id.as_str());
        for number in numbers {
            let (account, webhook) = (ada.account_id.as_str(), made.word("id"));
            let body = Val::from(&b"what was answered"[..]);
            set.push(TRIED, store::args![account, webhook, id, number, world.now(), body]);
        }
        app.db.commit(set).await.unwrap();
    };
    let path = format!("/v1/webhook-deliveries/{id}");
    for (written, shown) in [(2..=99, 1..=99), (100..=100, 1..=100), (101..=150, 51..=150)] {
        write(written).await;
        let shown: Vec<i64> = shown.collect();
        assert_eq!(numbers(&ada.get(&path).await.ok().body), shown);
        world.faults.write_down();
        assert_eq!(numbers(&log(&ada, &made).await[0]), shown);
        let seen = world.faults.seen();
        let is_of_tries = |text: &&str| text.contains("webhook_") && text.contains("latency_ms");
        let of_tries: Vec<&str> =
            seen.reads.iter().map(|(sql, _)| sql.0).filter(is_of_tries).collect();
        assert!(!of_tries.is_empty());
        assert!(of_tries.iter().all(|text| !text.contains("body")), "{of_tries:?}");
    }
}
