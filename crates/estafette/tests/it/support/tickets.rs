//! A ticket's life as its user sees it.

use std::future::IntoFuture;

use clock::{DAY, MINUTE};
use estafette::app::Env;
use estafette::events::Kind;
use futures_util::future::join_all;
use serde_json::json;

use super::{all_messages, answer, change, each, messages, open, staff, ticket, told, write};
use crate::on_every_engine;
use crate::world::contract::{is_id, is_instant};
use crate::world::{Call, World, eventually};

on_every_engine!(
    a_ticket_is_opened_and_answered,
    a_users_message_opens_a_ticket_again,
    a_resolved_ticket_closes_by_itself with patient_staff,
    messages_are_numbered_without_gaps_whoever_writes_at_once,
    a_repeat_is_no_second_message,
    every_fault_of_a_ticket_is_named,
    a_database_that_is_away_is_no_fault_of_a_field,
    a_message_that_is_there_is_not_refused_because_of_a_read_behind_it,
    events_tell_of_messages_and_changes,
    a_ticket_is_rated_once_and_only_after_it_was_resolved,
    an_account_has_a_bound_of_open_tickets with few_tickets,
);

async fn a_ticket_is_opened_and_answered(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({
        "subject": "No receipts", "category": "delivery", "priority": "high",
        "message": "Since noon.",
    });
    let made = ada.desk("POST", "/v1/support/tickets").json(&body).await.ok();
    let id = made.word("id");
    assert!(is_id("tkt", id) && is_instant(made.word("created_at")), "{}", made.text);
    assert_eq!((made.word("status"), made.word("priority")), ("open", "high"));
    let first = &messages(&ada, id).await[0];
    assert!(is_id("tmg", first["id"].as_str().unwrap()) && first["seq"] == 1, "{first}");
    assert_eq!((&first["sender_type"], &first["message"]), (&json!("user"), &json!("Since noon.")));
    assert_eq!(first["attachments"], json!([]));
    let said = answer(world, id, json!({"message": "We look into it."})).await.ok();
    assert_eq!((said.word("sender_type"), said.number("seq")), ("admin", 2));
    let seen = messages(&ada, id).await;
    assert_eq!(each(&seen, "sender_type"), ["user", "admin"]);
    let names: Vec<&String> = seen[1].as_object().unwrap().keys().collect();
    assert!(!names.iter().any(|name| *name == "internal" || *name == "sender_id"), "{names:?}");
    let listed = ada.desk("GET", "/v1/support/tickets").await.ok();
    assert_eq!(each(listed.list(), "id"), [id]);
    assert_eq!(listed.list()[0]["last_seq"], 2);
    let read = ada.desk("POST", &format!("/v1/support/tickets/{id}/read")).json(json!({"seq": 2}));
    assert_eq!(read.await.ok().number("read_seq"), 2);
    let beyond = format!("/v1/support/tickets/{id}/read");
    ada.desk("POST", &beyond).json(json!({"seq": 9})).await.ok();
    assert_eq!(ticket(&ada, id).await.number("read_seq"), 2, "no further than there is");
    // The live account of the same user is another account.
    let live = ada.on_live().await;
    live.desk("GET", &format!("/v1/support/tickets/{id}")).await.problem("not_found");
}

async fn a_users_message_opens_a_ticket_again(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "b").await;
    for (status, after) in [("pending", "open"), ("on_hold", "on_hold"), ("resolved", "open")] {
        change(world, &id, json!({"status": status})).await.ok();
        answer(world, &id, json!({"message": "staff"})).await.ok();
        assert_eq!(ticket(&ada, &id).await.word("status"), status, "staff's changes nothing");
        write(&ada, &id, "again").await.ok();
        assert_eq!(ticket(&ada, &id).await.word("status"), after, "from {status}");
    }
    assert_eq!(
        change(world, &id, json!({"status": "resolved"})).await.ok().word("status"),
        "resolved"
    );
    assert!(is_instant(ticket(&ada, &id).await.word("resolved_at")));
    change(world, &id, json!({"status": "closed"})).await.ok();
    write(&ada, &id, "too late").await.problem("ticket_closed");
    answer(world, &id, json!({"message": "too late"})).await.problem("ticket_closed");
    change(world, &id, json!({"status": "open"})).await.problem("ticket_closed");
    let body = json!({
        "subject": "a", "category": "c", "priority": "low", "message": "m", "follows": id,
    });
    let next = ada.desk("POST", "/v1/support/tickets").json(&body).await.ok();
    assert_eq!(next.word("follows"), id);
    let eve = world.account("eve").await;
    eve.desk("POST", "/v1/support/tickets").json(&body).await.fault("/follows", "invalid_enum");
}

