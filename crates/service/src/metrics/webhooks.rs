//! Figures of webhooks: what became of tries, how long they waited and took, how many are under
//! way.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Seconds, histogram};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TryLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    env: &'static str,
}

/// The figures. Clones share them.
#[derive(Clone)]
pub(super) struct Webhooks {
    tries: Family<TryLabels, Counter>,
    lag: Histogram,
    duration: Histogram,
    targets: Gauge,
    in_flight: Gauge,
    lane_lag: Family<LaneLabels, Seconds>,
    pub(super) due_oldest: Seconds,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            tries: Family::default(),
            lag: histogram(),
            duration: histogram(),
            targets: Gauge::default(),
            in_flight: Gauge::default(),
            lane_lag: Family::default(),
            due_oldest: Seconds::default(),
        }
    }
}

impl Webhooks {
    pub(super) fn register(&self, registry: &mut Registry) {
        for env in ["live", "sandbox"] {
            self.lane_lag(env, 0);
        }
        registry.register(
            "webhook_tries",
            "Tries to deliver an event, by what became of them",
            self.tries.clone(),
        );
        registry.register(
            "webhook_lag_seconds",
            "Time from when a delivery was due to the beginning of its try",
            self.lag.clone(),
        );
        registry.register(
            "webhook_try_duration_seconds",
            "Time from the beginning of a try to the end of its answer",
            self.duration.clone(),
        );
        registry.register(
            "webhook_targets_held",
            "Webhook targets that this process has due work for",
            self.targets.clone(),
        );
        registry.register("webhook_tries_in_flight", "Tries under way", self.in_flight.clone());
        registry.register(
            "webhook_lane_lag_seconds",
            "How long due deliveries to targets that work have waited at most in this process",
            self.lane_lag.clone(),
        );
        registry.register(
            "webhook_due_oldest_seconds",
            "How late the webhook target is that waits longest for a node; 0 = none is late",
            self.due_oldest.clone(),
        );
    }

    pub(super) fn tried(&self, outcome: &'static str, lag_ms: i64, duration_ms: i64) {
        self.tries.get_or_create(&TryLabels { outcome }).inc();
        self.lag.observe(seconds(lag_ms));
        self.duration.observe(seconds(duration_ms));
    }

    pub(super) fn load(&self, targets: usize, in_flight: usize) {
        let count = |number| i64::try_from(number).unwrap_or(i64::MAX);
        self.targets.set(count(targets));
        self.in_flight.set(count(in_flight));
    }

    pub(super) fn lane_lag(&self, env: &'static str, ms: i64) {
        self.lane_lag.get_or_create(&LaneLabels { env }).set(seconds(ms));
    }
}

fn seconds(ms: i64) -> f64 {
    f64::from(i32::try_from(ms).unwrap_or(i32::MAX)) / 1_000.0
}
