//! Making up for what was missed: tests, trying again, recovering since, restarts.

use estafette::app::Env;
use estafette::events::Kind;
use playground::ReceiverZoo;
use serde_json::json;
use store::{Sql, WriteSet, args};

use super::{SlowReceiver, ada, happen, hook, json_of, like_its_example, log, quiet};
use super::{settled, visited};
use crate::on_every_engine;
use crate::world::tenant::PASSWORD;
use crate::world::{Engine, World, eventually};

on_every_engine!(
    a_test_reaches_its_target_only_and_a_disabled_one_as_well,
    a_delivery_is_tried_again_by_hand,
    what_is_asked_for_during_a_try_happens_after_it,
    what_is_asked_for_by_hand_goes_before_what_waits,
    what_a_target_missed_is_recovered_once,
    what_is_missed_until_a_target_is_enabled_is_recovered_too,
    recovery_goes_far_back_and_survives_a_restart,
    recoveries_at_once_stop_nothing,
    what_is_under_way_survives_a_restart,
    old_events_and_deliveries_go,
    what_names_people_goes_with_what_it_tells_of with forgetful,
    a_try_is_kept_for_thirty_days_however_old_its_event_is,
    a_deleted_target_leaves_nothing,
);

async fn a_test_reaches_its_target_only_and_a_disabled_one_as_well(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok/one"), &["sms.delivery"]).await;
    hook(&ada, &zoo.url("/ok/other"), &["*"]).await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    let test = ada.desk("POST", &format!("{path}/test")).json(json!({})).await.ok();
    assert_eq!((test.word("type"), test.word("status")), ("webhook.test", "pending"));
    let visit = visited(&zoo, "/ok/one", 1).await.remove(0);
    assert_eq!(visit.headers["webhook-id"], test.word("event_id"));
    assert_eq!(json_of(&visit)["data"]["webhook_id"], made.word("id"));
    like_its_example(&json_of(&visit));
    ada.desk("PATCH", &path).json(json!({"active": false})).await.ok();
    let body = json!({"type": "otp.status"});
    let test = ada.desk("POST", &format!("{path}/test")).json(body).await.ok();
    let visit = visited(&zoo, "/ok/one", 2).await.remove(1);
    assert_eq!(json_of(&visit)["type"], "otp.status");
    assert_eq!(json_of(&visit)["data"]["test"], json!(true));
    let pulled = ada.get(&format!("/v1/events/{}", test.word("event_id"))).await.ok();
    assert_eq!(pulled.text.as_bytes(), visit.body);
    assert_eq!(quiet(&zoo, "/ok/other").await, 0);
    let body = json!({"type": "nope"});
    ada.desk("POST", &format!("{path}/test")).json(body).await.fault("/type", "invalid_enum");
    let post = || {
        let call = ada.desk("POST", &format!("{path}/test"));
        call.header("idempotency-key", "t").json(json!({}))
    };
    assert_eq!(post().await.ok().word("id"), post().await.ok().word("id"));
    visited(&zoo, "/ok/one", 3).await;
    assert_eq!(quiet(&zoo, "/ok/one").await, 3);
}

async fn a_delivery_is_tried_again_by_hand(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    zoo.tell("/ok", &[400, 500]);
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    let failed = settled(&ada, &made, |one| one["status"] == "failed").await;
    let path = format!("/v1/webhook-deliveries/{}/retry", failed["id"].as_str().unwrap());
    let again = ada.desk("POST", &path).await.ok();
    assert_eq!(again.word("status"), "pending");
    // It fails once more, and then goes along the schedule from its beginning.
    let waiting = settled(&ada, &made, |one| one["attempt_count"] == 2).await;
    assert_eq!(waiting["status"], "pending");
    world.advance(6_001).await;
    let done = settled(&ada, &made, |one| one["status"] == "delivered").await;
    assert_eq!(done["attempt_count"], 3);
    // One that was delivered goes out again as well, with the same id.
    ada.desk("POST", &path).await.ok();
    let visits = visited(&zoo, "/ok", 4).await;
    assert!(visits.iter().all(|visit| visit.body == visits[0].body));
    ada.desk("POST", "/v1/webhook-deliveries/dlv_x/retry").await.problem("not_found");
}

