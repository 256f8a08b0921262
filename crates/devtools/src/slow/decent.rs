//! Decent clients, who must be served as if nothing were wrong.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::{stopwatch, wire::Conn};

/// Pause between two requests of one client.
const PAUSE: Duration = Duration::from_millis(10);

/// What happened to them.
#[derive(Debug)]
pub(crate) struct Served {
    micros: Histogram<u64>,
    failed: u64,
    sample: Option<String>,
}

impl Served {
    /// Nothing yet.
    ///
    /// # Errors
    /// Never: the bounds are right.
    pub(crate) fn new() -> Result<Self> {
        let micros = Histogram::new_with_bounds(1, 60_000_000, 3)?;
        Ok(Self { micros, failed: 0, sample: None })
    }

    fn note(&mut self, began: Instant, fault: Option<String>) {
        match fault {
            None => {
                let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                self.micros.saturating_record(micros);
            }
            Some(fault) => {
                self.failed += 1;
                self.sample.get_or_insert(fault);
            }
        }
    }

    /// Adds another client's.
    ///
    /// # Errors
    /// Never: the bounds are the same.
    pub(crate) fn add(&mut self, other: Self) -> Result<()> {
        self.micros.add(&other.micros).context("figures of two clients")?;
        self.failed += other.failed;
        self.sample = self.sample.take().or(other.sample);
        Ok(())
    }

    /// Whether all were served, and there were any.
    pub(crate) fn is_good(&self) -> bool {
        self.failed == 0 && !self.micros.is_empty()
    }

    /// For the report.
    pub(crate) fn report(&self) -> Value {
        let ms = |micros: u64| std::time::Duration::from_micros(micros).as_secs_f64() * 1e3;
        json!({
            "requests": self.micros.len() + self.failed,
            "failed": self.failed,
            "failure": self.sample,
            "p50_ms": ms(self.micros.value_at_quantile(0.5)),
            "p99_ms": ms(self.micros.value_at_quantile(0.99)),
            "max_ms": ms(self.micros.max()),
        })
    }
}

/// Asks again and again until the end; `keeps` its connection, or opens one for each request.
///
/// # Errors
/// Never: failures are counted.
pub(crate) async fn live(
    address: String,
    path: String,
    keeps: bool,
    until: Instant,
) -> Result<Served> {
    let mut served = Served::new()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
    let mut conn = Conn::new(&address);
    while stopwatch::now() < until {
        if !keeps {
            conn = Conn::new(&address);
        }
        let began = stopwatch::now();
        let fault = match conn.call(&request).await {
            Ok(reply) if reply.status == 200 => None,
            Ok(reply) => Some(format!("status {}", reply.status)),
            Err(error) => Some(error.to_string()),
        };
        served.note(began, fault);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(served)
}
