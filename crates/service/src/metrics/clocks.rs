//! What a node thinks of the clocks: of the one it goes by, and of its machine's own.

use prometheus_client::registry::Registry;

use super::Seconds;

/// How far clocks are ahead, seconds; negative = behind.
#[derive(Clone, Default)]
pub struct Clocks {
    of_witnesses: Seconds,
    of_database: Seconds,
}

impl Clocks {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "clock_ahead_seconds",
            "How far the clock is ahead of what the rows and running time say; negative = behind",
            self.of_witnesses.clone(),
        );
        registry.register(
            "machine_clock_ahead_seconds",
            "How far the machine's own clock is ahead of the database's, which the nodes go by",
            self.of_database.clone(),
        );
    }

    /// Notes how far the clock that the node goes by is ahead of its witnesses.
    pub fn ahead_of_witnesses(&self, ms: i64) {
        self.of_witnesses.set(seconds(ms));
    }

    /// Notes how far the machine's own clock is ahead of the database's.
    pub fn ahead_of_database(&self, ms: i64) {
        self.of_database.set(seconds(ms));
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}
