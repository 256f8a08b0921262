//! Whom a message is for: one account, or nobody.

use clock::{HOUR, MINUTE};
use estafette::app::Env;
use estafette::carriers::{Channel, Inbound};
use serde_json::json;
use store::{Sql, WriteSet, args};

use super::{PATH, bring, counted, reply_by_sms, sms, texts};
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::{Tenant, other_than, phone};

on_every_engine!(
    a_message_is_for_the_owner_of_the_number,
    else_for_who_wrote_last_within_72_hours,
    who_only_tried_to_write_is_not_answered,
    who_waits_to_write_is_not_answered,
    a_reply_finds_whoever_wrote_whatever_way_the_passcode_took_since,
    a_stop_counts_after_the_passcode_fell_back_to_sms,
    a_shared_number_is_decided_among_its_owners,
    a_message_for_nobody_is_parked_and_counted,
    the_environments_do_not_hear_each_other,
    a_reply_of_a_handset_is_its_accounts,
);

/// Asks for a sender and has it decided.
async fn own(ada: &Tenant<'_>, value: &str, status: &str) {
    let asked = ada.desk("POST", "/v1/senders").json(json!({"value": value})).await.ok();
    let path = format!("/v1/admin/senders/{}", asked.word("id"));
    let staff = ada.world.staff().await;
    let decision = json!({"status": status});
    ada.world.patch(ada.env, &path).bearer(staff).json(decision).await.ok();
}

async fn a_message_is_for_the_owner_of_the_number(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    own(&ada, "+33757000000", "approved").await;
    own(&ada, "38000", "approved").await;
    own(&eve, "+33757000001", "rejected").await;
    // Eve wrote to the person last, and is not meant.
    eve.send(json!({"to": phone("5678"), "delivery_mode": "sms"})).await.ok();
    for (id, to) in [("1", "+33757000000"), ("2", "33757000000"), ("3", "38000")] {
        bring(world, &[sms(world, id, ("33612345678", to), to)]).await.unwrap();
    }
    assert_eq!(texts(&ada).await, ["38000", "33757000000", "+33757000000"]);
    let rows = ada.get(PATH).await.ok();
    let of = |name: &str| -> Vec<_> { rows.list().iter().map(|row| row[name].clone()).collect() };
    assert_eq!(of("recipient"), ["38000", "+33757000000", "+33757000000"]);
    assert_eq!(of("sender"), [phone("5678"), phone("5678"), phone("5678")]);
    assert!(texts(&eve).await.is_empty());
    let stranger = sms(world, "4", ("+33699999999", "+33757000001"), "to a rejected sender");
    bring(world, &[stranger]).await.unwrap();
    assert!(texts(&eve).await.is_empty(), "a rejected sender owns nothing");
}

async fn else_for_who_wrote_last_within_72_hours(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let by_sms = json!({"to": phone("5678"), "delivery_mode": "sms"});
    let hear = async |id: &str| {
        bring(world, &[sms(world, id, ("33612345678", "36180"), id)]).await.unwrap();
    };
    ada.send(&by_sms).await.ok();
    hear("to ada").await;
    eve.send(&by_sms).await.ok();
    hear("to eve").await;
    // The chat-app is another conversation.
    ada.send_to(&phone("5678")).await.ok();
    hear("to eve, too").await;
    world.advance(71 * HOUR).await;
    hear("to eve, just in time").await;
    world.advance(HOUR).await;
    hear("to nobody").await;
    assert_eq!(texts(&ada).await, ["to ada"]);
    assert_eq!(texts(&eve).await, ["to eve, just in time", "to eve, too", "to eve"]);
    assert_eq!(counted(world, "sms", "parked").await, 1);
}

async fn who_only_tried_to_write_is_not_answered(world: &World) {
    let ada = world.account("ada").await;
    let failing = phone("0021");
    let sent = ada.send(json!({"to": failing, "delivery_mode": "sms"})).await.ok();
    ada.until(sent.word("challenge_id"), |c| c["status"] == "failed").await;
    bring(world, &[sms(world, "1", (&failing, "36180"), "hello")]).await.unwrap();
    assert!(texts(&ada).await.is_empty());
    // Wrong guesses end a passcode that did arrive.
    let sent = ada.send(json!({"to": phone("5678"), "delivery_mode": "sms"})).await.ok();
    let code = ada.code_on(&phone("5678")).await;
    for _ in 0..5 {
        ada.guess(sent.word("challenge_id"), &other_than(&code)).await;
    }
    bring(world, &[sms(world, "2", (&phone("5678"), "36180"), "what is this?")]).await.unwrap();
    assert_eq!(texts(&ada).await, ["what is this?"]);
}

async fn who_waits_to_write_is_not_answered(world: &World) {
    let (ada, eve) = (world.sender("ada").await, world.sender("eve").await);
    let to = phone("5678");
    for tenant in [&ada, &eve] {
        let sent = tenant.text(json!({"to": to, "text": "hi"})).await.ok();
        tenant.sms_until(sent.word("id"), "delivered").await;
    }
    bring(world, &[sms(world, "1", (&to, "36180"), "to the last one")]).await.unwrap();
    assert_eq!(texts(&eve).await, ["to the last one"], "control");
    // As if no carrier had taken Eve's yet.
    let db = world.app(ada.env).await.db.clone();
    let stand = async |status: &str, state: &str| {
        let mut set = WriteSet::of("story");
        let of = |word: &str| args![word, eve.account_id.as_str()];
        set.push(Sql("UPDATE sms_messages SET status = $1 WHERE account_id = $2"), of(status));
        set.push(Sql("UPDATE attempts SET state = $1 WHERE account_id = $2"), of(state));
        db.commit(set).await.unwrap();
    };
    stand("queued", "queued").await;
    bring(world, &[sms(world, "2", (&to, "36180"), "STOP")]).await.unwrap();
    assert_eq!(texts(&ada).await, ["STOP"]);
    assert_eq!(texts(&eve).await.len(), 1);
    stand("delivered", "delivered").await;
}

