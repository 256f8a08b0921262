//! What only the SQLite engine has: a file with a mode, a log with a limit, a disk that gets
//! full, and other processes on the same file.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed; clippy looks for that in test functions only"
)]

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engines::Lite;
use futures_util::future::join_all;
use rusqlite::Connection;
use store::{CommitError, Db, Migration, Sql, SqliteOptions, WriteSet, args};
use tempfile::TempDir;

const SCHEMA: Migration = Migration {
    version: 1,
    name: "blobs",
    sql: "CREATE TABLE blobs (id BIGINT NOT NULL PRIMARY KEY, body BYTEA NOT NULL)",
};
const PUT: Sql = Sql("INSERT INTO blobs (id, body) VALUES ($1, $2)");
const REPLACE: Sql = Sql("UPDATE blobs SET body = $1 WHERE id = $2");
const COUNT: Sql = Sql("SELECT COUNT(*) FROM blobs");
const LENGTH: Sql = Sql("SELECT length(body) FROM blobs WHERE id = $1");
const CLEAR: Sql = Sql("DELETE FROM blobs");

struct Bench {
    _folder: TempDir,
    path: PathBuf,
    db: Db,
}

async fn bench(options: SqliteOptions) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep").join("er").join("test.db");
    let db = Db::new(Lite::open(&path, options).unwrap());
    assert_eq!(db.migrate(&[SCHEMA]).await.unwrap(), 1);
    Bench { _folder: folder, path, db }
}

fn put(id: i64, bytes: usize) -> WriteSet {
    let mut set = WriteSet::of("a");
    set.push(PUT, args![id, vec![7_u8; bytes]]);
    set
}

/// Other bytes each time: SQLite does not write a page anew that stays the same.
fn replace(id: i64, fill: u16) -> WriteSet {
    let mut set = WriteSet::of("a");
    set.push(REPLACE, args![fill.to_le_bytes().repeat(8 << 10), id]);
    set
}

async fn count(db: &Db) -> i64 {
    let (count,): (i64,) = db.row(COUNT, args![]).await.unwrap().unwrap();
    count
}

