//! Many sockets of one ticket: what they weigh, how long a message takes to all of them, and a
//! restart with all of them open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::{Came, Desk, Socket};
use super::{Args, database, gaps, percentile, report, serve};
use crate::{machine, stopwatch};

/// Sockets that are opened at the same time.
const OPENING: usize = 32;
/// How long memory settles.
const SETTLE: Duration = Duration::from_secs(3);

async fn open_all(desk: &Desk, count: usize) -> Result<Vec<Socket>> {
    let mut sockets = Vec::with_capacity(count);
    let mut left = count;
    while left > 0 {
        let mut some = JoinSet::new();
        for _ in 0..left.min(OPENING) {
            let desk = desk.clone();
            some.spawn(async move { desk.socket("").await });
        }
        left -= left.min(OPENING);
        for socket in some.join_all().await {
            sockets.push(socket?);
        }
    }
    Ok(sockets)
}

/// Lets each socket tell when a message came: its number, and when.
fn listen(sockets: Vec<Socket>) -> mpsc::UnboundedReceiver<(i64, Instant)> {
    let (told, news) = mpsc::unbounded_channel();
    for mut socket in sockets {
        let told = told.clone();
        tokio::spawn(async move {
            while let Ok(Came::Message(seen)) = socket.next().await {
                if told.send((seen.seq, stopwatch::now())).is_err() {
                    return;
                }
            }
        });
    }
    news
}

/// Memory of idle sockets, then messages to all of them.
pub(super) async fn idle(args: &Args) -> Result<Map<String, Value>> {
    let mut server = serve(args, None).await?;
    let pid = server.pid()?.to_string();
    let desk = Desk::open(&server.url()).await?;
    let mut writer = desk.socket("").await?;
    tokio::time::sleep(SETTLE).await;
    let before = machine::rss_mib(&pid).context("no service")?.0;
    let sockets = open_all(&desk, args.sockets).await?;
    tokio::time::sleep(SETTLE).await;
    let after = machine::rss_mib(&pid).context("no service")?.0;
    let mut news = listen(sockets);
    let (mut all_ms, mut last_ms, mut lost) = (Vec::new(), Vec::new(), 0_usize);
    let cpu = machine::cpu_us(&pid).context("no service")?;
    let text = "x".repeat(240);
    for round in 0..args.messages {
        let begin = stopwatch::now();
        writer.send(&text, &format!("m-{round}")).await?;
        let mut slowest = 0.0_f64;
        for _ in 0..args.sockets {
            let came = tokio::time::timeout(super::client::PATIENCE, news.recv()).await;
            let Ok(Some((_, at))) = came else {
                lost += 1;
                break;
            };
            let ms = (at - begin).as_secs_f64() * 1e3;
            slowest = slowest.max(ms);
            all_ms.push(ms);
        }
        last_ms.push(slowest);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let cpu = machine::cpu_us(&pid).context("no service")? - cpu;
    all_ms.sort_by(f64::total_cmp);
    last_ms.sort_by(f64::total_cmp);
    server.stop().await?;
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let (sockets, frames) = (args.sockets as f64, (args.sockets * args.messages) as f64);
    Ok(report(
        "idle",
        &json!({
            "sockets": args.sockets,
            "kib_per_socket": (after - before) * 1024.0 / sockets,
            "fan_out_ms": {
                "p50": percentile(&all_ms, 50), "p99": percentile(&all_ms, 99),
                "last_p50": percentile(&last_ms, 50), "last_max": last_ms.last(),
            },
            "cpu_us_per_frame": cpu / frames,
            "lost": lost,
            "passed": lost == 0,
        }),
    ))
}

/// A restart with all sockets open, and messages written all the while.
pub(super) async fn storm(args: &Args) -> Result<Map<String, Value>> {
    let mut server = serve(args, None).await?;
    let desk = Arc::new(Desk::open(&server.url()).await?);
    let last = i64::try_from(args.messages * 3)? + 1;
    let begin = stopwatch::now();
    let clients: Vec<_> = (0..args.sockets)
        .map(|client| tokio::spawn(follow(Arc::clone(&desk), last, client)))
        .collect();
    let writer = tokio::spawn({
        let desk = Arc::clone(&desk);
        let count = args.messages * 3;
        async move {
            for number in 0..count {
                // A repeat under the same id is no second message.
                while desk.write("m", &format!("w-{number}")).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let in_order = server.stop().await?;
    server.start().await?;
    writer.await?;
    let (mut wrong, mut reconnects) = (Vec::new(), 0);
    for client in clients {
        match client.await? {
            Ok(count) => reconnects += count,
            Err(error) => wrong.push(error.to_string()),
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let (_, faults) = gaps(&desk).await?;
    server.stop().await?;
    let passed = wrong.is_empty() && faults.is_empty() && in_order;
    wrong.truncate(5);
    Ok(report(
        "storm",
        &json!({
            "sockets": args.sockets, "messages": args.messages * 3, "reconnects": reconnects,
            "wrong": wrong, "gaps": faults, "stopped_in_order": in_order, "seconds": seconds,
            "passed": passed,
        }),
    ))
}

/// Follows a ticket to its last message over any number of reconnects: each number once, in order.
/// Answers how often it connected again.
async fn follow(desk: Arc<Desk>, last: i64, client: usize) -> Result<usize> {
    let mut cursor = 1;
    for attempt in 0..2_000 {
        let Ok(mut socket) = desk.socket(&format!("&since={cursor}")).await else {
            // Not all at the same moment.
            let pause = 20 + u64::try_from((client * 7) % 200)?;
            tokio::time::sleep(Duration::from_millis(pause)).await;
            continue;
        };
        while let Came::Message(seen) = socket.next().await? {
            anyhow::ensure!(seen.seq == cursor + 1, "{} came after {cursor}", seen.seq);
            cursor = seen.seq;
            if cursor == last {
                return Ok(attempt);
            }
        }
    }
    anyhow::bail!("stuck at {cursor}")
}

/// Messages from one node to sockets of another.
pub(super) async fn nodes(args: &Args) -> Result<Map<String, Value>> {
    let url = database(args)?;
    let mut here = serve(args, Some(url)).await?;
    let mut there = serve(args, Some(url)).await?;
    let desk = Desk::open(&here.url()).await?;
    let mut writer = desk.socket("").await?;
    let sockets = open_all(&desk.at(&there.url()), args.sockets.min(200)).await?;
    let count = sockets.len();
    let mut news = listen(sockets);
    let mut all_ms = Vec::new();
    let mut lost = 0;
    for round in 0..args.messages * 5 {
        let begin = stopwatch::now();
        writer.send("m", &format!("n-{round}")).await?;
        for _ in 0..count {
            match tokio::time::timeout(super::client::PATIENCE, news.recv()).await {
                Ok(Some((_, at))) => all_ms.push((at - begin).as_secs_f64() * 1e3),
                _ => lost += 1,
            }
        }
        // As people write: not in step with the other node's looks.
        tokio::time::sleep(Duration::from_millis(230 + u64::try_from(round % 17)?)).await;
    }
    all_ms.sort_by(f64::total_cmp);
    here.stop().await?;
    there.stop().await?;
    Ok(report(
        "nodes",
        &json!({
            "sockets": count, "messages": args.messages * 5, "lost": lost,
            "ms": { "p50": percentile(&all_ms, 50), "p99": percentile(&all_ms, 99),
                    "max": all_ms.last() },
            "passed": lost == 0,
        }),
    ))
}
