//! Rank 2: figures for the operator, in Prometheus text. All names begin with `estafette_`, but
//! those that every program has: `http_server_` (OpenTelemetry's) and `process_` (Prometheus'). An
//! account or a phone number is never a label, and no label has values that callers can make up.

mod clocks;
mod connections;
mod fraud;
mod lanes;
mod process;
mod receipts;
mod storage;
mod webhooks;

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use store::Db;

pub use connections::OpenConnection;
pub use lanes::LaneNow;

use clocks::Clocks;
use connections::Connections;
use fraud::Fraud;
use lanes::Lanes;
use process::Process;
use storage::Storage;
use webhooks::Webhooks;

/// What all names of our own begin with.
const PREFIX: &str = "estafette";
/// Seconds. An answer from memory takes half a millisecond, a carrier up to ten seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The route of requests that no operation answers, and their method: callers make both up.
const UNMATCHED: (&str, &str) = ("unmatched", "_OTHER");

/// What is called, without the status: each of them is a whole histogram.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    env: &'static str,
    method: &'static str,
    route: Arc<str>,
}

/// What was called, and how it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    env: &'static str,
    method: &'static str,
    route: Arc<str>,
    status: u16,
}

/// The program that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SendLabels {
    channel: &'static str,
    carrier: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TableLabels {
    table: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InboundLabels {
    channel: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChoreLabels {
    chore: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CarrierLabels {
    carrier: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TurnLabels {
    chore: &'static str,
    ending: &'static str,
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The environment, as in its labels.
    pub env: &'static str,
    /// The method of the request.
    pub method: &'a str,
    /// The pattern of the route, not the path; `None` where no route matched.
    pub route: Option<&'a str>,
    /// The status of the answer.
    pub status: u16,
    /// From the request's head to the answer's head.
    pub seconds: f64,
}

/// A submission that a carrier answered, or did not.
#[derive(Clone, Copy, Debug)]
pub struct Submitted<'a> {
    /// `sms` or another channel.
    pub channel: &'static str,
    /// The carrier's name.
    pub carrier: &'a str,
    /// What became of it.
    pub outcome: &'static str,
    /// How long the carrier took.
    pub seconds: f64,
}

/// Seconds with fractions.
type Seconds = Gauge<f64, AtomicU64>;

/// All figures of the process. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    requests: Family<OperationLabels, Histogram, fn() -> Histogram>,
    answers: Family<AnswerLabels, Counter>,
    build: Family<BuildLabels, Gauge>,
    sends: Family<SendLabels, Histogram, fn() -> Histogram>,
    inbound: Family<InboundLabels, Counter>,
    deleted: Family<TableLabels, Counter>,
    masked: Family<TableLabels, Counter>,
    erasures: Counter,
    turns: Family<TurnLabels, Counter>,
    chores: Family<ChoreLabels, Seconds>,
    due_oldest: Seconds,
    clocks: Clocks,
    unwritten: Family<CauseLabels, Counter>,
    receipts_parked: Family<CarrierLabels, Counter>,
    sms_lookups: Family<[(&'static str, &'static str); 1], Counter>,
    email_reports: Family<[(&'static str, &'static str); 1], Counter>,
    lanes: Lanes,
    fraud: Fraud,
    ledger: Arc<OnceLock<Ledger>>,
    connections: Connections,
    webhooks: Webhooks,
    storage: Arc<Storage>,
}

/// What the last audit found. Not shown before there was one: 0 would be a lie.
#[derive(Default)]
struct Ledger {
    violations: Gauge,
    dangling: Gauge,
    unknown: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Arc::default(),
            requests: Family::new_with_constructor(histogram as fn() -> Histogram),
            answers: Family::default(),
            build: Family::default(),
            sends: Family::new_with_constructor(histogram as fn() -> Histogram),
            inbound: Family::default(),
            deleted: Family::default(),
            masked: Family::default(),
            erasures: Counter::default(),
            turns: Family::default(),
            chores: Family::default(),
            due_oldest: Seconds::default(),
            clocks: Clocks::default(),
            unwritten: Family::default(),
            receipts_parked: Family::default(),
            sms_lookups: Family::default(),
            email_reports: Family::default(),
            lanes: Lanes::default(),
            fraud: Fraud::default(),
            ledger: Arc::default(),
            connections: Connections::default(),
            webhooks: Webhooks::default(),
            storage: Arc::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register(
            "http_server_request_duration_seconds",
            "Time from the request's head to the answer's head",
            self.requests.clone(),
        );
        registry.register_collector(Box::new(Process));
        let registry = registry.sub_registry_with_prefix(PREFIX);
        self.build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("build_info", "The program that runs", self.build.clone());
        registry.register("http_requests", "Requests answered, by status", self.answers.clone());
        registry.register(
            "submission_duration_seconds",
            "Time that a carrier took to answer a submission, by what became of it",
            self.sends.clone(),
        );
        registry.register(
            "inbound_messages",
            "Messages that people sent, by what became of them",
            self.inbound.clone(),
        );
        registry.register(
            "due_oldest_seconds",
            "How late the oldest due work is; 0 = none is late",
            self.due_oldest.clone(),
        );
        for cause in ["refused", "overloaded", "storage"] {
            // Shown from the start: an alert cannot see a first count that comes out of nothing.
            drop(self.unwritten.get_or_create(&CauseLabels { cause }));
        }
        registry.register(
            "settlements_unwritten",
            "Fates of messages that were not written when they were known; due work finds them",
            self.unwritten.clone(),
        );
        self.clocks.register(registry);
        self.register_receipts(registry);
        registry.register(
            "retention_deleted",
            "Rows deleted because their time had come",
            self.deleted.clone(),
        );
        registry.register(
            "retention_masked",
            "Rows whose recipient became a pseudonym",
            self.masked.clone(),
        );
        registry.register("erasures", "Recipients erased on request", self.erasures.clone());
        registry.register(
            "chore_turns",
            "Turns of this node at a chore, by how they ended",
            self.turns.clone(),
        );
        registry.register(
            "chore_done_timestamp_seconds",
            "When a chore was done last, by whichever node, in seconds since 1970",
            self.chores.clone(),
        );
        self.connections.register(registry);
        self.lanes.register(registry);
        self.fraud.register(registry);
        self.webhooks.register(registry);
        registry.register_collector(Box::new(Arc::clone(&self.storage)));
    }

    /// Counts an answered request.
    pub fn request(&self, answered: Answered<'_>) {
        let Answered { env, method, route, status, seconds } = answered;
        let is_matched = status != METHOD_NOT_ALLOWED;
        let (route, method) = match route.filter(|_| is_matched) {
            Some(route) => (route, known(method)),
            None => UNMATCHED,
        };
        let route: Arc<str> = route.into();
        let answer = AnswerLabels { env, method, route: Arc::clone(&route), status };
        self.answers.get_or_create(&answer).inc();
        self.requests.get_or_create(&OperationLabels { env, method, route }).observe(seconds);
    }

    /// Counts a submission to a carrier.
    pub fn submission(&self, submitted: Submitted<'_>) {
        let Submitted { channel, carrier, outcome, seconds } = submitted;
        let labels = SendLabels { channel, carrier: carrier.to_owned(), outcome };
        self.sends.get_or_create(&labels).observe(seconds);
    }

    /// Counts a message that a person sent.
    pub fn inbound(&self, channel: &'static str, outcome: &'static str) {
        self.inbound.get_or_create(&InboundLabels { channel, outcome }).inc();
    }

    /// Counts a connection as open, until the answer is dropped.
    #[must_use]
    pub fn connection_opened(&self, listener: &'static str) -> OpenConnection {
        self.connections.opened(listener)
    }

    /// Counts a connection that was not let in.
    pub fn connection_refused(&self, reason: &'static str) {
        self.connections.refused(reason);
    }

    /// Counts a connection that was ended at a deadline.
    pub fn connection_cut(&self, due: &'static str) {
        self.connections.cut(due);
    }

    /// Counts a socket of live chat as open, until what is returned is dropped.
    #[must_use]
    pub fn socket_opened(&self, side: &'static str) -> OpenConnection {
        self.connections.socket_opened(side)
    }

    /// A socket of live chat was closed by the service.
    pub fn socket_closed(&self, code: u16) {
        self.connections.socket_closed(code);
    }

    /// Counts a try to deliver an event: how long after it was due it began, and how long it took.
    pub fn webhook_try(&self, outcome: &'static str, lag_ms: i64, latency_ms: i64) {
        self.webhooks.tried(outcome, lag_ms, latency_ms);
    }

    /// Notes how many webhook targets this node holds, and how many tries are under way.
    pub fn webhook_load(&self, targets: usize, in_flight: usize) {
        self.webhooks.load(targets, in_flight);
    }

    /// Notes how long deliveries of this environment have waited at most in this process, although
    /// their target works.
    pub fn webhook_lane_lag(&self, env: &'static str, ms: i64) {
        self.webhooks.lane_lag(env, ms);
    }

    /// Notes how late the webhook target is that waits longest.
    pub fn webhook_due_oldest(&self, seconds: f64) {
        self.webhooks.due_oldest.set(seconds);
    }

    /// Counts rows that were deleted because their time had come.
    pub fn deleted(&self, table: &'static str, rows: u64) {
        self.deleted.get_or_create(&TableLabels { table }).inc_by(rows);
    }

    /// Counts rows whose recipient became a pseudonym.
    pub fn masked(&self, table: &'static str, rows: u64) {
        self.masked.get_or_create(&TableLabels { table }).inc_by(rows);
    }

    /// Counts an erasure.
    pub fn erased(&self) {
        self.erasures.inc();
    }

    /// Counts a turn of this node at a chore.
    pub fn turn(&self, chore: &'static str, ending: &'static str) {
        self.turns.get_or_create(&TurnLabels { chore, ending }).inc();
    }

    /// Notes when a chore was done last, in seconds since 1970.
    pub fn chore_done(&self, chore: &str, at_s: f64) {
        self.chores.get_or_create(&ChoreLabels { chore: chore.to_owned() }).set(at_s);
    }

    /// The gauges of clocks.
    /// The gauges of clocks.
    #[must_use]
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Counts a passcode of a country and a carrier as sent, taken or verified.
    pub fn otp_conversion(
        &self,
        env: &'static str,
        country: &str,
        carrier: &str,
        outcome: &'static str,
    ) {
        self.fraud.converted(env, country, carrier, outcome);
    }

    /// Counts a passcode beyond a budget, as watched or blocked.
    pub fn otp_fraud(&self, country: &str, outcome: &'static str) {
        self.fraud.guarded(country, outcome);
    }

    /// How a lane is now.
    pub fn lane(&self, now: LaneNow<'_>) {
        self.lanes.set(now);
    }

    /// Counts a fate of a message that was not written when it was known.
    pub fn unwritten(&self, cause: &'static str) {
        self.unwritten.get_or_create(&CauseLabels { cause }).inc();
    }

    /// Notes how late the oldest due work is.
    pub fn due_oldest(&self, seconds: f64) {
        self.due_oldest.set(seconds);
    }

    /// Notes what the last audit of the ledger found: violations, dangling holds, and attempts of
    /// which nobody knows whether the carrier has them.
    pub fn ledger(&self, violations: i64, dangling: i64, unknown: i64) {
        let ledger = self.ledger.get_or_init(|| {
            let ledger = Ledger::default();
            let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
            let registry = registry.sub_registry_with_prefix(PREFIX);
            for (name, help, gauge) in [
                (
                    "ledger_audit_violations",
                    "What must not be, by the last audit",
                    &ledger.violations,
                ),
                (
                    "ledger_holds_dangling",
                    "Holds open for too long, by the last audit",
                    &ledger.dangling,
                ),
                (
                    "attempts_unknown",
                    "Submissions of unclear fate, by the last audit",
                    &ledger.unknown,
                ),
            ] {
                registry.register(name, help, gauge.clone());
            }
            ledger
        });
        ledger.violations.set(violations);
        ledger.dangling.set(dangling);
        ledger.unknown.set(unknown);
    }

    /// The text that Prometheus reads, in version 0.0.4 of its format: every tool reads that one.
    #[must_use]
    pub fn render(&self, db: &Db) -> String {
        self.storage.read(db);
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a String cannot fail.
        let _infallible = encode_registry(&mut text, &registry);
        with_whole_names(&text)
    }
}

/// `OpenMetrics` describes a counter by its name without `_total`; the text format by all of it.
fn with_whole_names(text: &str) -> String {
    let mut whole = String::with_capacity(text.len() + 1_024);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let described = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
        let kind = lines.peek().and_then(|next| next.rsplit_once(' ')).map(|(_, kind)| kind);
        if let (Some((name, help)), Some("counter")) = (described, kind) {
            lines.next();
            let _infallible =
                writeln!(whole, "# HELP {name}_total {help}\n# TYPE {name}_total counter");
        } else {
            whole.push_str(line);
            whole.push('\n');
        }
    }
    whole
}

/// Callers can make up methods, and every label is memory: unknown ones are counted together, under
/// the word of the conventions.
fn known(method: &str) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method).unwrap_or("_OTHER")
}

/// A path that exists, with a method that does not.
const METHOD_NOT_ALLOWED: u16 = 405;

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}
