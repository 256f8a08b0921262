//! The right to one submission in a lane.

use std::sync::Arc;

use super::{Lane, Priority};
use crate::carriers::Carrier;

/// The right to one submission, from before it goes out until its outcome is durable.
pub struct Permit {
    pub(super) lane: Arc<Lane>,
    pub(super) account: String,
    pub(super) priority: Priority,
}

impl Permit {
    /// The carrier that it is a permit at.
    #[must_use]
    pub fn carrier(&self) -> &Arc<dyn Carrier> {
        &self.lane.carrier
    }

    /// Whether somebody waits for one in its lane.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        let book = self.lane.book();
        !book.backlog.is_empty() || !book.waiting.is_empty()
    }

    /// What goes out counts as so many for the rate.
    pub fn weigh(&self, parts: u32) {
        self.lane.book().bucket.tokens -= f64::from(parts.saturating_sub(1));
    }

    /// The lane that it is a permit in.
    #[must_use]
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut book = self.lane.book();
        book.taken -= 1;
        book.patient -= usize::from(self.priority != Priority::Passcode);
        if let Some(taken) = book.accounts.get_mut(&self.account) {
            *taken -= 1;
            if *taken == 0 {
                book.accounts.remove(&self.account);
            }
        }
        let (has_backlog, has_waiters) = (!book.backlog.is_empty(), !book.waiting.is_empty());
        drop(book);
        if has_waiters {
            self.lane.hand_out();
        }
        if has_backlog {
            self.lane.wake();
        }
    }
}
