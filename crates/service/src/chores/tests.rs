//! Two nodes on one database: who does a chore, how long, and what happens when one dies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::store::{Db, SqliteOptions, WriteSet};
use clock::{Clock, DAY, HOUR, MINUTE, Millis};
use engines::Lite;
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::{Chore, Ending, Means, Turn, Witness, Work, Worker, confirm, known};
use crate::schema::MIGRATIONS;

/// A database and a clock that two nodes share.
struct Bench {
    _folder: tempfile::TempDir,
    db: Db,
    clock: Clock,
    witness: Arc<Witness>,
    stop: watch::Sender<bool>,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lite = Lite::open(&folder.path().join("chores.db"), SqliteOptions::default()).unwrap();
        let db = Db::new(lite);
        db.migrate(MIGRATIONS).await.unwrap();
        let clock = Clock::held(Millis(1_700_000_000_000), 11);
        let witness = Arc::new(Witness::call(db.clone(), clock.clone()).await.unwrap());
        Self { _folder: folder, db, clock, witness, stop: watch::channel(false).0 }
    }

    /// A node with one chore.
    fn node(&self, work: Work) -> Worker {
        let chore = Chore { name: "tidy", every_ms: HOUR, work };
        let witness = Arc::clone(&self.witness);
        Worker::new(
            Means { db: self.db.clone(), clock: self.clock.clone(), witness },
            Duration::ZERO,
            vec![chore],
            self.stop.subscribe(),
        )
    }
}

/// What a node says of its turns.
async fn endings(node: &Worker) -> Vec<Ending> {
    let heard = Mutex::new(vec![]);
    node.run_due(&|_, ending| heard.lock().unwrap().push(ending)).await.unwrap();
    heard.into_inner().unwrap()
}

fn count(times: &Arc<AtomicUsize>) -> Work {
    let times = Arc::clone(times);
    Box::new(move |_turn| {
        let times = Arc::clone(&times);
        Box::pin(async move { Ok(json!({ "times": times.fetch_add(1, Ordering::SeqCst) + 1 })) })
    })
}

/// Works until it is told to go on, then rests once.
fn wait_for(go: &Arc<Notify>, begun: &Arc<Notify>) -> Work {
    let (go, begun) = (Arc::clone(go), Arc::clone(begun));
    Box::new(move |turn: Arc<Turn>| {
        let (go, begun) = (Arc::clone(&go), Arc::clone(&begun));
        Box::pin(async move {
            begun.notify_one();
            go.notified().await;
            Ok(json!({ "goes_on": turn.rest().await }))
        })
    })
}

#[tokio::test]
async fn a_chore_is_done_once_until_it_is_due_again() {
    let bench = Bench::new().await;
    let times = Arc::new(AtomicUsize::new(0));
    let (one, other) = (bench.node(count(&times)), bench.node(count(&times)));
    assert_eq!(endings(&one).await, [Ending::Done]);
    assert_eq!(endings(&other).await, []);
    bench.clock.advance(HOUR - 1);
    assert_eq!(endings(&other).await, []);
    bench.clock.advance(1);
    assert_eq!(endings(&other).await, [Ending::Done]);
    assert_eq!(times.load(Ordering::SeqCst), 2);
    let known = known(&bench.db).await.unwrap();
    assert_eq!((known[0].done_at, &known[0].result), (bench.clock.now(), &json!({"times": 2})));
}

