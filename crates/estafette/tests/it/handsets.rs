//! Virtual handsets that keep their messages in the database, as a service of several nodes does.

use serde_json::json;

use crate::world::tenant::phone;
use crate::world::{Engine, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_handset_outlives_its_node_and_shows_no_code_on_the_disk() {
    let world = World::with(Engine::Lite, |config| {
        config.sandbox.handsets = estafette::config::HandsetStore::Database;
    })
    .await;
    let ada = world.account("ada").await;
    let bob = world.account("bob").await;
    for code in ["48211", "59322"] {
        ada.send(json!({"to": phone("5678"), "code": code, "reference": code})).await.ok();
    }
    world.restart().await;
    let messages = ada.handset(&phone("5678")).await;
    let codes: Vec<_> = messages.iter().map(code_of).collect();
    assert_eq!(codes, ["59322", "48211"], "newest first, after a restart");
    assert!(bob.handset(&phone("5678")).await.is_empty(), "another account's messages");
    let database = std::fs::read(world.folder().join("estafette.db")).unwrap();
    let holds = |text: &str| database.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(holds(&phone("5678")), "the search finds what is there");
    assert!(!holds("59322 is") && !holds("48211 is"), "a message in the clear");
    world.finish().await;
}

fn code_of(message: &serde_json::Value) -> &str {
    message["code"].as_str().unwrap_or("none")
}
