//! How many sets shared a transaction so far: what group commit gains, as a histogram.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the classes of group sizes; one more class has no bound.
pub const GROUP_BOUNDS: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Groups and sets since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Groups by size: those up to the bound of the same place, and above the one before.
    pub by_size: [u64; GROUP_BOUNDS.len() + 1],
    /// Sets in all of them.
    pub sets: u64,
}

/// Counts while the engine works.
#[derive(Debug, Default)]
pub struct GroupCounter {
    by_size: [AtomicU64; GROUP_BOUNDS.len() + 1],
    sets: AtomicU64,
}

impl GroupCounter {
    /// Counts one group.
    pub fn count(&self, size: usize) {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let class = GROUP_BOUNDS.partition_point(|bound| *bound < size);
        if let Some(groups) = self.by_size.get(class) {
            groups.fetch_add(1, Ordering::Relaxed);
        }
        self.sets.fetch_add(size, Ordering::Relaxed);
    }

    /// What was counted.
    #[must_use]
    pub fn read(&self) -> Groups {
        let by_size = self.by_size.each_ref().map(|groups| groups.load(Ordering::Relaxed));
        Groups { by_size, sets: self.sets.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::GroupCounter;

    #[test]
    fn a_group_falls_into_the_class_of_its_bound() {
        let counter = GroupCounter::default();
        for size in [1, 2, 3, 4, 512, 513] {
            counter.count(size);
        }
        let groups = counter.read();
        assert_eq!(groups.by_size, [1, 1, 2, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(groups.sets, 1_035);
    }
}
