//! What the storage engine says of itself, as of the last look.

use std::fmt::Error;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use store::{Db, GROUP_BOUNDS, Groups};

/// The figures that the next look shows.
#[derive(Debug, Default)]
pub(super) struct Storage {
    now: Mutex<(usize, Groups)>,
}

impl Storage {
    /// Takes them from the engine.
    pub(super) fn read(&self, db: &Db) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = (db.queued(), db.groups());
    }
}

impl Collector for Storage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let (queued, groups) = *self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let gauge = ConstGauge::new(i64::try_from(queued).unwrap_or(i64::MAX));
        let (name, help) = ("store_queue_depth", "Write sets that wait");
        let kind = gauge.metric_type();
        gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        let (name, help) = ("store_commit_group_size", "Write sets that shared a transaction");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(sum(&groups), count(&groups), &classes(&groups), None)
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 sets")]
fn sum(groups: &Groups) -> f64 {
    groups.sets as f64
}

fn count(groups: &Groups) -> u64 {
    groups.by_size.iter().sum()
}

#[expect(clippy::cast_precision_loss, reason = "the bounds are small")]
fn classes(groups: &Groups) -> Vec<(f64, u64)> {
    let bounds = GROUP_BOUNDS.iter().map(|bound| *bound as f64).chain([f64::INFINITY]);
    bounds.zip(groups.by_size).collect()
}
