//! What staff do: notes, assignees, merges, history, canned replies.

use estafette::app::Env;
use serde_json::json;

use super::{all_messages, answer, change, each, messages, open, seen_by_staff, staff, ticket};
use super::{told, write};
use crate::on_every_engine;
use crate::world::World;

on_every_engine!(
    a_note_is_never_on_the_users_side,
    staff_see_all_accounts_and_take_tickets,
    a_duplicate_is_merged,
    the_history_has_every_change,
    canned_replies_are_filled_in,
    two_changes_of_a_canned_reply_at_once_are_both_kept,
);

/// Every surface of the user's side is searched for words that only notes have.
async fn a_note_is_never_on_the_users_side(world: &World) {
    let ada = world.account("ada").await;
    let zoo = playground::ReceiverZoo::start().await.unwrap();
    let body = json!({"url": zoo.url("/ok"), "events": ["*"]});
    ada.desk("POST", "/v1/webhooks").json(body).await.ok();
    let id = open(&ada, "No receipts", "help").await;
    let call = staff(world, "POST", &format!("/support/tickets/{id}/messages")).await;
    let note = json!({"message": "xylophone: this user never pays", "internal": true});
    let note = call.header("idempotency-key", "shared").json(note).await.ok();
    assert_eq!(note.field("internal"), &json!(true));
    answer(world, &id, json!({"message": "Hello"})).await.ok();
    let body = json!({"message": "mine", "client_message_id": "x"});
    let path = format!("/v1/support/tickets/{id}/messages");
    // The key of staff's note is no key of the user's.
    ada.desk("POST", &path).header("idempotency-key", "shared").json(body).await.ok();
    crate::webhooks::visited(&zoo, "/ok", 4).await;
    let note_id = note.word("id");
    let mut seen: Vec<String> = vec![];
    for path in [
        path.clone(),
        format!("{path}?after_seq=1"),
        "/v1/support/tickets".to_owned(),
        format!("/v1/support/tickets/{id}"),
        "/v1/support/tickets?q=receipts".to_owned(),
        "/v1/events?limit=200".to_owned(),
        "/v1/ledger".to_owned(),
    ] {
        seen.push(ada.desk("GET", &path).await.ok().text);
    }
    seen.extend(zoo.visits().iter().map(|visit| String::from_utf8_lossy(&visit.body).into_owned()));
    assert!(seen.iter().any(|text| text.contains("Hello")), "the search finds what is public");
    for text in &seen {
        assert!(!text.contains("xylophone") && !text.contains(note_id), "{text}");
    }
    let found = ada.desk("GET", "/v1/support/tickets?q=xylophone").await.ok();
    assert!(found.list().is_empty(), "not even by its words: {}", found.text);
    for words in ["visibilitynote", "xylophone%20visibilitynote", "this%20OR%20xylophone"] {
        let found = ada.desk("GET", &format!("/v1/support/tickets?q={words}")).await.ok();
        assert!(found.list().is_empty(), "{words}: {}", found.text);
    }
    let found = staff(world, "GET", "/support/tickets?q=xylophone").await.await.ok();
    assert_eq!(each(found.list(), "id"), [&id]);
    assert_eq!(each(&all_messages(world, &id).await, "internal"), [false, true, false, false]);
    assert_eq!(each(&messages(&ada, &id).await, "seq"), [1, 3, 4]);
    // A note neither answers the user nor opens anything.
    assert_eq!(told(&ada, "support.message").await.len(), 3);
}

async fn staff_see_all_accounts_and_take_tickets(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let live = eve.on_live().await;
    let (of_ada, of_eve) = (open(&ada, "a", "m").await, open(&live, "b", "m").await);
    let list = async |query: &str| {
        let answer = staff(world, "GET", &format!("/support/tickets{query}")).await.await.ok();
        answer.list().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("").await, [of_eve.as_str(), &of_ada]);
    assert_eq!(list("?environment=live").await, [of_eve.as_str()]);
    assert_eq!(list(&format!("?account_id={}", ada.account_id)).await, [of_ada.as_str()]);
    assert_eq!(list("?assignee=none&status=open").await.len(), 2);
    let me = staff(world, "GET", "/staff").await.await;
    let me = match me.status {
        200 => me.list()[0]["id"].as_str().unwrap().to_owned(),
        // Who wrote tells who it is.
        _ => {
            answer(world, &of_ada, json!({"message": "me"})).await.ok().word("sender_id").to_owned()
        }
    };
    let taken = change(world, &of_ada, json!({"assignee": me})).await.ok();
    assert_eq!(taken.word("assignee"), me);
    assert_eq!(ticket(&ada, &of_ada).await.word("assignee"), me);
    assert_eq!(list(&format!("?assignee={me}")).await, [of_ada.as_str()]);
    let given = change(world, &of_ada, json!({"assignee": null})).await.ok();
    assert_eq!(given.field("assignee"), &json!(null));
    assert_eq!(list("?assignee=none").await.len(), 2);
    // On either address staff see the same.
    let path = "/v1/admin/support/tickets";
    let there = world.get(Env::Sandbox, path).bearer(world.staff().await).await.ok();
    assert_eq!(there.list().len(), 2);
}

