//! Stories of pumping: passcodes that nobody verifies are told of, or refused, and who verifies
//! elsewhere says so.

use clock::{DAY, HOUR};
use estafette::app::Env;
use estafette::config::{Config, FraudGuard};
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{Tenant, World, eventually};

on_every_engine!(
    passcodes_that_nobody_verifies_are_told_of,
    a_burst_of_an_account_that_was_quiet_is_told_of,
    a_blocked_range_is_open_to_whoever_verifies with blocking,
    what_no_carrier_took_does_not_count with blocking,
    sends_at_once_do_not_pass_a_budget with blocking,
    staff_opens_what_the_guard_has_closed with blocking,
    what_is_exempt_uses_up_no_budget with blocking,
    what_is_exempt_and_refused_makes_no_budget with blocking,
    a_node_that_blocks_hears_of_others_all_the_same with blocking,
    a_verification_made_elsewhere_is_one,
    conversion_is_shown_by_country_and_day,
    conversion_is_counted_by_country_and_carrier,
    nothing_is_guarded_where_the_guard_is_off with off,
);

fn blocking(config: &mut Config) {
    config.otp.fraud_guard = FraudGuard::Block;
}

fn off(config: &mut Config) {
    config.otp.fraud_guard = FraudGuard::Off;
}

async fn ada(world: &World) -> Tenant<'_> {
    world.give_live_carriers().await;
    world.live_account("ada", 10_000).await
}

/// Sends so many to numbers of one range, one after the other; answers the ids.
async fn pump(ada: &Tenant<'_>, count: usize, first: usize) -> Vec<String> {
    let mut ids = vec![];
    for number in first..first + count {
        let body = json!({"to": phone(&format!("5{number:03}")), "delivery_mode": "sms"});
        ids.push(ada.send(body).await.ok().word("challenge_id").to_owned());
    }
    ids
}

async fn events(ada: &Tenant<'_>) -> Vec<Value> {
    let all = ada.get("/v1/events?type=otp.fraud").await.ok();
    all.list().iter().map(|event| event["data"].clone()).collect()
}

/// Nothing is known of the account when its first passcode comes, and the burst is over before
/// anything is written down.
async fn a_burst_of_an_account_that_was_quiet_is_told_of(world: &World) {
    let ada = ada(world).await;
    pump(&ada, 12, 0).await;
    let told = eventually(async || {
        world.advance(1_000).await;
        Some(events(&ada).await).filter(|told| told.len() > 1)
    })
    .await;
    assert_eq!(told.len(), 2, "once for the country, and for the range: {told:?}");
    assert!(told.iter().all(|event| event["budget"] == 3), "{told:?}");
    let page = world.metrics().await.ok();
    let line = "estafette_otp_fraud_total{env=\"live\",country=\"FR\",outcome=\"watched\"} 9\n";
    assert!(page.text.contains(line), "{}", page.text);
}

async fn passcodes_that_nobody_verifies_are_told_of(world: &World) {
    let ada = ada(world).await;
    pump(&ada, 3, 0).await;
    world.advance(1_100).await;
    assert!(events(&ada).await.is_empty());
    pump(&ada, 9, 3).await;
    let told = eventually(async || {
        world.advance(1_000).await;
        Some(events(&ada).await).filter(|told| told.len() > 1)
    })
    .await;
    assert_eq!(told.len(), 2, "once an hour for the country, and for the range: {told:?}");
    let (range, first) = (&told[0], &told[1]);
    assert_eq!((&range["prefix"], &range["window"]), (&json!("+3361234"), &json!("hour")));
    assert_eq!((&first["country"], &first["window"]), (&json!("FR"), &json!("hour")));
    assert_eq!((&first["sent"], &first["budget"]), (&json!(3), &json!(3)));
    assert_eq!(first["action"], "watched");
    // The same one again is no other one, whatever came of it.
    let same = json!({"to": phone("5000"), "delivery_mode": "sms"});
    ada.send(&same).await.problem("resend_too_soon");
    let page = world.metrics().await.ok();
    let line = "estafette_otp_fraud_total{env=\"live\",country=\"FR\",outcome=\"watched\"} 9\n";
    assert!(page.text.contains(line), "{}", page.text);
    // Nor again after a restart, or once staff have changed what is exempt; the next hour is told.
    world.restart().await;
    world.set(&ada, json!({"settings": {"otp_fraud_allow": ["DE"]}})).await.ok();
    pump(&ada, 4, 20).await;
    world.advance(2_100).await;
    world.settle().await;
    assert_eq!(events(&ada).await.len(), 2);
    world.advance(HOUR).await;
    pump(&ada, 5, 30).await;
    eventually(async || {
        world.advance(1_000).await;
        (events(&ada).await.len() == 4).then_some(())
    })
    .await;
}

