//! Opening, closing, migrations, backups and the checks of statements.

use super::*;

pub(super) async fn a_commit_is_visible_and_survives_reopening(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 10).await;
    bench.db.commit(debit("one", 3)).await.unwrap();
    assert_eq!(bench.balance().await, 7);
    let Bench { place, db } = bench;
    drop(db);
    let db = place.open(&Wish::default());
    let found: Option<(i64,)> = db.row(BALANCE, args!["a"]).await.unwrap();
    assert_eq!(found, Some((7,)));
}

pub(super) async fn migrations_happen_once_however_many_start(kind: Kind) {
    let place = Arc::new(Place::new(kind).await);
    let starters: Vec<_> = (0..8)
        .map(|_| {
            let place = Arc::clone(&place);
            // Each with a runtime of its own, as processes have.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(async {
                    let db = place.open(&Wish::default());
                    let version = db.migrate(&[SCHEMA, ADDED]).await;
                    db.close().await;
                    version
                })
            })
        })
        .collect();
    for starter in starters {
        assert_eq!(starter.join().unwrap().unwrap(), 2);
    }
    let db = place.open(&Wish::default());
    let notes: Vec<(i64,)> = db.rows(Sql("SELECT id FROM notes"), args![]).await.unwrap();
    assert_eq!(notes, [(1,)]);
    let log = Sql("SELECT version, name, applied_at FROM schema_migrations ORDER BY version");
    let log: Vec<(i64, String, i64)> = db.rows(log, args![]).await.unwrap();
    assert_eq!(log.iter().map(|(version, ..)| *version).collect::<Vec<_>>(), [1, 2]);
    assert!(log.iter().all(|(_, _, at)| *at > 1_700_000_000_000), "milliseconds");
}

pub(super) async fn a_changed_migration_is_refused(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let changed = Migration { sql: "CREATE TABLE other (id BIGINT)", ..SCHEMA };
    let refused = bench.db.migrate(&[changed, ADDED]).await;
    assert!(matches!(refused, Err(Error::MigrationChanged { version: 1 })));
    assert_eq!(bench.db.migrate(&[SCHEMA]).await.unwrap(), 1, "and nothing was applied");
}

pub(super) async fn a_newer_database_is_refused(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    assert_eq!(bench.db.migrate(&[SCHEMA, ADDED]).await.unwrap(), 2);
    let refused = bench.db.migrate(&[SCHEMA]).await;
    assert!(matches!(refused, Err(Error::TooNew { found: 2, known: 1 })));
}

pub(super) async fn a_failed_migration_leaves_nothing_behind(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let sql = "CREATE TABLE notes (id BIGINT); INSERT INTO missing VALUES (1);";
    let failed = bench.db.migrate(&[SCHEMA, Migration { sql, ..ADDED }]).await;
    assert!(matches!(failed, Err(Error::Unavailable(_) | Error::Unfit(_))));
    assert_eq!(bench.db.migrate(&[SCHEMA, ADDED]).await.unwrap(), 2);
}

pub(super) async fn a_backup_under_load_is_consistent(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 1_000_000).await;
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..8)
        .map(|task| {
            let (db, stop) = (bench.db.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut done = 0_u32;
                while !stop.load(Ordering::SeqCst) {
                    db.commit(debit(&format!("{task}.{done}"), 1)).await.unwrap();
                    done += 1;
                }
                done
            })
        })
        .collect();
    while bench.entries().await.0 < 500 {
        tokio::task::yield_now().await;
    }
    let to = bench.place.path("copy.db");
    bench.db.backup(&to).await.unwrap();
    let at_backup = bench.entries().await.0;
    stop.store(true, Ordering::SeqCst);
    for task in join_all(load).await {
        assert!(task.unwrap() > 0);
    }
    // A backup is always a database of the embedded engine.
    let copy = lite(&to, &Wish::default());
    let (balance,): (i64,) = copy.row(BALANCE, args!["a"]).await.unwrap().unwrap();
    let (entries, sum): (i64, i64) = copy.row(ENTRIES, args!["a"]).await.unwrap().unwrap();
    assert_eq!((balance, entries), (1_000_000 - sum, sum), "debits and entries match");
    assert!(entries >= 500 && entries <= at_backup);
    assert_eq!(copy.migrate(&[SCHEMA]).await.unwrap(), 1);
    copy.commit(debit("in the copy", 1)).await.unwrap();
}

