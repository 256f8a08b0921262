//! What only the PostgreSQL engine meets: connections that end at the worst moment, servers that
//! are away or silent, deadlocks, and other nodes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test that cannot go on has failed; a test binary has no outside"
)]

mod bulk;
mod clashes;
mod commits;
mod encryption;
mod gathered;
mod hints;
mod outages;
mod plans;
mod proxy;
#[path = "../server/mod.rs"]
mod server;

use std::time::Duration;

use engines::Pg;
use proxy::Proxy;
use server::Database;
use store::{Db, Done, Migration, PostgresOptions, Reject, Sql, WriteSet, args};

const SCHEMA: Migration = Migration {
    version: 1,
    name: "accounts and ledger",
    sql: "CREATE TABLE accounts (id TEXT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL, \
          version BIGINT NOT NULL);
          CREATE TABLE ledger (account_id TEXT NOT NULL, id TEXT NOT NULL, amount BIGINT NOT NULL, \
          PRIMARY KEY (account_id, id));
          INSERT INTO accounts VALUES ('a', 0, 0), ('b', 0, 0);",
};
const BUMP: Sql = Sql("UPDATE accounts SET version = version + 1 WHERE id = $1 RETURNING version");
const ENTRY: Sql = Sql("INSERT INTO ledger (account_id, id, amount) VALUES ($1, $2, 1)");
const ENTRIES: Sql = Sql("SELECT id FROM ledger WHERE account_id = $1 ORDER BY id");
const VERSION: Sql = Sql("SELECT version FROM accounts WHERE id = $1");
const NOBODY: Reject = Reject("nobody");

/// A server that is given so long to answer, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_secs(2);

/// A database behind a network that can fail, and a node that reaches it only through that.
struct Bench {
    database: Database,
    proxy: Proxy,
    db: Db,
}

impl Bench {
    async fn new() -> Self {
        Self::with(|_| ()).await
    }

    async fn with(change: impl FnOnce(&mut PostgresOptions)) -> Self {
        let database = Database::empty().await;
        let direct = open(&database.url(), |_| ());
        assert_eq!(direct.migrate(&[SCHEMA]).await.unwrap(), 1);
        direct.close().await;
        let proxy = Proxy::start(&server::postgres()).await;
        let db = open(&proxy.url(&database.name), change);
        // Connected, and everything prepared.
        db.commit(entry("warm")).await.unwrap();
        assert_eq!(ids(&db).await, ["warm"]);
        Self { database, proxy, db }
    }

    /// Another node, with a network that does not fail.
    fn node(&self) -> Db {
        open(&self.database.url(), |_| ())
    }
}

fn open(url: &str, change: impl FnOnce(&mut PostgresOptions)) -> Db {
    let patience_ms = u64::try_from(PATIENCE.as_millis()).unwrap();
    let mut options = PostgresOptions { patience_ms, batchers: 1, ..PostgresOptions::default() };
    change(&mut options);
    Db::new(Pg::open(url, &options).unwrap())
}

/// A set that cannot happen twice unnoticed: the version would rise twice, the entry be refused.
fn entry(id: &str) -> WriteSet {
    let mut set = WriteSet::of("a");
    set.returning(BUMP, args!["a"], NOBODY);
    set.push(ENTRY, args!["a", id]);
    set
}

/// One that can happen twice: only its version tells.
fn bump(id: &str) -> WriteSet {
    let mut set = WriteSet::of(id);
    set.returning(BUMP, args![id], NOBODY);
    set
}

/// Looks again and again until it is so; what never is has failed.
async fn until(is_so: impl AsyncFn() -> bool) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(10 * PATIENCE, look).await.unwrap();
}

/// Until somebody in this database waits for a lock.
async fn until_a_lock_is_waited_for(database: &Database) {
    let client = database.client().await;
    let waits = "SELECT COUNT(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until(async || client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0).await;
}

fn version(done: Done) -> i64 {
    done.only::<(i64,)>().unwrap().0
}

async fn ids(db: &Db) -> Vec<String> {
    let rows: Vec<(String,)> = db.rows(ENTRIES, args!["a"]).await.unwrap();
    rows.into_iter().map(|(id,)| id).collect()
}

async fn version_of(db: &Db, id: &str) -> i64 {
    db.row::<(i64,)>(VERSION, args![id]).await.unwrap().unwrap().0
}
