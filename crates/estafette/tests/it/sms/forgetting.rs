//! What is forgotten of a message: its text as soon as no carrier needs it, its recipient after a
//! time or when the person asks, the rest at last.

use clock::{DAY, MINUTE};
use estafette::app::Env;
use estafette::config::Config;
use serde_json::json;
use store::{FromVal, Sql, args};

use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    a_text_is_sealed_and_kept_only_until_a_carrier_has_it,
    an_old_recipient_of_sms_becomes_a_pseudonym with kept_as_on_live,
    old_messages_are_deleted_and_the_ledger_still_adds_up with kept_for_a_while,
    messages_of_the_sandbox_are_deleted_after_a_month,
    an_erased_recipient_is_sent_nothing_and_pays_nothing,
    an_erasure_of_what_was_sent_leaves_the_money_and_no_number,
);

const TEXT: &str = "The cat sat on the mat.";

fn kept_as_on_live(config: &mut Config) {
    config.retention.sandbox_d = config.retention.challenges_d;
}

/// The audit log is kept for longer.
fn kept_for_a_while(config: &mut Config) {
    config.retention.challenges_d = 100;
    config.retention.sandbox_d = 100;
}

async fn one<T: FromVal>(world: &World, sql: &'static str) -> T {
    let db = world.app(Env::Live).await.db.clone();
    db.row::<(T,)>(Sql(sql), args![]).await.unwrap().unwrap().0
}

const TEXTS: &str = "SELECT COUNT(*) FROM sms_messages WHERE text_sealed IS NOT NULL";
const NUMBERS: &str = "SELECT COUNT(*) FROM sms_messages WHERE recipient LIKE '+%'";
const MESSAGES: &str = "SELECT COUNT(*) FROM sms_messages";

async fn a_text_is_sealed_and_kept_only_until_a_carrier_has_it(world: &World) {
    let ada = world.account("ada").await;
    // Nobody throttles for ever: it is queued for a moment at least.
    for ending in ["0006", "0004", "5678", "0007", "0021"] {
        ada.text(json!({"to": phone(ending), "text": TEXT})).await.ok();
        let db = world.app(Env::Live).await.db.clone();
        let sealed: Vec<(Option<Vec<u8>>,)> =
            db.rows(Sql("SELECT text_sealed FROM sms_messages"), args![]).await.unwrap();
        let holds = |bytes: &[u8]| bytes.windows(3).any(|window| window == b"cat");
        assert!(!sealed.into_iter().filter_map(|(text,)| text).any(|text| holds(&text)));
    }
    eventually(async || {
        world.advance(1_000).await;
        (one::<i64>(world, TEXTS).await == 0).then_some(())
    })
    .await;
}

async fn an_old_recipient_of_sms_becomes_a_pseudonym(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "text": TEXT, "reference": "for 5678"});
    let sent = ada.text(body).await.ok();
    let id = sent.word("id");
    ada.sms_until(id, "delivered").await;
    world.advance(89 * DAY).await;
    world.housekeep().await;
    assert_eq!(ada.sms(id).await.ok().word("to"), phone("5678"));
    world.advance(2 * DAY).await;
    world.housekeep().await;
    let read = ada.sms(id).await.ok();
    assert_eq!((read.word("to"), read.field("reference")), ("", &json!(null)));
    assert_eq!(read.word("status"), "delivered");
    assert_eq!(one::<i64>(world, NUMBERS).await, 0);
    let stored: String = one(world, "SELECT recipient FROM sms_messages").await;
    assert!(stored.starts_with("FR~") && stored.len() == 35, "{stored}");
    let found = ada.get(&format!("/v1/messages?to={}", &phone("5678")[1..])).await.ok();
    assert!(found.list().is_empty());
}

