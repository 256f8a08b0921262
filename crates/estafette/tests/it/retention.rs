//! Stories of forgetting: what is old goes when its time has come, not before, and what stays still
//! adds up.

use clock::{DAY, HOUR, MINUTE};
use estafette::app::Env;
use estafette::config::Config;
use playground::smsc::IdStyle;
use serde_json::json;
use store::{Args, Sql, WriteSet, args};

use crate::on_every_engine;
use crate::smpp::{Centre, give, settings, until_up};
use crate::world::tenant::{PASSWORD, Tenant, phone};
use crate::world::{Answer, World, eventually};

on_every_engine!(
    an_idempotency_key_is_forgotten_after_a_day,
    tokens_are_forgotten_a_month_after_their_end,
    api_keys_are_forgotten_a_month_after_they_were_disabled,
    old_lines_of_the_audit_log_are_forgotten,
    limits_of_a_recipient_are_forgotten_once_they_are_over,
    an_old_recipient_becomes_a_pseudonym with kept_as_on_live,
    a_passcode_that_is_still_open_keeps_its_recipient with kept_as_on_live,
    old_passcodes_are_deleted_and_the_ledger_still_adds_up with kept_as_on_live,
    what_may_still_arrive_is_kept_however_little_is_kept with kept_for_a_day,
    an_attempt_that_outlives_its_message_goes_when_its_time_is_over with kept_for_a_day,
    what_a_carrier_calls_a_message_goes_with_it with kept_for_a_day,
    passcodes_of_the_sandbox_are_deleted_after_a_month,
    an_account_keeps_so_many_handset_messages_and_the_others_theirs with few_handset_messages,
    an_account_of_the_sandbox_keeps_so_many_messages_of_people with few_messages_of_people,
    chores_are_not_repeated_by_a_restart,
    a_clock_that_jumps_a_year_ahead_and_back_loses_nothing,
    a_step_that_an_operator_confirms_is_believed,
);

fn kept_for_a_day(config: &mut Config) {
    (config.retention.challenges_d, config.retention.recipients_d) = (1, 1);
}

/// Live has no carrier in these stories.
fn kept_as_on_live(config: &mut Config) {
    config.retention.sandbox_d = config.retention.challenges_d;
}

fn few_handset_messages(config: &mut Config) {
    config.sandbox.handsets = estafette::config::HandsetStore::Database;
    config.sandbox.handset_messages = 5;
}

fn few_messages_of_people(config: &mut Config) {
    config.sandbox.inbound_messages = 3;
}

/// The first column of all rows.
async fn rows<T: store::FromVal>(world: &World, sql: &'static str, args: Args) -> Vec<T> {
    let db = world.app(Env::Live).await.db.clone();
    let rows: Vec<(T,)> = db.rows(Sql(sql), args).await.unwrap();
    rows.into_iter().map(|(value,)| value).collect()
}

async fn count(world: &World, sql: &'static str) -> i64 {
    rows::<i64>(world, sql, args![]).await[0]
}

async fn write(world: &World, sql: &'static str, args: Args) {
    let mut set = WriteSet::of("story");
    set.push(Sql(sql), args);
    world.app(Env::Live).await.db.commit(set).await.unwrap();
}

/// The value of a metric, by the beginning of its line.
async fn metric(world: &World, line: &str) -> f64 {
    let page = world.metrics().await.ok();
    let found = page.text.lines().find_map(|text| text.strip_prefix(line));
    found.map_or(0.0, |value| value.trim().parse().unwrap())
}

async fn an_idempotency_key_is_forgotten_after_a_day(world: &World) {
    let ada = world.account("ada").await;
    let keys = "SELECT COUNT(*) FROM idempotency";
    for index in 0..5 {
        let sent = ada.send_to(&phone(&format!("56{index:02}")));
        sent.header("idempotency-key", &format!("key-{index}")).await.ok();
    }
    assert_eq!(count(world, keys).await, 5);
    world.advance(DAY - 10 * MINUTE).await;
    world.housekeep().await;
    assert_eq!(count(world, keys).await, 5, "they still stand for their requests");
    world.advance(10 * MINUTE).await;
    world.housekeep().await;
    assert_eq!(count(world, keys).await, 0);
    let deleted = metric(world, "estafette_retention_deleted_total{table=\"idempotency\"}").await;
    assert!((deleted - 5.0).abs() < 0.1, "{deleted}");
}

