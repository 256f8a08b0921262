//! What only PostgreSQL has: a pooler in front of it, several processes on one database, and the
//! command line against a server.

use std::future::IntoFuture;
use std::process::Command;

use estafette::app::Env;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::world::tenant::{other_than, phone};
use crate::world::{Answer, Database, Engine, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_does_no_harm() {
    let world = World::new(Engine::Pgbouncer).await;
    let ada = world.account("ada").await;
    let to = phone("5678");
    let sent = ada.send_to(&to).await.ok();
    let id = sent.word("challenge_id");
    let code = ada.code_on(&to).await;
    ada.guess(id, &other_than(&code)).await.problem("otp_code_invalid");
    let verified = ada.guess(id, &code).await.ok();
    assert_eq!(verified.field("verified"), true);
    let fallen = ada.send_to(&phone("0001")).await.ok();
    assert_eq!(fallen.word("channel"), "sms");
    let numbers: Vec<String> = (0..60).map(|number| phone(&format!("56{number:02}"))).collect();
    let sends = join_all(numbers.iter().map(|to| ada.send_to(to).into_future())).await;
    assert!(sends.iter().all(|sent| sent.status == 200));
    let read = |sent: &Answer| ada.challenge(sent.word("challenge_id")).into_future();
    let reads = join_all(sends.iter().map(read)).await;
    for (read, to) in reads.into_iter().zip(&numbers) {
        assert_eq!(read.ok().word("to"), to);
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credits_for_seven_sends_are_enough_for_seven_of_forty_through_a_pooler() {
    let world = World::new(Engine::Pgbouncer).await;
    let ada = world.account("ada").await;
    let all = ada.me().await.field("balance_credits").as_i64().unwrap();
    let price = world.price("sms", "FR");
    world.credit(&ada, 7 * price - all).await.ok();
    let sends = (0..40).map(|number| {
        let body = json!({"to": phone(&format!("56{number:02}")), "delivery_mode": "sms"});
        ada.send(body).into_future()
    });
    let answers = join_all(sends).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 7);
    assert_eq!(answers.iter().filter(|answer| answer.status == 402).count(), 33);
    world.finish().await;
}

/// Runs a command of the program on the database of a world, and reads its answer.
fn estafette(world: &World, url: &str, arguments: &[&str]) -> Value {
    let done = Command::new(env!("CARGO_BIN_EXE_estafette"))
        .args(arguments)
        .arg("--json")
        .env("ESTAFETTE__DATABASE__URL", url)
        .env("ESTAFETTE__MASTER_KEY", world.config().master_key.expose())
        .env("ESTAFETTE__DATA_DIR", world.folder())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {told}");
    serde_json::from_slice(&done.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_works_beside_a_running_service() {
    let world = World::new(Engine::Postgres).await;
    let url = world.config().database.url.expose().to_owned();
    let run = |arguments: &[&str]| estafette(&world, &url, arguments);
    assert!(run(&["migrate"])["version"].as_i64().unwrap() >= 4);
    let added = run(&["account", "add", "--email", "bob@example.com"]);
    let account = added["accounts"]["sandbox"].as_str().unwrap();
    let credits = run(&["credits", "add", "--account", account, "--amount", "50"]);
    let balance = credits["balance_credits"].as_i64().unwrap();
    let key = run(&["key", "add", "--account", account, "--name", "shop"]);
    let key = key["api_key"].as_str().unwrap();
    let body = json!({"to": phone("5678")});
    world.post(Env::Sandbox, "/v1/otp/send").key(key).json(body).await.ok();
    let audit = run(&["audit"]);
    assert_eq!((&audit["ok"], &audit["accounts"]), (&json!(true), &json!(2)));

    let copy = world.folder().join("copy.db");
    let copied = run(&["backup", copy.to_str().unwrap()]);
    assert_eq!(copied["bytes"].as_u64().unwrap(), std::fs::metadata(&copy).unwrap().len());
    // The copy is a database of the embedded engine, with the same ledger.
    let proved = estafette(&world, &format!("sqlite:{}", copy.display()), &["audit"]);
    assert_eq!(proved, audit);
    let sqlite = format!("sqlite:{}", copy.display());
    let more = ["credits", "add", "--account", account, "--amount", "1"];
    let after = estafette(&world, &sqlite, &more)["balance_credits"].as_i64().unwrap();
    assert_eq!(after, balance - world.price("chatapp", "FR") + 1);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_leaves_nothing_in_a_database_that_it_was_lent() {
    let database = Database::empty().await;
    let demo = || {
        let folder = tempfile::tempdir().unwrap();
        Command::new(env!("CARGO_BIN_EXE_estafette"))
            .args(["demo", "--once", "--json", "--database-url", &database.url()])
            .args(["--live", "127.0.0.1:0", "--sandbox", "127.0.0.1:0"])
            .args(["--metrics", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path())
            .output()
            .unwrap()
    };
    let client = database.client().await;
    let tables = || async {
        let count = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'";
        client.query_one(count, &[]).await.unwrap().get::<_, i64>(0)
    };
    for _ in 0..2 {
        let done = demo();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let object: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert!(object["balance_credits"].as_i64().unwrap() > 0);
        assert_eq!(tables().await, 0, "something is left");
    }
    // What is there is somebody's, and stays.
    for (in_the_way, told) in [
        ("CREATE VIEW tickets AS SELECT 1 AS id", "already exists"),
        ("CREATE TABLE of_somebody (id BIGINT)", "another program's database"),
        ("CREATE TABLE schema_migrations (version BIGINT)", "it has the table of_somebody"),
    ] {
        client.batch_execute(in_the_way).await.unwrap();
        let before = tables().await;
        let refused = demo();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(told), "{said}");
        assert_eq!(tables().await, before, "nothing of anybody else was dropped");
    }
}
