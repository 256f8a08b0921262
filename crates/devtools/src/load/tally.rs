//! The figures of a load run, and how they are printed.
#![expect(clippy::print_stdout, reason = "printing the result is what the tool is for")]

use std::{collections::BTreeMap, io, time::Duration};

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Args, Workload};
use crate::{api, wire::Reply};

/// What to do about 429.
pub(crate) const HINT_429: &str = "the service's rate limit is in the way: set \
     ESTAFETTE__LIMITS__SEND_PER_S and ESTAFETTE__LIMITS__READ_PER_S to 1000000 where it runs, or \
     excuse them with --allow-status 429";
const HINT_402: &str = "the account ran out of credits: `estafette credits add --account ID …`";

/// What the clients count while measuring.
#[derive(Debug)]
pub(crate) struct Tally {
    latencies: Histogram<u64>,
    operations: u64,
    errors: BTreeMap<String, Errors>,
    /// Whether a client found no prefilled challenge left.
    pub(crate) exhausted: bool,
}

/// Unexpected answers of one kind.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Errors {
    count: u64,
    /// The `code` of the first such problem, or the first failure's text.
    sample: String,
}

impl Tally {
    /// Nothing counted yet.
    ///
    /// # Errors
    /// Never: the bounds of the histogram are constants.
    pub(crate) fn new() -> Result<Self> {
        // 1 µs to 10 minutes at three digits.
        let latencies = Histogram::new_with_bounds(1, 600_000_000, 3)?;
        Ok(Self { latencies, operations: 0, errors: BTreeMap::new(), exhausted: false })
    }

    /// An expected answer.
    pub(crate) fn answered(&mut self, latency: Duration) {
        self.operations += 1;
        self.record(latency);
    }

    /// An answer that is an error; quick refusals would flatter the latencies, so they stay out.
    pub(crate) fn refused(&mut self, reply: &Reply) {
        self.error(&reply.status.to_string(), || api::problem_code(&reply.body));
    }

    /// No answer at all; it was waited for, so the wait counts.
    pub(crate) fn broken(&mut self, error: &io::Error, latency: Duration) {
        let timed_out = error.kind() == io::ErrorKind::TimedOut;
        self.error(if timed_out { "timeout" } else { "io" }, || error.to_string());
        self.record(latency);
    }

    /// An operation of the open loop that was never sent, because all clients were waiting.
    pub(crate) fn unsent(&mut self, latency: Duration) {
        self.error("unsent", || "the service was too slow for the rate".to_owned());
        self.record(latency);
    }

    fn record(&mut self, latency: Duration) {
        self.latencies.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    fn error(&mut self, kind: &str, sample: impl FnOnce() -> String) {
        let errors = self
            .errors
            .entry(kind.to_owned())
            .or_insert_with(|| Errors { count: 0, sample: sample() });
        errors.count += 1;
    }

    /// The latency in ms that `quantile` of the operations stayed within.
    fn quantile_ms(&self, quantile: f64) -> f64 {
        to_ms(self.latencies.value_at_quantile(quantile))
    }
}

fn to_ms(us: u64) -> f64 {
    f64::from(u32::try_from(us).unwrap_or(u32::MAX)) / 1000.0
}

/// Three decimals are more than the measurement is good for.
pub(crate) fn round(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

/// µs per operation between two readings.
pub(crate) fn per_operation(
    before: Option<f64>,
    after: Option<f64>,
    operations: u64,
) -> Option<f64> {
    let operations = u32::try_from(operations).ok().filter(|count| *count > 0)?;
    Some(round((after? - before?) / f64::from(operations)))
}

/// The result of a run; also its JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    workload: String,
    clients: u64,
    rate: Option<u64>,
    seconds: f64,
    /// Operations that were answered as expected.
    pub(crate) operations: u64,
    throughput_per_s: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    errors: BTreeMap<String, Errors>,
    /// CPU of the service per operation.
    pub(crate) cpu_us_per_op: Option<f64>,
    /// CPU of this driver per operation.
    pub(crate) driver_cpu_us_per_op: Option<f64>,
    /// What each `--counter` has grown by per operation.
    pub(crate) counters: BTreeMap<String, f64>,
    /// Resident memory of the service at the end.
    pub(crate) rss_mib: Option<f64>,
    /// The highest resident memory of the service so far.
    pub(crate) rss_peak_mib: Option<f64>,
    seed: u64,
    prefilled_used_up: bool,
    /// No error but the excused ones, and something was measured.
    pub(crate) passed: bool,
    #[serde(skip)]
    json: bool,
}

impl Report {
    /// The figures of `tally` over `elapsed` seconds.
    pub(crate) fn of(args: &Args, seed: u64, elapsed: f64, tally: &Tally) -> Self {
        let excused = |kind: &str| args.allow_status.iter().any(|s| s.to_string() == kind);
        let failed = tally.errors.keys().any(|kind| !excused(kind));
        let operations = tally.operations;
        let per_s = f64::from(u32::try_from(operations).unwrap_or(u32::MAX)) / elapsed.max(1e-9);
        let workload = match args.workload {
            Workload::Send => "send",
            Workload::Verify if args.wrong => "verify-wrong",
            Workload::Verify => "verify",
            Workload::Status => "status",
            Workload::Mixed => "mixed",
            Workload::Prompt => "prompt",
            Workload::Sms => "sms",
            Workload::Bulk => "bulk",
            Workload::Email => "email",
            Workload::Callback => "callback",
            Workload::Get => "get",
            Workload::Livez => "livez",
            Workload::Hello => "hello",
        };
        Self {
            workload: workload.to_owned(),
            clients: args.clients,
            rate: args.rate,
            seconds: round(elapsed),
            operations,
            throughput_per_s: round(per_s),
            p50_ms: tally.quantile_ms(0.5),
            p90_ms: tally.quantile_ms(0.9),
            p99_ms: tally.quantile_ms(0.99),
            p999_ms: tally.quantile_ms(0.999),
            max_ms: to_ms(tally.latencies.max()),
            errors: tally.errors.clone(),
            cpu_us_per_op: None,
            driver_cpu_us_per_op: None,
            counters: BTreeMap::new(),
            rss_mib: None,
            rss_peak_mib: None,
            seed,
            prefilled_used_up: tally.exhausted,
            passed: !failed && operations > 0,
            json: args.json,
        }
    }