async fn tokens_are_forgotten_a_month_after_their_end(world: &World) {
    let ada = world.account("ada").await;
    let tokens = "SELECT COUNT(*) FROM tokens";
    assert_eq!(count(world, tokens).await, 1);
    let body = json!({"email": ada.email, "password": PASSWORD});
    let again = world.post(Env::Sandbox, "/v1/auth/login").json(body).await.ok();
    let revoked = world.post(Env::Sandbox, "/v1/auth/logout").bearer(again.word("token")).await;
    assert!(revoked.status < 300, "{}", revoked.text);
    assert_eq!(count(world, tokens).await, 2);
    world.advance(30 * DAY - HOUR).await;
    world.housekeep().await;
    assert_eq!(count(world, tokens).await, 2, "a month has not passed since the log-out");
    world.advance(2 * HOUR).await;
    world.housekeep().await;
    assert_eq!(count(world, tokens).await, 1, "the token that was revoked is gone");
    world.get(Env::Sandbox, "/v1/me").bearer(&ada.token).await.problem("token_expired");
    world.advance(30 * DAY).await;
    world.housekeep().await;
    assert_eq!(count(world, tokens).await, 0, "and so is the one that expired");
    world.get(Env::Sandbox, "/v1/me").bearer(&ada.token).await.problem("invalid_token");
}

async fn api_keys_are_forgotten_a_month_after_they_were_disabled(world: &World) {
    let ada = world.account("ada").await;
    let counts = async || {
        let keys = count(world, "SELECT COUNT(*) FROM api_keys").await;
        [keys, count(world, "SELECT COUNT(*) FROM api_key_hashes").await]
    };
    let gone = ada.new_key("gone", &["otp:send"]).await;
    let path = |key: &Answer| format!("/v1/api-keys/{}", key.field("key")["id"].as_str().unwrap());
    ada.desk("DELETE", &path(&gone)).await.ok();
    for index in 0..3 {
        let more = ada.new_key(&format!("{index}"), &["otp:send"]).await;
        ada.desk("DELETE", &path(&more)).await.ok();
    }
    assert_eq!(counts().await, [5, 5]);
    world.advance(30 * DAY - HOUR).await;
    world.housekeep().await;
    assert_eq!(counts().await, [5, 5], "a month has not passed since they were disabled");
    world.advance(2 * HOUR).await;
    world.housekeep().await;
    assert_eq!(counts().await, [1, 1], "the key that works is still there");
    ada.send_to(&phone("5678")).await.ok();
    let sent = world.post(Env::Sandbox, "/v1/otp/send").key(gone.word("api_key"));
    sent.json(json!({"to": phone("5678")})).await.problem("invalid_api_key");
}

async fn old_lines_of_the_audit_log_are_forgotten(world: &World) {
    let ada = world.account("ada").await;
    let lines = "SELECT COUNT(*) FROM audit_log";
    let before = count(world, lines).await;
    assert!(before > 0);
    world.advance(200 * DAY).await;
    world.credit(&ada, 5).await;
    let between = count(world, lines).await;
    world.advance(200 * DAY - 2 * HOUR).await;
    world.housekeep().await;
    assert_eq!(count(world, lines).await, between, "nothing is older than 400 days");
    // Rounds of sealing come first: what is not sealed is not forgotten.
    for _ in 0..3 {
        world.advance(HOUR).await;
        world.housekeep().await;
    }
    assert_eq!(count(world, lines).await, between - before);
}

async fn limits_of_a_recipient_are_forgotten_once_they_are_over(world: &World) {
    let ada = world.account("ada").await;
    let known = "SELECT COUNT(*) FROM recipients";
    for ending in ["0001", "0004"] {
        ada.send_to(&phone(ending)).await;
    }
    assert_eq!(count(world, known).await, 2, "two cannot be reached by the chat-app");
    let sent = "UPDATE recipients SET sent_1 = $1, unreachable_until = 0 WHERE recipient = $2";
    write(world, sent, args![world.now() + 12 * HOUR, phone("0004")]).await;
    world.advance(DAY - HOUR).await;
    world.housekeep().await;
    assert_eq!(count(world, known).await, 2);
    world.advance(7 * HOUR).await;
    world.housekeep().await;
    assert_eq!(count(world, known).await, 1, "a send of the last day still counts");
    world.advance(12 * HOUR).await;
    world.housekeep().await;
    assert_eq!(count(world, known).await, 0);
}

