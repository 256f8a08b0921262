//! A bounded memory of what is likely to be asked for once, soon: the oldest goes first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by key, at most so many.
pub struct Shelf<V> {
    most: usize,
    kept: Mutex<Kept<V>>,
}

struct Kept<V> {
    by_key: HashMap<String, Placed<V>>,
    /// The keys in the order in which they came, also of what has been taken since.
    order: VecDeque<Entered>,
    next_serial: u64,
}

struct Placed<V> {
    serial: u64,
    value: V,
}

struct Entered {
    serial: u64,
    key: String,
}

impl<V> Shelf<V> {
    /// An empty one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let kept = Kept { by_key: HashMap::new(), order: VecDeque::new(), next_serial: 0 };
        Self { most, kept: Mutex::new(kept) }
    }

    /// Keeps a value, in the place of what had the same key.
    pub fn put(&self, key: String, value: V) {
        let mut kept = self.lock();
        let serial = kept.next_serial;
        kept.next_serial += 1;
        kept.order.push_back(Entered { serial, key: key.clone() });
        kept.by_key.insert(key, Placed { serial, value });
        while kept.order.len() > self.most {
            let Some(oldest) = kept.order.pop_front() else { return };
            // Another may have the key since, or it is taken.
            if kept.by_key.get(&oldest.key).is_some_and(|placed| placed.serial == oldest.serial) {
                kept.by_key.remove(&oldest.key);
            }
        }
    }

    /// Takes a value.
    pub fn take(&self, key: &str) -> Option<V> {
        self.lock().by_key.remove(key).map(|placed| placed.value)
    }

    fn lock(&self) -> MutexGuard<'_, Kept<V>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Shelf;

    #[test]
    fn what_is_taken_is_gone_and_the_oldest_goes_first() {
        let shelf = Shelf::new(3);
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            shelf.put(key.to_owned(), value);
        }
        assert_eq!(shelf.take("b"), Some(2));
        assert_eq!(shelf.take("b"), None);
        shelf.put("d".to_owned(), 4);
        assert_eq!(shelf.take("a"), None, "the oldest of four");
        assert_eq!((shelf.take("c"), shelf.take("d")), (Some(3), Some(4)));
    }

    #[test]
    fn a_key_that_comes_again_is_as_young_as_its_latest_value() {
        let shelf = Shelf::new(3);
        for (key, value) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
            shelf.put(key.to_owned(), value);
        }
        assert_eq!(shelf.take("a"), Some(3), "its first value went, not its second");
        assert_eq!((shelf.take("b"), shelf.take("c")), (Some(2), Some(4)));
    }
}
