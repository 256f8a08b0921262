//! Uploads of which nothing comes: they take no space, whatever ends them, and a repeat is one.

use clock::HOUR;
use serde_json::json;

use super::files::{BOUNDARY, form, kind, little_storage, objects, pdf, png, upload};
use super::{change, messages, open};
use crate::on_every_engine;
use crate::world::World;
use crate::world::faults::How;

on_every_engine!(
    what_is_refused_takes_no_space with little_storage,
    what_a_crash_left_half_written_goes_with_its_object,
    a_repeat_by_the_clients_own_id_keeps_its_key,
    little_is_held_of_what_is_no_part,
);

async fn little_is_held_of_what_is_no_part(world: &World) {
    let ada = world.account("ada").await;
    let path = format!("/v1/support/tickets/{}/files", open(&ada, "a", "m").await);
    let whole = form("a.png", None, &png(), &[]);
    // Before the first part, or in the head of one.
    for begin in [String::new(), format!("--{BOUNDARY}\r\nX: ")] {
        let send = |bytes: usize| {
            let body = [begin.as_bytes(), &vec![b'a'; bytes], b"\r\n", &whole].concat();
            ada.desk("POST", &path).raw(&kind(), body)
        };
        let refused = send(600_000).await.problem("invalid_request");
        assert!(refused.word("detail").contains("belong to no part"), "{}", refused.text);
    }
    // Control: a little of it is no fault.
    let some = [&[b'a'; 1_000][..], b"\r\n", &whole].concat();
    ada.desk("POST", &path).raw(&kind(), some).await.ok();
}

async fn what_is_refused_takes_no_space(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let (of_ada, of_eve) = (open(&ada, "a", "m").await, open(&eve, "a", "m").await);
    let big = pdf(600 * 1024);
    upload(&ada, &of_ada, ("a.pdf", None, &big), &[]).await.ok();
    assert_eq!(objects(world), 1);
    for _ in 0..3 {
        upload(&ada, &of_ada, ("b.pdf", None, &big), &[]).await.problem("limit_reached");
    }
    let first = ("a.pdf", None, &pdf(2 * 1024 * 1024)[..]);
    upload(&eve, &of_eve, first, &[]).await.problem("limit_reached");
    assert_eq!(objects(world), 1, "nor is the first one of an account larger");
    let (small, own) = (("c.png", None, &png()[..]), [("client_message_id", "c")]);
    for _ in 0..3 {
        upload(&ada, &of_ada, small, &own).await.ok();
    }
    assert_eq!(objects(world), 3, "one picture and its preview");
    change(world, &of_ada, json!({"status": "closed"})).await.ok();
    upload(&ada, &of_ada, small, &[]).await.problem("ticket_closed");
    assert_eq!(objects(world), 3);
}

async fn what_a_crash_left_half_written_goes_with_its_object(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    world.faults.plan("INSERT INTO ticket_files", How::Unavailable, 1);
    let failed = upload(&ada, &id, ("a.png", None, &png()), &[]).await;
    assert_eq!(failed.status, 503, "{}", failed.text);
    let db = world.app(ada.env).await.db.clone();
    let sql = store::Sql("SELECT object_key FROM object_trash ORDER BY object_key");
    let keys: Vec<(String,)> = db.rows(sql, store::args![]).await.unwrap();
    // As a crash leaves it that came while the file was written.
    let half = world.folder().join("files").join(format!("{}#1", keys[0].0));
    std::fs::write(half, png()).unwrap();
    assert_eq!(objects(world), 3);
    world.advance(HOUR / 6).await;
    world.housekeep().await;
    assert_eq!(objects(world), 0);
}

async fn a_repeat_by_the_clients_own_id_keeps_its_key(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "b").await;
    let path = format!("/v1/support/tickets/{id}/messages");
    let write = |key: &str, text: &str, own: Option<&str>| {
        let call = ada.desk("POST", &path).header("idempotency-key", key);
        call.json(json!({"message": text, "client_message_id": own}))
    };
    let first = write("one", "once", Some("c-1")).await.ok();
    let again = write("two", "once", Some("c-1")).await.ok();
    assert_eq!(again.word("id"), first.word("id"));
    write("two", "another", None).await.problem("idempotency_key_reused");
    assert_eq!(write("two", "once", Some("c-1")).await.ok().word("id"), first.word("id"));
    let file = ("a.png", None, &png()[..]);
    upload(&ada, &id, file, &[("client_message_id", "f")]).await.ok();
    assert_eq!(messages(&ada, &id).await.len(), 3);
}
