//! Messages that a node has in hand while they wait for a permit: a short stretch of the queue in
//! memory, so that what waits a moment need not be put into the queue of the database and be taken
//! out again. It is as long as the window at most, and no account has more than half of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Lane, Pace, Permit, Priority};

/// The longest it is, however many submissions a carrier lets be under way.
const MOST: usize = 256;
/// For how long a message is in hand at most: what a carrier does not take by then waits in the
/// database, where other nodes find it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who has messages in hand.
#[derive(Default)]
pub(super) struct Hand {
    all: usize,
    accounts: HashMap<String, usize>,
}

impl Hand {
    /// Takes a place; `false` = there is none for this account.
    pub(super) fn take(&mut self, account: &str, pace: Pace) -> bool {
        let most = most(pace);
        let own = self.accounts.get(account).copied().unwrap_or_default();
        if self.all >= most || own >= most.div_ceil(2) {
            return false;
        }
        self.all += 1;
        match self.accounts.get_mut(account) {
            Some(own) => *own += 1,
            None => drop(self.accounts.insert(account.to_owned(), 1)),
        }
        true
    }

    fn give_back(&mut self, account: &str) {
        self.all -= 1;
        if let Some(own) = self.accounts.get_mut(account) {
            *own -= 1;
            if *own == 0 {
                self.accounts.remove(account);
            }
        }
    }
}

/// How many may be in hand. At a carrier with a rate no more than go out in half of the patience.
fn most(pace: Pace) -> usize {
    let at_this_rate = pace.per_s.map_or(MOST, |per_s| (per_s / 2) as usize);
    pace.window.min(at_this_rate).min(MOST)
}

/// A message's place in hand. Dropping it gives it back.
pub struct Place {
    lane: Arc<Lane>,
    account: String,
    priority: Priority,
}

impl Place {
    pub(super) fn new(lane: &Arc<Lane>, account: &str, priority: Priority) -> Self {
        Self { lane: Arc::clone(lane), account: account.to_owned(), priority }
    }

    /// Waits for the message's permit; `None` = none came in time.
    pub async fn permit(self) -> Option<Permit> {
        self.lane.take(&self.account, self.priority, PATIENCE).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lane.book().hand.give_back(&self.account);
    }
}
