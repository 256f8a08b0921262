//! Targets: made, read, changed, deleted; their secrets.

use estafette::events::Kind;
use futures_util::future::join_all;
use playground::ReceiverZoo;
use serde_json::json;

use super::{ada, happen, hook, is_signed, quiet, target, to_the_present, visited};
use crate::on_every_engine;
use crate::world::World;
use crate::world::contract::is_id;

on_every_engine!(
    a_target_without_events_gets_sms_deliveries_only,
    a_target_is_read_changed_and_deleted,
    keys_read_targets_and_only_people_change_them,
    faulty_targets_are_refused_with_every_fault,
    every_form_of_a_secret_signs,
    a_secret_is_shown_at_creation_and_rotation_and_never_else,
    after_a_rotation_the_old_secret_signs_for_a_day,
    a_repeated_creation_makes_one_target_and_shows_the_secret_for_ten_minutes,
    an_account_has_fifty_targets_at_most,
    an_unknown_type_of_event_is_answered_with_those_that_there_are,
);

async fn a_target_without_events_gets_sms_deliveries_only(world: &World) {
    let ada = ada(world).await;
    let body = json!({"url": "https://127.0.0.1:9999/x"});
    let made = ada.desk("POST", "/v1/webhooks").json(body).await.ok();
    assert!(is_id("whk", made.word("id")));
    assert_eq!(made.body["events"], json!(["sms.delivery"]));
    assert_eq!(made.body["active"], json!(true));
    assert!(made.word("secret").starts_with("whsec_"));
}

async fn an_unknown_type_of_event_is_answered_with_those_that_there_are(world: &World) {
    let ada = ada(world).await;
    let made = hook(&ada, "https://127.0.0.1:9999/a", &["otp.status"]).await;
    let deliveries = format!("/v1/webhooks/{}/deliveries", made.word("id"));
    for list in [&*deliveries, "/v1/events"] {
        ada.desk("GET", &format!("{list}?type=otp.status")).await.ok();
        let refused = ada.desk("GET", &format!("{list}?type=otp.nothing")).await;
        let detail = refused.problem("invalid_request").word("detail").to_owned();
        assert!(Kind::ALL.iter().all(|kind| detail.contains(kind.as_str())), "{list}: {detail}");
    }
}

async fn a_target_is_read_changed_and_deleted(world: &World) {
    let ada = ada(world).await;
    let made = hook(&ada, "https://127.0.0.1:9999/a", &["otp.status"]).await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    let list = ada.desk("GET", "/v1/webhooks").await.ok();
    assert_eq!(list.list()[0]["url"], "https://127.0.0.1:9999/a");
    let change = json!({"url": "https://127.0.0.1:9998/b", "events": ["*"], "active": false});
    let changed = ada.desk("PATCH", &path).json(change).await.ok();
    assert_eq!(changed.word("url"), "https://127.0.0.1:9998/b");
    assert_eq!(changed.body["events"], json!(["*"]));
    assert_eq!(changed.word("disabled_reason"), "manual");
    let changed = ada.desk("PATCH", &path).json(json!({"active": true})).await.ok();
    assert_eq!(
        (changed.field("active"), changed.field("disabled_reason")),
        (&json!(true), &json!(null))
    );
    let nothing = ada.desk("PATCH", &path).json(json!({})).await.ok();
    assert_eq!(nothing.body, changed.body);
    let gone = ada.desk("DELETE", &path).await.ok();
    assert_eq!(gone.body, json!({"id": made.word("id"), "active": false}));
    ada.desk("DELETE", &path).await.problem("not_found");
    ada.desk("GET", &path).await.problem("not_found");
    ada.desk("PATCH", &path).json(json!({})).await.problem("not_found");
    assert!(ada.desk("GET", "/v1/webhooks").await.ok().list().is_empty());
}

