//! Time, ids and chance: the only place that asks the machine for them. A held clock makes all
//! three repeatable, so that a test can compare whole answers and a crash can be replayed.

mod chance;
mod id;
mod machine;
mod millis;
mod monotonic;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

pub use chance::Chance;
pub use id::{typeid, typeid_uuid};
pub use machine::{Reading, Standing};
pub use millis::Millis;

use machine::Machine;

/// One minute in milliseconds.
pub const MINUTE: i64 = 60_000;
/// One hour in milliseconds.
pub const HOUR: i64 = 60 * MINUTE;
/// One day in milliseconds.
pub const DAY: i64 = 24 * HOUR;

/// How far a clock may be set back without ids falling, milliseconds.
const BACKWARDS_MS: u64 = 1_000;

/// A source of time, ids and chance. Clones share it.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    chance: Chance,
    /// Milliseconds and counter of the latest id.
    latest: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
enum Source {
    Machine(Arc<Machine>),
    Held(Arc<Held>),
}

#[derive(Debug)]
struct Held {
    time: watch::Sender<HeldTime>,
}

/// What a held clock says, and how much time has passed by it.
#[derive(Clone, Copy, Debug)]
struct HeldTime {
    now: Millis,
    passed_ms: i64,
}

impl Clock {
    /// The machine's own time and chance, until [`Clock::follow`].
    #[must_use]
    pub fn system() -> Self {
        Self::of(Machine::default())
    }

    /// The same on a machine whose clock is wrong: ahead by so many milliseconds. For stories.
    #[must_use]
    pub fn ahead_by(ms: i64) -> Self {
        Self::of(Machine::ahead_by(ms))
    }

    fn of(machine: Machine) -> Self {
        let source = Source::Machine(Arc::new(machine));
        Self { source, chance: Chance::system(), latest: Arc::default() }
    }

    /// A clock that stands still until [`Clock::advance`], with chance from `seed`.
    #[must_use]
    pub fn held(at: Millis, seed: u64) -> Self {
        let held = Held { time: watch::Sender::new(HeldTime { now: at, passed_ms: 0 }) };
        let (source, chance) = (Source::Held(Arc::new(held)), Chance::seeded(seed));
        Self { source, chance, latest: Arc::default() }
    }

    /// The instant now, for what is stored and shown.
    #[must_use]
    pub fn now(&self) -> Millis {
        match &self.source {
            Source::Machine(machine) => machine.now(),
            Source::Held(held) => held.time.borrow().now,
        }
    }

    /// Goes by another clock from now on, as it was read: several machines that follow the same one
    /// agree on the time, whatever their own clocks say. `None` = this one is held, and stays so.
    #[must_use]
    pub fn follow(&self, reading: &Reading) -> Option<Standing> {
        match &self.source {
            Source::Machine(machine) => Some(machine.follow(reading)),
            Source::Held(_) => None,
        }
    }

    /// Milliseconds since a fixed moment, as time passes: whatever the clock is set to meanwhile,
    /// and also while the machine sleeps, where the system can tell.
    #[must_use]
    pub fn monotonic_ms(&self) -> i64 {
        match &self.source {
            Source::Machine(_) => monotonic::of_the_machine(),
            Source::Held(held) => held.time.borrow().passed_ms,
        }
    }

    /// Lets time pass by a held clock; by the system's it passes by itself.
    pub fn advance(&self, by_ms: i64) {
        self.change(|time| {
            time.now = time.now + by_ms;
            time.passed_ms += by_ms.max(0);
        });
    }

    /// Sets a held clock forward or, with a negative number, back: no time passes.
    pub fn step(&self, by_ms: i64) {
        self.change(|time| time.now = time.now + by_ms);
    }

    fn change(&self, change: impl FnOnce(&mut HeldTime)) {
        if let Source::Held(held) = &self.source {
            held.time.send_modify(change);
        }
    }

    /// Returns after as much time as there is now until `at`, however the clock is set meanwhile.
    pub async fn sleep_until(&self, at: Millis) {
        match &self.source {
            Source::Machine(_) => {
                let wait_ms = u64::try_from(at.0 - self.now().0).unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
            Source::Held(held) => {
                let mut time = held.time.subscribe();
                let HeldTime { now, passed_ms } = *time.borrow();
                let until_ms = passed_ms + (at - now);
                // The sender lives in `held`, so waiting cannot fail.
                let _passed = time.wait_for(|time| time.passed_ms >= until_ms).await;
            }
        }
    }

    /// Returns after `ms` milliseconds by this clock.
    pub async fn sleep(&self, ms: i64) {
        self.sleep_until(self.now() + ms).await;
    }

    /// The next tick of a poller: after `ms` of real time, or as soon as a held clock moves.
    pub async fn tick(&self, ms: u64) {
        let pause = tokio::time::sleep(Duration::from_millis(ms));
        match &self.source {
            Source::Machine(_) => pause.await,
            Source::Held(held) => {
                let mut time = held.time.subscribe();
                tokio::select! { () = pause => {}, _ = time.changed() => {} }
            }
        }
    }

    /// Fills `bytes` with chance fit for secrets (the operating system's, unless held).
    pub fn fill(&self, bytes: &mut [u8]) {
        self.chance.fill(bytes);
    }

    /// A uniform number below `bound` (which must not be 0; 0 answers 0).
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        self.chance.below(bound)
    }

