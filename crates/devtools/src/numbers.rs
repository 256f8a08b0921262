//! Recipients: distinct valid French mobile numbers in an order that the seed decides.

use crate::chance::Chance;

/// First four national digits that are mobile for certain, as `from..=to`.
const BLOCKS: [(u64, u64); 3] = [(6000, 6389), (6400, 6899), (7500, 7999)];
/// Digits after the block: one free digit and the four that the sandbox reads as a script.
const FREE: u64 = 10;
/// Endings left when the scripted ones are skipped.
const ENDINGS: u64 = 10_000 - SCRIPTED_LAST - BY_CENTRE;
/// `0001..=0033` have those that script an outcome; they are never made by accident.
const SCRIPTED_LAST: u64 = 33;
/// `9001..=9019` do so at message centres of tests.
const CENTRE_FIRST: u64 = 9_001;
const BY_CENTRE: u64 = 19;

/// A permutation of all usable numbers.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    step: u64,
    start: u64,
}

impl Numbers {
    /// The order that belongs to `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 0x6e75_6d62);
        let size = heads() * ENDINGS;
        let start = chance.below(size);
        let mut step = chance.between(size / 3, size - 1);
        // A step without a common factor visits every number once; the heads alone are visited
        // in the same way for scripted numbers.
        while gcd(step, size) != 1 || gcd(step, heads()) != 1 {
            step += 1;
        }
        Self { step, start }
    }

    /// The `index`th unscripted number; distinct for the first hundred million.
    pub(crate) fn plain(&self, index: u64) -> String {
        let size = heads() * ENDINGS;
        let at = self.place(index, size);
        let ending = match at % ENDINGS {
            0 => 0,
            after if after + SCRIPTED_LAST < CENTRE_FIRST => after + SCRIPTED_LAST,
            after => after + SCRIPTED_LAST + BY_CENTRE,
        };
        render(at / ENDINGS, ending)
    }

    /// The `index`th number that ends in `ending`; they repeat after 13,900.
    pub(crate) fn scripted(&self, index: u64, ending: u16) -> String {
        render(self.place(index, heads()), u64::from(ending))
    }

    fn place(&self, index: u64, size: u64) -> u64 {
        let at = u128::from(self.start) + u128::from(index) * u128::from(self.step);
        u64::try_from(at % u128::from(size)).unwrap_or(0)
    }
}

/// How many beginnings (block and free digit) there are.
fn heads() -> u64 {
    BLOCKS.iter().map(|(from, to)| to - from + 1).sum::<u64>() * FREE
}

fn render(head: u64, ending: u64) -> String {
    let mut block = head / FREE;
    for (from, to) in BLOCKS {
        let width = to - from + 1;
        if block < width {
            return format!("+33{:04}{}{ending:04}", from + block, head % FREE);
        }
        block -= width;
    }
    // Unreachable: `head` is below `heads()`.
    format!("+336000{}{ending:04}", head % FREE)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{ENDINGS, Numbers, heads};

    fn is_mobile(number: &str) -> bool {
        let Some(national) = number.strip_prefix("+33") else { return false };
        let Ok(block) = national.get(..4).unwrap_or_default().parse::<u64>() else { return false };
        national.len() == 9
            && national.bytes().all(|b| b.is_ascii_digit())
            && matches!(block, 6000..=6389 | 6400..=6899 | 7500..=7999)
    }

    #[test]
    fn plain_numbers_are_valid_distinct_and_unscripted() {
        let numbers = Numbers::new(42);
        let mut seen = HashSet::new();
        for index in 0..300_000 {
            let number = numbers.plain(index);
            assert!(is_mobile(&number), "{number}");
            let ending: u64 = number[number.len() - 4..].parse().unwrap();
            assert!(!(1..=33).contains(&ending), "{number}");
            assert!(!(9_001..=9_019).contains(&ending), "{number}");
            assert!(seen.insert(number));
        }
    }

    #[test]
    fn every_place_is_visited_once() {
        let numbers = Numbers::new(9);
        let places: HashSet<u64> = (0..heads()).map(|i| numbers.place(i, heads())).collect();
        assert_eq!(places.len() as u64, heads());
        assert_eq!(super::gcd(numbers.step, heads() * ENDINGS), 1);
    }

    #[test]
    fn a_scripted_number_has_its_ending() {
        let number = Numbers::new(1).scripted(5, 3);
        assert!(is_mobile(&number) && number.ends_with("0003"), "{number}");
    }

    #[test]
    fn seeds_give_different_orders() {
        assert_ne!(Numbers::new(1).plain(0), Numbers::new(2).plain(0));
    }
}
