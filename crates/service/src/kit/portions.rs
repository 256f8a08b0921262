//! How much of something each of several parties has at a time, so that none has all of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What every party may have so many of at a time. It is made in statics: a portion finds back.
pub struct Portions {
    most: usize,
    by_party: Mutex<BTreeMap<String, usize>>,
}

/// One of them, given back when it is dropped.
pub struct Portion {
    party: String,
    of: &'static Portions,
}

impl Portions {
    /// So many for each.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, by_party: Mutex::new(BTreeMap::new()) }
    }

    /// One more for a party; `None` = it has as many as it may.
    pub fn take(&'static self, party: &str) -> Option<Portion> {
        let mut by_party = self.lock();
        match by_party.get_mut(party) {
            Some(taken) if *taken >= self.most => return None,
            Some(taken) => *taken += 1,
            None => drop(by_party.insert(party.to_owned(), 1)),
        }
        Some(Portion { party: party.to_owned(), of: self })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.by_party.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        let mut by_party = self.of.lock();
        let Some(taken) = by_party.get_mut(&self.party) else { return };
        *taken -= 1;
        if *taken == 0 {
            by_party.remove(&self.party);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Portions;

    #[test]
    fn one_party_has_its_portion_and_the_others_theirs() {
        static PORTIONS: Portions = Portions::new(2);
        let own = [PORTIONS.take("ada"), PORTIONS.take("ada")];
        assert!(own.iter().all(Option::is_some));
        assert!(PORTIONS.take("ada").is_none());
        let other = PORTIONS.take("ben");
        assert!(other.is_some());
        drop(own);
        assert!(PORTIONS.take("ada").is_some());
        drop(other);
        assert!(PORTIONS.lock().is_empty(), "nothing is kept of who left");
    }
}
