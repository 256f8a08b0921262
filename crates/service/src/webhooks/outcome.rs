//! What a try means for its delivery and for its target. Pure: the same try at the same time is
//! the same decision, whichever node makes it.

use clock::{DAY, HOUR, Millis};

/// A target whose tries take so long is slow, milliseconds.
pub const SLOW_MS: i64 = 2_000;
/// Tries that fail in a row until a target is tried one delivery at a time.
const STREAK: i64 = 5;
/// Longest pause between two such tries, milliseconds…
const LONGEST_PARK: i64 = 60_000;
/// …and as a part of the longest one of the schedule, by which tries are spread anyway: whoever
/// makes that short wants to be tried so often.
const PART_OF_SCHEDULE: i64 = 5;
/// A target that fails for so long is disabled, milliseconds.
const FAILING: i64 = 5 * DAY;
/// …if it failed so often.
const FAILURES: i64 = 10;
/// Longest wait that a receiver may ask for, milliseconds.
const LONGEST_WAIT: i64 = 24 * HOUR;

/// What one try came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryOutcome {
    /// The receiver has it.
    Delivered,
    /// It may work later.
    Again,
    /// The receiver does not want it.
    Over,
    /// The receiver is gone for good.
    Gone,
}

/// The outcome of a try that was answered with this status, or not at all.
#[must_use]
pub fn outcome(status: Option<u16>) -> TryOutcome {
    match status {
        Some(200..=299) => TryOutcome::Delivered,
        Some(410) => TryOutcome::Gone,
        None | Some(429 | 500..=599) => TryOutcome::Again,
        Some(_) => TryOutcome::Over,
    }
}

/// How long the receiver asks to be left alone, milliseconds. Whatever is tried again may ask (RFC
/// 9110 §10.2.3 and RFC 6585 §4); the header holds seconds or a date.
#[must_use]
pub fn asked_wait_ms(status: u16, retry_after: Option<&str>, now: Millis) -> Option<i64> {
    let text = retry_after.filter(|_| outcome(Some(status)) == TryOutcome::Again)?.trim();
    let wait_ms = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        text.parse::<i64>().map_or(LONGEST_WAIT, |seconds| seconds.saturating_mul(1_000))
    } else {
        let at = httpdate::parse_http_date(text).ok()?;
        let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok()? - now.0
    };
    Some(wait_ms.clamp(0, LONGEST_WAIT))
}

/// When a delivery is tried again: the pause of its step, more or less by a fifth, or longer if the
/// receiver asked for it. None when the schedule is at its end. `chance` is below 1,000.
#[must_use]
pub fn next_try(
    schedule_s: &[i64],
    step: i64,
    asked_ms: Option<i64>,
    now: Millis,
    chance: u64,
) -> Option<Millis> {
    let pause_ms = schedule_s.get(usize::try_from(step).ok()?)? * 1_000;
    let fifths = 800 + i64::try_from(chance * 401 / 1_000).unwrap_or(200);
    let wait_ms = pause_ms * fifths / 1_000;
    Some(now + wait_ms.max(asked_ms.unwrap_or(0)))
}

/// The longest pause between two tries of a target that fails, milliseconds.
#[must_use]
pub fn longest_park_ms(schedule_s: &[i64]) -> i64 {
    let longest_s = schedule_s.iter().max().copied().unwrap_or(0);
    LONGEST_PARK.min(longest_s * 1_000 / PART_OF_SCHEDULE)
}

/// How a target fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Tries that failed since the last success.
    pub failures: i64,
    /// When the first of them did.
    pub failing_since: Option<Millis>,
    /// Tries in a row that may work later.
    pub streak: i64,
    /// How often it was parked in a row.
    pub probes: i64,
    /// Until when nothing is tried.
    pub parked_until: Millis,
    /// When a try last succeeded.
    pub last_success_at: Option<Millis>,
    /// How long its tries take, milliseconds: at once when they take longer, little by little when
    /// they take less. None before the first.
    pub pace_ms: Option<i64>,
}

/// A try that ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedTry {
    /// What it came to.
    pub outcome: TryOutcome,
    /// How long the receiver asks to be left alone, milliseconds.
    pub asked_ms: Option<i64>,
    /// How long it took, milliseconds.
    pub latency_ms: i64,
}

impl Health {
    /// After one more try; see [`longest_park_ms`].
    #[must_use]
    pub fn after(self, ended: EndedTry, longest_park_ms: i64, now: Millis) -> Self {
        let latency_ms = ended.latency_ms;
        let pace_ms = self
            .pace_ms
            .map_or(latency_ms, |pace_ms| latency_ms.max((3 * pace_ms + latency_ms) / 4));
        Self { pace_ms: Some(pace_ms), ..self.after_fate(ended, longest_park_ms, now) }
    }