fn patient_staff(config: &mut estafette::config::Config) {
    config.access.staff_token_s = 30 * 86_400;
}

async fn a_resolved_ticket_closes_by_itself(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "b").await;
    change(world, &id, json!({"status": "resolved"})).await.ok();
    world.advance(7 * DAY - MINUTE).await;
    assert_eq!(ticket(&ada, &id).await.word("status"), "resolved");
    world.advance(2 * MINUTE).await;
    let closed =
        async || Some(ticket(&ada, &id).await).filter(|now| now.word("status") == "closed");
    assert!(is_instant(eventually(closed).await.word("closed_at")));
    let history = staff(world, "GET", &format!("/support/tickets/{id}/history")).await.await.ok();
    let last = &history.list()[0];
    assert_eq!((&last["actor_kind"], &last["became"]), (&json!("service"), &json!("closed")));
}

async fn messages_are_numbered_without_gaps_whoever_writes_at_once(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "b").await;
    let path = format!("/support/tickets/{id}/messages");
    let mut calls: Vec<Call> = vec![];
    for number in 0..30 {
        calls.push(write(&ada, &id, &format!("user {number}")));
        let internal = number % 3 == 0;
        let body = json!({"message": format!("staff {number}"), "internal": internal});
        calls.push(staff(world, "POST", &path).await.json(body));
    }
    let changes = async {
        for status in ["pending", "resolved", "open", "pending"] {
            change(world, &id, json!({"status": status})).await.ok();
        }
    };
    let (answers, ()) =
        tokio::join!(join_all(calls.into_iter().map(IntoFuture::into_future)), changes);
    for answer in answers {
        answer.ok();
    }
    let seen = all_messages(world, &id).await;
    let numbers: Vec<i64> = seen.iter().map(|message| message["seq"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=61).collect::<Vec<i64>>());
    assert_eq!(messages(&ada, &id).await.len(), 51, "all but the notes");
    let page = ada.desk("GET", &format!("/v1/support/tickets/{id}/messages?after_seq=5&limit=7"));
    let page = page.await.ok();
    assert!(page.list().iter().all(|message| message["seq"].as_i64().unwrap() > 5));
    let link = page.head("link").to_owned();
    let next = link.trim_start_matches('<').split('>').next().unwrap().to_owned();
    let next = ada.desk("GET", &next).await.ok();
    assert!(next.list()[0]["seq"].as_i64() > page.list()[6]["seq"].as_i64());
}

async fn a_repeat_is_no_second_message(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "b").await;
    let path = format!("/v1/support/tickets/{id}/messages");
    let body = json!({"message": "once", "client_message_id": "c-1"});
    let calls = (0..12).map(|_| ada.desk("POST", &path).json(&body).into_future());
    let answers = join_all(calls).await;
    let first = answers[0].clone().ok();
    for answer in answers {
        assert_eq!(answer.ok().word("id"), first.word("id"));
    }
    assert_eq!(messages(&ada, &id).await.len(), 2);
    let again = ada.desk("POST", &path).json(json!({"message": "two", "client_message_id": "c-1"}));
    let again = again.await.ok();
    assert_eq!((again.word("message"), again.head("idempotent-replayed")), ("once", "true"));
    // Another person's id is another id.
    let body = json!({"message": "staff", "client_message_id": "c-1"});
    assert_eq!(answer(world, &id, body).await.ok().number("seq"), 3);
    let keyed = || {
        let call = ada.desk("POST", &path).header("idempotency-key", "k");
        call.json(json!({"message": "keyed"}))
    };
    let (one, two) = (keyed().await.ok(), keyed().await.ok());
    assert_eq!((one.word("id"), two.head("idempotent-replayed")), (two.word("id"), "true"));
    let new = |key: &str| {
        let body = json!({"subject": "s", "category": "c", "priority": "low", "message": "m"});
        ada.desk("POST", "/v1/support/tickets").header("idempotency-key", key).json(body)
    };
    let (one, two) = (new("t").await.ok(), new("t").await.ok());
    assert_eq!(one.word("id"), two.word("id"));
    assert_eq!(messages(&ada, &id).await.len(), 4);
    let note = || async {
        let call = staff(world, "POST", &format!("/support/tickets/{id}/messages")).await;
        call.header("idempotency-key", "k").json(json!({"message": "n", "internal": true})).await
    };
    let (one, two) = (note().await.ok(), note().await.ok());
    assert_eq!((one.word("id"), two.head("idempotent-replayed")), (two.word("id"), "true"));
}