pub(super) async fn a_backup_never_overwrites(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let files = || std::fs::read_dir(bench.place.path("")).unwrap().count();
    let before = files();
    let to = bench.place.path("precious");
    std::fs::write(&to, "precious").unwrap();
    assert!(matches!(bench.db.backup(&to).await, Err(Error::Unavailable(_))));
    assert_eq!(std::fs::read(&to).unwrap(), b"precious");
    assert!(bench.db.backup(&bench.place.path("no such folder/copy")).await.is_err());
    assert_eq!(files(), before + 1, "the precious file, no left-overs");
}

pub(super) async fn the_plan_shows_a_table_scan(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let plan = async |text| bench.db.plan(Sql(text)).await.unwrap();
    assert_eq!(plan(DEBIT.0).await.parameters, 2);
    for lean in [DEBIT.0, OPEN.0, ENTRY.0, BALANCE.0, BUMP.0, ENTRIES.0] {
        assert!(plan(lean).await.scans.is_empty(), "{lean}");
    }
    for costly in [
        "SELECT balance FROM accounts WHERE version = $1",
        "UPDATE accounts SET version = $1 WHERE balance = $2",
        "SELECT id FROM ledger WHERE account_id = $1 ORDER BY amount",
    ] {
        assert!(!plan(costly).await.scans.is_empty(), "{costly}");
    }
    assert!(bench.db.plan(Sql("SELECT nothing FROM accounts")).await.is_err());
}

pub(super) async fn parameters_out_of_order_are_refused(kind: Kind) {
    const SWAPPED: Sql = Sql("UPDATE accounts SET balance = $2 WHERE id = $1");
    const SKIPPED: Sql = Sql("SELECT id FROM accounts WHERE id = $2");
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    for sql in [SWAPPED, SKIPPED, Sql("SELECT id FROM accounts WHERE id = ?")] {
        let refused = bench.db.plan(sql).await;
        let Err(Error::Unavailable(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("$1"), "{why}");
    }
    assert!(bench.db.rows::<(String,)>(SKIPPED, args!["a"]).await.is_err());
    for _ in 0..2 {
        let swapped = set("a", &[(SWAPPED, args!["a", 5], Expect::Any)]);
        let refused = bench.db.commit(swapped).await;
        assert!(matches!(refused, Err(CommitError::Unavailable(_))));
    }
    assert_eq!(bench.balance().await, 0);
}

pub(super) async fn a_wrong_number_of_arguments_is_refused_without_showing_them(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    for arguments in [args!["hush"], args![1, "hush", "hush"]] {
        let wrong = set("a", &[(DEBIT, arguments, Expect::Any)]);
        let refused = bench.db.commit(wrong).await;
        let Err(CommitError::Unavailable(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains(DEBIT.0) && !why.contains("hush"), "{why}");
    }
    assert!(bench.db.rows::<(i64,)>(BALANCE, args![]).await.is_err());
}

pub(super) async fn closing_finishes_what_is_queued(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 1_000).await;
    let commits = join_all((0..200).map(|index| {
        let (db, id) = (bench.db.clone(), index.to_string());
        async move { db.commit(debit(&id, 1)).await }
    }));
    let (answers, ()) = tokio::join!(commits, bench.db.close());
    assert!(answers.iter().all(Result::is_ok));
    let late = bench.db.commit(debit("late", 1)).await;
    assert!(matches!(late, Err(CommitError::Unavailable(_))));
    bench.db.close().await;
    let db = bench.place.open(&Wish::default());
    let (balance,): (i64,) = db.row(BALANCE, args!["a"]).await.unwrap().unwrap();
    assert_eq!(balance, 800);
}
