//! Stories of a person who wants to be forgotten: the number is in no byte of the files, nothing is
//! sent any more, and the money is right.

mod late;

use std::future::IntoFuture;
use std::time::Duration;

use clock::{DAY, MINUTE};
use estafette::app::Env;
use playground::ReceiverZoo;
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, Call, Engine, World, eventually};

on_every_engine!(
    an_erased_recipient_is_in_no_row,
    nothing_is_sent_to_an_erased_recipient,
    receipts_after_an_erasure_bring_nothing_back,
    a_sender_that_waits_brings_nothing_back,
    an_erasure_that_is_repeated_looks_at_everything_again,
    an_erasure_gives_back_what_is_held,
    an_erasure_beside_sends_in_flight_leaves_no_hold,
    an_erasure_may_be_of_one_account,
    a_request_that_was_refused_names_nobody_after_it,
    an_erasure_is_noted_without_the_number,
    only_staff_erase_and_only_real_numbers,
    what_is_sent_after_an_erasure_is_kept_again,
);

async fn erase(world: &World, body: Value) -> Call {
    let staff = world.staff().await;
    world.post(Env::Live, "/v1/admin/erasures").bearer(staff).json(body)
}

async fn erased(world: &World, to: &str) -> Answer {
    erase(world, json!({"phone": to})).await.await.ok()
}

/// The columns of the schema that hold texts, as table and column, after all migrations.
fn text_columns() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut found: Vec<(String, String)> = vec![];
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let mut table = String::new();
        for line in text.lines() {
            let line = line.trim_end_matches([',', ';']);
            let words: Vec<&str> = line.split_whitespace().collect();
            let of = |table: &str, column: &str| (table.to_owned(), column.to_owned());
            match words.as_slice() {
                ["CREATE", "TABLE", name, ..] => (*name).clone_into(&mut table),
                ["ALTER", "TABLE", table, "ADD", "COLUMN", column, "TEXT", ..] => {
                    found.push(of(table, column));
                }
                ["ALTER", "TABLE", table, "RENAME", "COLUMN", old, "TO", new] => {
                    let renamed = found.iter_mut().filter(|(of, name)| of == table && name == old);
                    renamed.for_each(|(_, name)| (*new).clone_into(name));
                }
                ["ALTER", "TABLE", table, "DROP", "COLUMN", column] => {
                    found.retain(|(of, name)| of != table || name != column);
                }
                [column, "TEXT", ..] => found.push(of(&table, column)),
                _ => {}
            }
        }
    }
    found.sort();
    found.dedup();
    assert!(found.contains(&("challenges".to_owned(), "slot".to_owned())), "{found:?}");
    assert!(found.contains(&("attempts".to_owned(), "object_id".to_owned())), "{found:?}");
    found
}

/// The columns that hold these digits in some row.
pub async fn holding(world: &World, number: &str) -> Vec<String> {
    let db = world.app(Env::Live).await.db.clone();
    let mut found = vec![];
    for (table, column) in text_columns() {
        let sql = format!("SELECT COUNT(*) FROM {table} WHERE {column} LIKE $1");
        let args = store::args![format!("%{}%", digits(number))];
        let row: Option<(i64,)> = db.row(store::Sql(sql.leak()), args).await.unwrap();
        if row.unwrap().0 > 0 {
            found.push(format!("{table}.{column}"));
        }
    }
    found
}

/// Whether the files of the embedded database hold these digits.
async fn in_files(world: &World, number: &str) -> bool {
    let db = world.app(Env::Live).await.db.clone();
    db.holds(digits(number).as_bytes()).await.unwrap().expect("files that can be read")
}

/// The digits of a number, as anything that names it would have them.
fn digits(number: &str) -> &str {
    number.trim_start_matches('+')
}

/// Every way in which a number gets into the database.
async fn be_sent_to(ada: &Tenant<'_>, to: &str) -> i64 {
    let mut sent = 0;
    for index in 0..7 {
        let reference = format!("user {to} {index}");
        let body = json!({"to": to, "reference": reference, "code": "4821"});
        let call = ada.send(body).header("idempotency-key", &format!("{}-{index}", digits(to)));
        let answer = call.await;
        sent += i64::from(answer.status == 200);
        let id = answer.body["challenge_id"].as_str().unwrap_or("").to_owned();
        match index {
            0 => drop(ada.guess(&id, "4821").await),
            1 => drop(ada.guess(&id, "0000").await),
            _ => {}
        }
        let reply = ada.call("POST", &format!("/v1/sandbox/handsets/{to}/replies"));
        let key = format!("reply {index}");
        reply
            .json(json!({"text": format!("I am {to}")}))
            .header("idempotency-key", &key)
            .await
            .ok();
    }
    sent
}