async fn every_fault_of_a_ticket_is_named(world: &World) {
    let ada = world.account("ada").await;
    let post = |body| ada.desk("POST", "/v1/support/tickets").json(body);
    let faults = post(json!({"priority": "urgent", "subject": "", "message": " \n", "x": 1})).await;
    let faults = faults.problem("validation_failed");
    for (pointer, code) in [
        ("/priority", "invalid_enum"),
        ("/subject", "too_short"),
        ("/message", "too_short"),
        ("/category", "required"),
        ("/x", "unknown_field"),
    ] {
        assert_eq!(faults.item(pointer).as_deref(), Some(code), "{pointer}: {}", faults.text);
    }
    let body = json!({"priority": "low", "subject": "a\nb", "category": "a\r", "message": "a\nb"});
    let faults = post(body).await.problem("validation_failed");
    assert_eq!(faults.item("/subject").as_deref(), Some("invalid_type"), "{}", faults.text);
    assert_eq!(faults.item("/category").as_deref(), Some("invalid_type"), "{}", faults.text);
    assert_eq!(faults.item("/message"), None, "a message has lines: {}", faults.text);
    let id = open(&ada, "é", &"ü".repeat(10_000)).await;
    write(&ada, &id, &"x".repeat(10_001)).await.fault("/message", "too_long");
    write(&ada, "tkt_01kdv00000000000000000000z", "m").await.problem("not_found");
    write(&ada, "nonsense", "m").await.problem("not_found");
    let list = |query: &str| ada.desk("GET", &format!("/v1/support/tickets?{query}"));
    for query in ["status=new", "priority=1", "assignee=none", "cursor=x", "limit=0"] {
        assert_eq!(list(query).await.status, 400, "{query}");
    }
    let path = format!("/v1/support/tickets/{id}/messages?after_seq=-1");
    ada.desk("GET", &path).await.problem("invalid_request");
    change(world, &id, json!({"status": "new"})).await.fault("/status", "invalid_enum");
    change(world, &id, json!({"assignee": "stf_1"})).await.fault("/assignee", "invalid_type");
    let nobody = json!({"assignee": "stf_01kdv00000000000000000000z"});
    change(world, &id, nobody).await.fault("/assignee", "invalid_enum");
    // Keys of programs open none of it.
    ada.get("/v1/support/tickets").await.problem("missing_credentials");
    let path = "/v1/admin/support/tickets";
    world.get(Env::Live, path).bearer(&ada.token).await.problem("invalid_token");
    world
        .get(ada.env, "/v1/support/tickets")
        .bearer(world.staff().await)
        .await
        .problem("invalid_token");
}

async fn events_tell_of_messages_and_changes(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "first").await;
    let me = staff(world, "GET", "/support/tickets").await.await.ok();
    assert_eq!(me.list().len(), 1);
    answer(world, &id, json!({"message": "a secret note", "internal": true})).await.ok();
    answer(world, &id, json!({"message": "second"})).await.ok();
    change(world, &id, json!({"status": "pending", "priority": "high"})).await.ok();
    change(world, &id, json!({"status": "pending"})).await.ok();
    write(&ada, &id, "third").await.ok();
    let said = told(&ada, "support.message").await;
    assert_eq!(each(&said, "message"), ["first", "second", "third"]);
    assert_eq!(each(&said, "seq"), [1, 3, 4]);
    let changed = told(&ada, "support.ticket").await;
    let status: Vec<&str> = changed.iter().filter_map(|data| data["status"].as_str()).collect();
    assert_eq!(status, ["open", "pending", "open"]);
    assert_eq!(each(&changed, "reason"), ["opened", "status", "status"]);
    for (kind, data) in [(Kind::SupportMessage, &said[1]), (Kind::SupportTicket, &changed[1])] {
        let example = kind.example();
        let mut names: Vec<&String> = data.as_object().unwrap().keys().collect();
        let mut expected: Vec<&String> = example.as_object().unwrap().keys().collect();
        names.sort();
        expected.sort();
        assert_eq!(names, expected, "{}", kind.as_str());
    }
}

