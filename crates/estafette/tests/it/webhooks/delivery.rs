//! What reaches a target: which events, in which form, and that neighbours do not matter.

use std::time::Duration;

use estafette::config::Config;
use estafette::events::Kind;
use playground::ReceiverZoo;
use serde_json::{Value, json};

use super::{ada, happen, hook, is_signed, json_of, quiet, settled, to_the_present, visited};
use crate::on_every_engine;
use crate::world::contract::is_id;
use crate::world::{Tenant, World, eventually};

on_every_engine!(
    an_event_is_pushed_signed_and_can_be_read_in_the_same_bytes,
    targets_get_what_they_asked_for,
    events_are_listed_newest_first_and_by_type,
    events_of_others_do_not_exist,
    a_target_that_hangs_delays_nobody with patient,
    an_account_with_much_to_do_delays_nobody,
    a_target_has_sixteen_tries_under_way_at_most with patient,
    a_target_that_nobody_knows_has_two_tries_until_one_ends with patient,
    many_slow_targets_of_many_accounts_delay_nobody with few_turns,
    an_account_has_sixty_four_tries_under_way_at_most with patient,
    connections_are_used_again,
    the_sandbox_has_connections_of_its_own,
);

/// As long as tries may take in a deployment.
fn patient(config: &mut Config) {
    config.webhooks.timeout_ms = 15_000;
}

async fn an_event_is_pushed_signed_and_can_be_read_in_the_same_bytes(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    to_the_present(world).await;
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok?from=estafette"), &["sms.delivery"]).await;
    let ids = happen(&ada, Kind::SmsDelivery, 1).await;
    let visit = visited(&zoo, "/ok?from=estafette", 1).await.remove(0);
    assert!(is_signed(&visit, made.word("secret")));
    assert_eq!(visit.headers["webhook-id"], ids[0]);
    assert_eq!(visit.headers["webhook-attempt"], "1");
    assert!(is_id("dlv", &visit.headers["webhook-delivery-id"]));
    assert_eq!(visit.headers["content-type"], "application/json");
    assert!(visit.headers["user-agent"].starts_with("estafette/"));
    assert_eq!(visit.headers["host"], zoo.address().to_string());
    let pulled = ada.get(&format!("/v1/events/{}", ids[0])).await.ok();
    assert_eq!(pulled.text.as_bytes(), visit.body);
    let event = json_of(&visit);
    assert_eq!(event["id"], ids[0].as_str());
    assert_eq!(event["type"], "sms.delivery");
    assert_eq!(event["account_id"], ada.account_id.as_str());
    assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(event["data"]["status"], "undelivered");
    assert_eq!(event["data"]["sequence"], 1);
    assert_eq!(quiet(&zoo, "/ok?from=estafette").await, 1);
}

async fn targets_get_what_they_asked_for(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let eve = world.account("eve").await;
    for (path, events) in [
        ("/ok/all", &["*"][..]),
        ("/ok/family", &["chatapp.*"]),
        ("/ok/two", &["chatapp.status", "email.delivery"]),
    ] {
        hook(&ada, &zoo.url(path), events).await;
    }
    hook(&eve, &zoo.url("/ok/eve"), &["*"]).await;
    for kind in Kind::ALL {
        happen(&ada, *kind, 1).await;
    }
    visited(&zoo, "/ok/all", Kind::ALL.len()).await;
    assert_eq!(quiet(&zoo, "/ok/all").await, Kind::ALL.len());
    let got = |path| -> Vec<Value> {
        let mut kinds: Vec<Value> =
            zoo.visits_to(path).iter().map(|visit| json_of(visit)["type"].clone()).collect();
        kinds.sort_by_key(ToString::to_string);
        kinds
    };
    assert_eq!(got("/ok/family"), ["chatapp.consent", "chatapp.inbound", "chatapp.status"]);
    assert_eq!(got("/ok/two"), ["chatapp.status", "email.delivery"]);
    assert!(got("/ok/eve").is_empty());
}

async fn events_are_listed_newest_first_and_by_type(world: &World) {
    let ada = ada(world).await;
    let mut ids = vec![];
    for round in 0..60 {
        let kind = if round % 20 == 0 { Kind::SmsInbound } else { Kind::OtpStatus };
        ids.extend(happen(&ada, kind, 1).await);
        world.stand_still_for(1).await;
    }
    ids.reverse();
    let mut path = "/v1/events?limit=25".to_owned();
    let mut seen: Vec<String> = vec![];
    loop {
        let page = ada.get(&path).await.ok();
        seen.extend(page.list().iter().map(|event| event["id"].as_str().unwrap().to_owned()));
        let link = page.head("link").to_owned();
        let Some(next) = link.strip_prefix('<').and_then(|rest| rest.split_once('>')) else {
            break;
        };
        next.0.clone_into(&mut path);
    }
    assert_eq!(seen, ids);
    let inbound = ada.get("/v1/events?type=sms.inbound").await.ok();
    assert_eq!(inbound.list().len(), 3);
    assert!(inbound.list().iter().all(|event| event["type"] == "sms.inbound"));
    ada.get("/v1/events?type=nope").await.problem("invalid_request");
    ada.get("/v1/events?cursor=nope").await.problem("invalid_cursor");
}

async fn events_of_others_do_not_exist(world: &World) {
    let ada = ada(world).await;
    let eve = world.account("eve").await;
    let ids = happen(&ada, Kind::SmsDelivery, 1).await;
    eve.get(&format!("/v1/events/{}", ids[0])).await.problem("not_found");
    assert!(eve.get("/v1/events").await.ok().list().is_empty());
    eve.get("/v1/events/evt_x").await.problem("not_found");
}

