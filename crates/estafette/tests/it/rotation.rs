//! Stories of the master key: without it nothing starts, and another one takes its place beside a
//! service that runs.

use std::time::Duration;

use clock::{Clock, DAY, HOUR, MINUTE};
use estafette::access::By;
use estafette::app::{App, Env};
use estafette::kit::seal::Vault;
use estafette::rotation::{self, Error};
use estafette::wiring;
use serde_json::json;
use store::{Sql, WriteSet, args};

use crate::on_every_engine;
use crate::process::{Serving, answer, run, told};
use crate::world::tenant::{PASSWORD, other_than, phone};
use crate::world::{World, eventually};

on_every_engine!(
    a_new_key_takes_the_place_of_the_old_one_beside_a_running_service,
    a_made_up_row_of_a_key_stops_no_start,
    a_database_that_lost_its_keys_takes_no_other_one,
    no_key_is_dropped_by_a_clock_that_is_not_believed,
    what_guests_repeat_is_known_under_the_new_key,
    a_node_without_the_key_that_writes_stops,
);

/// Its own id, as a new database would remember it.
fn id_of(key: &str) -> String {
    Vault::from_hex(key, Clock::system()).unwrap().writes_with()
}

/// A node of process 4242 that knows one key alone.
async fn be_seen(world: &World, app: &App, key_id: &str) {
    const SEEN: Sql = Sql("INSERT INTO nodes (node, process_id, key_ids, writes, seen_at) \
         VALUES (1, 4242, $1, $1, $2)");
    let mut set = WriteSet::of("story");
    set.push(SEEN, args![key_id, world.now()]);
    app.db.commit(set).await.unwrap();
}

/// It ended.
async fn be_gone(app: &App) {
    let mut set = WriteSet::of("story");
    set.push(Sql("DELETE FROM nodes WHERE node = $1"), args![1]);
    app.db.commit(set).await.unwrap();
}

/// Gives the service a new key in front of its own: in its file, which it reads again every other
/// second, where it has one.
fn give(app: &App, key: &str) {
    let mut text = key.to_owned();
    if let Some(path) = app.config.master_key_file() {
        let beside = path.with_extension("new");
        text = format!("{text}\n{}", std::fs::read_to_string(&path).unwrap());
        // A copy has the permissions that the service insists on.
        std::fs::copy(&path, &beside).unwrap();
        std::fs::write(&beside, &text).unwrap();
        std::fs::rename(beside, path).unwrap();
    }
    app.vault.learn(&text).unwrap();
}

async fn a_new_key_takes_the_place_of_the_old_one_beside_a_running_service(world: &World) {
    let (ada, new) = (world.account("ada").await, "c3".repeat(32));
    let app = world.app(Env::Sandbox).await;
    let old_id = app.vault.writes_with();
    let hook = json!({"url": "http://127.0.0.1:9099/hook", "events": ["otp.status"]});
    let hook = ada.desk("POST", "/v1/webhooks").json(hook).await.ok();
    let secrets = Sql("SELECT secrets FROM webhooks WHERE webhook_id = $1");
    let stored = async || {
        let (secrets,): (Vec<u8>,) =
            app.db.row(secrets, args![hook.word("id")]).await.unwrap().unwrap();
        secrets
    };
    let before = stored().await;
    let to = phone("5678");
    let sent = ada.send(json!({"to": to, "code": "4821"})).await.ok();
    let open = ada.send(json!({"to": phone("5679"), "code": "4822"})).await.ok();
    let page = ada.desk("GET", "/v1/events?limit=1").await.ok();
    let next = page.head("link").split(['<', '>']).nth(1).unwrap().to_owned();

    let refused = rotation::new_key(&app).await;
    assert!(matches!(refused, Err(Error::NoNewKey { .. })), "{refused:?}");
    give(&app, &new);
    let key_id = rotation::new_key(&app).await.unwrap();
    assert_eq!(key_id, id_of(&new));
    assert_eq!(app.vault.writes_with(), old_id, "knowing it is not writing with it");
    // A node that does not know the key would not be able to open what others write.
    be_seen(world, &app, &old_id).await;
    let soon = Duration::from_secs(3);
    let refused = rotation::turn_to(&app, &key_id, soon, By::CLI, &|_| ()).await;
    assert!(matches!(&refused, Err(Error::Unaware(nodes)) if nodes.contains(&4242)), "{refused:?}");
    assert_eq!(app.vault.writes_with(), old_id);
    be_gone(&app).await;
    let patience = Duration::from_mins(1);
    rotation::turn_to(&app, &key_id, patience, By::CLI, &|_| ()).await.unwrap();
    assert_eq!(rotation::reseal(&app, &|_| ()).await.unwrap(), 1);
    assert_eq!(rotation::reseal(&app, &|_| ()).await.unwrap(), 0, "doing it again changes nothing");
    assert_eq!(app.vault.writes_with(), key_id);
    let after = stored().await;
    assert_ne!(before, after);

    // What the old key wrote is good, also a guess and the page after the first.
    ada.guess(sent.word("challenge_id"), &other_than("4821")).await.problem("otp_code_invalid");
    ada.guess(sent.word("challenge_id"), "4821").await.ok();
    ada.guess(open.word("challenge_id"), "4822").await.ok();
    ada.desk("GET", &next).await.ok();
    let fresh = ada.send(json!({"to": to, "code": "4823"})).await.ok();
    ada.guess(fresh.word("challenge_id"), "4823").await.ok();
    let renewed = ada.desk("POST", &format!("/v1/webhooks/{}/rotate-secret", hook.word("id")));
    renewed.json(json!({})).await.ok();

    // A node that was cut off writes with the old one still.
    be_seen(world, &app, &old_id).await;
    let refused = rotation::drop_former(&app, By::CLI).await;
    assert!(matches!(&refused, Err(Error::Behind(nodes)) if nodes == &[4242]), "{refused:?}");
    be_gone(&app).await;
    let early = rotation::drop_former(&app, By::CLI).await;
    assert!(matches!(early, Err(Error::TooEarly { .. })), "{early:?}");
    // Who has only the new key cannot start yet.
    let mut config = world.config().clone();
    config.master_key = estafette::kit::secret::Secret::new(new.clone());
    let second = wiring::open(config.clone(), world.clock().clone()).unwrap();
    let refused = second.migrate().await.unwrap_err().to_string();
    assert!(refused.contains(&old_id) && refused.contains(&key_id), "{refused}");
    second.close().await;
    world.advance(DAY + 2 * HOUR).await;
    assert_eq!(dropped(world, &app).await, std::slice::from_ref(&old_id));
    a_dropped_key_is_no_new_one(world, &new, &old_id).await;
    let second = wiring::open(config, world.clock().clone()).unwrap();
    second.migrate().await.unwrap();
    let place = ["webhooks", ada.account_id.as_str(), hook.word("id")];
    assert!(second.live.vault.open(&place, &stored().await).is_some());
    second.close().await;
}