    fn after_fate(self, ended: EndedTry, longest_park_ms: i64, now: Millis) -> Self {
        let EndedTry { outcome, asked_ms, .. } = ended;
        if outcome == TryOutcome::Delivered {
            // What the receiver asked for still holds; what we concluded ourselves does not.
            let is_ours = self.is_probing() && self.parked_until - now <= longest_park_ms;
            let parked_until = if is_ours { Millis(0) } else { self.parked_until };
            return Self { last_success_at: Some(now), parked_until, ..Self::default() };
        }
        let mut health = self;
        health.failures += 1;
        health.failing_since = self.failing_since.or(Some(now));
        if outcome == TryOutcome::Again {
            health.streak += 1;
            // Those that were under way when it was parked say nothing new.
            if health.streak >= STREAK && now >= self.parked_until {
                health.probes += 1;
                let doubled = 1_000_i64 << (health.probes - 1).min(6);
                health.parked_until = now + doubled.min(longest_park_ms);
            }
        } else {
            health.streak = 0;
        }
        if let Some(asked_ms) = asked_ms {
            health.parked_until = health.parked_until.max(now + asked_ms);
        }
        health
    }

    /// Whether only one delivery at a time is tried.
    #[must_use]
    pub fn is_probing(self) -> bool {
        self.streak >= STREAK
    }

