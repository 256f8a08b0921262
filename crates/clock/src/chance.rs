//! Chance: the operating system's generator, or a seeded one for tests and simulations.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A source of random bytes. Clones share it.
#[derive(Clone)]
pub struct Chance {
    seeded: Option<Arc<Mutex<ChaCha20Rng>>>,
}

impl std::fmt::Debug for Chance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.seeded.is_some() { "Chance(seeded)" } else { "Chance(system)" })
    }
}

impl Chance {
    pub(crate) fn system() -> Self {
        Self { seeded: None }
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self { seeded: Some(Arc::new(Mutex::new(ChaCha20Rng::seed_from_u64(seed)))) }
    }

    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        if let Some(rng) = &self.seeded {
            rng.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
        } else {
            STOCK.with_borrow_mut(|stock| stock.take(bytes));
        }
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // Rejection keeps it uniform: drop the top values that do not fill a whole round.
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let mut bytes = [0_u8; 8];
            self.fill(&mut bytes);
            let value = u64::from_le_bytes(bytes);
            if value < limit {
                return value % bound;
            }
        }
    }
}

/// Bytes fetched from the operating system at a time: a request needs a dozen small draws, and
/// each system call costs more than the bytes.
const STOCKED: usize = 512;

thread_local! {
    static STOCK: RefCell<Stock> = const { RefCell::new(Stock::EMPTY) };
}

/// The operating system's bytes that this thread has not used yet. Each is used once, and wiped.
struct Stock {
    bytes: [u8; STOCKED],
    used: usize,
}

impl Stock {
    const EMPTY: Self = Self { bytes: [0; STOCKED], used: STOCKED };

    fn take(&mut self, wanted: &mut [u8]) {
        if wanted.len() > STOCKED / 4 {
            return of_the_machine(wanted);
        }
        if STOCKED - self.used < wanted.len() {
            of_the_machine(&mut self.bytes);
            self.used = 0;
        }
        if let Some(fresh) = self.bytes.get_mut(self.used..self.used + wanted.len()) {
            wanted.copy_from_slice(fresh);
            fresh.fill(0);
            self.used += wanted.len();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
fn of_the_machine(bytes: &mut [u8]) {
    if getrandom::fill(bytes).is_err() {
        // Without chance every code and key would be guessable: stop rather than go on.
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Chance, STOCKED};

    #[test]
    fn no_byte_of_the_stock_is_handed_out_twice_or_left_out() {
        let chance = Chance::system();
        for length in [1, 7, 16, 24, 100, STOCKED / 4, STOCKED / 4 + 1, 5_000] {
            let mut seen = HashSet::new();
            for _ in 0..200 {
                let mut bytes = vec![0_u8; length];
                chance.fill(&mut bytes);
                seen.insert(bytes);
            }
            // 128 bits never repeat; fewer may.
            assert!(length < 16 || seen.len() == 200, "{length} bytes repeat");
            assert!(length > 1 || seen.len() > 50, "{} different bytes", seen.len());
        }
    }

    #[test]
    fn numbers_below_a_bound_are_uniform() {
        let chance = Chance::seeded(3);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[usize::try_from(chance.below(10)).unwrap()] += 1;
        }
        // Five standard deviations of a binomial with n = 100,000 and p = 0.1.
        assert!(seen.iter().all(|count| (9_525..=10_475).contains(count)), "{seen:?}");
    }
}