async fn an_erased_recipient_is_in_no_row(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let (to, other) = (phone("5678"), phone("9999"));
    for index in 0..40 {
        // Neighbours, so that pages of the database fill and split around the number.
        eve.send_to(&format!("+3361234{:04}", 5600 + index)).await.ok();
    }
    let mut sent = be_sent_to(&ada, &to).await;
    ada.send(json!({"to": phone("0001"), "reference": "unreachable"})).await.ok();
    world.advance(5 * MINUTE).await;
    sent += be_sent_to(&eve, &to).await;
    eve.send_to(&other).await.ok();
    for index in 40..80 {
        eve.send_to(&format!("+3361234{:04}", 5600 + index)).await.ok();
    }
    world.settle().await;
    let before = holding(world, &to).await;
    for place in [
        "challenges.recipient",
        "challenges.reference",
        "idempotency.idem_key",
        "inbound.sender",
        "inbound.message",
        "inbound.raw_json",
    ] {
        assert!(before.iter().any(|found| found == place), "the search finds {place}: {before:?}");
    }
    let answer = erased(world, &to).await;
    // Eve's neighbours were 5678 once, too.
    assert_eq!(answer.number("challenges"), sent + 1, "{}", answer.text);
    assert!(answer.number("ended") > 0 && answer.number("idempotency_keys") == 28, "{answer:?}");
    assert_eq!(holding(world, &to).await, Vec::<String>::new());
    assert!(!holding(world, &other).await.is_empty(), "others are not erased");
    let again = erased(world, &to).await;
    assert_eq!(
        again.body,
        json!({
            "challenges": 0,
            "messages": 0,
            "emails": 0,
            "ended": 0,
            "idempotency_keys": 0,
            "inbound_notifications": 0,
            "ticket_messages": 0,
        })
    );
    world.advance(DAY).await;
    assert_eq!(holding(world, &to).await, Vec::<String>::new());
}

/// Deleted rows leave traces in the files of a database, so the bytes are looked at, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erased_recipient_is_in_no_byte_of_the_files() {
    let world = World::new(Engine::Lite).await;
    let ada = world.account("ada").await;
    let (to, other) = (phone("5678"), phone("9999"));
    for index in 0..60 {
        // Neighbours, so that pages of the database fill and split around the number.
        ada.send_to(&format!("+3361234{:04}", 5600 + index)).await.ok();
    }
    be_sent_to(&ada, &to).await;
    ada.send_to(&other).await.ok();
    world.settle().await;
    assert!(in_files(&world, &to).await, "the search finds what is there");
    erased(&world, &to).await;
    world.settle().await;
    // A page that was split may keep a copy in its unused part; the store's tests say how rarely.
    world.app(Env::Live).await.db.compact().await.unwrap();
    assert!(!in_files(&world, &to).await);
    assert!(in_files(&world, &other).await, "others are not erased");
    world.finish().await;
}

async fn nothing_is_sent_to_an_erased_recipient(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0003");
    let sent = ada.send(json!({"to": to, "code": "604417"})).await.ok();
    let id = sent.word("challenge_id");
    assert_eq!(erased(world, &to).await.number("ended"), 1);
    let read = ada.challenge(id).await.ok();
    assert_eq!((read.word("status"), read.word("failure_reason")), ("failed", "erased"));
    assert_eq!((read.word("to"), read.field("reference")), ("", &json!(null)));
    ada.guess(id, "604417").await.problem("otp_expired");
    world.advance(MINUTE).await;
    assert!(ada.handset(&to).await.is_empty(), "no SMS takes over");
    assert_eq!(ada.challenge(id).await.ok().word("channel"), "chatapp");
    let moves = ada.movements().await;
    let kinds: Vec<&str> = moves.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["hold", "post"], "the carrier had taken it");
}

