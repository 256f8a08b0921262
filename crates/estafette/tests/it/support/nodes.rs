//! Live chat over two nodes on one database, from outside.

use std::time::Duration;

use estafette::app::Env;
use estafette::wiring;
use serde_json::json;
use store::{Sql, WriteSet, args};

use super::chat::{Next, Socket};
use super::{answer, change, open, write};
use crate::world::faults::How;
use crate::world::{Engine, World, eventually};

/// Who is there and who types is known at every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn presence_and_typing_pass_from_node_to_node() {
    let world = World::new(Engine::Postgres).await;
    let service = wiring::open(world.config().clone(), world.clock().clone()).unwrap();
    let other = wiring::start(service).await.unwrap();
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let there = |user: bool, admin: bool| {
        let kind = "presence";
        json!({"type": kind, "ticket_id": id, "user": user, "admin": admin})
    };
    let typing = |side: &str| json!({"type": "typing", "ticket_id": id, "sender_type": side});
    let mut user = Socket::user(&ada, &id, &ada.token, "&features=presence,typing").await;
    assert_eq!(user.frame().await, there(true, false));
    let token = world.staff().await;
    let path = format!("/v1/admin/support/tickets/{id}/ws?token={token}&features=presence,typing");
    let mut admin = Socket::open(other.addresses.live, &path, None).await.unwrap();
    assert_eq!((admin.frame().await, user.frame().await), (there(true, true), there(true, true)));
    admin.send(json!({"type": "typing"})).await;
    assert_eq!((admin.frame().await, user.frame().await), (typing("admin"), typing("admin")));
    user.send(json!({"type": "typing"})).await;
    assert_eq!((user.frame().await, admin.frame().await), (typing("user"), typing("user")));
    drop(admin);
    assert_eq!(user.frame().await, there(true, false));
    let mut again = Socket::open(other.addresses.live, &path, None).await.unwrap();
    assert_eq!((again.frame().await, user.frame().await), (there(true, true), there(true, true)));
    // The node goes, and with it who was there.
    other.stop().await;
    assert_eq!(user.frame().await, there(true, false));
    assert_eq!(again.next().await, Next::Closed(1012));
    world.finish().await;
}

/// Two processes on one database: whoever writes at the one is heard at the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_at_two_nodes_hear_each_other() {
    let world = World::new(Engine::Postgres).await;
    let service = wiring::open(world.config().clone(), world.clock().clone()).unwrap();
    let other = wiring::start(service).await.unwrap();
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let path = format!("/v1/support/tickets/{id}/ws?token={}&features=status", ada.token);
    let there = || Socket::open(other.addresses.sandbox, &path, None);
    let (mut here, mut there) =
        (Socket::user(&ada, &id, &ada.token, "").await, there().await.unwrap());
    for number in 0..30 {
        let text = number.to_string();
        match number % 3 {
            0 => here.send(json!({"message": text})).await,
            1 => there.send(json!({"message": text})).await,
            _ => drop(answer(&world, &id, json!({"message": text})).await.ok()),
        }
        assert_eq!((here.said().await, there.said().await), (text.clone(), text));
    }
    answer(&world, &id, json!({"message": "hidden", "internal": true})).await.ok();
    change(&world, &id, json!({"status": "pending"})).await.ok();
    let status = there.frame().await;
    assert_eq!((&status["type"], &status["status"]), (&json!("status"), &json!("pending")));
    // Who comes back to the other node finds everything there.
    drop(there);
    write(&ada, &id, "while away").await.ok();
    let path = format!("{path}&since=31");
    let mut again = Socket::open(other.addresses.sandbox, &path, None).await.unwrap();
    assert_eq!(again.said().await, "while away");
    write(&ada, &id, "and live").await.ok();
    assert_eq!(again.said().await, "and live");
    other.stop().await;
    assert_eq!(again.next().await, Next::Closed(1012));
    assert_eq!(here.said().await, "while away");
    world.finish().await;
}

/// A node stands still for so long that another one buries it, and its first word fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_taken_for_dead_hears_everything_again() {
    const FORGOTTEN: Sql = Sql("DELETE FROM chat_watchers WHERE ticket_id = $1");
    const WATCHED: Sql = Sql("SELECT node FROM chat_watchers WHERE ticket_id = $1");
    let world = World::new(Engine::Postgres).await;
    let service = wiring::open(world.config().clone(), world.clock().clone()).unwrap();
    let other = wiring::start(service).await.unwrap();
    let ada = world.account("ada").await;
    let mut here = Vec::new();
    for name in ["a", "b", "c"] {
        let id = open(&ada, name, "m").await;
        let mut socket = Socket::user(&ada, &id, &ada.token, "").await;
        write(&ada, &id, "before").await.ok();
        assert_eq!(socket.said().await, "before");
        here.push((id, socket));
    }
    let still = world.faults.hold("INSERT INTO chat_nodes");
    still.came().await;
    tokio::time::sleep(Duration::from_millis(12_500)).await;
    let db = world.app(Env::Sandbox).await.db.clone();
    for (id, _) in &here {
        let mut set = WriteSet::of("story");
        set.push(FORGOTTEN, args![id.as_str()]);
        db.commit(set).await.unwrap();
    }
    world.faults.plan("INSERT INTO chat_watchers", How::Unavailable, 2);
    still.let_go();
    for (id, socket) in &mut here {
        eventually(async || db.row::<(i64,)>(WATCHED, args![id.as_str()]).await.unwrap().map(drop))
            .await;
        let path = format!("/v1/support/tickets/{id}/ws?token={}", ada.token);
        let mut there = Socket::open(other.addresses.sandbox, &path, None).await.unwrap();
        there.send(json!({"message": "by the other"})).await;
        assert_eq!(socket.said().await, "by the other");
    }
    assert_eq!(world.faults.left(), 0);
    other.stop().await;
    world.finish().await;
}
