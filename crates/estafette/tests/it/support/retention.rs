//! Tickets take part in retention and in erasures.

use clock::{DAY, MINUTE};
use estafette::app::Env;
use serde_json::json;

use super::{answer, change, messages, open, write};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{Engine, World};

on_every_engine!(
    an_old_ticket_is_forgotten,
    an_erased_number_is_in_no_text_of_a_ticket,
    an_erased_address_is_in_no_text_of_a_ticket,
    an_erasure_and_a_change_at_once_undo_nothing_of_each_other,
    two_erasures_at_once_undo_nothing_of_each_other,
);

async fn count(world: &World, sql: &'static str) -> i64 {
    let db = world.app(Env::Live).await.db.clone();
    let row: Option<(i64,)> = db.row(store::Sql(sql), store::args![]).await.unwrap();
    row.unwrap().0
}

async fn an_old_ticket_is_forgotten(world: &World) {
    let ada = world.account("ada").await;
    let old = open(&ada, "old", "m").await;
    for number in 0..5 {
        write(&ada, &old, &format!("message {number}")).await.ok();
    }
    let open_still = open(&ada, "open", "m").await;
    change(world, &old, json!({"status": "closed"})).await.ok();
    world.advance(729 * DAY).await;
    world.housekeep().await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM tickets").await, 2);
    world.advance(2 * DAY).await;
    world.housekeep().await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM tickets").await, 1);
    assert_eq!(count(world, "SELECT COUNT(*) FROM ticket_messages").await, 1);
    assert_eq!(count(world, "SELECT COUNT(*) FROM ticket_texts").await, 1);
    assert_eq!(count(world, "SELECT COUNT(*) FROM ticket_changes").await, 0);
    assert!(!open_still.is_empty());
}

/// In every text that a ticket has, and in the events that told of them.
async fn name(world: &World, number: &str) -> (String, crate::world::Answer) {
    let ada = world.account("ada").await;
    let zoo = playground::ReceiverZoo::start().await.unwrap();
    let body = json!({"url": zoo.url("/echo"), "events": ["*"]});
    ada.desk("POST", "/v1/webhooks").json(body).await.ok();
    let id = open(&ada, &format!("Nothing for {number}"), "see the subject").await;
    write(&ada, &id, &format!("It was sent to {number}, twice")).await.ok();
    let body = json!({"message": "m", "client_message_id": format!("about {number}")});
    let path = format!("/v1/support/tickets/{id}/messages");
    let call = ada.desk("POST", &path).header("idempotency-key", &format!("k{number}"));
    call.json(body).await.ok();
    answer(world, &id, json!({"message": format!("{number} is blocked"), "internal": true}))
        .await
        .ok();
    change(world, &id, json!({"status": "resolved"})).await.ok();
    let rating = json!({"score": 1, "comment": format!("{number} got nothing")});
    let path = format!("/v1/support/tickets/{id}/rating");
    ada.desk("POST", &path).json(rating).await.ok();
    open(&ada, "other", "Sent to +33612345699").await;
    crate::webhooks::visited(&zoo, "/echo", 6).await;
    world.settle().await;
    let by = if number.contains('@') { "email" } else { "phone" };
    let body = json!({by: number});
    let staff = world.staff().await;
    let erased = world.post(Env::Sandbox, "/v1/admin/erasures").bearer(staff).json(body).await.ok();
    (id, erased)
}

async fn an_erased_number_is_in_no_text_of_a_ticket(world: &World) {
    let number = phone("5678");
    let (id, erased) = name(world, &number).await;
    assert_eq!(erased.number("ticket_messages"), 3, "{}", erased.text);
    assert_eq!(crate::erasure::holding(world, &number).await, Vec::<String>::new());
    assert!(!crate::erasure::holding(world, "+33612345699").await.is_empty(), "others stay");
    let body = json!({"email": "ada@example.com", "password": crate::world::tenant::PASSWORD});
    let login = world.post(Env::Sandbox, "/v1/auth/login").json(body).await.ok();
    let token = login.word("token");
    let path = format!("/v1/support/tickets/{id}");
    let read = world.get(Env::Sandbox, &path).bearer(token).await.ok();
    assert_eq!(read.word("subject"), "Nothing for [erased]");
    let found = world.get(Env::Sandbox, "/v1/support/tickets?q=33612345678").bearer(token).await;
    assert!(found.ok().list().is_empty());
    let found = world.get(Env::Sandbox, "/v1/support/tickets?q=nothing").bearer(token).await;
    assert_eq!(found.ok().list().len(), 1, "its other words still find it");
}

