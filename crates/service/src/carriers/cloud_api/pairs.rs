//! How much one number sends to one person: the upstream takes a burst, then one message every six
//! seconds, and wants ever longer pauses from whoever goes on.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Messages to one person that may go out at once.
const BURST: u32 = 45;
/// After that, one in so long.
const EVERY: Duration = Duration::from_secs(6);
/// A pause after a refusal is four times the one before, and no longer than this many times.
const MOST_FAILURES: u32 = 5;
/// People above which those are forgotten who were sent nothing lately.
const FEW: usize = 4_096;

/// What each person was sent.
#[derive(Default)]
pub(super) struct Pairs {
    people: HashMap<u64, Pair>,
    /// How many people there are when it is looked through next.
    sweeps_at: usize,
}

struct Pair {
    /// When nothing of the burst is used.
    rested_at: Instant,
    held_until: Instant,
    failures: u32,
}

impl Pairs {
    /// How long a message for this person has to wait; `None` = not at all.
    pub(super) fn wait(&self, to: u64, now: Instant) -> Option<Duration> {
        let pair = self.people.get(&to)?;
        let used = pair.rested_at.saturating_duration_since(now);
        let burst = used.saturating_sub(EVERY * (BURST - 1));
        let wait = burst.max(pair.held_until.saturating_duration_since(now));
        (!wait.is_zero()).then_some(wait)
    }

    /// A message for this person goes out.
    pub(super) fn take(&mut self, to: u64, now: Instant) {
        let pair = self.pair(to, now);
        pair.rested_at = pair.rested_at.max(now) + EVERY;
    }

    /// The upstream says that this person is sent too much.
    pub(super) fn hold(&mut self, to: u64, now: Instant) {
        let pair = self.pair(to, now);
        pair.failures = (pair.failures + 1).min(MOST_FAILURES);
        pair.held_until = now + Duration::from_secs(4_u64.pow(pair.failures));
    }

    /// The upstream took one.
    pub(super) fn ease(&mut self, to: u64) {
        if let Some(pair) = self.people.get_mut(&to) {
            pair.failures = 0;
        }
    }

    fn pair(&mut self, to: u64, now: Instant) -> &mut Pair {
        if self.people.len() >= self.sweeps_at.max(FEW) {
            self.people.retain(|_, pair| pair.rested_at > now || pair.held_until > now);
            self.sweeps_at = 2 * self.people.len();
        }
        let fresh = || Pair { rested_at: now, held_until: now, failures: 0 };
        self.people.entry(to).or_insert_with(fresh)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{BURST, EVERY, FEW, Pairs};

    #[test]
    fn a_burst_goes_out_at_once_then_one_every_six_seconds() {
        let (mut pairs, now) = (Pairs::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(pairs.wait(1, now), None);
            pairs.take(1, now);
        }
        assert_eq!(pairs.wait(1, now), Some(EVERY));
        assert_eq!(pairs.wait(2, now), None, "another person");
        assert_eq!(pairs.wait(1, now + EVERY), None);
        pairs.take(1, now + EVERY);
        assert_eq!(pairs.wait(1, now + EVERY), Some(EVERY));
    }

    #[test]
    fn each_refusal_makes_the_pause_four_times_as_long() {
        let (mut pairs, now) = (Pairs::default(), Instant::now());
        for seconds in [4, 16, 64, 256, 1_024, 1_024] {
            pairs.hold(1, now);
            assert_eq!(pairs.wait(1, now), Some(Duration::from_secs(seconds)));
        }
        pairs.ease(1);
        pairs.hold(1, now);
        assert_eq!(pairs.wait(1, now), Some(Duration::from_secs(4)));
    }

    #[test]
    fn people_who_were_sent_nothing_lately_are_forgotten() {
        let (mut pairs, now) = (Pairs::default(), Instant::now());
        for to in 0..FEW as u64 {
            pairs.take(to, now);
        }
        pairs.take(u64::MAX, now + 2 * EVERY);
        assert_eq!(pairs.people.len(), 1);
    }
}