async fn a_duplicate_is_merged(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let (one, two) = (open(&ada, "one", "m").await, open(&ada, "two", "m").await);
    let of_eve = open(&eve, "eve", "m").await;
    let merge = async |from: &str, into: &str| {
        let path = format!("/support/tickets/{from}/merge");
        staff(world, "POST", &path).await.json(json!({"into": into})).await
    };
    for wrong in [one.as_str(), &of_eve, "tkt_01kdv00000000000000000000z"] {
        merge(&one, wrong).await.fault("/into", "invalid_enum");
    }
    merge(&one, "x").await.fault("/into", "invalid_type");
    let ended = merge(&two, &one).await.ok();
    assert_eq!((ended.word("status"), ended.word("merged_into")), ("closed", one.as_str()));
    let late = write(&ada, &two, "hello?").await.problem("ticket_closed");
    assert!(late.word("detail").contains(&one), "{}", late.text);
    merge(&two, &one).await.problem("ticket_closed");
    merge(&one, &two).await.fault("/into", "invalid_enum");
    assert_eq!(messages(&ada, &two).await.len(), 1, "what was said stays");
    let goes_on = all_messages(world, &one).await;
    let note = goes_on.last().unwrap();
    assert_eq!((goes_on.len(), &note["internal"], &note["seq"]), (2, &json!(true), &json!(2)));
    assert!(note["message"].as_str().unwrap().contains(&two), "{note}");
    assert_eq!(messages(&ada, &one).await.len(), 1, "no user sees the note");
    assert_eq!(seen_by_staff(world, &one).await.word("status"), "open");
}

async fn the_history_has_every_change(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    change(world, &id, json!({"status": "pending", "priority": "low"})).await.ok();
    write(&ada, &id, "again").await.ok();
    let path = format!("/support/tickets/{id}/history");
    let lines = staff(world, "GET", &path).await.await.ok().list().to_vec();
    let told: Vec<String> = lines
        .iter()
        .rev()
        .map(|line| {
            let word = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            format!("{} {} {} {}", word("actor_kind"), word("field"), word("was"), word("became"))
        })
        .collect();
    assert_eq!(
        told,
        ["staff status open pending", "staff priority normal low", "user status pending open"]
    );
    let page = staff(world, "GET", &format!("{path}?limit=2")).await.await.ok();
    assert!(page.list().len() == 2 && page.head("link").contains("cursor="));
}

async fn canned_replies_are_filled_in(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "No {{status}}", "m").await;
    let make = async |body| staff(world, "POST", "/canned-replies").await.json(body).await;
    let wrong = json!({"title": "t", "body": "Dear {{name}}"});
    make(wrong).await.fault("/body", "invalid_enum");
    let body = "About {{ subject }} ({{ticket_id}}): it is {{status}}.";
    let reply = make(json!({"title": "t", "body": body})).await.ok();
    let reply = reply.word("id");
    let said = answer(world, &id, json!({"canned_reply_id": reply})).await.ok();
    assert_eq!(said.word("message"), format!("About No {{{{status}}}} ({id}): it is open."));
    let both = json!({"canned_reply_id": reply, "message": "m"});
    answer(world, &id, both).await.fault("/message", "unknown_field");
    let path = format!("/canned-replies/{reply}");
    let changed = staff(world, "PATCH", &path).await.json(json!({"title": "new"})).await.ok();
    assert_eq!((changed.word("title"), changed.word("body")), ("new", body));
    assert_eq!(staff(world, "GET", "/canned-replies").await.await.ok().list().len(), 1);
    staff(world, "DELETE", &path).await.await.ok();
    staff(world, "DELETE", &path).await.await.problem("not_found");
    let gone = json!({"canned_reply_id": reply});
    answer(world, &id, gone).await.fault("/canned_reply_id", "invalid_enum");
}

async fn two_changes_of_a_canned_reply_at_once_are_both_kept(world: &World) {
    let make = staff(world, "POST", "/canned-replies").await;
    let reply = make.json(json!({"title": "old", "body": "old"})).await.ok();
    let path = format!("/canned-replies/{}", reply.word("id"));
    let change = async |body| staff(world, "PATCH", &path).await.json(body).await;
    let first = world.faults.hold("UPDATE canned_replies");
    let between = async {
        first.came().await;
        change(json!({"body": "new"})).await.ok();
        first.let_go();
    };
    let changed = tokio::join!(change(json!({"title": "new"})), between).0.ok();
    assert_eq!((changed.word("title"), changed.word("body")), ("new", "new"));
    // One that is deleted meanwhile was not changed, and nobody is told that it was.
    let first = world.faults.hold("UPDATE canned_replies");
    let between = async {
        first.came().await;
        staff(world, "DELETE", &path).await.await.ok();
        first.let_go();
    };
    tokio::join!(change(json!({"title": "newer"})), between).0.problem("not_found");
    let log = staff(world, "GET", "/audit-log?action=canned_reply.change").await.await.ok();
    assert_eq!(log.list().len(), 2, "{}", log.text);
}