async fn a_blocked_range_is_open_to_whoever_verifies(world: &World) {
    let ada = ada(world).await;
    let ids = pump(&ada, 3, 0).await;
    let more = json!({"to": phone("5100"), "delivery_mode": "sms"});
    ada.send(&more).await.problem("fraud_blocked");
    // The chat-app costs nobody's numbers anything, and other countries are others.
    ada.send(json!({"to": phone("5101"), "delivery_mode": "chatapp"})).await.ok();
    ada.send(json!({"to": "+447400123456", "delivery_mode": "sms"})).await.ok();
    // A restart forgets nothing of it.
    world.advance(1_100).await;
    world.restart().await;
    ada.send(&more).await.problem("fraud_blocked");
    for id in &ids {
        ada.call("POST", &format!("/v1/otp/{id}/verified")).await.ok();
    }
    ada.send(&more).await.ok();
    world.advance(HOUR).await;
    pump(&ada, 3, 200).await;
}

async fn what_is_exempt_uses_up_no_budget(world: &World) {
    let ada = ada(world).await;
    let exempt = |places: Value| json!({"settings": {"otp_fraud_allow": places}});
    let range = phone("5000")[..8].to_owned();
    world.set(&ada, exempt(json!([range]))).await.ok();
    // Nor do those of them that are verified make one.
    for id in pump(&ada, 30, 0).await.iter().take(25) {
        ada.call("POST", &format!("/v1/otp/{id}/verified")).await.ok();
    }
    // The first ones of the country that are not exempt, and what is behind its budget.
    for number in 0..3 {
        let other = format!("+3375001234{number}");
        ada.send(json!({"to": other, "delivery_mode": "sms"})).await.ok();
    }
    let next = json!({"to": "+33750012349", "delivery_mode": "sms"});
    ada.send(&next).await.problem("fraud_blocked");
    // Nor after a restart, and the figures show all of them.
    world.advance(1_100).await;
    world.restart().await;
    pump(&ada, 1, 40).await;
    ada.send(&next).await.problem("fraud_blocked");
    let shown = ada.get("/v1/otp/conversion").await.ok();
    assert_eq!(shown.list().len(), 1, "{}", shown.text);
    assert_eq!(shown.list()[0]["sent"], 34, "{}", shown.text);
}

async fn what_is_exempt_and_refused_makes_no_budget(world: &World) {
    let ada = ada(world).await;
    let exempt = json!({"settings": {"otp_fraud_allow": ["+336123"]}});
    world.set(&ada, exempt).await.ok();
    for number in 0..5 {
        let refused = json!({"to": format!("+336123{number}0004"), "delivery_mode": "sms"});
        ada.send(refused).await.problem("recipient_unreachable");
    }
    let shown = async || {
        let shown = ada.get("/v1/otp/conversion").await.ok();
        shown.list().first().is_none_or(|line| line["sent"] == 0).then_some(())
    };
    eventually(shown).await;
    for number in 0..3 {
        let other = format!("+3375001234{number}");
        ada.send(json!({"to": other, "delivery_mode": "sms"})).await.ok();
    }
    let next = json!({"to": "+33750012349", "delivery_mode": "sms"});
    ada.send(&next).await.problem("fraud_blocked");
}

async fn a_node_that_blocks_hears_of_others_all_the_same(world: &World) {
    let ada = ada(world).await;
    pump(&ada, 3, 0).await;
    let next = json!({"to": phone("5009"), "delivery_mode": "sms"});
    ada.send(&next).await.problem("fraud_blocked");
    world.advance(1_100).await;
    // All that is known is written down. People verify at another node.
    eventually(async || (!events(&ada).await.is_empty()).then_some(())).await;
    let mut set = store::WriteSet::of(&ada.account_id);
    let sql = "UPDATE otp_conversion SET verified = verified + 3 WHERE account_id = $1";
    set.push(store::Sql(sql), store::args![ada.account_id.as_str()]);
    world.app(Env::Live).await.db.commit(set).await.unwrap();
    ada.send(&next).await.problem("fraud_blocked");
    world.advance(31_000).await;
    ada.send(&next).await.ok();
}