async fn receipts_after_an_erasure_bring_nothing_back(world: &World) {
    let ada = world.account("ada").await;
    let (failing, late) = (phone("0002"), phone("0007"));
    let before = ada.balance().await;
    let lost = ada.send_to(&failing).await.ok();
    let kept = ada.send(json!({"to": late, "delivery_mode": "chatapp"})).await.ok();
    for to in [&failing, &late] {
        assert_eq!(erased(world, to).await.number("ended"), 1);
    }
    world.advance(3_100).await;
    world.advance(MINUTE).await;
    let read = ada.challenge(lost.word("challenge_id")).await.ok();
    assert_eq!((read.word("status"), read.word("failure_reason")), ("failed", "erased"));
    let read = ada.challenge(kept.word("challenge_id")).await.ok();
    assert!(read.word("provider_message_id").starts_with("att_"), "{}", read.text);
    // What failed is refunded, nothing else.
    let rest = before - world.price("chatapp", "FR");
    eventually(async || (ada.balance().await == rest).then_some(())).await;
    for to in [&failing, &late] {
        assert_eq!(holding(world, to).await, Vec::<String>::new());
    }
    assert_eq!(carriers_ids(world).await, 0);
}

/// Carriers' ids that are kept; they can hold the number, unless they are hidden.
async fn carriers_ids(world: &World) -> i64 {
    let db = world.app(Env::Live).await.db.clone();
    let mut count = 0;
    for sql in [
        "SELECT COUNT(*) FROM submissions WHERE provider_id NOT LIKE ' %'",
        "SELECT COUNT(*) FROM challenges WHERE provider_message_id <> attempt_id",
    ] {
        let row: Option<(i64,)> = db.row(store::Sql(sql), store::args![]).await.unwrap();
        count += row.unwrap().0;
    }
    count
}

async fn a_sender_that_waits_brings_nothing_back(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("0007");
    let body = json!({"to": to, "delivery_mode": "chatapp"});
    let send = async { ada.send(&body).await };
    let news = async {
        // The carrier has it, and the sender waits for a receipt, which comes after the erasure.
        tokio::time::sleep(Duration::from_millis(60)).await;
        let erasure = tokio::spawn(erase(world, json!({"phone": to})).await.into_future());
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.stand_still_for(3_100).await;
        erasure.await.unwrap().ok()
    };
    let (_, erased) = tokio::join!(send, news);
    assert_eq!(erased.number("challenges"), 1, "{}", erased.text);
    assert_eq!(carriers_ids(world).await, 0);
    assert_eq!(holding(world, &to).await, Vec::<String>::new());
}

/// Answers of receivers that hold these digits.
async fn echoes(world: &World, number: &str) -> usize {
    let db = world.app(Env::Live).await.db.clone();
    let sql = store::Sql(
        "SELECT first_body FROM webhook_deliveries WHERE first_body IS NOT NULL \
         UNION ALL SELECT body FROM webhook_attempts WHERE body IS NOT NULL",
    );
    let rows: Vec<(Vec<u8>,)> = db.rows(sql, store::args![]).await.unwrap();
    let holds = |body: &[u8]| String::from_utf8_lossy(body).contains(digits(number));
    rows.iter().filter(|(body,)| holds(body)).count()
}

async fn an_erasure_that_is_repeated_looks_at_everything_again(world: &World) {
    let zoo = ReceiverZoo::start().await.unwrap();
    let ada = world.account("ada").await;
    let to = phone("5678");
    let hook = json!({"url": zoo.url("/echo"), "events": ["otp.status"]});
    ada.desk("POST", "/v1/webhooks").json(hook).await.ok();
    ada.send_to(&to).await.ok();
    eventually(async || (echoes(world, &to).await > 0).then_some(())).await;
    erased(world, &to).await;
    assert_eq!(echoes(world, &to).await, 0);
    // As if a late answer, of a receiver and of a carrier, had been written down after all.
    let mut set = store::WriteSet::of(&ada.account_id);
    for late in [
        "UPDATE webhook_deliveries SET first_body = $1 WHERE account_id = $2",
        "INSERT INTO webhook_attempts (body, account_id, webhook_id, delivery_id, number, at, \
         latency_ms) SELECT $1, account_id, webhook_id, delivery_id, 2, 0, 0 \
         FROM webhook_deliveries WHERE account_id = $2",
    ] {
        set.push(store::Sql(late), store::args![to.as_bytes().to_vec(), &ada.account_id]);
    }
    let late = "INSERT INTO submissions (carrier, provider_id, account_id, attempt_id, part) \
         SELECT 'a carrier', attempt_id, account_id, attempt_id, 0 FROM attempts \
         WHERE account_id = $1";
    set.push(store::Sql(late), store::args![&ada.account_id]);
    world.app(ada.env).await.db.commit(set).await.unwrap();
    assert!(echoes(world, &to).await > 0 && carriers_ids(world).await > 0);
    assert_eq!(erased(world, &to).await.number("challenges"), 0);
    assert_eq!((echoes(world, &to).await, carriers_ids(world).await), (0, 0));
}

