//! Whom a centre throttles: the session, or the messages of one owner. A full queue (`RMSGQFUL`,
//! SMPP 3.4 §5.1.3) may be that of one destination, and then the others need not wait for it.

use std::collections::HashMap;

use clock::Millis;

/// How long an owner is blamed after the last answer that throttled it, milliseconds.
const BLAMED_MS: i64 = 60_000;
/// Answers that come within this time are one round, milliseconds: a window is told at once.
const ROUND_MS: i64 = 1_000;
/// How often the centre throttles one right after it took another's, until that one is to blame.
const ENOUGH: u32 = 2;
/// How long one who is to blame rests, milliseconds: each time for twice as long.
const REST_MS: [i64; 2] = [1_000, 30_000];
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
    /// Whether the centre took another's since it was throttled last.
    others_were_taken: bool,
    /// Rounds in which it was throttled after that. Enough, and it is to blame. That the centre
    /// takes some of its own as well does not end it: it is its other messages that it throttles.
    evidence: u32,
    rests_until: Millis,
    next_rest_ms: i64,
}

impl Blame {
    /// The centre throttled one.
    pub(super) fn throttled(&mut self, owner: &str, now: Millis) {
        let known = self.owners.get_mut(owner).filter(|trouble| trouble.is_recent(now));
        if let Some(trouble) = known {
            return trouble.goes_on(now);
        }
        self.owners.retain(|_, trouble| trouble.is_recent(now));
        if self.owners.len() < MOST_OWNERS {
            self.owners.insert(owner.to_owned(), Trouble::new(now));
        }
    }

    /// The centre took one.
    pub(super) fn took(&mut self, owner: &str) {
        match self.owners.get_mut(owner) {
            Some(trouble) if trouble.is_blamed() => trouble.next_rest_ms = REST_MS[0],
            Some(_) => drop(self.owners.remove(owner)),
            None => {}
        }
    }

    /// It took one that asked whether it takes any.
    pub(super) fn took_asking(&mut self, owner: &str) {
        self.took(owner);
        for (_, trouble) in self.owners.iter_mut().filter(|(other, _)| *other != owner) {
            trouble.others_were_taken = true;
        }
    }

    /// Whether an owner's last messages were throttled.
    pub(super) fn is_in_trouble(&self, owner: &str, now: Millis) -> bool {
        self.owners.get(owner).is_some_and(|trouble| trouble.is_recent(now))
    }

    /// Whether what the centre says of this owner's messages says nothing of the session.
    pub(super) fn is_blamed(&self, owner: &str, now: Millis) -> bool {
        let trouble = self.owners.get(owner).filter(|trouble| trouble.is_recent(now));
        trouble.is_some_and(Trouble::is_blamed)
    }

    /// Whether nothing of an owner that is to blame should go now.
    pub(super) fn rests(&self, owner: &str, now: Millis) -> bool {
        self.rests_until(owner).is_some_and(|until| now < until)
    }

    /// Until when it should not, if it ever was to blame.
    pub(super) fn rests_until(&self, owner: &str) -> Option<Millis> {
        self.owners.get(owner).map(|trouble| trouble.rests_until)
    }
}

impl Trouble {
    const fn new(now: Millis) -> Self {
        Self {
            at: now,
            others_were_taken: false,
            evidence: 0,
            rests_until: Millis(i64::MIN),
            next_rest_ms: REST_MS[0],
        }
    }

    /// It was throttled again.
    fn goes_on(&mut self, now: Millis) {
        let is_new_round = now - self.at >= ROUND_MS;
        self.at = now;
        if is_new_round && std::mem::take(&mut self.others_were_taken) {
            self.evidence += 1;
        }
        if self.is_blamed() && now >= self.rests_until {
            self.rests_until = now + self.next_rest_ms;
            self.next_rest_ms = (self.next_rest_ms * 2).min(REST_MS[1]);
        }
    }

    const fn is_blamed(&self) -> bool {
        self.evidence >= ENOUGH
    }

    fn is_recent(&self, now: Millis) -> bool {
        now - self.at < BLAMED_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ada is throttled, each time after ben's was taken.
    fn blamed() -> Blame {
        let mut blame = Blame::default();
        for at in [0, 1_100, 2_200] {
            assert!(!blame.is_blamed("ada", Millis(at)));
            // A window is told at once.
            (0..9).for_each(|after| blame.throttled("ada", Millis(at + after)));
            blame.took_asking("ben");
        }
        assert!(blame.is_blamed("ada", Millis(2_209)));
        blame
    }

    #[test]
    fn who_is_throttled_right_after_others_were_taken_time_and_again_is_to_blame() {
        let mut blame = blamed();
        assert!(!blame.is_in_trouble("ben", Millis(2_209)));
        // Some of hers are taken all the same: it is her others that the centre throttles.
        blame.took("ada");
        assert!(blame.is_blamed("ada", Millis(2_209)));
        blame.throttled("ada", Millis(50_000));
        assert!(blame.is_blamed("ada", Millis(109_999)));
        assert!(!blame.is_in_trouble("ada", Millis(110_000)));
        // After so long she is one like any other.
        blame.throttled("ada", Millis(110_000));
        assert!(!blame.is_blamed("ada", Millis(110_001)));
    }

    #[test]
    fn a_centre_that_throttles_for_a_while_and_then_takes_all_blames_nobody() {
        let mut blame = Blame::default();
        for at in [0, 1_000, 3_000, 7_000] {
            blame.throttled("ada", Millis(at));
            blame.throttled("ben", Millis(at));
        }
        blame.took_asking("ben");
        assert!(
            !blame.is_blamed("ada", Millis(7_001)) && blame.is_in_trouble("ada", Millis(7_001))
        );
        blame.took("ada");
        assert!(!blame.is_in_trouble("ada", Millis(7_001)));
    }

    #[test]
    fn who_is_to_blame_rests_for_longer_each_time_until_one_is_taken() {
        let mut blame = blamed();
        let mut now = Millis(2_200);
        for rest_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            assert!(blame.rests("ada", now + (rest_ms - 1)) && !blame.rests("ada", now + rest_ms));
            now = now + rest_ms;
            blame.throttled("ada", now);
        }
        blame.took("ada");
        now = now + 30_000;
        blame.throttled("ada", now);
        assert!(blame.rests("ada", now + 999) && !blame.rests("ada", now + 1_000));
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
