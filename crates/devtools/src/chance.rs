//! Seeded chance (`SplitMix64`): the same seed makes the same plan.

/// A stream of pseudo-random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The stream `lane` of `seed`; lanes of one seed are independent.
    pub(crate) fn new(seed: u64, lane: u64) -> Self {
        Self(scramble(seed ^ scramble(lane.wrapping_add(0x51_7c_c1_b7))))
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// A number in `0..bound`; 0 for an empty range.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }
}

/// Mixes all bits of `x` into all bits of the result.
fn scramble(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The six-digit code that belongs to operation `index` of a run with `seed`.
pub(crate) fn code(seed: u64, index: u64) -> String {
    format!("{:06}", Chance::new(seed, index).below(1_000_000))
}

/// A code that is certainly not `right`.
pub(crate) fn wrong_code(right: &str, turn: u64) -> String {
    let right: u64 = right.parse().unwrap_or(0);
    format!("{:06}", (right + 1 + turn % 999_999) % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::{Chance, code, wrong_code};

    #[test]
    fn the_same_seed_repeats_and_another_does_not() {
        let draw = |seed| {
            let mut chance = Chance::new(seed, 3);
            [chance.next(), chance.next(), chance.next()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_wrong_code_is_never_the_right_one() {
        for turn in [0, 1, 5, 999_998, 999_999, 2_000_000] {
            assert_ne!(wrong_code("000000", turn), "000000");
            assert_ne!(wrong_code("999999", turn), "999999");
        }
        assert_eq!(code(1, 2).len(), 6);
    }
}