async fn old_messages_are_deleted_and_the_ledger_still_adds_up(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["5678", "0004", "0021"] {
        let sent = ada.text(json!({"to": phone(ending), "text": TEXT})).await.ok();
        // What has not gone out by then never does, and is given back.
        let id = sent.word("id");
        eventually(async || {
            Some(ada.sms(id).await.ok()).filter(|now| now.word("status") != "queued")
        })
        .await;
    }
    world.advance(101 * DAY).await;
    let young = ada.text(json!({"to": phone("5678"), "text": TEXT})).await.ok();
    ada.sms_until(young.word("id"), "delivered").await;
    world.housekeep().await;
    assert_eq!(one::<i64>(world, MESSAGES).await, 1);
    assert_eq!(one::<i64>(world, "SELECT COUNT(*) FROM attempts").await, 1);
    ada.sms(young.word("id")).await.ok();
    let balance = ada.get("/v1/balance").await.ok();
    assert_eq!(balance.number("balance_credits"), 1_000_000 - 3 * 8);
}

async fn messages_of_the_sandbox_are_deleted_after_a_month(world: &World) {
    let ada = world.account("ada").await;
    ada.text(json!({"to": phone("5678"), "text": TEXT})).await.ok();
    world.advance(29 * DAY).await;
    world.housekeep().await;
    assert_eq!(one::<i64>(world, MESSAGES).await, 1);
    world.advance(2 * DAY).await;
    world.housekeep().await;
    assert_eq!(one::<i64>(world, MESSAGES).await, 0);
}

async fn an_erased_recipient_is_sent_nothing_and_pays_nothing(world: &World) {
    let ada = world.account("ada").await;
    // The carrier throttles it, so it waits.
    let sent = ada.text(json!({"to": phone("0006"), "text": TEXT})).await.ok();
    let id = sent.word("id");
    eventually(async || {
        let sql = "SELECT COUNT(*) FROM attempts WHERE state = 'queued'";
        (one::<i64>(world, sql).await == 1).then_some(())
    })
    .await;
    let erasure = world.post(ada.env, "/v1/admin/erasures").bearer(world.staff().await);
    let erased = erasure.json(json!({"phone": phone("0006")})).await.ok();
    assert_eq!((erased.number("messages"), erased.number("ended")), (1, 1), "{}", erased.text);
    world.advance(MINUTE).await;
    assert!(ada.handset(&phone("0006")).await.is_empty());
    let read = ada.sms(id).await.ok();
    assert_eq!((read.word("status"), &read.field("error")["code"]), ("failed", &json!("erased")));
    assert_eq!((read.word("to"), read.number("charged_credits")), ("", 0));
    assert_eq!((one::<i64>(world, TEXTS).await, one::<i64>(world, NUMBERS).await), (0, 0));
    assert_eq!(ada.balance().await, 1_000_000);
}

async fn an_erasure_of_what_was_sent_leaves_the_money_and_no_number(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0007");
    let body = json!({"to": to, "text": TEXT, "reference": format!("for {to}")});
    let sent = ada.text(body).header("idempotency-key", &to[1..]).await.ok();
    ada.sms_until(sent.word("id"), "submitted").await;
    let erase = async || {
        let call = world.post(ada.env, "/v1/admin/erasures").bearer(world.staff().await);
        call.json(json!({"phone": to})).await.ok()
    };
    let erased = erase().await;
    assert_eq!((erased.number("messages"), erased.number("ended")), (1, 0), "{}", erased.text);
    assert_eq!(erased.number("idempotency_keys"), 1);
    // Its receipts come after that, and still count.
    world.advance(3_100).await;
    let read = ada.sms_until(sent.word("id"), "delivered").await;
    assert_eq!((read.word("to"), read.number("charged_credits")), ("", 8));
    assert_eq!(one::<i64>(world, NUMBERS).await, 0);
    assert_eq!(one::<i64>(world, "SELECT COUNT(*) FROM submissions").await, 0);
    let again = erase().await;
    assert_eq!((again.number("messages"), again.number("idempotency_keys")), (0, 0));
}
