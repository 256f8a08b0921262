//! Hints from one node to another.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::server::Database;
use super::{Bench, PATIENCE, open};

/// Longest wait for a hint that is to come: the nodes may still be connecting.
const LONG: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_reaches_the_other_nodes_and_not_oneself() {
    let database = Database::empty().await;
    let (one, two) = (open(&database.url(), |_| ()), open(&database.url(), |_| ()));
    // The first return is that each listens now.
    timeout(LONG, async { tokio::join!(one.nudged(), two.nudged()) }).await.unwrap();
    for _ in 0..3 {
        one.nudge();
        timeout(LONG, two.nudged()).await.expect("the other node hears it");
    }
    assert!(timeout(Duration::from_millis(300), one.nudged()).await.is_err(), "its own words");
    for _ in 0..1_000 {
        two.nudge();
    }
    timeout(LONG, one.nudged()).await.expect("many at once are one");
    one.close().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_come_again_when_the_network_does() {
    let bench = Bench::new().await;
    let other = bench.node();
    timeout(LONG, async { tokio::join!(bench.db.nudged(), other.nudged()) }).await.unwrap();
    bench.proxy.set(super::proxy::Network::Down);
    sleep(PATIENCE / 4).await;
    bench.proxy.set(super::proxy::Network::Up);
    // Connected again: that is told as a hint, because some may have been missed.
    timeout(LONG, bench.db.nudged()).await.expect("it listens again");
    other.nudge();
    timeout(LONG, bench.db.nudged()).await.expect("and hears");
    bench.db.close().await;
    other.close().await;
}
