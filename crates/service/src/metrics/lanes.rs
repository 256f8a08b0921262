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
    }

    pub(super) fn set(&self, carrier: &str, submissions: usize, wait_s: f64) {
        let labels = CarrierLabels { carrier: carrier.to_owned() };
        let count = i64::try_from(submissions).unwrap_or(i64::MAX);
        self.submissions.get_or_create(&labels).set(count);
        self.wait.get_or_create(&labels).set(wait_s);
    }
}