    /// A time-ordered UUID, version 7 (RFC 9562 §5.7). Those of one clock rise, also within a
    /// millisecond: the twelve bits behind the time are a counter with a random start (§6.2, method
    /// 1). When it is full, the next millisecond begins early.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid_from(0)
    }

    /// The same, but above `floor`, also where that lies ahead of the clock: an id of another
    /// clock, or of this one before it was set back.
    #[must_use]
    pub fn uuid_above(&self, floor: Uuid) -> Uuid {
        let (time, low) = (floor.as_u128() >> 80, (floor.as_u128() >> 64) & 0x0fff);
        let taken = u64::try_from((time << 12) | low).unwrap_or(0);
        self.uuid_from(taken + 1)
    }

    /// One whose milliseconds and counter are not below `least`.
    fn uuid_from(&self, least: u64) -> Uuid {
        let mut random = [0_u8; 10];
        self.fill(&mut random);
        let now_ms = u64::try_from(self.now().0).unwrap_or(0);
        let start = u64::from(u16::from_be_bytes([random[0] & 0x07, random[1]]));
        let fresh = (now_ms << 12) | start;
        let next = |last: u64| {
            // A clock that was set back by more than a little is believed.
            let is_ahead = last >> 12 > now_ms + BACKWARDS_MS;
            if is_ahead { fresh } else { fresh.max(last + 1) }
        };
        let last =
            self.latest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        let taken = next(last.unwrap_or_default()).max(least);
        let [.., high, low] = (taken & 0x0fff).to_be_bytes();
        [random[0], random[1]] = [high, low];
        uuid::Builder::from_unix_timestamp_millis(taken >> 12, &random).into_uuid()
    }

    /// A new TypeID: `prefix_` and 26 characters.
    #[must_use]
    pub fn id(&self, prefix: &str) -> String {
        typeid(prefix, self.uuid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_held_clock_wakes_sleepers_only_when_moved_far_enough() {
        let clock = Clock::held(Millis(1_000), 7);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(500).await }
        });
        tokio::task::yield_now().await;
        clock.advance(499);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!sleeper.is_finished());
        clock.advance(1);
        sleeper.await.unwrap();
        assert_eq!(clock.now(), Millis(1_500));
    }

    #[tokio::test]
    async fn who_sleeps_is_not_woken_by_a_clock_that_is_set() {
        let clock = Clock::held(Millis(1_000_000), 7);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(500).await }
        });
        tokio::task::yield_now().await;
        clock.step(3_600_000);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!sleeper.is_finished(), "no time has passed");
        clock.step(-7_200_000);
        assert_eq!((clock.now(), clock.monotonic_ms()), (Millis(-2_600_000), 0));
        clock.advance(500);
        sleeper.await.unwrap();
        assert_eq!(clock.monotonic_ms(), 500);
    }

    #[test]
    fn the_time_of_the_machine_passes() {
        let clock = Clock::system();
        let before = clock.monotonic_ms();
        std::thread::sleep(Duration::from_millis(30));
        let passed = clock.monotonic_ms() - before;
        assert!((29..5_000).contains(&passed), "{passed}");
    }

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let ids = |seed| Clock::held(Millis(0), seed).id("otp");
        assert_eq!(ids(1), ids(1));
        assert_ne!(ids(1), ids(2));
    }

    #[test]
    fn ids_rise_within_a_millisecond_and_follow_a_clock_that_is_set_back() {
        let clock = Clock::held(Millis(1_767_225_600_000), 7);
        let ids: Vec<Uuid> = (0..5_000).map(|_| clock.uuid()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        let ms = |id: &Uuid| id.as_u128() >> 80;
        let first = ids.first().map(ms).unwrap();
        assert_eq!(first, 1_767_225_600_000);
        // Five thousand do not fit into one.
        assert!((1..=2).contains(&(ids.last().map(ms).unwrap() - first)));
        clock.advance(-60_000);
        assert_eq!(ms(&clock.uuid()), 1_767_225_540_000);
    }

    #[test]
    fn an_id_above_another_is_above_it_whatever_the_clock_says() {
        let clock = Clock::held(Millis(1_767_225_600_000), 7);
        let ahead = clock.uuid();
        clock.advance(-60_000);
        assert!(clock.uuid() < ahead);
        let above = clock.uuid_above(ahead);
        assert!(above > ahead && above.get_version_num() == 7);
        assert!(clock.uuid_above(above) > above);
        // And what lies below the clock does not hold it back.
        let ms = |id: &Uuid| id.as_u128() >> 80;
        assert_eq!(ms(&clock.uuid_above(Uuid::nil())), 1_767_225_540_000);
    }
}
