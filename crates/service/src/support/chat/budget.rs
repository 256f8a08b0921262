//! How many frames a socket takes at once, and how soon it takes more.

use std::time::Duration;

use tokio::time::Instant;

/// Frames at once.
const BURST: u32 = 20;
/// After what time one more may come.
const REFILL: Duration = Duration::from_millis(200);

/// What a socket may still send.
pub(super) struct Budget {
    left: u32,
    /// Since when so many are left.
    since: Instant,
}

impl Budget {
    pub(super) fn full(now: Instant) -> Self {
        Self { left: BURST, since: now }
    }

    /// Takes one frame; `false` = it is one too many.
    pub(super) fn spend(&mut self, now: Instant) -> bool {
        let back = (now - self.since).as_millis() / REFILL.as_millis();
        let back = u32::try_from(back).unwrap_or(BURST).min(BURST);
        if self.left + back >= BURST {
            (self.left, self.since) = (BURST, now);
        } else {
            // What is over of the time counts for the next one.
            self.left += back;
            self.since += REFILL * back;
        }
        let is_within = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn uneven_frames_below_the_rate_never_use_it_up() {
        let mut now = Instant::now();
        let mut budget = Budget::full(now);
        // Three frames in 797 ms, again and again.
        for gap_ms in [199, 199, 399].into_iter().cycle().take(300) {
            now += Duration::from_millis(gap_ms);
            assert!(budget.spend(now));
        }
        // Control: six a second are too many, and then none is taken for a while.
        let mut spend = |gap_ms| {
            now += Duration::from_millis(gap_ms);
            budget.spend(now)
        };
        assert!(!(0..600).all(|_| spend(166)));
        assert!(spend(200));
    }
}
