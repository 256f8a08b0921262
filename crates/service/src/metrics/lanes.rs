//! Figures of lanes: how full they are, and for how long messages have waited for room in them.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{CarrierLabels, Seconds};

/// The figures. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Lanes {
    submissions: Family<CarrierLabels, Gauge>,
    wait: Family<CarrierLabels, Seconds>,
    sends_only: Family<CarrierLabels, Gauge>,
}

/// A lane at one moment.
#[derive(Clone, Copy, Debug)]
pub struct LaneNow<'a> {
    /// The carrier's name.
    pub carrier: &'a str,
    /// Submissions that this node has under way.
    pub submissions: usize,
    /// How long messages have waited for room without a break, seconds.
    pub wait_s: f64,
    /// Whether messages go out by it and nothing comes back.
    pub sends_only: bool,
}

impl Lanes {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "lane_submissions",
            "Submissions that this node has under way, by carrier",
            self.submissions.clone(),
        );
        registry.register(
            "lane_wait_seconds",
            "How long messages have waited for room at this node without a break, by carrier",
            self.wait.clone(),
        );
        registry.register(
            "lane_sends_only",
            "Whether this node sends by a carrier whose receipts do not come, by carrier",
            self.sends_only.clone(),
        );
    }

    pub(super) fn set(&self, now: LaneNow<'_>) {
        let LaneNow { carrier, submissions, wait_s, sends_only } = now;
        let labels = CarrierLabels { carrier: carrier.to_owned() };
        let count = i64::try_from(submissions).unwrap_or(i64::MAX);
        self.submissions.get_or_create(&labels).set(count);
        self.wait.get_or_create(&labels).set(wait_s);
        self.sends_only.get_or_create(&labels).set(i64::from(sends_only));
    }
}