async fn an_old_recipient_becomes_a_pseudonym(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let to = phone("5678");
    let mut old = vec![];
    for index in 0..5 {
        let body = json!({"to": to, "reference": format!("order {index}"), "code": "4821"});
        old.push(ada.send(body).await.ok().word("challenge_id").to_owned());
        world.advance(1_000).await;
    }
    ada.guess(&old[0], "4821").await.ok();
    let other = eve.send_to(&to).await.ok().word("challenge_id").to_owned();
    world.advance(90 * DAY - 2 * HOUR).await;
    let young = ada.send_to(&to).await.ok().word("challenge_id").to_owned();
    world.housekeep().await;
    assert_eq!(ada.challenge(&old[0]).await.ok().word("to"), to);
    world.advance(3 * HOUR).await;
    world.housekeep().await;
    for id in &old {
        let read = ada.challenge(id).await.ok();
        assert_eq!((read.word("to"), read.field("reference")), ("", &json!(null)));
        assert!(read.word("provider_message_id").starts_with("att_"), "{}", read.text);
    }
    assert_eq!(ada.challenge(&old[0]).await.ok().word("status"), "verified");
    assert_eq!(ada.challenge(&young).await.ok().word("to"), to);
    let all = "SELECT recipient FROM challenges ORDER BY account_id, challenge_id";
    let names = rows::<String>(world, all, args![]).await;
    assert_eq!(names.iter().filter(|name| **name == to).count(), 1, "{names:?}");
    let of_ada = "SELECT recipient FROM challenges WHERE challenge_id = $1";
    let ada_calls_it = rows::<String>(world, of_ada, args![&old[1]]).await;
    assert!(ada_calls_it[0].starts_with("FR~") && ada_calls_it[0].len() == 35, "{ada_calls_it:?}");
    assert_eq!(names.iter().filter(|name| **name == ada_calls_it[0]).count(), 5, "one person");
    let eve_calls_it = rows::<String>(world, of_ada, args![&other]).await;
    assert_ne!(ada_calls_it, eve_calls_it, "two accounts cannot compare their people");
    let named = "SELECT COUNT(*) FROM challenges WHERE provider_message_id <> attempt_id";
    assert_eq!(count(world, named).await, 1, "only the young one keeps the carrier's id");
    ada.verify(json!({"to": phone("5670"), "code": "4821"})).await.problem("not_found");
    let masked = metric(world, "estafette_retention_masked_total{table=\"challenges\"}").await;
    assert!((masked - 6.0).abs() < 0.1, "each once: {masked}");
}

async fn a_passcode_that_is_still_open_keeps_its_recipient(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    let id = ada.send(json!({"to": to, "code": "4821"})).await.ok();
    let id = id.word("challenge_id");
    let renewed = "UPDATE challenges SET expires_at = $1, next_at = $1 WHERE challenge_id = $2";
    write(world, renewed, args![world.now() + 92 * DAY, id]).await;
    world.advance(91 * DAY).await;
    world.housekeep().await;
    assert_eq!(ada.challenge(id).await.ok().word("to"), to);
    ada.guess(id, "4821").await.ok();
    world.advance(2 * DAY).await;
    world.housekeep().await;
    assert_eq!(ada.challenge(id).await.ok().word("to"), "");
}

async fn old_passcodes_are_deleted_and_the_ledger_still_adds_up(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["5678", "0001", "0002", "0003", "0004"] {
        ada.send_to(&phone(ending)).await;
    }
    world.advance(HOUR).await;
    let transfers = count(world, "SELECT COUNT(*) FROM transfers").await;
    world.advance(399 * DAY).await;
    let young = ada.send_to(&phone("5679")).await.ok();
    world.housekeep().await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM challenges").await, 6);
    world.advance(DAY).await;
    world.housekeep().await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM challenges").await, 1);
    assert_eq!(count(world, "SELECT COUNT(*) FROM attempts").await, 1);
    ada.challenge(young.word("challenge_id")).await.ok();
    let kept = count(world, "SELECT COUNT(*) FROM transfers").await;
    assert!(kept > transfers, "the ledger keeps everything: {transfers}, {kept}");
}

async fn what_may_still_arrive_is_kept_however_little_is_kept(world: &World) {
    let centre = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("main", centre.address(), "")])).await;
    until_up(world, "main").await;
    let ada = world.live_sender("ada", 1_000).await;
    // The centre sends no receipts for these by itself.
    let numbers = ["+33612349006", "+33612359006"];
    let mut ids = vec![];
    for to in numbers {
        let text = json!({"to": to, "text": "x", "validity_s": 3 * DAY / 1_000});
        ids.push(ada.text(text).await.ok().word("id").to_owned());
        ada.sms_until(ids.last().unwrap(), "submitted").await;
    }
    world.advance(2 * DAY).await;
    world.housekeep().await;
    let id = centre.came_to(numbers[0])[0].id.clone();
    eventually(async || centre.deliver(&id).then_some(())).await;
    ada.sms_until(&ids[0], "delivered").await;
    world.advance(2 * DAY).await;
    // The other one has an end, and is forgotten after it.
    eventually(async || {
        world.housekeep().await;
        (count(world, "SELECT COUNT(*) FROM sms_messages").await == 0).then_some(())
    })
    .await;
    // The carrier took both.
    assert_eq!(ada.balance().await, 1_000 - 2 * world.price("sms", "FR"));
}

