//! The outcomes that the addresses of the sandbox script.

use clock::MINUTE;
use serde_json::{Value, json};

use super::{fixed, mail, mailbox, read, send, until};
use crate::on_every_engine;
use crate::world::tenant::Tenant;
use crate::world::{Answer, World, eventually};

on_every_engine!(
    a_bounce_is_told_and_stays_charged,
    what_the_relay_refuses_costs_nothing,
    what_the_relay_puts_off_goes_out_later,
    what_a_killed_process_had_on_its_way_goes_again_within_seconds,
    a_lost_answer_sends_it_once_more_with_the_same_message_id,
    a_complaint_suppresses_who_got_it,
    fates_of_recipients_are_their_own,
    an_event_of_an_email_to_very_many_shows_whom_it_is_about,
);

/// Sends to an address with a fixed outcome, and answers the email when it stands so.
async fn sent(ada: &Tenant<'_>, word: &str, status: &str) -> Answer {
    let sent = send(ada, mail(&fixed(word))).await.ok();
    until(ada, sent.word("id"), status).await
}

fn error(answer: &Answer) -> &Value {
    &answer.field("recipients")[0]["error"]
}

async fn a_bounce_is_told_and_stays_charged(world: &World) {
    let ada = world.account("ada").await;
    for (word, code, detail) in [
        ("bounced", "mailbox_unavailable", "550 5.1.1 no such user"),
        ("full", "undeliverable", "552 5.2.2 mailbox full"),
    ] {
        let now = sent(&ada, word, "bounced").await;
        assert_eq!(error(&now), &json!({"code": code, "detail": detail}));
        assert_eq!(now.number("charged_credits"), 1);
    }
    // Fixed outcomes stay as they are; a label makes it somebody's address.
    sent(&ada, "bounced", "bounced").await;
    sent(&ada, "bounced+ada", "bounced").await;
    sent(&ada, "Bounced+Ada", "suppressed").await;
    sent(&ada, "bounced+bob", "bounced").await;
    sent(&ada, "full+ada", "bounced").await;
    sent(&ada, "full+ada", "bounced").await;
}

async fn what_the_relay_refuses_costs_nothing(world: &World) {
    let ada = world.account("ada").await;
    for (word, status, code) in [
        ("rejected", "bounced", "mailbox_unavailable"),
        ("failed", "failed", "relay_rejected"),
        ("suppressed", "suppressed", "suppressed"),
    ] {
        let now = sent(&ada, word, status).await;
        assert_eq!((&error(&now)["code"], now.number("charged_credits")), (&json!(code), 0));
    }
    assert_eq!(ada.balance().await, 1_000_000);
}

/// An email that the relay has put off once.
async fn put_off(world: &World, ada: &Tenant<'_>) -> String {
    let sent = send(ada, mail(&fixed("deferred"))).await.ok();
    let is_put_off =
        store::Sql("SELECT error FROM attempts WHERE queued_at IS NULL AND next_at > $1");
    eventually(async || {
        let app = world.app(ada.env).await;
        let rows = app.db.rows::<(Option<String>,)>(is_put_off, store::args![app.now() + MINUTE]);
        (rows.await.unwrap() == [(Some("451 4.7.1 come back later".to_owned()),)]).then_some(())
    })
    .await;
    sent.word("id").to_owned()
}

async fn what_a_killed_process_had_on_its_way_goes_again_within_seconds(world: &World) {
    let ada = world.account("ada").await;
    let sent = put_off(world, &ada).await;
    // As a process leaves it that was killed while it spoke to the relay.
    let app = world.app(ada.env).await;
    let mut set = store::WriteSet::of("story");
    let on_its_way = "UPDATE attempts SET state = 'sending', node = 4242, lease_until = $1, \
         next_at = $1 WHERE state = 'queued'";
    set.push(store::Sql(on_its_way), store::args![app.now()]);
    app.db.commit(set).await.unwrap();
    for _ in 0..10 {
        world.advance(500).await;
    }
    until(&ada, &sent, "delivered").await;
    assert_eq!(mailbox(&ada, &fixed("deferred")).await.len(), 1);
}

