//! A crowd: many accounts with many targets that answer late, and one healthy target beside them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use serde_json::{Value, json};

use super::{Args, Outcome, ground::Tenant, lags, quiet, sink::Sink};
use crate::crash::server::Server;

/// Targets of one account in a crowd, how often each of its accounts sends, and how often the
/// healthy one beside it does.
const PER_ACCOUNT: u64 = 50;
const CROWD_PAUSE: Duration = Duration::from_secs(10);
const CROWDED_PER_S: u64 = 10;
/// The bar for a healthy target in a crowd.
const MOST_P95_MS: u64 = 250;

/// Makes the slow accounts, each with its share of the targets.
async fn slow_accounts(
    args: &Args,
    seed: u64,
    server: &Server,
    sink: &Sink,
) -> Result<Vec<Tenant>> {
    let mut accounts = Vec::new();
    let mut left = args.slow_targets;
    while left > 0 {
        let account = Tenant::sign_up(&server.url(), seed).await?;
        for _ in 0..left.min(PER_ACCOUNT) {
            account.hook(&format!("{}/slow", sink.url)).await?;
        }
        left = left.saturating_sub(PER_ACCOUNT);
        accounts.push(account);
    }
    Ok(accounts)
}

/// Measures a healthy target beside them.
///
/// # Errors
/// When the service cannot be used.
pub(super) async fn measure(
    args: &Args,
    seed: u64,
    server: &Server,
    sink: &Sink,
    tenant: &Tenant,
) -> Outcome {
    tenant.hook(&format!("{}/ok", sink.url)).await?;
    tenant.send_at(CROWDED_PER_S, 1.0).await?;
    quiet(sink, 0).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for account in slow_accounts(args, seed, server, sink).await? {
        let over = Arc::clone(&over);
        tasks.push(tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                account.send_all(1, 1).await?;
                tokio::time::sleep(CROWD_PAUSE).await;
            }
            anyhow::Ok(())
        }));
    }
    // Long enough for all of them to be known as slow.
    tokio::time::sleep(Duration::from_secs(30)).await;
    sink.clear();
    let acks = tenant.send_at(CROWDED_PER_S, args.seconds).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let beside = lags(&acks, sink)?;
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await??;
    }
    let p95_ms = beside.ages_ms.value_at_quantile(0.95);
    let mut figures = beside.shown();
    figures.insert("slow_targets".to_owned(), json!(args.slow_targets));
    figures.insert("event_to_delivered_p95_ms".to_owned(), json!(p95_ms));
    let good = beside.missing == 0 && p95_ms <= MOST_P95_MS;
    Ok(("crowd", Value::Object(figures), good))
}