/// As if the carrier's answer had been lost: nobody knows whether it has the message, and the price
/// is held.
async fn lose_the_answer(world: &World, ada: &Tenant<'_>, challenge: &str) {
    let price = world.price("chatapp", "FR");
    let mut set = store::WriteSet::of(&ada.account_id);
    for sql in [
        "UPDATE attempts SET state = 'unknown' WHERE account_id = $1 AND object_id = $2",
        "UPDATE challenges SET settled = 0 WHERE account_id = $1 AND challenge_id = $2",
        "DELETE FROM transfers WHERE account_id = $1 AND object_id = $2 AND kind = 'post'",
    ] {
        set.push(store::Sql(sql), store::args![&ada.account_id, challenge]);
    }
    let held = "UPDATE accounts SET held = held + $1, posted = posted + $1 WHERE account_id = $2";
    set.push(store::Sql(held), store::args![price, &ada.account_id]);
    world.app(ada.env).await.db.commit(set).await.unwrap();
}

async fn an_erasure_gives_back_what_is_held(world: &World) {
    let ada = world.account("ada").await;
    let before = ada.balance().await;
    let sent = ada.send_to(&phone("0003")).await.ok();
    lose_the_answer(world, &ada, sent.word("challenge_id")).await;
    assert_eq!(ada.balance().await, before - world.price("chatapp", "FR"));
    assert_eq!(erased(world, &phone("0003")).await.number("ended"), 1);
    assert_eq!(ada.balance().await, before);
    let moves = ada.movements().await;
    let kinds: Vec<&str> = moves.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["hold", "void"]);
}

async fn an_erasure_beside_sends_in_flight_leaves_no_hold(world: &World) {
    let ada = world.account("ada").await;
    // Throttled twice, lost answers, refusals, receipts that come at once: each a race of its own.
    for ending in ["0006", "0005", "0001", "0008", "5678", "0004"] {
        let to = phone(ending);
        let sends = async {
            for index in 0..4 {
                ada.send(json!({"to": to, "reference": format!("{index}")})).await;
            }
        };
        let erasures = async {
            for _ in 0..3 {
                erased(world, &to).await;
            }
        };
        tokio::join!(sends, erasures);
        erased(world, &to).await;
        assert_eq!(holding(world, &to).await, Vec::<String>::new(), "{ending}");
        assert_eq!(carriers_ids(world).await, 0, "{ending}");
    }
    // The end of the story proves that nothing is held.
}

async fn an_erasure_may_be_of_one_account(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let to = phone("5678");
    let of_ada = ada.send_to(&to).await.ok();
    let of_eve = eve.send_to(&to).await.ok();
    let body = json!({"phone": to, "account_id": ada.account_id});
    assert_eq!(erase(world, body).await.await.ok().number("challenges"), 1);
    assert_eq!(ada.challenge(of_ada.word("challenge_id")).await.ok().word("to"), "");
    assert_eq!(eve.challenge(of_eve.word("challenge_id")).await.ok().word("to"), to);
    let unknown = json!({"phone": to, "account_id": "acc_01kdv00000000000000000000z"});
    erase(world, unknown).await.await.problem("not_found");
}