async fn an_erased_address_is_in_no_text_of_a_ticket(world: &World) {
    let address = "Bob.Lee@Example.org";
    let (id, erased) = name(world, address).await;
    assert_eq!(erased.number("ticket_messages"), 3, "{}", erased.text);
    for written in [address.to_owned(), address.to_lowercase()] {
        assert_eq!(crate::erasure::holding(world, &written).await, Vec::<String>::new());
    }
    let staff = world.staff().await;
    let read = async |path: String| world.get(Env::Sandbox, &path).bearer(staff).await.ok();
    let ticket = read(format!("/v1/admin/support/tickets/{id}")).await;
    assert_eq!(ticket.word("subject"), "Nothing for [erased]");
    // Another person, whose address only ends so.
    let eve = world.account("eve").await;
    let other = open(&eve, "other", "Sent to rob.bob.lee@example.org").await;
    let body = json!({"email": address.to_lowercase()});
    let again = world.post(Env::Sandbox, "/v1/admin/erasures").bearer(staff).json(body).await.ok();
    assert_eq!(again.number("ticket_messages"), 0);
    let said = read(format!("/v1/admin/support/tickets/{other}/messages")).await;
    assert!(said.text.contains("rob.bob.lee@example.org"), "{}", said.text);
}

async fn an_erasure_and_a_change_at_once_undo_nothing_of_each_other(world: &World) {
    let number = phone("5678");
    let ada = world.account("ada").await;
    let staff = world.staff().await.to_owned();
    let erase = || {
        let call = world.post(Env::Sandbox, "/v1/admin/erasures").bearer(&staff);
        call.json(json!({"phone": number})).into_future()
    };
    let rate = async |id: &str, comment: String| {
        let path = format!("/v1/support/tickets/{id}/rating");
        ada.desk("POST", &path).json(json!({"score": 1, "comment": comment})).await.ok();
    };
    // A ticket that the erasure has read is rated before it writes.
    let id = open(&ada, &format!("Nothing for {number}"), "m").await;
    change(world, &id, json!({"status": "resolved"})).await.ok();
    let wipe = world.faults.hold("UPDATE tickets SET subject");
    let between = async {
        wipe.came().await;
        rate(&id, format!("slow, like for {number}")).await;
        wipe.let_go();
    };
    tokio::join!(erase(), between).0.ok();
    let seen = super::seen_by_staff(world, &id).await;
    assert_eq!(seen.word("subject"), "Nothing for [erased]");
    assert_eq!(seen.word("rating_comment"), "slow, like for [erased]");
    // A change that has read a ticket writes after the erasure.
    let id = open(&ada, "other", "m").await;
    change(world, &id, json!({"status": "resolved"})).await.ok();
    rate(&id, format!("{number} got nothing")).await;
    let put = world.faults.hold("UPDATE tickets SET priority");
    let between = async {
        put.came().await;
        erase().await.ok();
        put.let_go();
    };
    let body = json!({"priority": "high"});
    tokio::join!(change(world, &id, body), between).0.ok();
    let seen = super::seen_by_staff(world, &id).await;
    assert_eq!(seen.word("priority"), "high");
    assert_eq!(seen.word("rating_comment"), "[erased] got nothing");
}

/// A person has a number and an address, and each goes by a request of its own.
async fn two_erasures_at_once_undo_nothing_of_each_other(world: &World) {
    let (number, address) = (phone("5678"), "jane.roe@example.org");
    let ada = world.account("ada").await;
    let staff = world.staff().await.to_owned();
    let erase = |body| {
        let call = world.post(Env::Sandbox, "/v1/admin/erasures").bearer(&staff);
        call.json(body).into_future()
    };
    let both = format!("{number} or {address}");
    for held in ["UPDATE ticket_messages SET body", "UPDATE tickets SET subject"] {
        let id = open(&ada, &format!("Call {both}"), &format!("I am at {both}")).await;
        let first = world.faults.hold(held);
        let between = async {
            first.came().await;
            erase(json!({"email": address})).await.ok();
            first.let_go();
        };
        tokio::join!(erase(json!({"phone": number})), between).0.ok();
        for left in [number.as_str(), address] {
            assert_eq!(crate::erasure::holding(world, left).await, Vec::<String>::new(), "{held}");
        }
        let said = messages(&ada, &id).await;
        assert_eq!(said[0]["message"], "I am at [erased] or [erased]", "{held}");
        let found = ada.desk("GET", "/v1/support/tickets?q=call").await.ok();
        assert!(found.text.contains(&id), "its subject is found, {held}: {}", found.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erased_number_is_in_no_byte_of_the_files() {
    let world = World::new(Engine::Lite).await;
    let number = phone("5678");
    let (id, _) = name(&world, &number).await;
    assert!(!id.is_empty());
    world.advance(MINUTE).await;
    let db = world.app(Env::Live).await.db.clone();
    db.compact().await.unwrap();
    assert_eq!(db.holds(number.trim_start_matches('+').as_bytes()).await.unwrap(), Some(false));
    assert_eq!(db.holds(b"33612345699").await.unwrap(), Some(true), "the search finds things");
    world.finish().await;
}