async fn keys_read_targets_and_only_people_change_them(world: &World) {
    let ada = ada(world).await;
    let made = hook(&ada, "https://127.0.0.1:9999/a", &["*"]).await;
    let id = made.word("id");
    let reads = [
        "/v1/webhooks".to_owned(),
        format!("/v1/webhooks/{id}"),
        format!("/v1/webhooks/{id}/deliveries"),
        "/v1/events".to_owned(),
    ];
    let reader = ada.new_key("reader", &["account:read"]).await.word("api_key").to_owned();
    let sender = ada.new_key("sender", &["otp:send"]).await.word("api_key").to_owned();
    for path in &reads {
        world.get(ada.env, path).key(&reader).await.ok();
        world.get(ada.env, path).key(&sender).await.problem("insufficient_scope");
        world.get(ada.env, path).await.problem("missing_credentials");
    }
    let writes = [
        ("POST", "/v1/webhooks".to_owned()),
        ("PATCH", format!("/v1/webhooks/{id}")),
        ("DELETE", format!("/v1/webhooks/{id}")),
        ("POST", format!("/v1/webhooks/{id}/test")),
        ("POST", format!("/v1/webhooks/{id}/rotate-secret")),
        ("POST", format!("/v1/webhooks/{id}/recover")),
    ];
    for (method, path) in &writes {
        let answer = world.call(method, ada.env, path).key(&ada.key).json(json!({})).await;
        answer.problem("missing_credentials");
    }
}

async fn faulty_targets_are_refused_with_every_fault(world: &World) {
    let ada = ada(world).await;
    let post = |body| ada.desk("POST", "/v1/webhooks").json(body);
    let good = "https://127.0.0.1:9999/";
    post(json!({})).await.fault("/url", "required");
    post(json!({"url": "nonsense"})).await.fault("/url", "invalid_url");
    post(json!({"url": 7})).await.fault("/url", "invalid_type");
    let long = format!("{good}{}", "x".repeat(2048));
    post(json!({"url": long})).await.fault("/url", "too_long");
    let both = post(json!({"url": good, "events": ["otp.status", "otp.stats"], "secret": "x"}));
    let both = both.await.fault("/events/1", "invalid_enum");
    assert_eq!(both.item("/secret").as_deref(), Some("too_short"));
    post(json!({"url": good, "events": []})).await.fault("/events", "too_short");
    post(json!({"url": good, "events": "otp.status"})).await.fault("/events", "invalid_type");
    post(json!({"url": good, "secret": "whsec_nonsense"})).await.fault("/secret", "too_short");
    post(json!({"url": good, "secret": "whsec_%%%"})).await.fault("/secret", "invalid_type");
    post(json!({"url": good, "secret": "x".repeat(65)})).await.fault("/secret", "too_long");
    post(json!({"url": good, "secret": 7})).await.fault("/secret", "invalid_type");
    post(json!({"url": good, "colour": "red"})).await.fault("/colour", "unknown_field");
}

