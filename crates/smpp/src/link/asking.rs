//! Who asks a centre that throttled whether it takes messages again: one after the other.

use clock::Millis;

/// How long one keeps the next from asking, milliseconds: a centre that throttles may be slow to
/// answer.
const ASKS_FOR_MS: i64 = 2_000;

/// Those that asked since the centre throttled the last one, by the numbers of their submissions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    first: u64,
    pub(super) last: u64,
    /// When the next one may, without an answer to the last.
    pub(super) until: Millis,
}

impl Asking {
    /// One more asks.
    pub(super) fn another(before: Option<Self>, key: u64, now: Millis) -> Self {
        let first = before.map_or(key, |before| before.first);
        Self { first, last: key, until: now + ASKS_FOR_MS }
    }

    /// Whether a submission is one of them.
    pub(super) const fn has(&self, key: u64) -> bool {
        key >= self.first
    }
}