    /// Whether any try of it ended before.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.pace_ms.is_some()
    }

    /// Whether its tries take long.
    #[must_use]
    pub fn is_slow(self) -> bool {
        self.pace_ms.is_some_and(|pace_ms| pace_ms >= SLOW_MS)
    }

    /// Whether it must first show that it works: it is slow, failed last, or was never tried.
    #[must_use]
    pub fn is_suspect(self) -> bool {
        self.streak > 0 || self.is_slow() || !self.is_known()
    }

    /// Whether it failed for so long that it is given up.
    #[must_use]
    pub fn is_hopeless(self, now: Millis) -> bool {
        self.failures >= FAILURES && self.failing_since.is_some_and(|since| now - since >= FAILING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_767_225_600_000);
    const SCHEDULE: [i64; 9] = [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400];

    impl Health {
        /// After a try that took no time.
        fn then(self, outcome: TryOutcome, asked_ms: Option<i64>, now: Millis) -> Self {
            self.after(EndedTry { outcome, asked_ms, latency_ms: 0 }, LONGEST_PARK, now)
        }
    }

    #[test]
    fn only_what_may_work_later_is_tried_again() {
        for status in [200, 201, 204, 299] {
            assert_eq!(outcome(Some(status)), TryOutcome::Delivered, "{status}");
        }
        for status in [429, 500, 502, 503, 504, 599] {
            assert_eq!(outcome(Some(status)), TryOutcome::Again, "{status}");
        }
        for status in [101, 301, 302, 304, 307, 400, 401, 403, 404, 408, 409, 411, 422, 451, 600] {
            assert_eq!(outcome(Some(status)), TryOutcome::Over, "{status}");
        }
        assert_eq!(outcome(Some(410)), TryOutcome::Gone);
        assert_eq!(outcome(None), TryOutcome::Again);
    }

    #[test]
    fn the_schedule_is_kept_to_a_fifth_and_ends() {
        for (step, pause_s) in SCHEDULE.iter().enumerate() {
            let step = i64::try_from(step).unwrap();
            let waits = [0, 500, 999]
                .map(|chance| next_try(&SCHEDULE, step, None, NOW, chance).unwrap() - NOW);
            assert_eq!(waits, [800, 1000, 1200].map(|fifths| pause_s * fifths), "step {step}");
        }
        assert_eq!(next_try(&SCHEDULE, 9, None, NOW, 0), None);
        assert_eq!(next_try(&SCHEDULE, -1, None, NOW, 0), None);
    }

    #[test]
    fn a_receiver_may_ask_for_more_time_but_not_for_less_nor_for_ever() {
        let next = |asked_ms| next_try(&SCHEDULE, 0, asked_ms, NOW, 500).unwrap() - NOW;
        assert_eq!((next(Some(1_000)), next(Some(60_000))), (5_000, 60_000));
        assert_eq!(asked_wait_ms(429, Some("120"), NOW), Some(120_000));
        assert_eq!(asked_wait_ms(503, Some(" 7 "), NOW), Some(7_000));
        assert_eq!(asked_wait_ms(429, Some("4000000000"), NOW), Some(24 * HOUR));
        for long in ["99999999999", "9999999999999999999999"] {
            assert_eq!(asked_wait_ms(429, Some(long), NOW), Some(24 * HOUR), "{long}");
        }
        let date = "Thu, 01 Jan 2026 00:01:00 GMT";
        assert_eq!(asked_wait_ms(503, Some(date), NOW), Some(60_000));
        assert_eq!(asked_wait_ms(503, Some("Thu, 01 Jan 2015 00:01:00 GMT"), NOW), Some(0));
        for text in ["-1", "soon", "", "1.5"] {
            assert_eq!(asked_wait_ms(429, Some(text), NOW), None, "{text}");
        }
        assert_eq!(asked_wait_ms(500, Some("120"), NOW), Some(120_000));
        assert_eq!(asked_wait_ms(404, Some("120"), NOW), None, "it is not tried again");
        assert_eq!(asked_wait_ms(429, None, NOW), None);
    }

    #[test]
    fn five_failures_park_a_target_and_one_success_frees_it() {
        let mut health = Health::default();
        for _ in 0..4 {
            health = health.then(TryOutcome::Again, None, NOW);
        }
        assert_eq!((health.is_probing(), health.parked_until), (false, Millis(0)));
        health = health.then(TryOutcome::Again, None, NOW);
        assert_eq!((health.is_probing(), health.parked_until - NOW), (true, 1_000));
        // Eleven more that were under way at the time.
        for _ in 0..11 {
            health = health.then(TryOutcome::Again, None, NOW);
        }
        assert_eq!(health.parked_until - NOW, 1_000);
        let mut parks = vec![];
        for _ in 0..8 {
            let now = health.parked_until;
            health = health.then(TryOutcome::Again, None, now);
            parks.push((health.parked_until - now) / 1_000);
        }
        assert_eq!(parks, [2, 4, 8, 16, 32, 60, 60, 60]);
        let now = health.parked_until;
        health = health.then(TryOutcome::Delivered, None, now);
        assert_eq!(
            health,
            Health { last_success_at: Some(now), pace_ms: Some(0), ..Health::default() }
        );
    }

    #[test]
    fn a_short_schedule_is_kept_to_whatever_fails() {
        assert_eq!(longest_park_ms(&SCHEDULE), 60_000);
        assert_eq!(longest_park_ms(&[1; 9]), 200, "within the fifth by which tries are spread");
        assert_eq!(longest_park_ms(&[]), 0);
    }

    #[test]
    fn refusals_do_not_park_but_count_as_failures() {
        let mut health = Health::default();
        for _ in 0..20 {
            health = health.then(TryOutcome::Over, None, NOW);
        }
        assert_eq!((health.is_probing(), health.failures), (false, 20));
        assert!(!health.is_hopeless(NOW + FAILING - 1));
        assert!(health.is_hopeless(NOW + FAILING));
    }

    #[test]
    fn a_few_failures_are_not_hopeless_however_long_ago() {
        let mut health = Health::default();
        for _ in 0..9 {
            health = health.then(TryOutcome::Again, None, NOW);
        }
        assert!(!health.is_hopeless(NOW + 100 * DAY));
    }

    #[test]
    fn asking_for_time_parks_the_whole_target() {
        let health = Health::default().then(TryOutcome::Again, Some(9_000), NOW);
        assert_eq!(health.parked_until - NOW, 9_000);
        assert!(!health.is_probing());
    }

    #[test]
    fn what_the_receiver_asked_for_outlives_an_earlier_tries_success() {
        let mut health = Health::default();
        for _ in 0..STREAK {
            health = health.then(TryOutcome::Again, Some(HOUR), NOW);
        }
        assert!(health.is_probing());
        let freed = health.then(TryOutcome::Delivered, None, NOW + 500);
        assert_eq!((freed.is_probing(), freed.parked_until), (false, NOW + HOUR));
    }

    #[test]
    fn a_target_is_slow_at_once_and_fast_again_after_a_while() {
        let took = |health: Health, latency_ms| {
            let ended = EndedTry { outcome: TryOutcome::Delivered, asked_ms: None, latency_ms };
            health.after(ended, LONGEST_PARK, NOW)
        };
        let mut health = Health::default();
        assert!(health.is_suspect(), "nothing is known of it");
        health = took(health, 20);
        assert!(!health.is_suspect());
        health = took(health, 13_000);
        assert!(health.is_suspect() && health.is_slow());
        let fast = (1..100).find(|_| {
            health = took(health, 20);
            !health.is_suspect()
        });
        assert_eq!(fast, Some(7));
    }
}
