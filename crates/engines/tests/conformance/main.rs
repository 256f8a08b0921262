//! What every storage engine must do. Each test runs once on each [`Kind`] of engine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed; clippy looks for that in test functions only"
)]

mod commits;
#[expect(unreachable_pub, dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../server/mod.rs"]
mod server;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engines::{Lite, Pg};
use futures_util::future::join_all;
use server::Database;
use store::{
    CommitError, Db, Done, Error, Expect, Migration, PostgresOptions, Reject, Sql, SqliteOptions,
    Stmt, WriteSet, args,
};
use tempfile::TempDir;

const SCHEMA: Migration = Migration {
    version: 1,
    name: "accounts and ledger",
    sql: "CREATE TABLE accounts (id TEXT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL \
          CHECK (balance >= 0), version BIGINT NOT NULL);
          CREATE TABLE ledger (account_id TEXT NOT NULL, id TEXT NOT NULL, amount BIGINT NOT NULL, \
          PRIMARY KEY (account_id, id));
          CREATE TABLE things (id BIGINT NOT NULL PRIMARY KEY, note TEXT, seal BYTEA);",
};
const ADDED: Migration = Migration {
    version: 2,
    name: "notes",
    sql: "CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY); INSERT INTO notes VALUES (1);",
};

const OPEN: Sql = Sql("INSERT INTO accounts (id, balance, version) VALUES ($1, $2, 0)");
const DEBIT: Sql =
    Sql("UPDATE accounts SET balance = balance - $1 WHERE id = $2 AND balance >= $1");
const OVERDRAW: Sql = Sql("UPDATE accounts SET balance = balance - $1 WHERE id = $2");
const ENTRY: Sql = Sql("INSERT INTO ledger (account_id, id, amount) VALUES ($1, $2, $3)");
const BALANCE: Sql = Sql("SELECT balance FROM accounts WHERE id = $1");
const ENTRIES: Sql = Sql("SELECT COUNT(*), CAST(COALESCE(SUM(amount), 0) AS BIGINT) \
    FROM ledger WHERE account_id = $1");
const BUMP: Sql = Sql("UPDATE accounts SET version = version + 1 WHERE id = $1 \
    RETURNING id, version");

const BROKE: Reject = Reject("broke");
const NOBODY: Reject = Reject("nobody");

/// What a test does to the engine under it.
type Fault = Arc<dyn Fn(&Stmt) + Send + Sync>;

/// What a test asks of the engine it gets.
#[derive(Clone, Default)]
struct Wish {
    queue: Option<usize>,
    fault: Option<Fault>,
}

/// Every engine, and every way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lite,
    Postgres,
    /// Through PgBouncer in transaction mode.
    Pgbouncer,
}

/// Where the data of one test are.
struct Place {
    kind: Kind,
    folder: TempDir,
    database: Option<Database>,
}

