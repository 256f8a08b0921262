//! Whom a centre throttles: the session, or the messages of one owner. A full queue (`RMSGQFUL`,
//! SMPP 3.4 §5.1.3) may be that of one destination, and then the others need not wait for it.

use std::collections::HashMap;

use clock::Millis;

/// How long an owner is blamed after the last answer that throttled it, milliseconds.
const BLAMED_MS: i64 = 60_000;
/// Answers that come within this time are one round, milliseconds: a window is told at once.
const ROUND_MS: i64 = 1_000;
/// Rounds that it takes: a centre that counts by the second takes some in each second.
const ENOUGH_ROUNDS: u32 = 2;
/// Owners of whom something is known. Those beyond pause the session, as if they were all.
const MOST_OWNERS: usize = 1_000;

/// The owners whose messages were throttled, and none of whose was taken since.
#[derive(Debug, Default)]
pub(super) struct Blame {
    owners: HashMap<String, Trouble>,
}

#[derive(Debug)]
struct Trouble {
    /// When its last answer came.
    at: Millis,
    rounds: u32,
    /// Whether the centre took others' in the meantime. That it takes some of its own as well does
    /// not end it: it is its other messages that the centre throttles.
    is_blamed: bool,
}

impl Blame {
    /// The centre throttled one.
    pub(super) fn throttled(&mut self, owner: &str, now: Millis) {
        let known = self.owners.get_mut(owner).filter(|trouble| trouble.is_recent(now));
        if let Some(trouble) = known {
            trouble.rounds += u32::from(now - trouble.at >= ROUND_MS);
            trouble.at = now;
            return;
        }
        self.owners.retain(|_, trouble| trouble.is_recent(now));
        if self.owners.len() < MOST_OWNERS {
            let trouble = Trouble { at: now, rounds: 1, is_blamed: false };
            self.owners.insert(owner.to_owned(), trouble);
        }
    }

    /// The centre took one.
    pub(super) fn took(&mut self, owner: &str) {
        if self.owners.get(owner).is_some_and(|trouble| !trouble.is_blamed) {
            self.owners.remove(owner);
        }
    }

    /// It took one that asked alone: those that it throttled time and again, it throttles them,
    /// and not the session.
    pub(super) fn took_alone(&mut self, owner: &str) {
        self.took(owner);
        for (_, trouble) in self.owners.iter_mut().filter(|(other, _)| *other != owner) {
            trouble.is_blamed |= trouble.rounds >= ENOUGH_ROUNDS;
        }
    }

    /// Whether an owner's last messages were throttled.
    pub(super) fn is_in_trouble(&self, owner: &str, now: Millis) -> bool {
        self.owners.get(owner).is_some_and(|trouble| trouble.is_recent(now))
    }

    /// Whether what the centre says of this owner's messages says nothing of the session.
    pub(super) fn is_blamed(&self, owner: &str, now: Millis) -> bool {
        let trouble = self.owners.get(owner).filter(|trouble| trouble.is_recent(now));
        trouble.is_some_and(|trouble| trouble.is_blamed)
    }
}

impl Trouble {
    fn is_recent(&self, now: Millis) -> bool {
        now - self.at < BLAMED_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_throttled_time_and_again_is_to_blame_once_the_centre_takes_anothers() {
        let mut blame = Blame::default();
        // A window is told at once.
        (0..9).for_each(|at| blame.throttled("ada", Millis(at)));
        blame.took_alone("ben");
        assert!(blame.is_in_trouble("ada", Millis(9)) && !blame.is_blamed("ada", Millis(9)));
        blame.throttled("ada", Millis(1_008));
        // What was under way beside others says less.
        blame.took("ben");
        assert!(!blame.is_blamed("ada", Millis(1_009)));
        blame.took_alone("ben");
        assert!(blame.is_blamed("ada", Millis(1_009)));
        assert!(!blame.is_in_trouble("ben", Millis(1_009)));
        // Some of hers are taken all the same: it is her others that the centre throttles.
        blame.took_alone("ada");
        assert!(blame.is_blamed("ada", Millis(1_009)));
        blame.throttled("ada", Millis(50_000));
        assert!(blame.is_blamed("ada", Millis(109_999)));
        assert!(!blame.is_in_trouble("ada", Millis(110_000)));
        // After so long she is one like any other.
        blame.throttled("ada", Millis(110_000));
        assert!(!blame.is_blamed("ada", Millis(110_001)));
    }

    #[test]
    fn a_centre_that_takes_ones_own_again_blames_nobody() {
        let mut blame = Blame::default();
        for at in [0, 1_000, 3_000] {
            blame.throttled("ada", Millis(at));
        }
        blame.took("ada");
        blame.took_alone("ben");
        assert!(!blame.is_in_trouble("ada", Millis(3_001)));
    }

    #[test]
    fn owners_without_number_are_not_remembered() {
        let mut blame = Blame::default();
        (0..2_000).for_each(|owner| blame.throttled(&owner.to_string(), Millis(0)));
        assert_eq!(blame.owners.len(), MOST_OWNERS);
        blame.throttled("ada", Millis(BLAMED_MS));
        assert_eq!(blame.owners.len(), 1);
    }
}