fn log_size(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(0, |found| found.len())
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let bench = bench(SqliteOptions::default()).await;
    bench.db.commit(put(1, 10)).await.unwrap();
    let copy = bench.path.with_file_name("copy.db");
    bench.db.backup(&copy).await.unwrap();
    for file in std::fs::read_dir(bench.path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    let copy = Connection::open(&copy).unwrap();
    let check: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_bounded_under_constant_load() {
    const LIMIT: u64 = 8 << 20;
    let options = SqliteOptions { wal_limit_bytes: LIMIT, group: 16, ..SqliteOptions::default() };
    let bench = bench(options).await;
    for id in 0..16 {
        bench.db.commit(put(id, 1)).await.unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let (db, stop) = (bench.db.clone(), Arc::clone(&done));
    let reader = tokio::spawn(async move {
        while !stop.load(Ordering::SeqCst) {
            let _: Option<(i64,)> = db.row(LENGTH, args![3]).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    // Each task writes 8 MiB, 128 MiB together, without a pause in which the log could reset.
    let tasks = join_all((0..16_i64).map(|id| {
        let (db, path) = (bench.db.clone(), bench.path.clone());
        tokio::spawn(async move {
            let mut longest = 0;
            for fill in 0..512 {
                db.commit(replace(id, fill)).await.unwrap();
                longest = longest.max(log_size(&path));
            }
            longest
        })
    }));
    let longest = tasks.await.into_iter().map(Result::unwrap).max().unwrap();
    done.store(true, Ordering::SeqCst);
    reader.await.unwrap();
    assert!(longest > LIMIT, "the load reached the limit: {longest}");
    assert!(longest < 3 * LIMIT, "the log grew to {longest}");
    bench.db.close().await;
    assert_eq!(log_size(&bench.path), 0, "closing empties the log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_reader_does_not_stop_the_writer_and_the_log_recovers() {
    const LIMIT: u64 = 256 << 10;
    let options = SqliteOptions { wal_limit_bytes: LIMIT, ..SqliteOptions::default() };
    let bench = bench(options).await;
    bench.db.commit(put(0, 1)).await.unwrap();
    let reader = Connection::open(&bench.path).unwrap();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM blobs").unwrap();
    for set in (0..200).map(|fill| replace(0, fill)) {
        bench.db.commit(set).await.unwrap();
    }
    assert!(log_size(&bench.path) > 4 * LIMIT, "the reader keeps the log");
    let seen: i64 = reader.query_row("SELECT length(body) FROM blobs", [], |r| r.get(0)).unwrap();
    assert_eq!(seen, 1, "and sees what it saw at its start");
    reader.execute_batch("COMMIT").unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    for set in (0..4).map(|fill| replace(0, fill)) {
        bench.db.commit(set).await.unwrap();
    }
    assert!(log_size(&bench.path) <= 2 * LIMIT, "{}", log_size(&bench.path));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_answers_unavailable_and_passes() {
    let options = SqliteOptions { max_pages: Some(100), ..SqliteOptions::default() };
    let bench = bench(options).await;
    let sets = (0..64).map(|id| bench.db.commit(put(id, 16 << 10)));
    let answers = join_all(sets).await;
    assert!(answers.iter().any(|answer| matches!(answer, Err(CommitError::Unavailable(_)))));
    let kept = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(count(&bench.db).await, i64::try_from(kept).unwrap());
    let mut id = 100;
    let refused = loop {
        id += 1;
        match bench.db.commit(put(id, 16 << 10)).await {
            Ok(_) => assert!(id < 200, "the disk never got full"),
            Err(refused) => break refused,
        }
    };
    let CommitError::Unavailable(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains("full"), "{why}");
    let before = count(&bench.db).await;
    assert!(before > 0, "what was answered with Ok is there");
    let mut clear = WriteSet::of("a");
    clear.push(CLEAR, args![]);
    bench.db.commit(clear).await.unwrap();
    bench.db.commit(put(1, 16 << 10)).await.unwrap();
    assert_eq!(count(&bench.db).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_that_holds_the_database_is_waited_for_within_limits() {
    let options =
        SqliteOptions { busy_timeout_ms: 300, queue: 2, group: 1, ..SqliteOptions::default() };
    let bench = bench(options).await;
    let other = Connection::open(&bench.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let db = bench.db.clone();
    let waiting = tokio::spawn(async move { db.commit(put(1, 1)).await });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    other.execute_batch("COMMIT").unwrap();
    waiting.await.unwrap().unwrap();

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(count(&bench.db).await, 1, "reads go on");
    let answers = join_all((2..12).map(|id| bench.db.commit(put(id, 1)))).await;
    let overloaded = |answer: &&_| matches!(answer, Err(CommitError::Overloaded));
    assert!(answers.iter().filter(overloaded).count() >= 6, "{answers:?}");
    let timed_out = |answer: &&_| matches!(answer, Err(CommitError::Unavailable(_)));
    assert!(answers.iter().filter(timed_out).count() >= 2, "{answers:?}");
    other.execute_batch("COMMIT").unwrap();
    bench.db.commit(put(20, 1)).await.unwrap();
    assert_eq!(count(&bench.db).await, 2);
}

#[tokio::test]
async fn a_read_cannot_write() {
    let bench = bench(SqliteOptions::default()).await;
    bench.db.commit(put(1, 1)).await.unwrap();
    assert!(bench.db.rows::<(i64,)>(CLEAR, args![]).await.is_err());
    assert_eq!(count(&bench.db).await, 1);
}

#[tokio::test]
async fn a_real_number_is_corrupt_and_not_silently_rounded() {
    let bench = bench(SqliteOptions::default()).await;
    let found = bench.db.row::<(i64,)>(Sql("SELECT 1.5"), args![]).await;
    assert!(matches!(found, Err(store::Error::Corrupt { column: 0 })), "{found:?}");
}

const PEOPLE: Migration = Migration {
    version: 2,
    name: "people",
    sql: "CREATE TABLE people (id BIGINT NOT NULL PRIMARY KEY, number TEXT NOT NULL, note TEXT);
          CREATE INDEX people_by_number ON people (number, id);",
};
const MEET: Sql = Sql("INSERT INTO people (id, number, note) VALUES ($1, $2, $3)");
const MASK: Sql = Sql("UPDATE people SET number = $1, note = NULL WHERE id = $2");
const FORGET: Sql = Sql("DELETE FROM people WHERE id = $1");

/// Every hundredth of many people in an order that makes pages split all the time.
fn number(id: i64) -> String {
    let kind = if id % 100 == 0 { "gone" } else { "kept" };
    format!("{:05}-{kind}", id * 7_919 % 20_000)
}

/// How many of those who are gone are still named somewhere in the files.
fn still_named(path: &Path) -> usize {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let mut bytes = std::fs::read(path).unwrap();
    bytes.extend(std::fs::read(log).unwrap());
    let names: HashSet<String> = (0..20_000).step_by(100).map(number).collect();
    let named = bytes.windows("00000-gone".len()).filter(|part| part.ends_with(b"-gone"));
    let found: HashSet<&str> = named.filter_map(|part| std::str::from_utf8(part).ok()).collect();
    names.iter().filter(|name| found.contains(name.as_str())).count()
}

#[tokio::test]
async fn what_is_deleted_leaves_the_files() {
    let bench = bench(SqliteOptions::default()).await;
    bench.db.migrate(&[SCHEMA, PEOPLE]).await.unwrap();
    for chunk in (0..20_000).collect::<Vec<i64>>().chunks(500) {
        let mut set = WriteSet::of("a");
        for id in chunk {
            set.push(MEET, args![*id, number(*id), format!("note of {}", number(*id))]);
        }
        bench.db.commit(set).await.unwrap();
    }
    bench.db.scrub().await.unwrap();
    assert_eq!(still_named(&bench.path), 200, "the search finds what is there");
    let mut set = WriteSet::of("a");
    for id in (0..20_000).step_by(200) {
        set.push(MASK, args!["~".repeat(35), id]);
        set.push(FORGET, args![id + 100]);
    }
    // What a reader still sees is not copied over meanwhile.
    let reader = Connection::open(&bench.path).unwrap();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM people").unwrap();
    bench.db.commit(set).await.unwrap();
    assert_eq!(bench.db.holds(b"00000-gone").await.unwrap(), Some(true), "it is found");
    drop(reader);
    bench.db.scrub().await.unwrap();
    let left = still_named(&bench.path);
    assert!(left <= 4, "{left} of 200 are in unused parts of pages: secure_delete is off?");
    bench.db.compact().await.unwrap();
    assert_eq!(still_named(&bench.path), 0);
    assert_eq!(bench.db.holds(b"00000-gone").await.unwrap(), Some(false));
    assert_eq!(bench.db.holds(b"-kept").await.unwrap(), Some(true));
}

/// The checkpoint that empties the log takes the turn of writers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_that_waits_for_a_reader_keeps_no_writer_waiting() {
    let bench = bench(SqliteOptions::default()).await;
    bench.db.commit(put(0, 1)).await.unwrap();
    let reader = Connection::open(&bench.path).unwrap();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM blobs").unwrap();
    bench.db.commit(put(1, 1)).await.unwrap();
    let scrub = async {
        bench.db.scrub().await.unwrap();
        tokio::time::Instant::now()
    };
    let writes = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        for id in 2..12 {
            bench.db.commit(put(id, 1)).await.unwrap();
        }
        let done = tokio::time::Instant::now();
        drop(reader);
        done
    };
    let (emptied, written) = tokio::join!(scrub, writes);
    assert!(written < emptied, "the log could not be emptied before");
    assert!(written.elapsed() < std::time::Duration::from_secs(5));
}

#[tokio::test]
async fn a_database_has_one_name() {
    let bench = bench(SqliteOptions::default()).await;
    let other = bench.path.with_extension("other");
    std::fs::hard_link(&bench.path, &other).unwrap();
    let Err(refused) = Lite::open(&other, SqliteOptions::default()) else { panic!("it opened") };
    assert!(refused.to_string().contains("2 names"), "{refused}");
    std::fs::remove_file(&other).unwrap();
    assert!(Lite::open(&bench.path, SqliteOptions::default()).is_ok());
}

fn page_bytes(path: &Path) -> i64 {
    Connection::open(path).unwrap().pragma_query_value(None, "page_size", |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_file_has_small_pages_and_one_that_exists_keeps_its_own() {
    let bench = bench(SqliteOptions::default()).await;
    assert_eq!(page_bytes(&bench.path), 2048);
    let path = bench.path.with_file_name("old.db");
    let copied = Connection::open(&bench.path).unwrap();
    let change = format!("PRAGMA page_size = 4096; VACUUM INTO '{}'", path.display());
    copied.execute_batch(&change).unwrap();
    assert_eq!(page_bytes(&path), 4096);
    let db = Db::new(Lite::open(&path, SqliteOptions::default()).unwrap());
    assert_eq!(db.migrate(&[SCHEMA]).await.unwrap(), 1);
    db.commit(put(1, 16 << 10)).await.unwrap();
    assert_eq!(count(&db).await, 1);
    db.close().await;
    assert_eq!(page_bytes(&path), 4096);
}