async fn what_is_asked_for_during_a_try_happens_after_it(world: &World) {
    let ada = ada(world).await;
    let slow = SlowReceiver::asking_for(0).await;
    let made = hook(&ada, &slow.url, &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    // It is in the log after half a second.
    slow.comes().await;
    let waiting = settled(&ada, &made, |one| one["status"] == "pending").await;
    let path = format!("/v1/webhook-deliveries/{}/retry", waiting["id"].as_str().unwrap());
    // At the first try, at a later one, and at one that was asked for itself: no clock moves.
    for (tries, status) in [(1, 400), (2, 200), (3, 500)] {
        for _ in 0..2 {
            let asked = ada.desk("POST", &path).await.ok();
            assert_eq!(asked.word("status"), "pending");
        }
        slow.answers(status);
        slow.comes().await;
        let log = settled(&ada, &made, move |one| one["attempt_count"] == tries).await;
        assert_eq!(log["status"], "pending", "{log}");
        assert_eq!(log["attempts"][0]["status"], 400);
    }
    slow.answers(200);
    let done = settled(&ada, &made, |one| one["status"] == "delivered").await;
    assert_eq!((&done["attempt_count"], &done["next_attempt_at"]), (&json!(4), &json!(null)));
    let times = [&done["attempts"][1]["status"], &done["attempts"][2]["status"]];
    assert_eq!(times, [&json!(200), &json!(500)]);
}

async fn what_is_asked_for_by_hand_goes_before_what_waits(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    zoo.tell("/ok", &[500; 40]);
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    let events = happen(&ada, Kind::SmsDelivery, 30).await;
    // Five failures park it; what waits is tried one at a time from then on.
    visited(&zoo, "/ok", 5).await;
    let tried = quiet(&zoo, "/ok").await;
    assert!(tried < events.len(), "{tried}");
    let log = log(&ada, &made).await;
    let last = events.last().unwrap();
    let newest = log.iter().find(|one| one["event_id"] == json!(last)).unwrap();
    assert_eq!(newest["attempt_count"], 0, "{newest}");
    let path = format!("/v1/webhook-deliveries/{}/retry", newest["id"].as_str().unwrap());
    ada.desk("POST", &path).await.ok();
    let visits = visited(&zoo, "/ok", tried + 1).await;
    assert_eq!(visits[tried].headers["webhook-id"], last.as_str());
}

async fn what_a_target_missed_is_recovered_once(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok"), &["sms.*"]).await;
    // It sees what the other target misses, so that the story knows when it was missed.
    hook(&ada, &zoo.url("/witness"), &["*"]).await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    let before = happen(&ada, Kind::SmsDelivery, 2).await;
    visited(&zoo, "/ok", 2).await;
    world.advance(1_000).await;
    let since = world.now();
    let delivered = happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 3).await;
    ada.desk("PATCH", &path).json(json!({"active": false})).await.ok();
    let missed = happen(&ada, Kind::SmsDelivery, 5).await;
    happen(&ada, Kind::EmailDelivery, 5).await;
    visited(&zoo, "/witness", 2 + 1 + 5 + 5).await;
    ada.desk("PATCH", &path).json(json!({"active": true})).await.ok();
    zoo.tell("/ok", &[400]);
    let refused = happen(&ada, Kind::SmsInbound, 1).await;
    settled(&ada, &made, |one| one["status"] == "failed").await;
    let recover = |since: &str| {
        let call = ada.desk("POST", &format!("{path}/recover"));
        call.json(json!({"since": since}))
    };
    recover(&since.to_string()).await.ok();
    // What was missed, and what was refused.
    visited(&zoo, "/ok", 4 + 5 + 1).await;
    assert_eq!(quiet(&zoo, "/ok").await, 10);
    let ids: Vec<String> =
        zoo.visits_to("/ok").iter().map(|visit| visit.headers["webhook-id"].clone()).collect();
    let times = |id: &String| ids.iter().filter(|seen| *seen == id).count();
    assert!(before.iter().chain(&delivered).chain(&missed).all(|id| times(id) == 1));
    assert_eq!(times(&refused[0]), 2);
    assert!(log(&ada, &made).await.iter().all(|one| one["status"] == "delivered"));
    recover("yesterday").await.fault("/since", "invalid_type");
    recover("2027-01-01T00:00:00Z").await.fault("/since", "out_of_range");
    let all = recover("2025-01-01T00:00:00Z").await.ok();
    assert!(all.word("since") > "2025-11", "no further than events are kept: {}", all.text);
    ada.desk("POST", &format!("{path}/recover")).json(json!({})).await.fault("/since", "required");
    let unknown = "/v1/webhooks/whk_01kdvqh6m4e5s8w2t9zb3y7n1f/recover";
    ada.desk("POST", unknown).raw("application/json", "{").await.problem("invalid_json");
    ada.desk("POST", unknown).json(json!({})).await.problem("not_found");
}

