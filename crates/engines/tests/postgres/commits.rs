//! A COMMIT whose answer never comes: it is looked up, and never repeated blindly.

use std::time::Duration;

use super::proxy::{AtCommit, Network};
use super::*;
use store::CommitError;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_is_done_again() {
    let bench = Bench::new().await;
    for round in 0..5_i64 {
        bench.proxy.at_next_commit(AtCommit::Lost);
        let done = bench.db.commit(entry(&format!("e{round}"))).await.unwrap();
        assert!(bench.proxy.is_met());
        assert_eq!(version(done), round + 2);
    }
    assert_eq!(ids(&bench.db).await, ["e0", "e1", "e2", "e3", "e4", "warm"]);
    assert_eq!(version_of(&bench.db, "a").await, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_happened_unanswered_is_not_done_again() {
    let bench = Bench::new().await;
    for round in 0..5_i64 {
        bench.proxy.at_next_commit(AtCommit::Unanswered);
        let before = bench.proxy.commits();
        let done = bench.db.commit(bump("b")).await.unwrap();
        assert!(bench.proxy.is_met());
        // The rows are those of the transaction that happened.
        assert_eq!(version(done), round + 1);
        // Its own, and that of the look-up.
        assert_eq!(bench.proxy.commits(), before + 2);
    }
    assert_eq!(version_of(&bench.db, "b").await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_look_up_a_commit_would_happen_twice() {
    let bench = Bench::with(|options| options.trusts_silence = true).await;
    bench.proxy.at_next_commit(AtCommit::Unanswered);
    let done = bench.db.commit(bump("b")).await.unwrap();
    assert_eq!(version(done), 2, "the control: this is what the look-up prevents");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_still_on_its_way_is_waited_for() {
    let bench = Bench::new().await;
    // The first transaction of a node inserts its row, later ones change it: both are waited for.
    let fresh = open(&bench.proxy.url(&bench.database.name), |_| ());
    for (db, expected) in [(&fresh, 1), (&fresh, 2), (&bench.db, 3)] {
        bench.proxy.at_next_commit(AtCommit::Late(Duration::from_millis(400)));
        let done = db.commit(bump("b")).await.unwrap();
        assert!(bench.proxy.is_met());
        assert_eq!(version(done), expected);
    }
    assert_eq!(version_of(&bench.db, "b").await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_set_of_a_lost_group_gets_its_own_answer() {
    let bench = Bench::new().await;
    for fate in [AtCommit::Unanswered, AtCommit::Lost] {
        let word = format!("{fate:?}");
        bench.proxy.at_next_commit(fate);
        let sets = (0..100).map(|index| {
            let mut set = entry(&format!("{word}{index:02}"));
            if index % 10 == 9 {
                set.returning(BUMP, args!["nobody"], NOBODY);
            }
            set
        });
        let answers = futures_util::future::join_all(sets.map(|set| bench.db.commit(set))).await;
        assert!(bench.proxy.is_met());
        for (index, answer) in answers.into_iter().enumerate() {
            if index % 10 == 9 {
                assert!(matches!(answer, Err(CommitError::Rejected(NOBODY))), "{answer:?}");
            } else {
                answer.unwrap();
            }
        }
    }
    assert_eq!(ids(&bench.db).await.len(), 1 + 2 * 90);
    assert_eq!(version_of(&bench.db, "a").await, 1 + 2 * 90);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_ever_for_a_commit_that_nobody_knows_of() {
    let bench = Bench::with(|options| options.unknown_ms = 500).await;
    bench.proxy.at_next_commit(AtCommit::Unanswered);
    let (db, proxy) = (bench.db.clone(), bench.proxy.clone());
    let waiting = tokio::spawn(async move { db.commit(bump("b")).await });
    while !proxy.is_met() {
        tokio::task::yield_now().await;
    }
    proxy.set(Network::Silent);
    let answer = tokio::time::timeout(4 * PATIENCE, waiting).await.unwrap().unwrap();
    // If it was quicker than the network it knows; otherwise it says that it does not.
    if let Err(error) = answer {
        assert!(matches!(error, CommitError::Unknown(_)), "{error:?}");
    }
    proxy.set(Network::Up);
    assert_eq!(version_of(&bench.db, "b").await, 1);
    // The server was away for so long that sets are refused until the batcher has found it again.
    let begin = tokio::time::Instant::now();
    let done = loop {
        match bench.db.commit(bump("b")).await {
            Err(CommitError::Unavailable(_)) if begin.elapsed() < 5 * PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            done => break done.unwrap(),
        }
    };
    assert_eq!(version(done), 2);
}

/// Outside of a transaction each statement would be durable by itself, whatever it refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_begin_fails_nothing_behind_it_happens() {
    let bench = Bench::new().await;
    for breaks in [true, false] {
        bench.proxy.break_begin(breaks);
        let fresh = open(&bench.proxy.url(&bench.database.name), |_| ());
        let sets = (0..5).map(|number| fresh.commit(entry(&format!("e{number} {breaks}"))));
        let done = futures_util::future::join_all(sets).await;
        let refused = done.iter().filter(|it| matches!(it, Err(CommitError::Unavailable(_))));
        assert_eq!(refused.count(), if breaks { 5 } else { 0 }, "{done:?}");
        // Control: where it works they all do.
        assert_eq!(ids(&bench.db).await.len(), if breaks { 1 } else { 6 });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_asks_the_server_twice_however_many_statements_it_has() {
    let bench = Bench::new().await;
    let long = |round: u32| {
        let mut set = WriteSet::of("a");
        for number in 0..20 {
            set.push(ENTRY, args!["a", format!("{round} {number}")]);
        }
        set
    };
    let mut asks = Vec::new();
    for round in 0..3 {
        let before = bench.proxy.asks();
        bench.db.commit(long(round)).await.unwrap();
        asks.push(bench.proxy.asks() - before);
    }
    // The statements, COMMIT. After 1, 2, 4 … commits the plans are made anew: one more.
    assert_eq!(asks.iter().min(), Some(&2), "{asks:?}");
    assert!(asks.iter().all(|asks| *asks <= 3), "{asks:?}");
}
