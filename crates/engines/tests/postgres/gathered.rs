//! Reads of one text that come together are few statements; each gets what it would get alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use futures_util::FutureExt;
use futures_util::future::{join_all, poll_immediate};

use super::outages::kill;
use super::*;

const TABLES: Migration = Migration {
    version: 1,
    name: "shelves",
    sql: "CREATE TABLE books (shelf TEXT NOT NULL, number BIGINT NOT NULL, note BYTEA, \
          PRIMARY KEY (shelf, number));",
};
const PUT: Sql = Sql("INSERT INTO books (shelf, number, note) VALUES ($1, $2, $3)");
/// When its statement began tells reads of one statement from those of others.
const FROM: Sql =
    Sql("SELECT number, note, shelf, CAST(EXTRACT(EPOCH FROM statement_timestamp()) \
     * 1000000 AS BIGINT) FROM books WHERE shelf = $1 AND number > $2 ORDER BY number DESC \
     LIMIT 2 /*MANY*/");
/// The same without the mark.
const FROM_ALONE: Sql = Sql("SELECT number, note, shelf, CAST(EXTRACT(EPOCH FROM \
     statement_timestamp()) * 1000000 AS BIGINT) FROM books WHERE shelf = $1 AND number > $2 \
     ORDER BY number DESC LIMIT 2");
const OF_NOTE: Sql = Sql("SELECT number FROM books WHERE shelf = $1 AND note = $2 /*MANY*/");

type Book = (i64, Option<Vec<u8>>, String, i64);

const READS: usize = 300;
/// Statements for that many: two that are under way at once, the rest by 64.
const GATHERED: usize = 2 + READS.div_ceil(64);

/// Shelves `0` to `9`: on each as many books as it is called, from 1.
async fn library() -> (Database, Db) {
    let database = Database::empty().await;
    let db = open(&database.url(), |_| ());
    db.migrate(&[TABLES]).await.unwrap();
    let mut set = WriteSet::of("library");
    for shelf in 0..10_i64 {
        for number in 1..=shelf {
            let note = (number != 3).then(|| vec![0, u8::try_from(number).unwrap()]);
            set.push(PUT, args![shelf.to_string(), number, note]);
        }
    }
    db.commit(set).await.unwrap();
    (database, db)
}

/// The two last books of a shelf, each read as if it were the only one.
fn is_right(found: &[Book], shelf: i64) -> bool {
    let numbers: Vec<i64> = found.iter().map(|book| book.0).collect();
    let last: Vec<i64> = (1..=shelf).rev().take(2).collect();
    let note = |number| (number != 3).then(|| vec![0, u8::try_from(number).unwrap()]);
    numbers == last
        && found.iter().all(|book| book.2 == shelf.to_string() && book.1 == note(book.0))
}

/// Reads all shelves again and again; answers how many statements that took. The table is locked
/// until all have asked, so that all come together on a busy machine, too.
async fn read_all(database: &Database, db: &Db, sql: Sql) -> usize {
    let holder = database.client().await;
    holder.batch_execute("BEGIN; LOCK TABLE books IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let reads = (0..READS).map(async |number| {
        let shelf = i64::try_from(number % 10).unwrap();
        let found: Vec<Book> = db.rows(sql, args![shelf.to_string(), 0]).await.unwrap();
        assert!(is_right(&found, shelf), "{shelf}: {found:?}");
        found
    });
    let mut reads = join_all(reads).boxed();
    assert!(poll_immediate(&mut reads).await.is_none(), "nothing is read while it is locked");
    holder.batch_execute("COMMIT").await.unwrap();
    let found = reads.await;
    found.iter().flatten().map(|book| book.3).collect::<BTreeSet<_>>().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_come_together_are_few_statements() {
    let (database, db) = library().await;
    // The shelf without a book has no time.
    let alone = READS * 9 / 10;
    assert!(read_all(&database, &db, FROM_ALONE).await > alone * 9 / 10);
    let together = read_all(&database, &db, FROM).await;
    assert!(together <= GATHERED, "{together} statements");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_knows_no_prepared_statement_does_no_harm() {
    let (database, direct) = library().await;
    direct.close().await;
    let url = format!("{}/{}", server::pgbouncer(), database.name);
    let db = open(&url, |options| options.prepared_statements = false);
    let statements = read_all(&database, &db, FROM).await;
    assert!(statements <= GATHERED, "{statements} statements");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_is_to_blame_fails_alone() {
    let (database, db) = library().await;
    let reads = (0..100).map(async |number| {
        // The server takes no text with a NUL in it.
        let shelf = if number == 50 { "7\0" } else { "7" };
        db.rows::<Book>(FROM, args![shelf, 0]).await.map(|found| found.len())
    });
    for (number, found) in join_all(reads).await.into_iter().enumerate() {
        if number == 50 {
            assert!(found.unwrap_err().to_string().contains("data exception"));
        } else {
            assert_eq!(found.unwrap(), 2);
        }
    }
    // And nothing is remembered of it.
    assert!(read_all(&database, &db, FROM).await <= GATHERED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_null_among_the_arguments_is_a_null() {
    let (_database, db) = library().await;
    let reads = (0..100).map(async |number| {
        let note = (number % 2 == 0).then(|| vec![0_u8, 5]);
        db.rows::<(i64,)>(OF_NOTE, args!["6", note]).await.unwrap()
    });
    for (number, found) in join_all(reads).await.into_iter().enumerate() {
        let right: &[(i64,)] = if number % 2 == 0 { &[(5,)] } else { &[] };
        assert_eq!(found, right);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_takes_nobodys_turn_with_it() {
    let (_database, db) = library().await;
    for _ in 0..20 {
        // Under way, and waiting.
        let mut leaving: Vec<_> =
            (0..10).map(|_| db.rows::<Book>(FROM, args!["4", 0]).boxed()).collect();
        for read in &mut leaving {
            let _pending = poll_immediate(read).await;
        }
        let staying = (0..10).map(|_| db.rows::<Book>(FROM, args!["9", 0]));
        let mut staying = join_all(staying).boxed();
        let _pending = poll_immediate(&mut staying).await;
        drop(leaving);
        let found = tokio::time::timeout(PATIENCE, staying).await.unwrap();
        assert!(found.into_iter().all(|found| is_right(&found.unwrap(), 9)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_right_however_often_connections_are_killed() {
    let (database, db) = library().await;
    let (stop, killed) = (Arc::new(AtomicBool::new(false)), AtomicU32::new(0));
    let killing = kill(&database, &stop, &killed);
    let reading = async {
        let (mut right, mut failed) = (0, 0);
        for _ in 0..20 {
            let reads = (0..READS).map(async |number| {
                let shelf = i64::try_from(number % 10).unwrap();
                (shelf, db.rows::<Book>(FROM, args![shelf.to_string(), 0]).await)
            });
            for (shelf, found) in join_all(reads).await {
                match found {
                    Ok(found) => {
                        assert!(is_right(&found, shelf), "{shelf}: {found:?}");
                        right += 1;
                    }
                    // Killed again each time that it was tried.
                    Err(error) => {
                        assert!(error.to_string().contains("unavailable"), "{error}");
                        failed += 1;
                    }
                }
            }
        }
        until(async || killed.load(Ordering::SeqCst) > 10).await;
        stop.store(true, Ordering::SeqCst);
        assert!(right > failed, "{right} read, {failed} not");
    };
    futures_util::future::join(killing, reading).await;
}
