//! The clock of a machine, and how it follows another one. What follows counts on from the last
//! reading by the time that passes: to set the machine's own clock changes nothing.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::{Millis, monotonic};

/// What another clock said, between two moments of [`crate::Clock::monotonic_ms`].
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The instant that it gave.
    pub said: Millis,
    /// When it was asked.
    pub asked_ms: i64,
    /// When it had answered.
    pub answered_ms: i64,
}

impl Reading {
    /// How long the answer took, milliseconds: half of it is how wrong the reading may be.
    #[must_use]
    pub fn took_ms(&self) -> i64 {
        self.answered_ms - self.asked_ms
    }
}

/// How a clock stands to the one that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How far the machine's own clock is ahead of it; negative = behind. Milliseconds.
    pub machine_ahead_ms: i64,
    /// How far following has moved what [`crate::Clock::now`] says; negative = back. Milliseconds.
    pub moved_ms: i64,
}

/// That it follows none.
const NONE: i64 = i64::MIN;

#[derive(Debug)]
pub(crate) struct Machine {
    /// How wrong its own clock is, for stories.
    ahead_ms: i64,
    /// What the followed clock says when no time has passed yet; [`NONE`].
    origin: AtomicI64,
}

impl Default for Machine {
    fn default() -> Self {
        Self::ahead_by(0)
    }
}

impl Machine {
    pub(crate) const fn ahead_by(ahead_ms: i64) -> Self {
        Self { ahead_ms, origin: AtomicI64::new(NONE) }
    }

    pub(crate) fn now(&self) -> Millis {
        match self.origin.load(Ordering::Relaxed) {
            NONE => self.own(),
            origin => Millis(origin) + monotonic::of_the_machine(),
        }
    }

    /// What its own clock says.
    fn own(&self) -> Millis {
        Millis::of_the_machine() + self.ahead_ms
    }

    pub(crate) fn follow(&self, reading: &Reading) -> Standing {
        let before = self.now();
        let origin = reading.said - (reading.asked_ms + reading.took_ms() / 2);
        let known = self.origin.load(Ordering::Relaxed);
        // What a reading cannot tell apart is left: time would go back for nothing.
        let is_news = known == NONE || (origin.0 - known).abs() > reading.took_ms() / 2 + 1;
        if is_news {
            self.origin.store(origin.0, Ordering::Relaxed);
        }
        let now = self.now();
        Standing { machine_ahead_ms: self.own() - now, moved_ms: now - before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(said: Millis, took_ms: i64) -> Reading {
        let now = monotonic::of_the_machine();
        Reading { said, asked_ms: now - took_ms, answered_ms: now }
    }

    #[test]
    fn a_machine_an_hour_ahead_says_what_the_clock_says_that_it_follows() {
        let right = Machine::default();
        let wrong = Machine::ahead_by(3_600_000);
        assert!(wrong.now() - right.now() >= 3_599_000);
        let standing = wrong.follow(&reading(right.now(), 0));
        assert!((standing.machine_ahead_ms - 3_600_000).abs() < 1_000, "{standing:?}");
        assert!((standing.moved_ms + 3_600_000).abs() < 1_000, "{standing:?}");
        assert!((wrong.now() - right.now()).abs() < 1_000);
    }

    #[test]
    fn an_answer_that_took_long_moves_nothing_that_it_cannot_tell() {
        let machine = Machine::default();
        machine.follow(&reading(Millis(1_000_000), 0));
        let before = machine.now();
        let standing = machine.follow(&reading(before, 400));
        assert!(standing.moved_ms.abs() < 100, "{standing:?}");
        // One that took as long, and is further off than that.
        let standing = machine.follow(&reading(machine.now() + 5_000, 400));
        assert!((standing.moved_ms - 5_200).abs() < 100, "{standing:?}");
    }
}