/// As with emails that are kept for less time than a report may take.
async fn an_attempt_that_outlives_its_message_goes_when_its_time_is_over(world: &World) {
    let centre = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("main", centre.address(), "")])).await;
    until_up(world, "main").await;
    let ada = world.live_sender("ada", 1_000).await;
    let text = json!({"to": "+33612349006", "text": "x", "validity_s": 2 * DAY / 1_000});
    let sent = ada.text(text).await.ok();
    ada.sms_until(sent.word("id"), "submitted").await;
    write(world, "DELETE FROM sms_messages", args![]).await;
    world.advance(DAY + HOUR).await;
    world.housekeep().await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM attempts").await, 1);
    world.advance(2 * DAY).await;
    eventually(async || {
        world.housekeep().await;
        (count(world, "SELECT COUNT(*) FROM attempts").await == 0).then_some(())
    })
    .await;
}

/// Also where it was valid for so long that its recipient was not forgotten before.
async fn what_a_carrier_calls_a_message_goes_with_it(world: &World) {
    let centre = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("main", centre.address(), "")])).await;
    until_up(world, "main").await;
    let ada = world.live_sender("ada", 1_000).await;
    let text = json!({"to": phone("5678"), "text": "x", "validity_s": 3 * DAY / 1_000});
    let sent = ada.text(text).await.ok();
    ada.sms_until(sent.word("id"), "delivered").await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM submissions").await, 1);
    world.advance(DAY + HOUR).await;
    eventually(async || {
        world.housekeep().await;
        (count(world, "SELECT COUNT(*) FROM attempts").await == 0).then_some(())
    })
    .await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM submissions").await, 0);
}

async fn passcodes_of_the_sandbox_are_deleted_after_a_month(world: &World) {
    let ada = world.account("ada").await;
    ada.send_to(&phone("5678")).await.ok();
    world.advance(29 * DAY).await;
    let young = ada.send_to(&phone("5679")).await.ok();
    world.housekeep().await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM challenges").await, 2);
    world.advance(DAY).await;
    world.housekeep().await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM challenges").await, 1);
    assert_eq!(count(world, "SELECT COUNT(*) FROM attempts").await, 1);
    ada.challenge(young.word("challenge_id")).await.ok();
}

async fn an_account_keeps_so_many_handset_messages_and_the_others_theirs(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    eve.send_to(&phone("5678")).await.ok();
    for number in 0..8 {
        ada.send_to(&phone(&format!("567{number}"))).await.ok();
    }
    world.advance(HOUR).await;
    world.housekeep().await;
    for number in 0..8 {
        let kept = ada.handset(&phone(&format!("567{number}"))).await.len();
        assert_eq!(kept, usize::from(number >= 3), "handset {number}");
    }
    assert_eq!(eve.handset(&phone("5678")).await.len(), 1);
    world.advance(DAY).await;
    world.housekeep().await;
    assert_eq!(count(world, "SELECT COUNT(*) FROM handset_messages").await, 0);
}

