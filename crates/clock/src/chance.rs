//! Chance: the operating system's generator, or a seeded one for tests and simulations.

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

    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        if let Some(rng) = &self.seeded {
            rng.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
        } else if getrandom::fill(bytes).is_err() {
            // Without chance every code and key would be guessable: stop rather than go on.
            std::process::abort();
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

#[cfg(test)]
mod tests {
    use super::Chance;

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