async fn what_the_relay_puts_off_goes_out_later(world: &World) {
    let ada = world.account("ada").await;
    let sent = &*put_off(world, &ada).await;
    assert_eq!(read(&ada, sent).await.ok().word("status"), "queued");
    // A restart forgets nothing, and the first pause is five minutes.
    world.restart_after(4 * MINUTE).await;
    assert!(mailbox(&ada, &fixed("deferred")).await.is_empty());
    world.advance(2 * MINUTE).await;
    // The relay that began again does not know it either.
    let now = eventually(async || {
        world.advance(6 * MINUTE).await;
        Some(read(&ada, sent).await.ok()).filter(|now| now.word("status") == "delivered")
    });
    assert_eq!(now.await.number("charged_credits"), 1);
    assert_eq!(mailbox(&ada, &fixed("deferred")).await.len(), 1);
}

async fn a_lost_answer_sends_it_once_more_with_the_same_message_id(world: &World) {
    let ada = world.account("ada").await;
    let sent = send(&ada, mail(&fixed("lost"))).await.ok();
    let is_unknown = store::Sql("SELECT error FROM attempts WHERE state = 'unknown'");
    eventually(async || {
        let app = world.app(ada.env).await;
        let rows = app.db.rows::<(Option<String>,)>(is_unknown, store::args![]).await.unwrap();
        (rows.len() == 1).then_some(())
    })
    .await;
    assert_eq!(read(&ada, sent.word("id")).await.ok().word("status"), "queued");
    world.advance(2 * MINUTE).await;
    until(&ada, sent.word("id"), "delivered").await;
    assert_eq!(mailbox(&ada, &fixed("lost")).await.len(), 1);
    assert_eq!(ada.movements().await.len(), 2);
}

async fn a_complaint_suppresses_who_got_it(world: &World) {
    let ada = world.account("ada").await;
    let now = sent(&ada, "complained+ada", "delivered").await;
    assert_eq!(error(&now)["code"], "complained");
    let list = ada.get("/v1/email-suppressions").await.ok();
    let [listed] = list.list() else { panic!("{}", list.text) };
    assert_eq!(listed["reason"], "complained");
    sent(&ada, "complained+ada", "suppressed").await;
}

async fn fates_of_recipients_are_their_own(world: &World) {
    let ada = world.account("ada").await;
    let words = ["delivered", "bounced", "failed", "suppressed", "rejected"];
    let mut body = mail("ada@example.com");
    body["to"] = json!(words.map(fixed));
    let sent = send(&ada, body).await.ok();
    let now = until(&ada, sent.word("id"), "bounced").await;
    let stands = |row: &Value| row["status"].as_str().unwrap().to_owned();
    let all: Vec<String> = now.field("recipients").as_array().unwrap().iter().map(stands).collect();
    assert_eq!(all, ["delivered", "bounced", "failed", "suppressed", "bounced"]);
    assert_eq!(now.number("charged_credits"), 2);
    assert_eq!(ada.balance().await, 1_000_000 - 2);
}

async fn an_event_of_an_email_to_very_many_shows_whom_it_is_about(world: &World) {
    let ada = world.account("ada").await;
    // As long as names and addresses may be: together they do not fit into an event.
    let (name, label) = ("𠀀".repeat(200), "d".repeat(60));
    let domain = format!("{label}.{label}.{label}.example.com");
    let to = |number: usize| format!("{name} <{number:050}@{domain}>");
    let to: Vec<String> = (0..50).map(to).collect();
    let mut body = mail("ada@example.com");
    body["to"] = json!(to);
    let sent = send(&ada, &body).await.ok();
    until(&ada, sent.word("id"), "delivered").await;
    let events = ada.get("/v1/events?type=email.delivery&limit=200").await.ok();
    assert!(events.list().len() >= 50);
    for event in events.list() {
        let data = &event["data"];
        assert_eq!((&data["id"], &data["truncated"]), (&json!(sent.word("id")), &json!(true)));
        let about = data["recipient"]["address"].as_str().unwrap();
        assert_eq!(data["to"], json!([format!("{name} <{about}>")]));
        assert_eq!(data["recipients"], json!([data["recipient"]]));
        assert!(data["status"].is_string() && data["sequence"].is_i64(), "{data}");
    }
    assert_eq!(read(&ada, sent.word("id")).await.ok().field("to"), &json!(to));
    // An ordinary one is whole.
    body["to"] = json!((0..50).map(|number| format!("to{number}@example.com")).collect::<Vec<_>>());
    let small = send(&ada, &body).await.ok();
    until(&ada, small.word("id"), "delivered").await;
    let events = ada.get("/v1/events?type=email.delivery&limit=1").await.ok();
    let data = &events.list()[0]["data"];
    assert_eq!((&data["truncated"], data["to"].as_array().unwrap().len()), (&json!(null), 50));
}