async fn what_no_carrier_took_does_not_count(world: &World) {
    let ada = ada(world).await;
    for number in 0..5 {
        let refused = json!({"to": format!("+336123{number}0004"), "delivery_mode": "sms"});
        ada.send(refused).await.problem("recipient_unreachable");
    }
    let same = json!({"to": phone("5000"), "delivery_mode": "sms", "reference": "one"});
    ada.send(&same).await.ok();
    ada.send(&same).await.problem("resend_too_soon");
    world.advance(31_000).await;
    ada.send(&same).await.ok();
    pump(&ada, 2, 1).await;
    let more = json!({"to": phone("5100"), "delivery_mode": "sms"});
    ada.send(&more).await.problem("fraud_blocked");
    world.advance(31_000).await;
    ada.send(&same).await.ok();
    ada.send(&same).await.problem("resend_too_soon");
    let shown = ada.get("/v1/otp/conversion").await.ok();
    assert_eq!(shown.list()[0]["sent"], 3, "{}", shown.text);
    // The same passcode again is none that was blocked.
    let page = world.metrics().await.ok();
    let line = "estafette_otp_fraud_total{env=\"live\",country=\"FR\",outcome=\"blocked\"} 1\n";
    assert!(page.text.contains(line), "{}", page.text);
}

async fn sends_at_once_do_not_pass_a_budget(world: &World) {
    let ada = ada(world).await;
    let ada = &ada;
    let sends = (0..24).map(|number| async move {
        let body = json!({"to": phone(&format!("5{number:03}")), "delivery_mode": "sms"});
        ada.send(body).await.status
    });
    let statuses = futures_util::future::join_all(sends).await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 3, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 403).count(), 21, "{statuses:?}");
}

async fn staff_opens_what_the_guard_has_closed(world: &World) {
    let ada = ada(world).await;
    pump(&ada, 3, 0).await;
    let more = json!({"to": phone("5100"), "delivery_mode": "sms"});
    ada.send(&more).await.problem("fraud_blocked");
    for wrong in [
        json!("FR"),
        json!(["France"]),
        json!(["XX"]),
        json!(["+"]),
        json!([7]),
        json!(["+0"]),
        json!(["+033"]),
    ] {
        let answer = world.set(&ada, json!({"settings": {"otp_fraud_allow": wrong}})).await;
        answer.problem("validation_failed");
    }
    for (wrong, code) in [(json!(vec!["+33"; 301]), "too_long"), (json!("FR"), "invalid_type")] {
        let answer = world.set(&ada, json!({"settings": {"otp_fraud_allow": wrong}})).await;
        answer.fault("/settings/otp_fraud_allow", code);
    }
    let open = json!({"settings": {"otp_fraud_allow": ["DE", "+3361234"]}});
    let shown = world.set(&ada, open).await.ok();
    assert_eq!(shown.field("settings")["otp_fraud_allow"], json!(["DE", "+3361234"]));
    ada.send(&more).await.ok();
}

async fn a_verification_made_elsewhere_is_one(world: &World) {
    let ada = ada(world).await;
    let id = pump(&ada, 1, 0).await.remove(0);
    let path = format!("/v1/otp/{id}/verified");
    let told = ada.call("POST", &path).header("idempotency-key", "one").await.ok();
    assert_eq!((told.word("status"), told.word("challenge_id")), ("verified", id.as_str()));
    assert_eq!(ada.challenge(&id).await.ok().body, told.body, "as the GET shows it");
    ada.call("POST", &path).header("idempotency-key", "one").await.ok();
    ada.call("POST", &path).json(json!({})).await.ok();
    // A key stands for what changed nothing, too.
    ada.call("POST", &path).header("idempotency-key", "two").await.ok();
    let repeat = ada.call("POST", &path).header("idempotency-key", "two").await.ok();
    assert_eq!(repeat.head("idempotent-replayed"), "true");
    let other = format!("/v1/otp/{}/verified", pump(&ada, 1, 2).await.remove(0));
    let reused = ada.call("POST", &other).header("idempotency-key", "two").await;
    reused.problem("idempotency_key_reused");
    ada.guess(&id, "0000").await.problem("otp_already_verified");
    let events = ada.get("/v1/events?type=otp.status").await.ok();
    let verified = events.list().iter().filter(|event| event["data"]["status"] == "verified");
    assert_eq!(verified.count(), 1);
    // Too late, not theirs, and nobody's.
    let late = pump(&ada, 1, 1).await.remove(0);
    world.advance(HOUR).await;
    ada.call("POST", &format!("/v1/otp/{late}/verified")).await.problem("otp_expired");
    let eve = world.live_account("eve", 100).await;
    eve.call("POST", &path).await.problem("not_found");
    ada.call("POST", "/v1/otp/otp_nobody/verified").await.problem("not_found");
}

