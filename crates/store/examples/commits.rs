//! How many sets per second 64 callers get through: a guarded update and three inserts each.
//! `cargo run --release -p store --example commits -- [folder] [seconds]`

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use store::{Db, Lite, LiteOptions, Migration, Reject, Sql, WriteSet, args};

const CALLERS: u32 = 64;
const ACCOUNTS: u32 = 1_000;
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
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "commits".to_owned()));
    let seconds: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let db = Db::new(Lite::open(&folder.join("commits.db"), LiteOptions::default())?);
    db.migrate(&[SCHEMA]).await?;
    let mut open = WriteSet::of("all");
    for account in 0..ACCOUNTS {
        open.push(OPEN, args![format!("acc_{account:04}"), i64::MAX / 2]);
    }
    db.commit(open).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| tokio::spawn(call(db.clone(), caller, Arc::clone(&stop))))
        .collect();
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    stop.store(true, Ordering::Relaxed);
    let mut commits = 0;
    for caller in callers {
        commits += caller.await??;
    }
    db.close().await;
    #[expect(clippy::print_stdout, reason = "the answer of this program")]
    {
        println!("{CALLERS} callers: {} commits/s", commits / seconds);
    }
    Ok(())
}

async fn call(db: Db, caller: u32, stop: Arc<AtomicBool>) -> Result<u32, store::CommitError> {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let account = format!("acc_{:04}", (caller + done * CALLERS) % ACCOUNTS);
        let id = format!("0190{done:08x}{caller:04x}7a3bc1d2e4f5");
        let mut set = WriteSet::of(&account);
        set.guard(DEBIT, args![5, &account], Reject("broke"));
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
