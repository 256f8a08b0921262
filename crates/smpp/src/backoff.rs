//! When to connect again.

use clock::Clock;

/// The first wait is at most this, milliseconds; each further one at most twice as long.
const FIRST_MS: u64 = 1_000;
/// The longest wait, and the shortest after a refused login: who hammers gets locked out.
const LONGEST_MS: u64 = 60_000;

/// Waits between attempts, with full jitter: those who were cut off together do not come back
/// together.
#[derive(Debug, Default)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The next wait, milliseconds.
    pub fn next_ms(&mut self, clock: &Clock, is_refused_login: bool) -> i64 {
        let most = FIRST_MS.saturating_mul(1 << self.attempts.min(16)).min(LONGEST_MS);
        self.attempts = self.attempts.saturating_add(1);
        let jitter = clock.below(most) + 1;
        let wait_ms = if is_refused_login { LONGEST_MS + jitter / 4 } else { jitter };
        i64::try_from(wait_ms).unwrap_or(i64::MAX)
    }

    /// The link has held: the next wait is a first one.
    pub const fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use clock::{Clock, Millis};

    use super::Backoff;

    #[test]
    fn waits_double_to_a_minute_with_full_jitter() {
        let clock = Clock::held(Millis(0), 7);
        let mut longest = [0; 10];
        for _ in 0..500 {
            let mut backoff = Backoff::default();
            for longest in &mut longest {
                *longest = backoff.next_ms(&clock, false).max(*longest);
            }
        }
        for (attempt, longest) in longest.into_iter().enumerate() {
            let bound = (1_000_i64 << attempt).min(60_000);
            assert!(longest <= bound && longest > bound * 9 / 10, "{attempt}: {longest}");
        }
    }

    #[test]
    fn a_refused_login_is_not_tried_again_for_a_minute() {
        let clock = Clock::held(Millis(0), 7);
        let mut backoff = Backoff::default();
        assert!((0..100).all(|_| backoff.next_ms(&clock, true) > 60_000));
        backoff.reset();
        assert!(backoff.next_ms(&clock, false) <= 1_000);
    }
}
