//! STOP and START: who is not written to any more, by whom, and until when.

use clock::{DAY, HOUR, Millis};
use estafette::carriers::{Channel, Inbound};
use estafette::inbound::opt_outs::{self, OPTED_OUT};
use estafette::kit::id::AccountId;
use estafette::kit::msisdn::Msisdn;
use serde_json::json;
use store::{CommitError, WriteSet};

use super::{at, bring, reply, reply_by_sms, sms, sms_for, texts};
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::{Tenant, phone};

on_every_engine!(
    stop_silences_an_account_and_start_lifts_it,
    stop_on_one_channel_holds_for_all,
    a_passcode_still_reaches_who_said_stop,
    the_last_word_holds_in_whatever_order_it_comes,
    a_clock_that_is_ahead_does_not_decide,
    who_has_no_number_cannot_opt_out,
    an_opt_out_outlives_the_person_and_time,
);

/// Whether a channel may write to a person: the guard in a write set of its own.
async fn may_write(ada: &Tenant<'_>, to: &str) -> bool {
    let app = ada.world.app(ada.env).await;
    let account = AccountId::parse(&ada.account_id).unwrap();
    let mut set = WriteSet::of(account.as_str());
    opt_outs::guard(&app, &mut set, &account, &Msisdn::parse(to).unwrap());
    match app.db.commit(set).await {
        Ok(_) => true,
        Err(CommitError::Rejected(OPTED_OUT)) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn stop_silences_an_account_and_start_lifts_it(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let (ana, ben) = (phone("5678"), phone("5679"));
    assert!(may_write(&ada, &ana).await);
    reply_by_sms(&ada, &ana, "START").await;
    assert!(may_write(&ada, &ana).await, "START without STOP is a message like any other");
    for text in ["Arrêt !", "STOP"] {
        reply_by_sms(&ada, &ana, text).await;
        assert!(!may_write(&ada, &ana).await, "{text}");
    }
    assert!(may_write(&ada, &ben).await && may_write(&eve, &ana).await, "nobody else is meant");
    reply_by_sms(&ada, &ana, "Please stop bothering me").await;
    reply_by_sms(&ada, &ana, "start").await;
    assert!(may_write(&ada, &ana).await);
    reply_by_sms(&ada, &ana, "Stop. Thank you").await;
    assert!(may_write(&ada, &ana).await, "a keyword is the whole message");
    assert_eq!(texts(&ada).await.len(), 6, "all of it is delivered");
}

async fn stop_on_one_channel_holds_for_all(world: &World) {
    let ada = world.account("ada").await;
    reply(&ada, &phone("5678"), json!({"text": "stop"})).await.ok();
    assert!(!may_write(&ada, &phone("5678")).await);
    reply_by_sms(&ada, &phone("5678"), "Reprendre").await;
    assert!(may_write(&ada, &phone("5678")).await);
}

async fn a_passcode_still_reaches_who_said_stop(world: &World) {
    let ada = world.account("ada").await;
    reply_by_sms(&ada, &phone("5678"), "STOP").await;
    assert!(!may_write(&ada, &phone("5678")).await);
    for mode in ["auto", "sms"] {
        ada.send(json!({"to": phone("5678"), "delivery_mode": mode})).await.ok();
    }
    assert_eq!(ada.handset(&phone("5678")).await.len(), 2);
}

async fn the_last_word_holds_in_whatever_order_it_comes(world: &World) {
    let ada = world.account("ada").await;
    let ana = phone("5678");
    let start_of_story = world.now();
    world.advance(HOUR).await;
    let say = |id: &str, text: &str, minute: i64| {
        at(sms_for(&ada, id, &ana, text), start_of_story + minute * clock::MINUTE)
    };
    bring(world, &[say("3", "START", 30)]).await.unwrap();
    bring(world, &[say("2", "STOP", 20)]).await.unwrap();
    assert!(may_write(&ada, &ana).await, "the STOP that comes late was said before");
    bring(world, &[say("5", "STOP", 50)]).await.unwrap();
    bring(world, &[say("4", "START", 40)]).await.unwrap();
    assert!(!may_write(&ada, &ana).await);
    // Carriers count seconds: of two in one that come together, STOP holds, whichever is first.
    bring(world, &[say("6", "START", 55), say("7", "STOP", 55)]).await.unwrap();
    assert!(!may_write(&ada, &ana).await);
    bring(world, &[say("8", "STOP", 57), say("9", "START", 57)]).await.unwrap();
    assert!(!may_write(&ada, &ana).await);
    bring(world, &[say("3", "START", 30), say("6", "START", 55)]).await.unwrap();
    assert!(!may_write(&ada, &ana).await, "what is brought again changes nothing");
}

async fn a_clock_that_is_ahead_does_not_decide(world: &World) {
    let ada = world.account("ada").await;
    let ana = phone("5678");
    let ahead = at(sms_for(&ada, "1", &ana, "STOP"), Millis(i64::MAX));
    let long_ago = at(sms_for(&ada, "2", &phone("5679"), "STOP"), Millis(i64::MIN));
    bring(world, &[ahead, long_ago]).await.unwrap();
    assert!(!may_write(&ada, &ana).await && !may_write(&ada, &phone("5679")).await);
    world.advance(1_000).await;
    for to in [&ana, &phone("5679")] {
        reply_by_sms(&ada, to, "START").await;
        assert!(may_write(&ada, to).await, "a STOP of the future would hold for ever");
    }
}

async fn who_has_no_number_cannot_opt_out(world: &World) {
    let ada = world.account("ada").await;
    for (id, from) in [("1", "38000"), ("2", "INFO"), ("3", "")] {
        bring(world, &[sms_for(&ada, id, from, "STOP")]).await.unwrap();
    }
    assert_eq!(texts(&ada).await, ["STOP"; 3]);
    let db = world.app(ada.env).await.db.clone();
    let sql = store::Sql("SELECT COUNT(*) FROM opt_outs");
    assert_eq!(db.row::<(i64,)>(sql, store::args![]).await.unwrap(), Some((0,)));
    let chatapp =
        Inbound { channel: Channel::Chatapp, ..sms_for(&ada, "5", "33612345678", "STOP") };
    bring(world, &[chatapp]).await.unwrap();
    assert!(!may_write(&ada, &phone("5678")).await);
}

async fn an_opt_out_outlives_the_person_and_time(world: &World) {
    let ada = world.account("ada").await;
    let (ana, ben) = (phone("5678"), phone("5679"));
    let stop = reply(&ada, &ana, json!({"text": "STOP"}));
    stop.header("idempotency-key", &format!("stop of {}", &ana[1..])).await.ok();
    reply_by_sms(&ada, &ben, "STOP").await;
    reply_by_sms(&ada, &ben, "START").await;
    // For nobody: it is erased with the rest.
    bring(world, &[sms(world, "1", (&ana, "36180"), "hello?")]).await.unwrap();
    let erasure = world.post(ada.env, "/v1/admin/erasures").bearer(world.staff().await);
    let erased = erasure.json(json!({"phone": ana})).await.ok();
    assert_eq!(erased.number("inbound_notifications"), 2, "{}", erased.text);
    assert_eq!(erased.number("idempotency_keys"), 1, "{}", erased.text);
    assert_eq!(texts(&ada).await, ["START", "STOP"], "what Ben wrote is there");
    let told = ada.get("/v1/events").await.ok();
    assert!(!told.text.contains(&ana[1..]) && told.text.contains(&ben[1..]), "{}", told.text);
    assert!(!may_write(&ada, &ana).await);
    world.advance(91 * DAY).await;
    world.housekeep().await;
    let db = world.app(ada.env).await.db.clone();
    for (sql, left) in [
        ("SELECT COUNT(*) FROM idempotency", 0),
        ("SELECT COUNT(*) FROM inbound", 0),
        ("SELECT COUNT(*) FROM inbound_seen", 0),
        ("SELECT COUNT(*) FROM opt_outs", 1),
    ] {
        let found = db.row::<(i64,)>(store::Sql(sql), store::args![]).await.unwrap();
        assert_eq!(found, Some((left,)), "{sql}");
    }
    assert!(!may_write(&ada, &ana).await && may_write(&ada, &ben).await);
}