async fn a_reply_finds_whoever_wrote_whatever_way_the_passcode_took_since(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let hear = async |id: &str| {
        let words = sms(world, id, ("33612345678", "36180"), id);
        bring(world, &[Inbound { channel: Channel::Chatapp, ..words }]).await.unwrap();
    };
    eve.send_to(&phone("5678")).await.ok();
    world.advance(MINUTE).await;
    ada.send_to(&phone("5678")).await.ok();
    hear("to ada").await;
    world.advance(MINUTE).await;
    ada.send(json!({"to": phone("5678"), "delivery_mode": "sms"})).await.ok();
    hear("to ada, still").await;
    assert_eq!(texts(&ada).await, ["to ada, still", "to ada"]);
    assert!(texts(&eve).await.is_empty());
}

async fn a_stop_counts_after_the_passcode_fell_back_to_sms(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0003");
    let sent = ada.send_to(&to).await.ok();
    world.advance(20_000).await;
    ada.until(sent.word("challenge_id"), |c| c["channel"] == "sms").await;
    let stop = sms(world, "1", (&to, "36180"), "STOP");
    bring(world, &[Inbound { channel: Channel::Chatapp, ..stop }]).await.unwrap();
    assert_eq!(texts(&ada).await, ["STOP"]);
    ada.text(json!({"to": to, "text": "Our offers"})).await.problem("recipient_opted_out");
}

async fn a_shared_number_is_decided_among_its_owners(world: &World) {
    let (ada, bob) = (world.account("ada").await, world.account("bob").await);
    let eve = world.account("eve").await;
    for owner in [&ada, &bob] {
        own(owner, "36180", "approved").await;
    }
    let by_sms = json!({"to": phone("5678"), "delivery_mode": "sms"});
    eve.send(&by_sms).await.ok();
    bring(world, &[sms(world, "1", ("33612345678", "36180"), "for whom?")]).await.unwrap();
    assert_eq!(counted(world, "sms", "parked").await, 1, "neither owner wrote to this person");
    bob.send(&by_sms).await.ok();
    eve.send(&by_sms).await.ok();
    bring(world, &[sms(world, "2", ("33612345678", "36180"), "for bob")]).await.unwrap();
    assert_eq!(texts(&bob).await, ["for bob"]);
    assert!(texts(&ada).await.is_empty() && texts(&eve).await.is_empty());
}

async fn a_message_for_nobody_is_parked_and_counted(world: &World) {
    let ada = world.account("ada").await;
    bring(world, &[sms(world, "1", ("33612345678", "36180"), "STOP")]).await.unwrap();
    assert!(texts(&ada).await.is_empty());
    assert_eq!(counted(world, "sms", "parked").await, 1);
    assert_eq!(counted(world, "sms", "stored").await, 0);
    let events = ada.get("/v1/events").await.ok();
    assert!(events.list().is_empty(), "{}", events.text);
    let path = "/v1/admin/inbound-notifications";
    let parked = world.get(Env::Live, path).bearer(world.staff().await).await.ok();
    assert_eq!(parked.list().len(), 1);
    assert_eq!(parked.list()[0]["message"], "STOP", "it is not lost");
    world.get(Env::Live, path).bearer(&ada.token).await.problem("invalid_token");
    // Who owns the number later does not get what was brought before, once more.
    own(&ada, "36180", "approved").await;
    bring(world, &[sms(world, "1", ("33612345678", "36180"), "STOP")]).await.unwrap();
    assert!(texts(&ada).await.is_empty());
}

async fn the_environments_do_not_hear_each_other(world: &World) {
    let ada = world.account("ada").await;
    let live = ada.on_live().await;
    own(&ada, "36180", "approved").await;
    ada.send(json!({"to": phone("5678"), "delivery_mode": "sms"})).await.ok();
    let on_live = world.app(Env::Live).await;
    let message = sms(world, "1", ("33612345678", "36180"), "from a real phone");
    estafette::inbound::take_in(&on_live, &[message]).await.unwrap();
    assert!(texts(&ada).await.is_empty() && texts(&live).await.is_empty());
    own(&live, "36180", "approved").await;
    let message = sms(world, "2", ("33612345678", "36180"), "for the live account");
    estafette::inbound::take_in(&on_live, &[message]).await.unwrap();
    assert_eq!(texts(&live).await, ["for the live account"]);
    assert!(texts(&ada).await.is_empty());
}

async fn a_reply_of_a_handset_is_its_accounts(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    own(&eve, "Boutique", "approved").await;
    let body = json!({"to": phone("5678"), "delivery_mode": "sms", "sms_sender": "Boutique"});
    eve.send(body).await.ok();
    reply_by_sms(&ada, &phone("5678"), "to ada").await;
    reply_by_sms(&eve, &phone("5678"), "to eve").await;
    assert_eq!(
        (texts(&ada).await, texts(&eve).await),
        (vec!["to ada".to_owned()], vec!["to eve".to_owned()])
    );
    let row = eve.get(PATH).await.ok().list()[0].clone();
    assert_eq!(row["recipient"], "Boutique", "it answers who wrote last");
}
