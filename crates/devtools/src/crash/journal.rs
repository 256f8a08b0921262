//! The client's side of the truth: what was acknowledged, and what was lost without an answer.

use std::time::Instant;

use super::plan::Planned;

/// A send that the service answered with 200.
#[derive(Debug, Clone)]
pub(crate) struct Acked {
    /// The challenge of the answer.
    pub(crate) id: String,
    /// What was asked.
    pub(crate) planned: Planned,
    /// When the answer came.
    pub(crate) at: Instant,
    /// Whether the checker has verified it.
    pub(crate) verified: bool,
    /// Whether its first answer was lost and a repeat told the challenge.
    pub(crate) repeated: bool,
}

/// What one client noted during one uptime.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Acknowledged sends.
    pub(crate) acked: Vec<Acked>,
    /// Keyed sends still without a final answer.
    pub(crate) pending: Vec<Planned>,
    /// Sends without key and answer.
    pub(crate) unanswered: u64,
    /// Answers marked as replays.
    pub(crate) replays: u64,
    /// Repeats refused for good.
    pub(crate) refused: u64,
    /// Answers to prompts that were taken.
    pub(crate) answers: u64,
    /// Answers outside the contract.
    pub(crate) unexpected: Vec<String>,
}

/// Everything that the clients know.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Acknowledged sends, oldest first.
    pub(crate) acked: Vec<Acked>,
    /// Keyed sends whose answer is still missing.
    pub(crate) pending: Vec<Planned>,
    /// Sends without a key whose answer was lost: nothing can be said about them.
    pub(crate) unanswered: u64,
    /// Repeats that the service answered as replays.
    pub(crate) replays: u64,
    /// Repeats that ended in `recipient_unreachable`.
    pub(crate) refused: u64,
    /// Answers to consent prompts that were taken.
    pub(crate) answers: u64,
    /// Answers that the contract does not promise.
    pub(crate) unexpected: Vec<String>,
}

impl Journal {
    /// Takes in what one client noted until the kill.
    pub(crate) fn absorb(&mut self, log: Log) {
        self.acked.extend(log.acked);
        self.pending.extend(log.pending);
        self.unanswered += log.unanswered;
        self.replays += log.replays;
        self.refused += log.refused;
        self.answers += log.answers;
        self.unexpected.extend(log.unexpected);
    }

    /// The positive control: claims an acknowledgement that never was and falsifies another.
    pub(crate) fn forge(&mut self) {
        let Some(first) = self.acked.first_mut() else { return };
        let mut forged = first.clone();
        // The oldest id with its random end reversed: well formed, and nobody's.
        let (head, tail) = forged.id.split_at(forged.id.len().saturating_sub(8));
        forged.id = format!("{head}{}", tail.chars().rev().collect::<String>());
        if forged.id == first.id {
            forged.id.insert(0, 'x');
        }
        "+33600000022".clone_into(&mut first.planned.send.to);
        self.acked.push(forged);
    }
}