impl Place {
    async fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = if kind == Kind::Lite { None } else { Some(Database::empty().await) };
        Self { kind, folder, database }
    }

    /// A node; each has the same data.
    fn open(&self, wish: &Wish) -> Db {
        let Some(database) = &self.database else {
            return lite(&self.path("data").join("test.db"), wish);
        };
        let standard = PostgresOptions::default();
        let options = PostgresOptions {
            queue: wish.queue.unwrap_or(standard.queue),
            fault: wish.fault.clone(),
            // Debian's PgBouncer does not follow prepared statements.
            prepared_statements: self.kind == Kind::Postgres,
            // The machine that runs the tests may be busy with others of them.
            patience_ms: 20_000,
            ..standard
        };
        let server = match self.kind {
            Kind::Pgbouncer => server::pgbouncer(),
            _ => server::postgres(),
        };
        Db::new(Pg::open(&format!("{server}/{}", database.name), &options).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn lite(file: &Path, wish: &Wish) -> Db {
    let standard = SqliteOptions::default();
    let queue = wish.queue.unwrap_or(standard.queue);
    let options = SqliteOptions { queue, fault: wish.fault.clone(), ..standard };
    Db::new(Lite::open(file, options).unwrap())
}

/// An engine at a place of its own, with the schema and one account `a` of the given balance.
struct Bench {
    place: Place,
    db: Db,
}

impl Bench {
    async fn new(kind: Kind, wish: &Wish, balance: i64) -> Self {
        let place = Place::new(kind).await;
        let db = place.open(wish);
        assert_eq!(db.migrate(&[SCHEMA]).await.unwrap(), 1);
        db.commit(set("a", &[(OPEN, args!["a", balance], Expect::Any)])).await.unwrap();
        Self { place, db }
    }

    async fn balance(&self) -> i64 {
        let (balance,): (i64,) = self.db.row(BALANCE, args!["a"]).await.unwrap().unwrap();
        balance
    }

    async fn entries(&self) -> (i64, i64) {
        self.db.row(ENTRIES, args!["a"]).await.unwrap().unwrap()
    }
}

macro_rules! on_every_engine {
    ($module:ident: $($name:ident),* $(,)?) => { $(
        mod $name {
            use super::{Kind, $module};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn lite() {
                $module::$name(Kind::Lite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                $module::$name(Kind::Postgres).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn pgbouncer() {
                $module::$name(Kind::Pgbouncer).await;
            }
        }
    )* };
}

on_every_engine! {
    commits:
    text_numbers_bytes_and_null_come_back_as_they_went_in,
    a_guard_refuses_exactly_its_own_set,
    returned_rows_reach_the_caller_that_asked,
    what_must_be_absent_refuses_when_it_is_there,
    a_returning_guard_refuses_what_does_not_exist,
    racing_debits_never_spend_more_than_there_is,
    sets_of_one_caller_happen_in_order,
    what_was_committed_together_is_counted,
    a_full_queue_answers_overloaded_at_once,
    a_panic_costs_only_its_own_set,
    an_empty_set_is_nothing_to_do,
    refusals_in_one_group_do_not_depend_on_each_other,
    a_contended_guard_runs_once_and_refuses_its_own_set,
    nodes_that_race_never_spend_more_than_there_is,
    reads_at_once_get_their_own_rows,
    a_text_is_the_same_wherever_it_is_in_the_program,
}

on_every_engine! {
    upkeep:
    a_commit_is_visible_and_survives_reopening,
    migrations_happen_once_however_many_start,
    a_changed_migration_is_refused,
    a_newer_database_is_refused,
    a_failed_migration_leaves_nothing_behind,
    a_backup_under_load_is_consistent,
    a_backup_never_overwrites,
    the_plan_shows_a_table_scan,
    parameters_out_of_order_are_refused,
    a_wrong_number_of_arguments_is_refused_without_showing_them,
    closing_finishes_what_is_queued,
}

fn set(shard: &str, stmts: &[(Sql, store::Args, Expect)]) -> WriteSet {
    let mut set = WriteSet::of(shard);
    for (sql, args, expect) in stmts.iter().cloned() {
        match expect {
            Expect::Any => set.push(sql, args),
            Expect::One(reject) => set.guard(sql, args, reject),
            Expect::Row(reject) => set.returning(sql, args, reject),
            Expect::Rows => set.returning_rows(sql, args),
            Expect::None(reject) => set.absent(sql, args, reject),
        };
    }
    set
}

/// A debit with its ledger row: the set that most tests use.
fn debit(id: &str, amount: i64) -> WriteSet {
    let (guard, entry) = (args![amount, "a"], args!["a", id, amount]);
    set("a", &[(DEBIT, guard, Expect::One(BROKE)), (ENTRY, entry, Expect::Any)])
}

/// Commits all sets at the same time from tasks of their own; answers in the order of the sets.
async fn at_once(db: &Db, sets: Vec<WriteSet>) -> Vec<Result<Done, CommitError>> {
    let tasks = sets.into_iter().map(|set| {
        let db = db.clone();
        tokio::spawn(async move { db.commit(set).await })
    });
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}