async fn an_account_of_the_sandbox_keeps_so_many_messages_of_people(world: &World) {
    let tenants = [world.account("ada").await, world.account("eve").await];
    for (tenant, replies) in tenants.iter().zip([5, 2]) {
        for number in 0..replies {
            let path = format!("/v1/sandbox/handsets/{}/replies", phone("5678"));
            let body = json!({"text": format!("{number}"), "channel": "sms"});
            tenant.call("POST", &path).json(body).await.ok();
        }
    }
    world.advance(HOUR).await;
    world.housekeep().await;
    let kept = async |tenant: &Tenant<'_>| {
        let listed = tenant.get("/v1/inbound-notifications").await.ok();
        listed
            .list()
            .iter()
            .map(|one| one["message"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(&tenants[0]).await, ["4", "3", "2"]);
    assert_eq!(kept(&tenants[1]).await, ["1", "0"]);
}

async fn chores_are_not_repeated_by_a_restart(world: &World) {
    world.advance(HOUR).await;
    world.housekeep().await;
    let done = "estafette_chore_turns_total{chore=\"audit_ledger\",ending=\"done\"}";
    assert!(metric(world, done).await > 0.5);
    world.restart().await;
    world.advance(2 * MINUTE).await;
    world.housekeep().await;
    assert!(metric(world, done).await < 0.5, "this node has not audited: it was done before");
    let done_at = "estafette_chore_done_timestamp_seconds{chore=\"audit_ledger\"}";
    let last = metric(world, done_at).await;
    assert!(last > 1.0e9, "but it knows when it was");
}

/// Rows of everything that is forgotten for its age.
async fn kept(world: &World) -> Vec<i64> {
    let mut found = vec![];
    for table in [
        "SELECT COUNT(*) FROM idempotency",
        "SELECT COUNT(*) FROM tokens",
        "SELECT COUNT(*) FROM audit_log",
        "SELECT COUNT(*) FROM challenges",
        "SELECT COUNT(*) FROM challenges WHERE recipient LIKE '+%'",
        "SELECT COUNT(*) FROM attempts",
        "SELECT COUNT(*) FROM events",
        "SELECT COUNT(*) FROM recipients",
        "SELECT COUNT(*) FROM inbound",
        "SELECT COUNT(*) FROM inbound_seen",
    ] {
        found.push(count(world, table).await);
    }
    found
}

/// How often this node has done all chores of forgetting, by the one that it does last.
async fn turns(world: &World) -> f64 {
    let line = "estafette_chore_turns_total{chore=\"forget_handset_messages\",ending=\"done\"}";
    metric(world, line).await
}

/// Minutes pass until the chores were done once more.
async fn until_done_again(world: &World) {
    let before = turns(world).await;
    for _ in 0..20 {
        world.advance(5 * MINUTE).await;
        for _ in 0..50 {
            if turns(world).await > before + 0.5 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    panic!("the chores were not done within a hundred minutes");
}

/// An account with something of everything, more than an hour ago.
async fn history(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["5678", "0001", "0004"] {
        let key = format!("key-{ending}");
        ada.send_to(&phone(ending)).header("idempotency-key", &key).await;
    }
    let reply = ada.call("POST", &format!("/v1/sandbox/handsets/{}/replies", phone("5678")));
    reply.json(json!({"text": "hello"})).await.ok();
    world.advance(HOUR).await;
    until_done_again(world).await;
}

async fn a_clock_that_jumps_a_year_ahead_and_back_loses_nothing(world: &World) {
    history(world).await;
    let before = kept(world).await;
    assert!(before.iter().all(|rows| *rows > 0), "{before:?}");
    world.clock().step(400 * DAY);
    world.advance(HOUR).await;
    until_done_again(world).await;
    assert_eq!(kept(world).await, before, "nobody saw the time pass");
    let ahead = metric(world, "estafette_clock_ahead_seconds ").await;
    assert!((ahead - 400.0 * 86_400.0).abs() < 600.0, "{ahead}");
    world.restart().await;
    world.advance(HOUR).await;
    until_done_again(world).await;
    assert_eq!(kept(world).await, before, "nor did a process that starts with that clock");
    world.clock().step(-400 * DAY);
    until_done_again(world).await;
    assert_eq!(kept(world).await, before);
    let late = "SELECT COUNT(*) FROM chores WHERE next_at > $1";
    let late = rows::<i64>(world, late, args![world.now() + DAY]).await;
    assert_eq!(late, [0], "no chore waits for next year");
}

async fn a_step_that_an_operator_confirms_is_believed(world: &World) {
    history(world).await;
    let before = kept(world).await;
    world.clock().step(400 * DAY);
    let app = world.app(Env::Live).await;
    let by = estafette::access::By::CLI;
    estafette::retention::confirm_clock(&app, by).await.unwrap();
    // Rounds of sealing come first: what is not sealed is not forgotten.
    for _ in 0..12 {
        world.advance(HOUR).await;
        until_done_again(world).await;
        if kept(world).await[2] <= before[2] {
            break;
        }
    }
    let after = kept(world).await;
    for index in [0, 1, 3, 4, 5, 6, 7] {
        assert_eq!(after[index], 0, "{before:?} {after:?}");
    }
    assert!(after[2] < before[2] + 1, "the audit log keeps who confirmed: {after:?}");
    let told = "SELECT COUNT(*) FROM audit_log WHERE action = 'clock.confirm'";
    assert_eq!(count(world, told).await, 1);
}