#[tokio::test]
async fn a_node_that_died_is_replaced_after_its_lease() {
    let bench = Bench::new().await;
    let (go, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let dead = bench.node(wait_for(&go, &begun));
    let dying = tokio::spawn(async move { endings(&dead).await });
    begun.notified().await;
    dying.abort();
    let times = Arc::new(AtomicUsize::new(0));
    let other = bench.node(count(&times));
    bench.clock.advance(MINUTE - 1);
    assert_eq!(endings(&other).await, [], "its lease is not over");
    bench.clock.advance(1);
    assert_eq!(endings(&other).await, [Ending::Done]);
}

#[tokio::test]
async fn a_long_chore_keeps_its_lease_and_a_paused_node_loses_it() {
    let bench = Bench::new().await;
    let (go, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let times = Arc::new(AtomicUsize::new(0));
    let other = bench.node(count(&times));
    let slow = bench.node(Box::new({
        let (go, begun) = (Arc::clone(&go), Arc::clone(&begun));
        move |turn: Arc<Turn>| {
            let (go, begun) = (Arc::clone(&go), Arc::clone(&begun));
            Box::pin(async move {
                let mut chunks = 0;
                loop {
                    begun.notify_one();
                    go.notified().await;
                    chunks += 1;
                    if !turn.rest().await {
                        return Ok(json!({ "chunks": chunks }));
                    }
                }
            })
        }
    }));
    let working = tokio::spawn(async move { endings(&slow).await });
    for _ in 0..5 {
        begun.notified().await;
        bench.clock.advance(40_000);
        assert_eq!(endings(&other).await, [], "the lease is made longer");
        go.notify_one();
    }
    begun.notified().await;
    bench.clock.advance(MINUTE);
    assert_eq!(endings(&other).await, [Ending::Done], "nobody heard of it for a minute");
    go.notify_one();
    assert_eq!(working.await.unwrap(), [Ending::Left], "and it hears that it lost the chore");
    assert_eq!(known(&bench.db).await.unwrap()[0].result, json!({"times": 1}));
}

#[tokio::test]
async fn a_stop_leaves_the_rest_to_others_at_once() {
    let bench = Bench::new().await;
    let (go, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let node = bench.node(wait_for(&go, &begun));
    let working = tokio::spawn(async move { endings(&node).await });
    begun.notified().await;
    bench.stop.send_replace(true);
    go.notify_one();
    assert_eq!(working.await.unwrap(), [Ending::Left]);
    bench.stop.send_replace(false);
    let times = Arc::new(AtomicUsize::new(0));
    assert_eq!(endings(&bench.node(count(&times))).await, [Ending::Done]);
}

#[tokio::test]
async fn a_failure_or_a_panic_is_tried_again_later() {
    for is_panic in [false, true] {
        let bench = Bench::new().await;
        let times = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&times);
        let node = bench.node(Box::new(move |_turn| {
            let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            Box::pin(async move {
                assert!(!(first && is_panic), "a panic");
                if first { Err("the database is away".into()) } else { Ok(json!({})) }
            })
        }));
        assert_eq!(endings(&node).await, [Ending::Failed]);
        bench.clock.advance(4 * MINUTE);
        assert_eq!(endings(&node).await, []);
        bench.clock.advance(MINUTE);
        assert_eq!(endings(&node).await, [Ending::Done]);
    }
}

#[tokio::test]
async fn a_chore_works_for_a_tenth_of_the_time() {
    let bench = Bench::new().await;
    let node = bench.node(Box::new(|turn: Arc<Turn>| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let since = tokio::time::Instant::now();
            assert!(turn.rest().await);
            assert!(since.elapsed() >= Duration::from_millis(9 * 20), "{:?}", since.elapsed());
            assert!(turn.breathe().await);
            let since = tokio::time::Instant::now();
            assert!(turn.breathe().await);
            Ok(json!(since.elapsed() < Duration::from_millis(5)))
        })
    }));
    assert_eq!(endings(&node).await, [Ending::Done]);
    assert_eq!(known(&bench.db).await.unwrap()[0].result, json!(true), "nothing to rest from");
}

#[tokio::test]
async fn a_chore_runs_when_its_time_lies_further_ahead_than_its_period() {
    let bench = Bench::new().await;
    let times = Arc::new(AtomicUsize::new(0));
    let node = bench.node(count(&times));
    bench.clock.step(DAY);
    assert_eq!(endings(&node).await, [Ending::Done]);
    bench.clock.step(-DAY);
    assert_eq!(endings(&node).await, [Ending::Done], "a clock that was wrong wrote the time");
    assert_eq!(endings(&node).await, [], "and now it has its period");
    bench.clock.advance(HOUR);
    assert_eq!(endings(&node).await, [Ending::Done]);
}

/// What a process believes that starts now.
async fn believed(bench: &Bench) -> Millis {
    Witness::call(bench.db.clone(), bench.clock.clone()).await.unwrap().now()
}

#[tokio::test]
async fn a_step_of_more_than_a_day_is_believed_once_an_operator_says_so() {
    let bench = Bench::new().await;
    let begin = bench.clock.now();
    bench.clock.advance(400 * DAY);
    assert_eq!(bench.witness.now(), begin + 400 * DAY, "time that passed is believed");
    bench.witness.look().await.unwrap();
    bench.clock.step(DAY);
    assert_eq!(bench.witness.now(), bench.clock.now(), "a day is believed");
    bench.witness.look().await.unwrap();
    let before = bench.clock.now();
    bench.clock.step(DAY + 1);
    assert_eq!(bench.witness.now(), before, "more is not");
    assert_eq!(believed(&bench).await, before, "nor by a process that starts now");
    for _ in 0..5 {
        bench.clock.advance(HOUR);
        assert!(bench.witness.look().await.unwrap().is_refused());
    }
    assert_eq!(bench.witness.now(), before + 5 * HOUR, "time that passes is believed still");
    let mut set = WriteSet::of("clock");
    confirm(&mut set, &bench.clock);
    bench.db.commit(set).await.unwrap();
    bench.witness.look().await.unwrap();
    assert_eq!(bench.witness.now(), bench.clock.now());
    // Back again, and confirmed: what is agreed on goes back, too.
    bench.clock.step(-100 * DAY);
    assert_eq!(bench.witness.now(), bench.clock.now(), "a clock that is behind deletes too little");
    let mut set = WriteSet::of("clock");
    confirm(&mut set, &bench.clock);
    bench.db.commit(set).await.unwrap();
    bench.witness.look().await.unwrap();
    bench.clock.step(2 * DAY);
    assert!(bench.witness.judged().is_refused());
}
