//! How fast a session may submit: so many segments in a second, not at all while the centre asks
//! for a pause, slower after it had to ask.

use clock::Millis;

/// The first pause after a throttled request, milliseconds; each further one is twice as long.
const FIRST_PAUSE_MS: i64 = 1_000;
/// The longest pause.
const LONGEST_PAUSE_MS: i64 = 30_000;
/// How often the rate recovers by a twentieth of what is configured.
const RECOVERY_MS: i64 = 10_000;

/// The pace of one session. A centre that throttles pauses all of it, because a message that steps
/// back alone would be overtaken by its successors; whose are throttled alone is `Blame`'s.
#[derive(Debug)]
pub struct Pace {
    /// Segments in a second; 0 = no limit.
    configured: u32,
    current: u32,
    /// Thousandths of a segment that may go now. Long messages may overdraw.
    stock: i64,
    filled_at: Millis,
    paused_until: Millis,
    /// When the centre asked for the pause, or said so again, until it takes one that asks.
    asked_at: Option<Millis>,
    next_pause_ms: i64,
    recovered_at: Millis,
}

impl Pace {
    /// A pace of so many segments in a second; 0 = no limit.
    #[must_use]
    pub const fn new(per_second: u32, now: Millis) -> Self {
        Self {
            configured: per_second,
            current: per_second,
            stock: 1_000,
            filled_at: now,
            paused_until: Millis(i64::MIN),
            asked_at: None,
            next_pause_ms: FIRST_PAUSE_MS,
            recovered_at: now,
        }
    }

    /// When the next message may go: `now` or later.
    pub fn ready_at(&mut self, now: Millis) -> Millis {
        self.refilled_at(now).max(self.paused_until)
    }

    /// When the rate lets the next one go, whatever the centre asked for.
    fn refilled_at(&mut self, now: Millis) -> Millis {
        if self.configured == 0 {
            return now;
        }
        self.recover(now);
        let rate = i64::from(self.current);
        let passed_ms = (now - self.filled_at).max(0);
        self.filled_at = now;
        // A tenth of a second's worth may go at once.
        let most = (rate * 100).max(1_000);
        self.stock = self.stock.saturating_add(passed_ms.saturating_mul(rate)).min(most);
        let missing = (1_000 - self.stock).max(0);
        now + (missing + rate - 1) / rate
    }

    /// When one may ask alone whether the centre takes those of its owner, or those that cannot
    /// wait, in a pause that others caused.
    pub fn may_ask_at(&mut self, now: Millis) -> Millis {
        let ready_at = self.refilled_at(now);
        self.asked_at.map_or(ready_at, |asked_at| ready_at.max(asked_at + FIRST_PAUSE_MS))
    }

    /// Whether the centre asked for a pause and took none of those that asked since, one at a time.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        self.asked_at.is_some()
    }

    /// What asked was throttled, for reasons that may be its own.
    pub fn still_asking(&mut self, now: Millis) {
        self.asked_at = self.asked_at.map(|_| now);
    }

    /// The pause is over: the centre takes messages.
    pub const fn resume(&mut self, now: Millis) {
        self.paused_until = now;
        self.asked_at = None;
    }

    /// A message of so many segments went.
    pub fn spend(&mut self, segments: u32) {
        if self.configured > 0 {
            self.stock -= i64::from(segments) * 1_000;
        }
    }

    /// The centre took one.
    pub const fn accepted(&mut self) {
        self.next_pause_ms = FIRST_PAUSE_MS;
    }

    /// The centre asks for a pause. What a whole window is told at once counts as one.
    pub fn throttled(&mut self, now: Millis) {
        self.asked_at = Some(now);
        if now < self.paused_until {
            return;
        }
        self.paused_until = now + self.next_pause_ms;
        self.next_pause_ms = (self.next_pause_ms * 2).min(LONGEST_PAUSE_MS);
        self.current =
            (self.current / 5 * 4 + self.current % 5 * 4 / 5).max(self.configured.min(1));
        self.recovered_at = self.paused_until;
    }

    /// Until when it is paused, if it is.
    #[must_use]
    pub fn paused_until(&self, now: Millis) -> Option<Millis> {
        (now < self.paused_until).then_some(self.paused_until)
    }

    /// Segments in a second at present; 0 = no limit.
    #[must_use]
    pub const fn rate(&self) -> u32 {
        self.current
    }

    fn recover(&mut self, now: Millis) {
        let steps = (now - self.recovered_at).max(0) / RECOVERY_MS;
        if steps > 0 {
            self.recovered_at = self.recovered_at + steps * RECOVERY_MS;
            let step = self.configured.div_ceil(20);
            let gained = u32::try_from(steps).unwrap_or(u32::MAX).saturating_mul(step);
            self.current = self.current.saturating_add(gained).min(self.configured);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many go within some milliseconds.
    fn sent(pace: &mut Pace, from: i64, for_ms: i64) -> i64 {
        let mut count = 0;
        for at in from..from + for_ms {
            while pace.ready_at(Millis(at)) <= Millis(at) {
                pace.spend(1);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn segments_are_counted_and_not_messages() {
        let mut pace = Pace::new(100, Millis(0));
        let singles = sent(&mut pace, 0, 10_000);
        assert!((999..=1_010).contains(&singles), "{singles}");
        let mut pace = Pace::new(10, Millis(0));
        pace.spend(10);
        assert_eq!(pace.ready_at(Millis(0)), Millis(1_000));
        assert_eq!(pace.ready_at(Millis(999)), Millis(1_000));
        assert_eq!(pace.ready_at(Millis(1_000)), Millis(1_000));
    }

    #[test]
    fn a_throttled_session_pauses_longer_each_time_until_one_is_accepted() {
        let mut pace = Pace::new(0, Millis(0));
        assert_eq!(pace.ready_at(Millis(0)), Millis(0));
        let mut now = Millis(0);
        for pause_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            pace.throttled(now);
            // The rest of the window is told the same.
            pace.throttled(now + 1);
            assert_eq!(pace.ready_at(now + 2), now + pause_ms);
            assert_eq!(pace.may_ask_at(now + 2), now + 1_001);
            now = now + pause_ms;
            assert_eq!(pace.ready_at(now), now);
        }
        pace.accepted();
        pace.throttled(now);
        assert_eq!(pace.paused_until(now), Some(now + 1_000));
        assert!(pace.is_asking());
        pace.resume(now + 500);
        assert_eq!(pace.ready_at(now + 500), now + 500);
        assert!(!pace.is_asking());
    }

    #[test]
    fn the_rate_falls_by_a_fifth_and_recovers() {
        let mut pace = Pace::new(100, Millis(0));
        pace.throttled(Millis(0));
        assert_eq!(pace.rate(), 80);
        let _ready = pace.ready_at(Millis(21_000));
        assert_eq!(pace.rate(), 90);
        let _ready = pace.ready_at(Millis(1_000_000));
        assert_eq!(pace.rate(), 100);
        (0..100).for_each(|round| pace.throttled(Millis(2_000_000 + round * 60_000)));
        assert_eq!(pace.rate(), 1);
    }
}