/// Also where it is still in the text, behind the one that writes.
async fn a_dropped_key_is_no_new_one(world: &World, new: &str, dropped: &str) {
    let mut config = world.config().clone();
    let given = config.master_key.expose().to_owned();
    let file = || std::fs::read_to_string(world.folder().join("master.key")).unwrap();
    let both = format!("{new}\n{}", if given.is_empty() { file() } else { given });
    config.master_key = estafette::kit::secret::Secret::new(both);
    let second = wiring::open(config, world.clock().clone()).unwrap();
    second.migrate().await.unwrap();
    let refused = rotation::new_key(&second.live).await;
    assert!(matches!(refused, Err(Error::NoNewKey { .. })), "{refused:?}");
    assert_eq!(rotation::unused(&second.live).await.unwrap(), [dropped]);
    second.close().await;
}

/// It was cut off for so long that a rotation went on without it.
async fn a_node_without_the_key_that_writes_stops(world: &World) {
    let app = world.app(Env::Sandbox).await;
    let mut config = world.config().clone();
    let given = config.master_key.expose().to_owned();
    let file = || std::fs::read_to_string(world.folder().join("master.key")).unwrap();
    let old = if given.is_empty() { file() } else { given };
    config.master_key = estafette::kit::secret::Secret::new(format!("{}\n{old}", "c3".repeat(32)));
    let other = wiring::open(config, world.clock().clone()).unwrap();
    other.migrate().await.unwrap();
    let key_id = rotation::new_key(&other.live).await.unwrap();
    let patience = Duration::from_mins(1);
    let rotating = rotation::turn_to(&other.live, &key_id, patience, By::CLI, &|_| ());
    let silence = async {
        loop {
            let mut set = WriteSet::of("story");
            set.push(Sql("DELETE FROM nodes"), args![]);
            app.db.commit(set).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        turned = rotating => turned.unwrap(),
        () = silence => {}
    }
    let why = eventually(async || app.given_up.get().cloned()).await;
    assert!(why.contains(&key_id), "{why}");
    assert!(app.is_draining(), "it takes no more work");
    other.close().await;
}

/// Dropped once the witness of the process that serves has seen the time pass.
async fn dropped(world: &World, app: &App) -> Vec<String> {
    eventually(async || match rotation::drop_former(app, By::CLI).await {
        // It looks once in a minute, which began while the clock was wrong, perhaps.
        Err(Error::ClockAhead { .. }) => {
            world.advance(MINUTE).await;
            None
        }
        other => Some(other.unwrap()),
    })
    .await
}

async fn what_guests_repeat_is_known_under_the_new_key(world: &World) {
    let sign_up = |name: &str| {
        let body = json!({"email": format!("{name}@example.com"), "password": PASSWORD});
        let call = world.post(Env::Sandbox, "/v1/auth/signup").json(body);
        call.header("idempotency-key", "su1")
    };
    let first = sign_up("grace").await.ok();
    let app = world.app(Env::Sandbox).await;
    give(&app, &"c3".repeat(32));
    let key_id = rotation::new_key(&app).await.unwrap();
    let patience = Duration::from_mins(1);
    rotation::turn_to(&app, &key_id, patience, By::CLI, &|_| ()).await.unwrap();
    let again = sign_up("grace").await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!(again.field("user"), first.field("user"));
    sign_up("hedy").await.problem("idempotency_key_reused");
}

async fn no_key_is_dropped_by_a_clock_that_is_not_believed(world: &World) {
    let app = world.app(Env::Sandbox).await;
    let old_id = app.vault.writes_with();
    give(&app, &"c3".repeat(32));
    let key_id = rotation::new_key(&app).await.unwrap();
    let patience = Duration::from_mins(1);
    rotation::turn_to(&app, &key_id, patience, By::CLI, &|_| ()).await.unwrap();
    world.clock().step(26 * HOUR);
    let refused = rotation::drop_former(&app, By::CLI).await.unwrap_err();
    assert!(matches!(refused, Error::ClockAhead { .. }), "{refused:?}");
    let said = refused.to_string();
    for word in [&*old_id, "26 h ahead", "estafette clock --confirm"] {
        assert!(said.contains(word), "no `{word}`: {said}");
    }
    world.clock().step(-26 * HOUR);
    // The same hours, once they have passed.
    world.advance(26 * HOUR).await;
    assert_eq!(dropped(world, &app).await, [old_id]);
}

async fn a_made_up_row_of_a_key_stops_no_start(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let app = world.app(ada.env).await;
    let own = app.vault.writes_with();
    let made_up = Sql("INSERT INTO master_keys (key_id, state, kept, changed_at) \
         SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), kept, changed_at + 1 FROM master_keys \
         WHERE key_id = $3");
    let mut set = WriteSet::of("story");
    set.push(made_up, args!["0bad0bad", "former", own.as_str()]);
    set.push(made_up, args!["it's", "no state", own.as_str()]);
    app.db.commit(set).await.unwrap();
    let told = rotation::follow(&app).await.unwrap().expect("it is told");
    assert!(told.contains("\"0bad0bad\"") && told.contains("\"it's\""), "{told}");
    world.restart().await;
    ada.guess(sent.word("challenge_id"), "4821").await.ok();
    // Not even one that takes the place of the key that writes.
    let mut set = WriteSet::of("story");
    let depose = "UPDATE master_keys SET state = 'former' WHERE key_id = $1";
    set.push(Sql(depose), args![own.as_str()]);
    let usurp = "UPDATE master_keys SET state = 'current' WHERE key_id = $1";
    set.push(Sql(usurp), args!["0bad0bad"]);
    world.app(ada.env).await.db.commit(set).await.unwrap();
    world.restart().await;
    assert_eq!(world.app(ada.env).await.vault.writes_with(), own);
    ada.send(json!({"to": phone("5679")})).await.ok();
    // A row that the service wrote counts, and the sentence names it.
    let app = world.app(ada.env).await;
    let proof = app.vault.key_proof("0bad0bad");
    let mut set = WriteSet::of("story");
    let prove = "UPDATE master_keys SET proof = $1 WHERE key_id = $2";
    set.push(Sql(prove), args![proof, "0bad0bad"]);
    app.db.commit(set).await.unwrap();
    let refused = rotation::follow(&app).await.unwrap_err().to_string();
    assert!(refused.contains("0bad0bad") && refused.contains("delete the row"), "{refused}");
    let mut set = WriteSet::of("story");
    let forget = "DELETE FROM master_keys WHERE key_id <> $1";
    set.push(Sql(forget), args![own.as_str()]);
    app.db.commit(set).await.unwrap();
}

async fn a_database_that_lost_its_keys_takes_no_other_one(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let app = world.app(ada.env).await;
    let own = app.vault.writes_with();
    let mut config = world.config().clone();
    config.master_key = estafette::kit::secret::Secret::new("d4".repeat(32));
    let other = wiring::open(config, world.clock().clone()).unwrap();
    let given = other.live.vault.writes_with();
    let forget = async || {
        let mut set = WriteSet::of("story");
        set.push(Sql("DELETE FROM master_keys WHERE key_id > $1"), args![""]);
        app.db.commit(set).await.unwrap();
    };
    let kept = Sql("SELECT key_id FROM master_keys WHERE key_id > $1");
    let kept = async || app.db.rows::<(String,)>(kept, args![""]).await.unwrap();
    forget().await;
    let at_start = other.migrate().await.unwrap_err().to_string();
    let to_doctor = rotation::is_known(&app.db, &other.live.vault).await.unwrap_err().to_string();
    for told in [at_start, to_doctor] {
        assert!(told.contains("master_keys is empty") && told.contains(&given), "{told}");
    }
    assert_eq!(kept().await, [], "nothing is written");
    other.close().await;
    // The seals say which key is the right one.
    rotation::is_known(&app.db, &app.vault).await.unwrap();
    assert_eq!(rotation::follow(&app).await.unwrap(), None);
    assert_eq!(kept().await, [(own,)]);
    ada.guess(sent.word("challenge_id"), "4821").await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_or_other_master_key_stops_the_start_and_says_what_to_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("master.key");
    answer(folder.path(), &["migrate"]);
    let key = std::fs::read_to_string(&path).unwrap();
    for (other, says) in [(None, "is missing"), (Some("ab".repeat(32)), "another database's")] {
        std::fs::remove_file(&path).unwrap();
        if let Some(other) = &other {
            std::fs::write(&path, other).unwrap();
        }
        for arguments in [&["serve", "--live", "127.0.0.1:0"][..], &["audit"], &["migrate"]] {
            let refused = run(folder.path(), arguments);
            assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
            let told = told(&refused);
            assert!(told.contains(says), "{arguments:?}: {told}");
            assert!(told.contains(path.to_str().unwrap()), "{arguments:?}: {told}");
            assert_eq!(told.matches("another database's").count(), usize::from(other.is_some()));
            assert!(other.is_none() || told.contains(&id_of(&key)), "{arguments:?}: {told}");
            assert!(!told.contains(key.trim()), "the key itself is told");
            assert_eq!(path.exists(), other.is_some(), "no new key is made");
        }
        std::fs::write(&path, &key).unwrap();
    }
    drop(Serving::on(folder.path()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_rotates_the_key_of_a_service_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("master.key");
    let serving = Serving::on(folder.path());
    let old = std::fs::read_to_string(&path).unwrap();
    let rotated = answer(folder.path(), &["rotate-key"]);
    let keys = std::fs::read_to_string(&path).unwrap();
    let keys: Vec<&str> = keys.split_whitespace().collect();
    assert_eq!(keys.len(), 2);
    assert_eq!((keys[1], &rotated["key_id"]), (old.trim(), &json!(id_of(keys[0]))));
    assert_eq!(rotated["former"][0]["key_id"], json!(id_of(&old)));
    assert_eq!(serving.get("/readyz").await.status, 200);
    // Again: it goes on with what is not over, and makes no third key.
    let again = answer(folder.path(), &["rotate-key"]);
    assert_eq!(again["key_id"], rotated["key_id"]);
    assert_eq!((&rotated["begun"], &again["begun"]), (&json!(true), &json!(false)));
    let early = run(folder.path(), &["rotate-key", "--drop"]);
    assert_eq!(early.status.code(), Some(1));
    let until = rotated["former"][0]["until"].as_str().unwrap();
    assert!(told(&early).contains(until), "{}", told(&early));
    // The old key alone would be refused now.
    drop(serving);
    std::fs::write(&path, &old).unwrap();
    assert!(told(&run(folder.path(), &["audit"])).contains(&id_of(keys[0])));
    std::fs::write(&path, keys.join("\n")).unwrap();
    assert_eq!(answer(folder.path(), &["audit"])["ok"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_file_that_no_start_could_use_is_told_while_it_serves() {
    let said = async |change: fn(&std::path::Path)| {
        let folder = tempfile::tempdir().unwrap();
        let serving = Serving::on(folder.path());
        change(&folder.path().join("master.key"));
        // It looks every two seconds.
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(serving.get("/readyz").await.status, 200, "it has its key");
        serving.terminate();
        serving.end().1
    };
    let told = "the master keys are not as they should be";
    let other = said(|file| std::fs::write(file, "ab".repeat(32)).unwrap()).await;
    assert_eq!(other.matches(told).count(), 1, "{other}");
    assert!(other.contains("ERROR") && other.contains("the next start would fail"), "{other}");
    let gone = said(|file| std::fs::remove_file(file).unwrap()).await;
    assert_eq!(gone.matches(told).count(), 1, "{gone}");
    let beside = said(|file| {
        let own = std::fs::read_to_string(file).unwrap();
        std::fs::write(file, format!("{}\n{own}", "ab".repeat(32))).unwrap();
    });
    assert_eq!(beside.await.matches(told).count(), 0, "a new one beside it is a rotation's");
}
