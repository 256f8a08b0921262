//! Rank 2: figures for the operator, in Prometheus form. Never an account or a phone number as a
//! label.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Seconds, the boundaries of the OpenTelemetry conventions for HTTP servers.
const BUCKETS: [f64; 13] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    env: &'static str,
    method: String,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SubmissionLabels {
    channel: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TryLabels {
    outcome: &'static str,
}

/// All figures of the process. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    requests: Family<RequestLabels, Histogram, fn() -> Histogram>,
    submissions: Family<SubmissionLabels, Counter>,
    queued: Gauge,
    webhook_tries: Family<TryLabels, Counter>,
    webhook_lag: Histogram,
    webhook_latency: Histogram,
    webhook_targets: Gauge,
    webhook_in_flight: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::new_with_constructor(histogram as fn() -> Histogram);
        let submissions = Family::default();
        let queued = Gauge::default();
        registry.register(
            "http_server_request_duration_seconds",
            "Time from the request's head to the answer's head",
            requests.clone(),
        );
        registry.register(
            "carrier_submissions",
            "Submissions to carriers by what became of them",
            submissions.clone(),
        );
        registry.register("store_queue_depth", "Write sets that wait", queued.clone());
        let webhook_tries = Family::default();
        let (webhook_lag, webhook_latency) = (histogram(), histogram());
        let (webhook_targets, webhook_in_flight) = (Gauge::default(), Gauge::default());
        registry.register(
            "webhook_tries",
            "Tries to deliver an event by what became of them",
            webhook_tries.clone(),
        );
        registry.register(
            "webhook_lag_seconds",
            "Time from when a delivery was due to the beginning of its try",
            webhook_lag.clone(),
        );
        registry.register(
            "webhook_try_duration_seconds",
            "Time from the beginning of a try to the end of its answer",
            webhook_latency.clone(),
        );
        registry.register(
            "webhook_targets_held",
            "Webhook targets that this process has due work for",
            webhook_targets.clone(),
        );
        registry.register("webhook_in_flight", "Tries under way", webhook_in_flight.clone());
        Self {
            registry: Arc::new(Mutex::new(registry)),
            requests,
            submissions,
            queued,
            webhook_tries,
            webhook_lag,
            webhook_latency,
            webhook_targets,
            webhook_in_flight,
        }
    }
}

impl Metrics {
    /// Counts an answered request; `route` is the pattern, not the path.
    pub fn request(&self, env: &'static str, line: (&str, &str), status: u16, seconds: f64) {
        let (method, route) = (line.0.to_owned(), line.1.to_owned());
        let labels = RequestLabels { env, method, route, status };
        self.requests.get_or_create(&labels).observe(seconds);
    }

    /// Counts a submission to a carrier.
    pub fn submission(&self, channel: &'static str, outcome: &'static str) {
        let labels = SubmissionLabels { channel, outcome };
        self.submissions.get_or_create(&labels).inc();
    }

    /// Counts a try to deliver an event.
    pub fn webhook_try(&self, outcome: &'static str, lag_ms: i64, latency_ms: i64) {
        let seconds = |ms: i64| f64::from(i32::try_from(ms).unwrap_or(i32::MAX)) / 1_000.0;
        self.webhook_tries.get_or_create(&TryLabels { outcome }).inc();
        self.webhook_lag.observe(seconds(lag_ms));
        self.webhook_latency.observe(seconds(latency_ms));
    }

    /// How many webhook targets are held, and how many tries are under way.
    pub fn webhook_load(&self, targets: usize, in_flight: usize) {
        let count = |number| i64::try_from(number).unwrap_or(i64::MAX);
        self.webhook_targets.set(count(targets));
        self.webhook_in_flight.set(count(in_flight));
    }

    /// The text that Prometheus reads.
    #[must_use]
    pub fn render(&self, queued: usize) -> String {
        self.queued.set(i64::try_from(queued).unwrap_or(i64::MAX));
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a String cannot fail.
        let _infallible = encode(&mut text, &registry);
        text
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}
