//! How many sets per second callers get through: a guarded update and three inserts each.
//! `cargo run --release -p engines --example commits -- [folder or postgres://…] [seconds]
//! [callers] [accounts]`. The database must be new.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engines::{Lite, Pg};
use store::{Db, Migration, PostgresOptions, Reject, Sql, SqliteOptions, WriteSet, args};

const SCHEMA: Migration = Migration {
    version: 1,
    name: "commits",
    sql: "CREATE TABLE accounts (id TEXT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL);
        CREATE TABLE ledger (account_id TEXT NOT NULL, id TEXT NOT NULL, amount BIGINT NOT NULL,
            PRIMARY KEY (account_id, id));
        CREATE TABLE challenges (account_id TEXT NOT NULL, id TEXT NOT NULL,
            recipient TEXT NOT NULL, status TEXT NOT NULL, expires_at BIGINT NOT NULL,
            PRIMARY KEY (account_id, id));
        CREATE INDEX challenges_recipient ON challenges (account_id, recipient);
        CREATE TABLE messages (account_id TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
            status TEXT NOT NULL, PRIMARY KEY (account_id, id));",
};
const OPEN: Sql = Sql("INSERT INTO accounts (id, balance) VALUES ($1, $2)");
const DEBIT: Sql =
    Sql("UPDATE accounts SET balance = balance - $1 WHERE id = $2 AND balance >= $1");
const LEDGER: Sql = Sql("INSERT INTO ledger (account_id, id, amount) VALUES ($1, $2, $3)");
const CHALLENGE: Sql = Sql("INSERT INTO challenges (account_id, id, recipient, status, \
    expires_at) VALUES ($1, $2, $3, $4, $5)");
const MESSAGE: Sql =
    Sql("INSERT INTO messages (account_id, id, body, status) VALUES ($1, $2, $3, $4)");

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().unwrap_or_else(|| "commits".to_owned());
    let seconds: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let callers: u32 = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let accounts: u32 = arguments.next().map_or(Ok(1_000), |text| text.parse())?;
    let db = open(&place)?;
    db.migrate(&[SCHEMA]).await?;
    let mut opened = WriteSet::of("all");
    for account in 0..accounts {
        opened.push(OPEN, args![format!("acc_{account:04}"), i64::MAX / 2]);
    }
    db.commit(opened).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let load = Load { callers, accounts };
    let running: Vec<_> = (0..callers)
        .map(|caller| tokio::spawn(call(db.clone(), caller, load, Arc::clone(&stop))))
        .collect();
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    stop.store(true, Ordering::Relaxed);
    let mut commits = 0;
    for caller in running {
        commits += caller.await??;
    }
    db.close().await;
    #[expect(clippy::print_stdout, reason = "the answer of this program")]
    {
        println!("{callers} callers, {accounts} accounts: {} commits/s", commits / seconds);
    }
    Ok(())
}

fn open(place: &str) -> Result<Db, store::Error> {
    if place.starts_with("postgres:") {
        return Ok(Db::new(Pg::open(place, &PostgresOptions::default())?));
    }
    let file = Path::new(place).join("commits.db");
    Ok(Db::new(Lite::open(&file, SqliteOptions::default())?))
}

#[derive(Clone, Copy)]
struct Load {
    callers: u32,
    accounts: u32,
}

async fn call(
    db: Db,
    caller: u32,
    load: Load,
    stop: Arc<AtomicBool>,
) -> Result<u32, store::CommitError> {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let account = format!("acc_{:04}", (caller + done * load.callers) % load.accounts);
        let id = format!("0190{done:08x}{caller:04x}7a3bc1d2e4f5");
        let mut set = WriteSet::of(&account);
        set.contended(DEBIT, args![5, &account], Reject("broke"));
        set.push(LEDGER, args![&account, &id, -5]);
        set.push(
            CHALLENGE,
            args![&account, &id, format!("+4915{done:09}"), "sending", 1_i64 << 40],
        );
        set.push(MESSAGE, args![&account, &id, "123456 is your code. Never share it.", "sending"]);
        db.commit(set).await?;
        done += 1;
    }
    Ok(done)
}