async fn a_ticket_is_rated_once_and_only_after_it_was_resolved(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "b").await;
    let path = format!("/v1/support/tickets/{id}/rating");
    let rate = |body| ada.desk("POST", &path).json(body);
    rate(json!({"score": 5})).await.problem("limit_reached");
    change(world, &id, json!({"status": "resolved"})).await.ok();
    rate(json!({"score": 6})).await.fault("/score", "out_of_range");
    // Whatever else happens to the ticket at the same moment.
    let note = json!({"message": "looked at", "internal": true});
    let notes =
        futures_util::future::join_all((0..24).map(|_| super::answer(world, &id, note.clone())));
    let rating = rate(json!({"score": 2, "comment": "slow"}));
    let (rated, _) = tokio::join!(rating.into_future(), notes);
    let rated = rated.ok();
    assert_eq!((rated.number("rating"), rated.word("status")), (2, "resolved"));
    assert!(!rated.text.contains("slow"), "the comment is for staff");
    rate(json!({"score": 5})).await.problem("limit_reached");
    assert_eq!(super::seen_by_staff(world, &id).await.word("rating_comment"), "slow");
}

/// What cannot be read is not known to be missing.
async fn a_database_that_is_away_is_no_fault_of_a_field(world: &World) {
    let ada = world.account("ada").await;
    let (one, two) = (open(&ada, "1", "m").await, open(&ada, "2", "m").await);
    let draft = json!({"title": "t", "body": "b"});
    let reply = staff(world, "POST", "/canned-replies").await.json(draft).await.ok();
    let body = json!({
        "subject": "3", "category": "c", "priority": "low", "message": "m", "follows": one,
    });
    let follow = || ada.desk("POST", "/v1/support/tickets").json(&body);
    let merge = async || {
        let call = staff(world, "POST", &format!("/support/tickets/{one}/merge")).await;
        call.json(json!({"into": two})).await
    };
    let fill = async || answer(world, &one, json!({"canned_reply_id": reply.word("id")})).await;
    let of_account = "FROM tickets WHERE account_id = $1 AND ticket_id = $2";
    world.faults.plan_reads(of_account, 1);
    follow().await.problem("storage_unavailable");
    follow().await.ok();
    world.faults.plan_reads("FROM canned_replies", 1);
    fill().await.problem("storage_unavailable");
    fill().await.ok();
    world.faults.plan_reads("FROM tickets WHERE ticket_id = $1", 1);
    merge().await.problem("storage_unavailable");
    merge().await.ok();
}

/// What is durable is not told as if it were not.
async fn a_message_that_is_there_is_not_refused_because_of_a_read_behind_it(world: &World) {
    let ada = world.account("ada").await;
    let one = open(&ada, "1", "m").await;
    let path = format!("/v1/support/tickets/{one}/messages");
    world.faults.plan_reads("FROM ticket_files", 1);
    let written = ada.desk("POST", &path).json(json!({"message": "once"})).await.ok();
    assert_eq!(written.field("attachments"), &json!([]));
    // Control: who reads them is told.
    ada.desk("GET", &path).await.problem("storage_unavailable");
    let all = ada.desk("GET", &path).await.ok();
    let texts: Vec<_> = all.list().iter().map(|message| message["message"].clone()).collect();
    assert_eq!(texts, ["m", "once"]);
}

fn few_tickets(config: &mut estafette::config::Config) {
    config.support.open_tickets = 2;
}

async fn an_account_has_a_bound_of_open_tickets(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let first = open(&ada, "1", "m").await;
    open(&ada, "2", "m").await;
    let body = json!({"subject": "3", "category": "c", "priority": "low", "message": "m"});
    ada.desk("POST", "/v1/support/tickets").json(&body).await.problem("limit_reached");
    eve.desk("POST", "/v1/support/tickets").json(&body).await.ok();
    change(world, &first, json!({"status": "closed"})).await.ok();
    ada.desk("POST", "/v1/support/tickets").json(&body).await.ok();
}
