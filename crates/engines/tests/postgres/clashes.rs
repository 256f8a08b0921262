//! Transactions that meet each other: deadlocks, locks that somebody holds, and sets at fault that
//! must not cost the others theirs.

use futures_util::future::join_all;
use tokio::time::Instant;

use super::*;
use store::CommitError;

/// Two rows, in the order that is asked for: two of these in opposite orders can deadlock.
fn both(first: &str, second: &str) -> WriteSet {
    let mut set = WriteSet::of(first);
    set.returning(BUMP, args![first], NOBODY);
    set.returning(BUMP, args![second], NOBODY);
    set
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again_until_it_works() {
    let bench = Bench::new().await;
    let client = bench.database.client().await;
    let quickly = format!("ALTER DATABASE {} SET deadlock_timeout = '20ms'", bench.database.name);
    client.batch_execute(&quickly).await.unwrap();
    let nodes = [bench.node(), bench.node()];
    let tasks = (0..8).map(|task| {
        let db = nodes[task % 2].clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let set = if task % 2 == 0 { both("a", "b") } else { both("b", "a") };
                db.commit(set).await.unwrap();
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    assert_eq!(version_of(&bench.db, "a").await, 1 + 200);
    assert_eq!(version_of(&bench.db, "b").await, 200);
}

/// Each waits for locks for [`PATIENCE`]; the server looks for circles much later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_two_nodes_lock_the_same_rows_in_one_order() {
    let bench = Bench::new().await;
    let client = bench.database.client().await;
    let late = format!("ALTER DATABASE {} SET deadlock_timeout = '60s'", bench.database.name);
    let more =
        "INSERT INTO accounts SELECT 'shard ' || number, 0, 0 FROM generate_series(1, 40) number";
    client.batch_execute(&format!("{late}; {more}")).await.unwrap();
    let shards: Vec<_> = (1..=40).map(|number| format!("shard {number}")).collect();
    let tasks = [bench.node(), bench.node()].into_iter().enumerate().map(|(node, db)| {
        let mut order = shards.clone();
        if node == 1 {
            order.reverse();
        }
        tokio::spawn(async move {
            for _ in 0..12 {
                for answer in join_all(order.iter().map(|shard| db.commit(bump(shard)))).await {
                    answer.unwrap();
                }
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    assert_eq!(version_of(&bench.db, "shard 40").await, 24);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_victim_of_a_deadlock_is_done_once_all_the_same() {
    let bench = Bench::new().await;
    let mut other = bench.database.client().await;
    // The engine notices first, so it is the one that is aborted.
    let patience = format!(
        "ALTER DATABASE {} SET deadlock_timeout = '400ms'; SET deadlock_timeout = '30s'",
        bench.database.name
    );
    other.batch_execute(&patience).await.unwrap();
    let node = bench.node();
    node.commit(entry("connected")).await.unwrap();
    let hold = other.transaction().await.unwrap();
    hold.batch_execute("UPDATE accounts SET balance = 7 WHERE id = 'b'").await.unwrap();
    let waiting = tokio::spawn({
        let node = node.clone();
        async move { node.commit(both("a", "b")).await }
    });
    until_a_lock_is_waited_for(&bench.database).await;
    // The engine has one and waits for the other; this closes the circle.
    hold.batch_execute("UPDATE accounts SET balance = 7 WHERE id = 'a'").await.unwrap();
    assert!(!waiting.is_finished());
    hold.commit().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(version_of(&bench.db, "a").await, 3);
    assert_eq!(version_of(&bench.db, "b").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_somebody_holds_costs_only_who_needs_it() {
    let bench = Bench::new().await;
    let client = bench.database.client().await;
    client.batch_execute("BEGIN; SELECT 1 FROM accounts WHERE id = 'b' FOR UPDATE").await.unwrap();
    let begin = Instant::now();
    let sets = (0..20).map(|index| match index {
        7 => bump("b"),
        _ => entry(&format!("e{index:02}")),
    });
    let answers = join_all(sets.map(|set| bench.db.commit(set))).await;
    assert!(begin.elapsed() < 3 * PATIENCE, "{:?}", begin.elapsed());
    for (index, answer) in answers.into_iter().enumerate() {
        if index == 7 {
            let Err(CommitError::Unavailable(why)) = answer else { panic!("{answer:?}") };
            assert!(why.contains("lock"), "{why}");
        } else {
            answer.unwrap();
        }
    }
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(version(bench.db.commit(bump("b")).await.unwrap()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_refusals_cost_one_more_burst_and_not_one_each() {
    let bench = Bench::new().await;
    let before = bench.proxy.commits();
    let sets = (0..100).map(|index| {
        let mut set = WriteSet::of("a");
        set.push(ENTRY, args!["a", format!("e{index:02}")]);
        if index % 2 == 0 {
            set.returning(BUMP, args!["nobody"], NOBODY);
        }
        set
    });
    let answers = join_all(sets.map(|set| bench.db.commit(set))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 50);
    // At most: one for the first set, which came alone, and one for the others.
    assert!(bench.proxy.commits() - before <= 3, "{}", bench.proxy.commits() - before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_that_insert_the_same_row_end_as_one_that_did() {
    let bench = Bench::new().await;
    let answers = join_all((0..60).map(|index| {
        let mut set = WriteSet::of("a");
        set.push(ENTRY, args!["a", format!("same{}", index % 3)]);
        bench.db.commit(set)
    }))
    .await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3);
    for answer in answers.into_iter().filter_map(Result::err) {
        let CommitError::Unavailable(why) = answer else { panic!("{answer:?}") };
        assert!(why.contains("23505") && !why.contains("same"), "{why}");
    }
}