/// No message leads to its key, and the refusal may repeat what it was asked for.
async fn a_request_that_was_refused_names_nobody_after_it(world: &World) {
    let ada = world.account("ada").await;
    let (to, other) = (phone("5678"), phone("9999"));
    let refused = async |number: &str| {
        let sms = json!({"to": phone("1111"), "text": "x", "sender": digits(number)});
        let key = format!("To {}", digits(number));
        let sms = ada.text(sms).header("idempotency-key", &key).await;
        let mail = json!({"to": [format!("Ann{}@example.com", digits(number))], "text": "x",
            "subject": "x", "from_email": "x@unverified.example"});
        let key = format!("To Ann{}@example.com", digits(number));
        let mail = ada.call("POST", "/v1/emails").json(mail).header("idempotency-key", &key).await;
        (sms.problem("sender_not_approved"), mail.problem("domain_not_verified"))
    };
    for number in [&to, &other] {
        refused(number).await;
        let held = ["idempotency.answer".to_owned(), "idempotency.idem_key".to_owned()];
        assert_eq!(holding(world, number).await, held);
    }
    let of_mail = json!({"email": format!("ann{}@example.com", digits(&to))});
    let erased_mail = erase(world, of_mail).await.await.ok();
    assert_eq!(erased_mail.number("idempotency_keys"), 1, "{}", erased_mail.text);
    assert_eq!(erased(world, &to).await.number("idempotency_keys"), 1);
    assert_eq!(holding(world, &to).await, Vec::<String>::new());
    assert!(!holding(world, &other).await.is_empty(), "others are not erased");
    // A repeat is told the same, without the number.
    for again in <[_; 2]>::from(refused(&to).await) {
        assert!(again.headers.contains_key("idempotent-replayed"), "{}", again.text);
        assert!(!again.text.contains(digits(&to)), "{}", again.text);
    }
}

async fn an_erasure_is_noted_without_the_number(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    ada.send_to(&to).await.ok();
    erased(world, &to).await;
    let path = "/v1/admin/audit-log?action=recipient.erase";
    let log = world.get(Env::Live, path).bearer(world.staff().await).await.ok();
    assert_eq!(log.list().len(), 1);
    assert_eq!(log.list()[0]["detail"], json!({"country": "FR"}));
    assert_eq!(log.list()[0]["object_id"].as_str().map(str::len), Some(64), "a keyed hash");
    assert!(!log.text.contains("612345678"), "{}", log.text);
}

async fn only_staff_erase_and_only_real_numbers(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"phone": phone("5678")});
    let call = || world.post(Env::Sandbox, "/v1/admin/erasures").json(&body);
    call().await.problem("missing_credentials");
    call().bearer(&ada.token).await.problem("invalid_token");
    let bad = erase(world, json!({"phone": "none"})).await.await;
    bad.fault("/phone", "invalid_phone_number");
    erase(world, json!({})).await.await.fault("/phone", "required");
    let short = json!({"phone": phone("5678"), "account_id": "acc_1"});
    erase(world, short).await.await.problem("not_found");
    // Numbering plans change: what was kept under an old one can still be erased.
    erase(world, json!({"phone": "+33000000000"})).await.await.ok();
}

async fn what_is_sent_after_an_erasure_is_kept_again(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    ada.send_to(&to).await.ok();
    erased(world, &to).await;
    let sent = ada.send(json!({"to": to, "code": "4821"})).await.ok();
    assert_eq!(sent.word("to"), to);
    ada.verify(json!({"to": to, "code": "4821"})).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_erases_beside_a_running_service() {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let world = World::new(Engine::Lite).await;
    let ada = world.account("ada").await;
    let to = phone("5678");
    ada.send_to(&to).await.ok();
    world.settle().await;
    let mut run = Command::new(env!("CARGO_BIN_EXE_estafette"))
        .args(["erase", "--recipient", "-", "--json"])
        .env("ESTAFETTE__DATA_DIR", world.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    run.stdin.take().unwrap().write_all(to.as_bytes()).unwrap();
    let said = run.wait_with_output().unwrap();
    assert!(said.status.success());
    let object: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(object["challenges"], 1, "{object}");
    assert_eq!(object["files_clean"], !in_files(&world, &to).await, "{object}");
    assert_eq!(object["handsets_in_memory"], true, "{object}");
    assert_eq!(holding(&world, &to).await, Vec::<String>::new());
    let run = Command::new(env!("CARGO_BIN_EXE_estafette"))
        .args(["compact", "--json"])
        .env("ESTAFETTE__DATA_DIR", world.folder())
        .output()
        .unwrap();
    let object: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(object["bytes_after"].as_u64().is_some_and(|bytes| bytes > 0), "{object}");
    assert!(!in_files(&world, &to).await);
    world.finish().await;
}
