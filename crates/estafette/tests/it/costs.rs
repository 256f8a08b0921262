//! What an operation costs the database, counted: it does not depend on the machine, so it is
//! locked. Whoever makes one dearer has to say so here.

use std::collections::BTreeMap;

use estafette::app::Env;
use serde_json::json;
use store::{Args, Db, Sql, Stmt, Val, View};

use crate::on_every_engine;
use crate::world::tenant::{Tenant, other_than, phone};
use crate::world::{Engine, World, eventually};

on_every_engine!(
    a_passcode_costs_what_it_did,
    a_guess_costs_what_it_did,
    an_sms_costs_what_it_did,
    reads_cost_what_they_did,
);

const SQLITE_INDEXES: Sql = Sql("SELECT tbl_name, COALESCE(sql, '') FROM sqlite_master \
     WHERE type = 'index' ORDER BY name");
const POSTGRES_INDEXES: Sql = Sql("SELECT CAST(tablename AS TEXT), indexdef FROM pg_indexes \
     WHERE schemaname = 'public' ORDER BY indexname");

/// Rows and index entries of some tables.
type Counts = BTreeMap<&'static str, (i64, i64)>;

/// What the tables of a channel hold.
async fn counts(db: &Db, tables: &[&'static str]) -> Counts {
    let count = async |table: &str, only: &str| -> i64 {
        let sql = Sql(format!("SELECT COUNT(*) FROM {table} {only}").leak());
        db.row::<(i64,)>(sql, Args::new()).await.unwrap().unwrap().0
    };
    let indexes: Vec<(String, String)> = match db.rows(SQLITE_INDEXES, Args::new()).await {
        Ok(indexes) => indexes,
        Err(_) => db.rows(POSTGRES_INDEXES, Args::new()).await.unwrap(),
    };
    let mut counts = Counts::new();
    for table in tables {
        let mut entries = 0;
        for (_, sql) in indexes.iter().filter(|(of, _)| of == table) {
            let only = sql.find(" WHERE ").map_or("", |at| &sql[at..]);
            entries += count(table, only).await;
        }
        counts.insert(table, (count(table, "").await, entries));
    }
    counts
}

/// Bytes of arguments, as they are stored.
fn bytes(args: &Args) -> usize {
    let size = |value: &Val| match value.view() {
        View::Null => 0,
        View::Int(_) => 8,
        View::Text(bytes) | View::Bytes(bytes) => bytes.len(),
    };
    args.iter().map(size).sum()
}

/// What an operation of a tenant cost.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    /// Statements of each commit.
    commits: Vec<usize>,
    /// Reads.
    reads: usize,
    /// Bytes of what was written.
    bytes: usize,
    /// Rows and index entries more, by table.
    rows: Vec<(&'static str, i64, i64)>,
}

/// Does something and counts what it cost this tenant.
async fn cost<T>(
    tenant: &Tenant<'_>,
    tables: &[&'static str],
    does: impl Future<Output = T>,
) -> (T, Cost) {
    let world = tenant.world;
    let db = world.app(Env::Sandbox).await.db.clone();
    // What came before is over, and what is noted of it behind its answer as well.
    world.settle().await;
    let before = counts(&db, tables).await;
    world.faults.write_down();
    let done = does.await;
    let seen = world.faults.seen();
    let after = counts(&db, tables).await;
    let me = tenant.account_id.as_str();
    // Handsets keep what they got in a database of several nodes only, and live has none.
    // Conversion is counted behind the answer, many sends at a time.
    let is_apart =
        |sql: Sql| sql.0.contains("handset_messages") || sql.0.contains("otp_conversion");
    let is_ours = |set: &&store::WriteSet| {
        set.shard() == me && !set.stmts().iter().any(|one| is_apart(one.sql))
    };
    let commits: Vec<_> = seen.commits.iter().filter(is_ours).collect();
    let names_me = |args: &Args| args.contains(&Val::from(me));
    let is_read = |(sql, args): &&(Sql, Args)| names_me(args) && !is_apart(*sql);
    let more = |table: &&'static str| {
        let (was, is) = (before[table], after[table]);
        (*table, is.0 - was.0, is.1 - was.1)
    };
    let stmts = commits.iter().flat_map(|set| set.stmts());
    let cost = Cost {
        bytes: stmts.map(|stmt| bytes(&stmt.args)).sum(),
        commits: commits.iter().map(|set| set.stmts().len()).collect(),
        reads: seen.reads.iter().filter(is_read).count(),
        rows: tables.iter().map(more).collect(),
    };
    (done, cost)
}

const OTP: [&str; 4] = ["challenges", "attempts", "transfers", "events"];

async fn a_passcode_costs_what_it_did(world: &World) {
    let ada = world.account("ada").await;
    ada.send_to(&phone("0003")).await.ok();
    // No receipt comes: one that comes at once would share the second commit, or have its own. What
    // happened while it was waited for is read.
    let body = json!({"to": "+33612300003", "request_messaging_consent": false});
    let (sent, cost) = cost(&ada, &OTP, async { ada.send(body).await.ok() }).await;
    assert_eq!(sent.word("status"), "sent");
    let rows =
        vec![("challenges", 1, 3), ("attempts", 1, 2), ("transfers", 2, 2), ("events", 1, 1)];
    assert_eq!(cost, Cost { commits: vec![5, 5], reads: 1, bytes: 1_388, rows });
}

async fn a_guess_costs_what_it_did(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    let id = sent.word("challenge_id");
    let guess = async { ada.guess(id, &other_than("4821")).await.problem("otp_code_invalid") };
    let (_, wrong) = cost(&ada, &OTP, guess).await;
    let rows =
        vec![("challenges", 0, 0), ("attempts", 0, 0), ("transfers", 0, 0), ("events", 0, 0)];
    // The third statement is SQLite's alone.
    assert_eq!(wrong, Cost { commits: vec![3], reads: 0, bytes: 266, rows });
    let (_, right) = cost(&ada, &OTP, async { ada.guess(id, "4821").await.ok() }).await;
    // It is not due any more.
    let rows =
        vec![("challenges", 0, -1), ("attempts", 0, 0), ("transfers", 0, 0), ("events", 1, 1)];
    assert_eq!(right, Cost { commits: vec![3], reads: 0, bytes: 266, rows });
}

/// The indexes that a statement may write to, in SQLite's program for it.
async fn index_writes(db: &Db, stmt: &Stmt) -> usize {
    let sql = Sql(format!("EXPLAIN {}", stmt.sql.0).leak());
    let steps: Vec<(i64, String)> = db.rows(sql, stmt.args.clone()).await.unwrap();
    steps.iter().filter(|(_, step)| step == "IdxInsert").count()
}

/// It writes an entry anew whose columns are set, even to what they were.
#[tokio::test]
async fn on_sqlite_a_guess_writes_to_no_index() {
    let world = World::new(Engine::Lite).await;
    let ada = world.account("ada").await;
    let db = world.app(Env::Sandbox).await.db.clone();
    let sent = ada.send(json!({"to": phone("5678"), "code": "4821"})).await.ok();
    world.faults.write_down();
    ada.guess(sent.word("challenge_id"), &other_than("4821")).await.problem("otp_code_invalid");
    let seen = world.faults.seen();
    let one = |text| {
        let mut stmts = seen.commits.iter().flat_map(store::WriteSet::stmts);
        stmts.find(|stmt| stmt.sql.0.contains(text)).unwrap().clone()
    };
    assert_eq!(index_writes(&db, &one("attempts = attempts + 1")).await, 0);
    // What takes an ended one out of them is seen.
    assert_eq!(index_writes(&db, &one("SET slot = NULL")).await, 3);
    world.finish().await;
}

async fn an_sms_costs_what_it_did(world: &World) {
    let ada = world.account("ada").await;
    let rows = vec![
        ("sms_messages", 1, 2),
        ("attempts", 1, 2),
        ("transfers", 2, 2),
        ("events", 2, 2),
        ("submissions", 0, 0),
    ];
    let wanted = Cost { commits: vec![5, 7], reads: 2, bytes: 1_521, rows };
    let mut last = sms_cost(world, &ada).await;
    // Where the machine is busy, the receipt may come too late for the commit of the answer.
    for _ in 0..4 {
        assert_eq!(last.rows, wanted.rows);
        if last != wanted {
            last = sms_cost(world, &ada).await;
        }
    }
    assert_eq!(last, wanted);
}

async fn sms_cost(world: &World, ada: &Tenant<'_>) -> Cost {
    let db = world.app(Env::Sandbox).await.db.clone();
    let tables = ["sms_messages", "attempts", "transfers", "events", "submissions"];
    let before = counts(&db, &["events"]).await["events"].0;
    let (sent, cost) = cost(ada, &tables, async {
        let sent = ada.text(json!({"to": phone("5678"), "text": "Your order is here."})).await.ok();
        // Whoever asks whether it arrived would be counted as well. Both of its events are the end.
        let count = async || counts(&db, &["events"]).await["events"].0;
        eventually(async || (count().await == before + 2).then_some(())).await;
        sent
    })
    .await;
    ada.sms_until(sent.word("id"), "delivered").await;
    cost
}

async fn reads_cost_what_they_did(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send_to(&phone("5678")).await.ok();
    let id = sent.word("challenge_id");
    let none = |reads| Cost { commits: vec![], reads, bytes: 0, rows: vec![] };
    let (_, one) = cost(&ada, &[], async { ada.challenge(id).await.ok() }).await;
    assert_eq!(one, none(1));
    let (_, list) = cost(&ada, &[], async { ada.get("/v1/otp").await.ok() }).await;
    assert_eq!(list, none(1));
    let (_, balance) = cost(&ada, &[], async { ada.get("/v1/balance").await.ok() }).await;
    assert_eq!(balance, none(1));
}
