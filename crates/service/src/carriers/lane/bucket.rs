//! The rate of a lane, as tokens that time gives back.

use std::time::Duration;

use tokio::time::Instant;

use super::Pace;

/// Submissions that may begin now, as time passes.
pub(super) struct Bucket {
    pub(super) tokens: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn full(pace: Pace) -> Self {
        Self { tokens: burst(pace), at: Instant::now() }
    }

    /// When half of what may go out at once is there, so that it is taken together; `None` = the
    /// rate lets one through now.
    pub(super) fn refills_in(&mut self, pace: Pace) -> Option<Duration> {
        let per_s = pace.per_s.filter(|_| !self.has_one(pace))?;
        let wanted = (burst(pace) / 2.0).max(1.0);
        Some(Duration::from_secs_f64((wanted - self.tokens) / f64::from(per_s)))
    }

    /// Whether the rate lets one more through now.
    pub(super) fn has_one(&mut self, pace: Pace) -> bool {
        let Some(per_s) = pace.per_s else {
            self.tokens = 1.0;
            return true;
        };
        let now = Instant::now();
        let passed = now.duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + passed * f64::from(per_s)).min(burst(pace));
        self.tokens >= 1.0
    }
}

/// What may go out at once after a pause: a tenth of a second's worth.
fn burst(pace: Pace) -> f64 {
    pace.per_s.map_or(0.0, |per_s| (f64::from(per_s) / 10.0).max(1.0))
}