async fn conversion_is_counted_by_country_and_carrier(world: &World) {
    world.give_live_carriers().await;
    let ada = world.live_account("ada", 10_000).await;
    let sms = ada.send(json!({"to": phone("5001"), "delivery_mode": "sms", "code": "4821"}));
    let sms = sms.await.ok();
    ada.guess(sms.word("challenge_id"), "1111").await.problem("otp_code_invalid");
    ada.guess(sms.word("challenge_id"), "4821").await.ok();
    // The chat-app takes it and says later that it failed: another carrier has it then.
    let fallen = ada.send(json!({"to": phone("0002"), "code": "4821"})).await.ok();
    let id = fallen.word("challenge_id");
    world.advance(3_100).await;
    ada.until(id, |now| now["channel"] == "sms" && now["status"] == "delivered").await;
    ada.guess(id, "4821").await.ok();
    // What a carrier refuses it does not have.
    let refused = json!({"to": phone("0004"), "delivery_mode": "sms"});
    ada.send(refused).await.problem("recipient_unreachable");
    let page = world.metrics().await.ok().text;
    let count = |carrier: &str, outcome: &str| {
        let of = format!("country=\"FR\",carrier=\"{carrier}\",outcome=\"{outcome}\"}}");
        let line = page.lines().find(|line| line.contains("otp_conversion") && line.contains(&of));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).unwrap_or(0)
    };
    let all = |carrier: &str| ["sent", "taken", "verified"].map(|outcome| count(carrier, outcome));
    assert_eq!(all("simulated-chatapp"), [1, 1, 0], "{page}");
    assert_eq!(all("simulated-sms"), [2, 2, 2], "{page}");
}

async fn conversion_is_shown_by_country_and_day(world: &World) {
    let ada = ada(world).await;
    let ids = pump(&ada, 4, 0).await;
    ada.call("POST", &format!("/v1/otp/{}/verified", ids[0])).await.ok();
    ada.send(json!({"to": phone("5900"), "delivery_mode": "sms", "code": "4821"})).await.ok();
    ada.verify(json!({"to": phone("5900"), "code": "4821"})).await.ok();
    let eve = world.live_account("eve", 100).await;
    ada.desk("GET", "/v1/otp/conversion").await.ok();
    world.advance(DAY).await;
    ada.send(json!({"to": "+447400123456", "delivery_mode": "sms"})).await.ok();
    let shown = ada.get("/v1/otp/conversion").await.ok();
    let line = |day: &str, country: &str, sent: i64, verified: i64, share: f64| {
        json!({"day": day, "country": country, "sent": sent, "verified": verified,
            "conversion": share})
    };
    let both = [line("2026-01-02", "GB", 1, 0, 0.0), line("2026-01-01", "FR", 5, 2, 0.4)];
    assert_eq!(shown.list(), both);
    let path = "/v1/otp/conversion?since=2026-01-02T00:00:00Z&country=GB";
    assert_eq!(ada.get(path).await.ok().list(), &both[..1]);
    ada.get("/v1/otp/conversion?since=yesterday").await.problem("invalid_request");
    for country in ["fr", "France", "UK"] {
        let path = format!("/v1/otp/conversion?country={country}");
        let refused = ada.get(&path).await.problem("invalid_request");
        assert_eq!(refused.item("?country").as_deref(), Some("invalid_enum"), "{}", refused.text);
    }
    let first = ada.get("/v1/otp/conversion?limit=1").await.ok();
    assert_eq!(first.list(), &both[..1]);
    let link = first.head("link");
    let next = link.trim_start_matches('<').split('>').next().unwrap();
    let last = ada.get(next).await.ok();
    assert_eq!((last.list(), last.head("link")), (&both[1..], ""));
    assert!(eve.get("/v1/otp/conversion").await.ok().list().is_empty());
    world.advance(63 * DAY).await;
    world.housekeep().await;
    let path = "/v1/otp/conversion?since=2026-01-01T00:00:00Z";
    assert!(ada.get(path).await.ok().list().is_empty(), "not kept for ever");
}

async fn nothing_is_guarded_where_the_guard_is_off(world: &World) {
    let ada = ada(world).await;
    pump(&ada, 12, 0).await;
    world.advance(1_100).await;
    assert!(events(&ada).await.is_empty());
}
