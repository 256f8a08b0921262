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
struct ListenerLabels {
    listener: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// A connection that counts as open while this lives.
#[derive(Debug)]
pub struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// All figures of the process. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    requests: Family<RequestLabels, Histogram, fn() -> Histogram>,
    submissions: Family<SubmissionLabels, Counter>,
    connections: Family<ListenerLabels, Gauge>,
    refused: Family<ReasonLabels, Counter>,
    cut: Family<ReasonLabels, Counter>,
    queued: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::new_with_constructor(histogram as fn() -> Histogram);
        let submissions = Family::default();
        let (connections, refused, cut) = (Family::default(), Family::default(), Family::default());
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
        registry.register(
            "http_server_connections_open",
            "Connections that are open",
            connections.clone(),
        );
        registry.register(
            "http_server_connections_refused",
            "Connections that were not let in, by reason",
            refused.clone(),
        );
        registry.register(
            "http_server_connections_cut",
            "Connections that were ended at a deadline, by what was due",
            cut.clone(),
        );
        registry.register("store_queue_depth", "Write sets that wait", queued.clone());
        Self {
            registry: Arc::new(Mutex::new(registry)),
            requests,
            submissions,
            connections,
            refused,
            cut,
            queued,
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

    /// Counts a connection as open, until the answer is dropped.
    #[must_use]
    pub fn connection_opened(&self, listener: &'static str) -> OpenConnection {
        let open = self.connections.get_or_create(&ListenerLabels { listener }).clone();
        open.inc();
        OpenConnection(open)
    }

    /// Counts a connection that was not let in.
    pub fn connection_refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts a connection that was ended at a deadline.
    pub fn connection_cut(&self, due: &'static str) {
        self.cut.get_or_create(&ReasonLabels { reason: due }).inc();
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