async fn what_is_missed_until_a_target_is_enabled_is_recovered_too(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok"), &["sms.*"]).await;
    hook(&ada, &zoo.url("/witness"), &["sms.*"]).await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    let since = world.now();
    ada.desk("PATCH", &path).json(json!({"active": false})).await.ok();
    happen(&ada, Kind::SmsDelivery, 2).await;
    visited(&zoo, "/witness", 2).await;
    let body = json!({"since": since.to_string()});
    ada.desk("POST", &format!("{path}/recover")).json(body).await.ok();
    world.advance(60_000).await;
    happen(&ada, Kind::SmsDelivery, 3).await;
    visited(&zoo, "/witness", 2 + 3).await;
    ada.desk("PATCH", &path).json(json!({"active": true})).await.ok();
    visited(&zoo, "/ok", 2 + 3).await;
    assert_eq!(quiet(&zoo, "/ok").await, 5);
}

async fn recovery_goes_far_back_and_survives_a_restart(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let since = world.now();
    world.advance(10).await;
    // Nobody listened when these happened, and there are more than one step looks at.
    happen(&ada, Kind::SmsDelivery, 450).await;
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    let path = format!("/v1/webhooks/{}/recover", made.word("id"));
    ada.desk("POST", &path).json(json!({"since": since.to_string()})).await.ok();
    for reached in [1, 190, 210, 399] {
        visited(&zoo, "/ok", reached).await;
        world.restart().await;
    }
    visited(&zoo, "/ok", 450).await;
    quiet(&zoo, "/ok").await;
    let mut ids: Vec<String> =
        zoo.visits_to("/ok").iter().map(|visit| visit.headers["webhook-id"].clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 450);
}

/// A wish that changes while it is followed is followed as it is then; so is its end.
async fn recoveries_at_once_stop_nothing(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok"), &["sms.*"]).await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    let mut events = happen(&ada, Kind::SmsDelivery, 40).await;
    for _ in 0..6 {
        let wishes = (1..=12).map(|hours| {
            let since = (world.now() - hours * clock::HOUR).to_string();
            let wish = ada.desk("POST", &format!("{path}/recover")).json(json!({"since": since}));
            async move { wish.await.ok() }
        });
        futures_util::future::join_all(wishes).await;
    }
    events.extend(happen(&ada, Kind::SmsDelivery, 1).await);
    eventually(|| async {
        let visits = zoo.visits_to("/ok");
        let came = |id: &String| visits.iter().any(|visit| visit.headers["webhook-id"] == *id);
        events.iter().all(came).then_some(())
    })
    .await;
}

/// Nobody else can have it where one process serves from a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_process_held_is_free_at_the_next_start() {
    let world = World::with(Engine::Lite, |_| ()).await;
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(&world).await;
    hook(&ada, &zoo.url("/ok"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 1).await;
    quiet(&zoo, "/ok").await;
    // The clock stands still: a lease of somebody who is gone would never end.
    let mut set = WriteSet::of(&ada.account_id);
    let held = "UPDATE webhooks SET holder = 77, lease_until = $1, next_at = $1";
    set.push(Sql(held), args![world.now() + 20_000]);
    world.app(Env::Live).await.db.commit(set).await.unwrap();
    world.restart().await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    visited(&zoo, "/ok", 2).await;
    world.finish().await;
}

