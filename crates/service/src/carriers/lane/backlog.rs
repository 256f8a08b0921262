//! What waits in the database for a place in a lane, as far as this node knows.

use std::time::Duration;

use tokio::time::Instant;

use super::Priority;

/// What a message in the database waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The end of a rest that its account's own messages caused. Others go on.
    Alone,
    /// Room in the lane. Nobody of its priority, or of one behind it, overtakes it.
    ForRoom(Priority),
}

/// What waits.
#[derive(Default)]
pub(super) struct Backlog {
    /// Since when something has, without a break.
    since: Option<Instant>,
    /// The first priority that waits for room.
    first: Option<Priority>,
}

impl Backlog {
    /// Whether a new message of this priority overtakes nobody.
    pub(super) fn lets_in(&self, priority: Priority) -> bool {
        self.first.is_none_or(|first| priority < first)
    }

    /// One more waits.
    pub(super) fn add(&mut self, waits: Waits) {
        self.since.get_or_insert_with(Instant::now);
        if let Waits::ForRoom(priority) = waits {
            self.first = Some(self.first.map_or(priority, |first| first.min(priority)));
        }
    }

    /// This waits and nothing before it, as somebody saw who looked.
    pub(super) fn set(&mut self, waits: Option<Waits>) {
        self.first = None;
        match waits {
            Some(waits) => self.add(waits),
            None => self.since = None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// For how long something has waited.
    pub(super) fn wait(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