    /// Prints the result on stdout and hints on stderr.
    ///
    /// # Errors
    /// When the figures cannot be written as JSON.
    pub(crate) fn print(&self) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string(self)?);
        } else {
            self.print_table();
        }
        if self.errors.contains_key("429") {
            eprintln!("hint: {HINT_429}");
        }
        if self.errors.contains_key("402") {
            eprintln!("hint: {HINT_402}");
        }
        if self.prefilled_used_up {
            eprintln!("note: ended early, all prefilled challenges are used; raise --prefill");
        }
        Ok(())
    }

    fn print_table(&self) {
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        let rate = self.rate.map_or("closed loop".to_owned(), |rate| format!("{rate}/s intended"));
        println!("{:<12}{} clients, {rate}, seed {}", self.workload, self.clients, self.seed);
        println!("{:<12}{} in {:.2} s", "operations", self.operations, self.seconds);
        println!("{:<12}{:.0}/s", "throughput", self.throughput_per_s);
        println!(
            "{:<12}p50 {:.2}  p90 {:.2}  p99 {:.2}  p99.9 {:.2}  max {:.2}",
            "latency ms", self.p50_ms, self.p90_ms, self.p99_ms, self.p999_ms, self.max_ms
        );
        let (server, driver) = (figure(self.cpu_us_per_op), figure(self.driver_cpu_us_per_op));
        println!("{:<12}service {server}, driver {driver}", "CPU us/op");
        for (name, per_op) in &self.counters {
            println!("{name:<12}{per_op:.3}/op");
        }
        let (now, peak) = (figure(self.rss_mib), figure(self.rss_peak_mib));
        println!("{:<12}{now}, peak {peak}", "RSS MiB");
        for (kind, errors) in &self.errors {
            println!("{:<12}{kind} x {} ({})", "errors", errors.count, errors.sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Tally, per_operation};
    use crate::wire::Reply;

    #[test]
    fn percentiles_are_those_of_what_was_answered() {
        let mut tally = Tally::new().unwrap();
        for ms in 1..=1000 {
            tally.answered(Duration::from_millis(ms));
        }
        for (quantile, ms) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (0.999, 999.0)] {
            let got = tally.quantile_ms(quantile);
            assert!((got - ms).abs() <= ms * 0.001 + 0.001, "{quantile}: {got} for {ms}");
        }
    }

    #[test]
    fn errors_are_counted_by_status_with_the_first_code() {
        let mut tally = Tally::new().unwrap();
        for code in ["rate_limited", "other"] {
            let body = format!(r#"{{"code":"{code}"}}"#).into_bytes();
            tally.refused(&Reply { status: 429, body, replayed: false, close: false, link: None });
        }
        let errors = &tally.errors["429"];
        assert_eq!((errors.count, errors.sample.as_str()), (2, "rate_limited"));
        assert_eq!((tally.operations, tally.latencies.len()), (0, 0));
    }

    #[test]
    fn cpu_per_operation_needs_operations() {
        assert_eq!(per_operation(Some(100.0), Some(300.0), 10), Some(20.0));
        assert_eq!(per_operation(Some(100.0), Some(300.0), 0), None);
        assert_eq!(per_operation(None, Some(300.0), 10), None);
    }
}
