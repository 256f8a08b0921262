//! What the parts of a long message share, which phones put them together by. Of 8 bits there are
//! few, so each destination has its own count.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// Destinations whose last reference is known; with one more all of them begin anew.
const MOST: usize = 10_000;

/// The references of a carrier.
pub(super) struct References {
    hasher: RandomState,
    given: Mutex<Given>,
}

struct Given {
    /// By a hash of the destination.
    last: HashMap<u64, u16>,
    /// Where the next destination begins.
    begin: u16,
}

impl References {
    /// A node that starts again does not begin with the references of its last messages.
    pub(super) fn begin_at(begin: u16) -> Self {
        let given = Mutex::new(Given { last: HashMap::new(), begin });
        Self { hasher: RandomState::new(), given }
    }

    /// One that none of the last messages to this destination has, unless all began anew since.
    pub(super) fn next(&self, destination: &str) -> u16 {
        let key = self.hasher.hash_one(destination);
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if given.last.len() >= MOST && !given.last.contains_key(&key) {
            given.last.clear();
        }
        given.begin = given.begin.wrapping_add(1);
        let begin = given.begin;
        *given.last.entry(key).and_modify(|last| *last = last.wrapping_add(1)).or_insert(begin)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::References;

    #[test]
    fn two_hundred_long_texts_to_a_phone_share_no_reference_whatever_goes_out_between() {
        let references = References::begin_at(250);
        let mut seen = BTreeSet::new();
        for number in 0..200 {
            for other in 0..number {
                references.next(&format!("+3361234{other:04}"));
            }
            let [_, low] = references.next("+33698765432").to_be_bytes();
            assert!(seen.insert(low), "{number}");
        }
    }
}
