//! A server that is away, silent, or kills connections: answers come in time, what was answered
//! with an error did not happen, and everything works again without a restart.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::proxy::{AtCommit, Network};
use super::*;
use store::{CommitError, Error};

/// Slack of a busy machine.
const SLACK: Duration = Duration::from_secs(2);

async fn is_refused_in_time(bench: &Bench, round: &str) {
    let begin = Instant::now();
    let commits = (0..50).map(|index| bench.db.commit(entry(&format!("{round}{index}"))));
    let reads = (0..20).map(|_| bench.db.rows::<(String,)>(ENTRIES, args!["a"]));
    let (commits, reads) = tokio::join!(join_all(commits), join_all(reads));
    assert!(begin.elapsed() < 2 * PATIENCE + SLACK, "{:?}", begin.elapsed());
    for answer in commits {
        assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
    }
    for answer in reads {
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
}

async fn is_back(bench: &Bench, id: &str) {
    let begin = Instant::now();
    while bench.db.commit(entry(id)).await.is_err() {
        assert!(begin.elapsed() < 10 * PATIENCE, "it does not come back");
        sleep(Duration::from_millis(20)).await;
    }
    while bench.db.rows::<(String,)>(ENTRIES, args!["a"]).await.is_err() {
        assert!(begin.elapsed() < 10 * PATIENCE, "reads do not come back");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_unavailable_in_time_and_comes_back() {
    let bench = Bench::new().await;
    for network in [Network::Down, Network::Silent] {
        bench.proxy.set(network);
        is_refused_in_time(&bench, "first").await;
        // By now it is known to be away, and nobody is kept waiting.
        sleep(PATIENCE + PATIENCE / 2).await;
        let begin = Instant::now();
        let answer = bench.db.commit(entry("later")).await;
        assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
        assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
        bench.proxy.set(Network::Up);
        is_back(&bench, &format!("{network:?}")).await;
    }
    // What was answered with an error is not executed afterwards.
    sleep(PATIENCE / 2).await;
    assert_eq!(ids(&bench.db).await, ["Down", "Silent", "warm"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_start_before_its_server() {
    let bench = Bench::new().await;
    bench.proxy.set(Network::Down);
    let early = open(&bench.proxy.url(&bench.database.name), |_| ());
    let answer = early.commit(entry("too early")).await;
    assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
    let migrated = early.migrate(&[SCHEMA]).await;
    assert!(matches!(migrated, Err(Error::Unavailable(_))), "{migrated:?}");
    bench.proxy.set(Network::Up);
    is_back(&Bench { db: early, ..bench }, "now").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_its_server_can_be_closed() {
    let bench = Bench::new().await;
    bench.proxy.set(Network::Silent);
    let db = bench.db.clone();
    let waiting = tokio::spawn(async move { db.commit(entry("late")).await });
    sleep(Duration::from_millis(50)).await;
    timeout(3 * PATIENCE + SLACK, bench.db.close()).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(CommitError::Unavailable(_))));
}

/// Ends the sessions of the engine that is under test, one at a time.
pub(super) async fn kill(database: &Database, stop: &AtomicBool, killed: &AtomicU32) {
    let client = database.client().await;
    while !stop.load(Ordering::SeqCst) {
        let query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE datname = current_database() AND pid <> pg_backend_pid() \
            ORDER BY random() LIMIT 1";
        let ended = client.query(query, &[]).await.unwrap().len();
        killed.fetch_add(u32::try_from(ended).unwrap(), Ordering::SeqCst);
        sleep(Duration::from_millis(15)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_happen_once_however_often_connections_are_killed() {
    let bench = Bench::with(|options| options.batchers = 2).await;
    let stop = Arc::new(AtomicBool::new(false));
    let killed = Arc::new(AtomicU32::new(0));
    let killer = {
        let (stop, killed) = (Arc::clone(&stop), Arc::clone(&killed));
        let database = Database { name: bench.database.name.clone() };
        tokio::spawn(async move {
            kill(&database, &stop, &killed).await;
            // It is the bench that drops the database.
            std::mem::forget(database);
        })
    };
    let tasks = (0..16).map(|task| {
        let (db, killed) = (bench.db.clone(), Arc::clone(&killed));
        tokio::spawn(async move {
            let (mut kept, mut lost) = (Vec::new(), Vec::new());
            // A quick machine is done before many are killed, so it has more to do.
            for round in 0..5_000 {
                if round >= 60 && killed.load(Ordering::SeqCst) > 10 {
                    break;
                }
                let id = format!("{task:02}.{round:02}");
                match db.commit(entry(&id)).await {
                    Ok(_) => kept.push(id),
                    Err(CommitError::Unavailable(_)) => lost.push(id),
                    Err(other) => panic!("{other:?}"),
                }
            }
            (kept, lost)
        })
    });
    let (mut kept, mut lost) = (BTreeSet::new(), BTreeSet::new());
    for task in join_all(tasks).await {
        let (more_kept, more_lost) = task.unwrap();
        kept.extend(more_kept);
        lost.extend(more_lost);
    }
    stop.store(true, Ordering::SeqCst);
    killer.await.unwrap();
    is_back(&bench, "end").await;
    kept.extend(["end".to_owned(), "warm".to_owned()]);
    let found: BTreeSet<String> = ids(&bench.db).await.into_iter().collect();
    eprintln!("{} kept, {} lost, {killed:?} killed", kept.len(), lost.len());
    assert_eq!(found, kept, "what was acknowledged is there, what was refused is not");
    let rows = i64::try_from(kept.len()).unwrap();
    assert_eq!(version_of(&bench.db, "a").await, rows, "and each happened once");
    assert!(killed.load(Ordering::SeqCst) > 5, "too few connections were killed");
    assert!(kept.len() > lost.len(), "a killed connection is replaced and the work done again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_in_a_transaction_does_not_stop_the_others() {
    let bench = Bench::new().await;
    bench.proxy.at_next_commit(AtCommit::Stuck);
    let db = bench.db.clone();
    let stuck = tokio::spawn(async move { db.commit(entry("stuck")).await });
    while !bench.proxy.is_met() {
        tokio::task::yield_now().await;
    }
    // The other node meets the lock on the account, until the server ends the stuck transaction.
    let other = bench.node();
    let begin = Instant::now();
    while other.commit(entry("other")).await.is_err() {
        assert!(begin.elapsed() < 3 * PATIENCE + SLACK, "the lock is never given up");
    }
    // Who was stuck finds out that nothing happened, and does it again unless that took too long.
    let answer = stuck.await.unwrap();
    let mut expected = vec!["other", "warm"];
    if answer.is_ok() {
        expected.insert(1, "stuck");
    } else {
        assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
    }
    assert_eq!(ids(&other).await, expected);
    assert_eq!(version_of(&other, "a").await, i64::try_from(expected.len()).unwrap());
}