async fn what_is_under_way_survives_a_restart(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    zoo.tell("/ok", &[500]);
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    settled(&ada, &made, |one| one["attempt_count"] == 1).await;
    world.restart_after(6_001).await;
    let done = settled(&ada, &made, |one| one["status"] == "delivered").await;
    assert_eq!(done["attempt_count"], 2);
}

async fn old_events_and_deliveries_go(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    let old = happen(&ada, Kind::SmsDelivery, 3).await;
    eventually(|| async {
        let all = log(&ada, &made).await;
        (all.len() == 3 && all.iter().all(|one| one["status"] == "delivered")).then_some(())
    })
    .await;
    let delivery = log(&ada, &made).await[0]["id"].as_str().unwrap().to_owned();
    world.advance(30 * clock::DAY - clock::HOUR).await;
    world.housekeep().await;
    assert_eq!(log(&ada, &made).await.len(), 3, "tries are kept for 30 days");
    world.advance(5 * clock::DAY).await;
    let new = happen(&ada, Kind::SmsDelivery, 1).await;
    settled(&ada, &made, |one| one["status"] == "delivered" && one["event_id"] == new[0]).await;
    world.housekeep().await;
    assert_eq!(log(&ada, &made).await.len(), 1);
    ada.get(&format!("/v1/events/{}", old[0])).await.problem("not_found");
    ada.get(&format!("/v1/webhook-deliveries/{delivery}")).await.problem("not_found");
    ada.get(&format!("/v1/events/{}", new[0])).await.ok();
}

/// What people write goes after five days; the schedule takes less than four.
fn forgetful(config: &mut estafette::config::Config) {
    config.retention.inbound_d = 5;
}

async fn what_names_people_goes_with_what_it_tells_of(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    let old = happen(&ada, Kind::SmsInbound, 1).await;
    settled(&ada, &made, |one| one["status"] == "delivered").await;
    world.advance(5 * clock::DAY - clock::HOUR).await;
    world.housekeep().await;
    assert_eq!(log(&ada, &made).await.len(), 1);
    world.advance(2 * clock::HOUR).await;
    world.housekeep().await;
    assert!(log(&ada, &made).await.is_empty());
    ada.get(&format!("/v1/events/{}", old[0])).await.problem("not_found");
}

async fn a_try_is_kept_for_thirty_days_however_old_its_event_is(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    zoo.tell("/ok", &[200, 400]);
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 2).await;
    let all = eventually(|| async {
        let all = log(&ada, &made).await;
        let is_done = all.len() == 2 && all.iter().all(|one| one["attempt_count"] == 1);
        is_done.then_some(all)
    })
    .await;
    let id = all[0]["id"].as_str().unwrap();
    world.advance(30 * clock::DAY - clock::HOUR).await;
    let login = json!({"email": "ada@example.com", "password": PASSWORD});
    let login = world.post(ada.env, "/v1/auth/login").json(login).await.ok();
    let retry = world.post(ada.env, &format!("/v1/webhook-deliveries/{id}/retry"));
    retry.bearer(login.word("token")).await.ok();
    settled(&ada, &made, |one| one["attempt_count"] == 2).await;
    world.advance(29 * clock::DAY).await;
    world.housekeep().await;
    let left = log(&ada, &made).await;
    assert_eq!(left.len(), 1, "the other one was tried only long ago");
    assert_eq!(left[0]["attempts"].as_array().unwrap().len(), 2);
    world.advance(2 * clock::DAY).await;
    world.housekeep().await;
    assert!(log(&ada, &made).await.is_empty());
}

async fn a_deleted_target_leaves_nothing(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/status/500"), &["*"]).await;
    happen(&ada, Kind::SmsDelivery, 2).await;
    visited(&zoo, "/status/500", 2).await;
    ada.desk("DELETE", &format!("/v1/webhooks/{}", made.word("id"))).await.ok();
    world.advance(clock::HOUR).await;
    assert_eq!(quiet(&zoo, "/status/500").await, 2);
    world.housekeep().await;
    assert!(ada.desk("GET", "/v1/webhooks").await.ok().list().is_empty());
}
