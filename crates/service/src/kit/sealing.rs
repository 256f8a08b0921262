//! What a process remembers of the ledger's seals: the fence, before which rows are being sealed,
//! and the newest seal that it made or read.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use clock::Millis;

use super::id::TransferId;

/// One seal of the chain, by its number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealHead {
    /// Its place in the chain, from 1.
    pub number: i64,
    /// SHA-256 of the seal, which covers the hash of the one before.
    pub hash: [u8; 32],
}

/// The memory of one process. The database is written by others; this is not.
#[derive(Debug, Default)]
pub struct Sealing {
    fence_ms: AtomicI64,
    /// The first transfer id that is not behind the fence.
    bound: RwLock<String>,
    head: Mutex<Option<SealHead>>,
}

impl Sealing {
    /// Ids from before this instant are being sealed.
    #[must_use]
    pub fn fence(&self) -> Millis {
        Millis(self.fence_ms.load(Ordering::Relaxed))
    }

    /// Moves the fence. It only moves on.
    pub fn raise_fence(&self, to: Millis) {
        if self.fence_ms.fetch_max(to.0, Ordering::Relaxed) < to.0 {
            let mut bound = self.bound.write().unwrap_or_else(PoisonError::into_inner);
            let new = TransferId::bound(to);
            if bound.as_str() < new.as_str() {
                *bound = new.into();
            }
        }
    }

    /// Whether a transfer of this id comes too late for the block that its id belongs to.
    #[must_use]
    pub fn is_behind_fence(&self, id: &TransferId) -> bool {
        let bound = self.bound.read().unwrap_or_else(PoisonError::into_inner);
        id.as_str() < bound.as_str()
    }

    /// The newest seal that this process knows of.
    #[must_use]
    pub fn head(&self) -> Option<SealHead> {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a newer seal.
    pub fn saw(&self, seal: SealHead) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if head.is_none_or(|known| known.number < seal.number) {
            *head = Some(seal);
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::{Clock, Millis};

    use super::Sealing;
    use crate::kit::id::TransferId;

    #[test]
    fn ids_from_before_the_fence_are_behind_it() {
        let clock = Clock::held(Millis(1_700_000_000_000), 3);
        let sealing = Sealing::default();
        let old = TransferId::new(&clock);
        assert!(!sealing.is_behind_fence(&old), "nothing is sealed yet");
        clock.advance(1);
        sealing.raise_fence(clock.now());
        assert!(sealing.is_behind_fence(&old));
        assert!(!sealing.is_behind_fence(&TransferId::new(&clock)));
        sealing.raise_fence(Millis(5));
        assert!(sealing.is_behind_fence(&old), "a fence only moves on");
    }
}