async fn a_target_that_hangs_delays_nobody(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let eve = world.account("eve").await;
    hook(&eve, &zoo.url("/hang"), &["*"]).await;
    hook(&ada, &zoo.url("/hang"), &["*"]).await;
    hook(&ada, &zoo.url("/ok"), &["*"]).await;
    happen(&eve, Kind::SmsDelivery, 100).await;
    visited(&zoo, "/hang", 2).await;
    happen(&ada, Kind::SmsDelivery, 20).await;
    visited(&zoo, "/ok", 20).await;
    assert!(zoo.hanging().0 >= 2, "by then the others had ended: {:?}", zoo.hanging());
}

async fn an_account_with_much_to_do_delays_nobody(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let eve = world.account("eve").await;
    // Slower than its events come, so that there is something to wait for.
    hook(&eve, &zoo.url("/echo/100"), &["*"]).await;
    hook(&ada, &zoo.url("/ok/ada"), &["*"]).await;
    happen(&eve, Kind::SmsDelivery, 800).await;
    let before = zoo.visits_to("/echo/100").len();
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok/ada", 1).await;
    assert!(before < 800, "there was nothing left to wait for");
    visited(&zoo, "/echo/100", 800).await;
    assert_eq!(quiet(&zoo, "/echo/100").await, 800);
}

/// A target that has worked before, and goes elsewhere now.
async fn trusted(ada: &Tenant<'_>, zoo: &ReceiverZoo, path: &str) {
    let before = format!("/ok{path}");
    let made = hook(ada, &zoo.url(&before), &["*"]).await;
    happen(ada, Kind::SmsDelivery, 1).await;
    visited(zoo, &before, 1).await;
    settled(ada, &made, |newest| newest["status"] == "delivered").await;
    let change = json!({"url": zoo.url(path)});
    let place = format!("/v1/webhooks/{}", made.word("id"));
    ada.desk("PATCH", &place).json(change).await.ok();
}

async fn a_target_has_sixteen_tries_under_way_at_most(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    trusted(&ada, &zoo, "/hang").await;
    happen(&ada, Kind::SmsDelivery, 40).await;
    visited(&zoo, "/hang", 16).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(zoo.hanging(), (16, 16));
}

async fn a_target_that_nobody_knows_has_two_tries_until_one_ends(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    hook(&ada, &zoo.url("/hang"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 40).await;
    visited(&zoo, "/hang", 2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(zoo.hanging(), (2, 2));
}

/// Sixteen turns: eight for suspects, two for an account, the last four for who has none.
fn few_turns(config: &mut Config) {
    patient(config);
    config.webhooks.parallel = 16;
}

async fn many_slow_targets_of_many_accounts_delay_nobody(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    hook(&ada, &zoo.url("/ok"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 1).await;
    for number in 0..10 {
        let eve = world.account(&format!("eve{number}")).await;
        for _ in 0..4 {
            hook(&eve, &zoo.url("/hang"), &["*"]).await;
        }
        happen(&eve, Kind::SmsDelivery, 20).await;
    }
    visited(&zoo, "/hang", 8).await;
    happen(&ada, Kind::SmsDelivery, 20).await;
    visited(&zoo, "/ok", 21).await;
    assert_eq!(zoo.hanging(), (8, 8), "none of them has ended, and they have half of the turns");
    let lag = world.metrics().await.ok().text;
    let name = "estafette_webhook_lane_lag_seconds{env=\"sandbox\"}";
    let lag = lag.lines().find(|line| line.starts_with(name));
    assert!(lag.is_some(), "the lag of lanes is a figure");
}

async fn an_account_has_sixty_four_tries_under_way_at_most(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    // Five targets could have eighty.
    for path in ["/hang/1", "/hang/2", "/hang/3", "/hang/4", "/hang/5"] {
        trusted(&ada, &zoo, path).await;
    }
    happen(&ada, Kind::SmsDelivery, 20).await;
    eventually(|| async { (zoo.hanging().0 == 64).then_some(()) }).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(zoo.hanging(), (64, 64));
    // They are this account's only.
    let eve = world.account("eve").await;
    hook(&eve, &zoo.url("/ok"), &["*"]).await;
    happen(&eve, Kind::SmsDelivery, 5).await;
    visited(&zoo, "/ok", 5).await;
    assert_eq!(zoo.hanging(), (64, 64));
}

async fn connections_are_used_again(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    hook(&ada, &zoo.url("/ok"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 200).await;
    visited(&zoo, "/ok", 200).await;
    assert!(zoo.connections() <= 16, "{} connections", zoo.connections());
    assert_eq!(json!(zoo.visits_to("/ok").len()), json!(200));
}

/// However many hosts it calls, none of the connections that wait for live's next event is closed
/// for them.
async fn the_sandbox_has_connections_of_its_own(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let (ada, ben) = (ada(world).await, world.live_account("ben", 0).await);
    for (tenant, path, connections) in [(&ada, "/ok?ada", 1), (&ben, "/ok?ben", 2)] {
        let made = hook(tenant, &zoo.url(path), &["*"]).await;
        for times in 1..=3 {
            happen(tenant, Kind::SmsDelivery, 1).await;
            visited(&zoo, path, times).await;
            settled(tenant, &made, |newest| newest["status"] == "delivered").await;
        }
        assert_eq!(zoo.connections(), connections, "{path}");
    }
}