async fn every_form_of_a_secret_signs(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    to_the_present(world).await;
    let ada = ada(world).await;
    let given = [
        (json!("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"), "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"),
        (json!("my own plain secret"), "whsec_bXkgb3duIHBsYWluIHNlY3JldA=="),
        (json!(null), ""),
    ];
    for (index, (secret, canonical)) in given.into_iter().enumerate() {
        let path = format!("/ok/{index}");
        let body = json!({"url": zoo.url(&path), "secret": secret, "events": ["sms.delivery"]});
        let made = ada.desk("POST", "/v1/webhooks").json(body).await.ok();
        if !canonical.is_empty() {
            assert_eq!(made.word("secret"), canonical);
        }
        happen(&ada, Kind::SmsDelivery, 1).await;
        let visits = visited(&zoo, &path, 1).await;
        assert!(is_signed(&visits[0], made.word("secret")));
        assert!(!is_signed(&visits[0], "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    }
}

async fn a_secret_is_shown_at_creation_and_rotation_and_never_else(world: &World) {
    let ada = ada(world).await;
    let made = hook(&ada, "https://127.0.0.1:9999/", &["*"]).await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    let rotated = ada.desk("POST", &format!("{path}/rotate-secret")).json(json!({})).await.ok();
    assert_ne!(rotated.word("secret"), made.word("secret"));
    let own = json!({"secret": "another plain secret"});
    let own = ada.desk("POST", &format!("{path}/rotate-secret")).json(own).await.ok();
    assert_eq!(own.word("secret"), "whsec_YW5vdGhlciBwbGFpbiBzZWNyZXQ=");
    ada.desk("POST", &format!("{path}/test")).json(json!({})).await.ok();
    let answers = [
        ada.desk("GET", "/v1/webhooks").await.ok(),
        ada.desk("GET", &path).await.ok(),
        ada.desk("PATCH", &path).json(json!({"active": true})).await.ok(),
        ada.desk("GET", &format!("{path}/deliveries")).await.ok(),
        ada.desk("GET", "/v1/events").await.ok(),
    ];
    for answer in answers {
        for secret in [made.word("secret"), rotated.word("secret"), own.word("secret")] {
            assert!(!answer.text.contains(secret), "{}", answer.text);
        }
        assert!(!answer.text.contains("whsec_"), "{}", answer.text);
    }
}

async fn after_a_rotation_the_old_secret_signs_for_a_day(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    to_the_present(world).await;
    let ada = ada(world).await;
    let made = hook(&ada, &zoo.url("/ok"), &["sms.delivery"]).await;
    let path = format!("/v1/webhooks/{}/rotate-secret", made.word("id"));
    let rotated = ada.desk("POST", &path).json(json!({})).await.ok();
    happen(&ada, Kind::SmsDelivery, 1).await;
    let first = visited(&zoo, "/ok", 1).await.remove(0);
    assert!(is_signed(&first, made.word("secret")) && is_signed(&first, rotated.word("secret")));
    assert_eq!(first.headers["webhook-signature"].split(' ').count(), 2);
    world.advance(clock::DAY + 1).await;
    happen(&ada, Kind::SmsDelivery, 1).await;
    let later = visited(&zoo, "/ok", 2).await.remove(1);
    assert_eq!(later.headers["webhook-signature"].split(' ').count(), 1);
}

async fn a_repeated_creation_makes_one_target_and_shows_the_secret_for_ten_minutes(world: &World) {
    let ada = ada(world).await;
    let body = json!({"url": "https://127.0.0.1:9999/", "events": ["*"]});
    let post = || ada.desk("POST", "/v1/webhooks").header("idempotency-key", "one").json(&body);
    let first = post().await.ok();
    let again = post().await.ok();
    assert_eq!(again.body, first.body);
    assert_eq!(again.head("idempotent-replayed"), "true");
    world.advance(10 * clock::MINUTE + 1).await;
    let late = post().await.ok();
    assert_eq!(late.word("id"), first.word("id"));
    assert!(late.body.get("secret").is_none());
    let path = format!("/v1/webhooks/{}/rotate-secret", first.word("id"));
    let rotate = || ada.desk("POST", &path).header("idempotency-key", "two").json(json!({}));
    assert_eq!(rotate().await.ok().word("secret"), rotate().await.ok().word("secret"));
    assert_eq!(ada.desk("GET", "/v1/webhooks").await.ok().list().len(), 1);
}

async fn an_account_has_fifty_targets_at_most(world: &World) {
    let ada = ada(world).await;
    let body = json!({"url": "https://127.0.0.1:9999/"});
    let all =
        join_all((0..60).map(|_| async { ada.desk("POST", "/v1/webhooks").json(&body).await }));
    let (made, refused): (Vec<_>, Vec<_>) = all.await.into_iter().partition(|a| a.status == 200);
    assert_eq!((made.len(), refused.len()), (50, 10));
    for answer in refused {
        assert!(answer.problem("limit_reached").word("detail").contains("50"));
    }
    let path = format!("/v1/webhooks/{}", made[0].word("id"));
    ada.desk("DELETE", &path).await.ok();
    ada.desk("POST", "/v1/webhooks").json(&body).await.ok();
    ada.desk("POST", "/v1/webhooks").json(&body).await.problem("limit_reached");
    let page = ada.desk("GET", "/v1/webhooks?limit=30").await.ok();
    assert_eq!(page.list().len(), 30);
    assert!(page.head("link").contains("rel=\"next\""));
}

#[tokio::test]
async fn a_disabled_target_gets_nothing() {
    let world = World::new(crate::world::Engine::Lite).await;
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = ada(&world).await;
    let made = hook(&ada, &zoo.url("/ok"), &["*"]).await;
    let path = format!("/v1/webhooks/{}", made.word("id"));
    ada.desk("PATCH", &path).json(json!({"active": false})).await.ok();
    happen(&ada, Kind::SmsDelivery, 3).await;
    assert_eq!(quiet(&zoo, "/ok").await, 0);
    assert_eq!(target(&ada, &made).await.body["active"], json!(false));
    world.finish().await;
}
