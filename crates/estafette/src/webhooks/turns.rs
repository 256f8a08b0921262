//! Turns: how many tries may be under way on this node, for each account, and for targets that did
//! not work lately. Whoever waits is in one line, and a target has one place in it at most, so that
//! those with much to do do not push the others back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::outcome::Health;
use crate::kit::id::AccountId;

/// Tries of one target at the same time.
const PER_TARGET: usize = 16;
/// The same while the node has much to do.
const PER_TARGET_BUSY: usize = 2;
/// Tries of one account at the same time.
const PER_ACCOUNT: usize = 64;

/// The right to one try, until it is dropped.
pub(super) struct Turn {
    _account: OwnedSemaphorePermit,
    _suspect: Option<OwnedSemaphorePermit>,
    _node: OwnedSemaphorePermit,
}

pub(super) struct Turns {
    all: usize,
    node: Arc<Semaphore>,
    /// Half of all: the other half is for targets that work.
    suspects: Arc<Semaphore>,
    accounts: Mutex<HashMap<AccountId, Arc<Semaphore>>>,
}

impl Turns {
    /// So many tries on this node at the same time.
    pub(super) fn new(all: usize) -> Self {
        Self {
            all,
            node: Arc::new(Semaphore::new(all)),
            suspects: Arc::new(Semaphore::new((all / 2).max(1))),
            accounts: Mutex::default(),
        }
    }

    /// How many tries a target may have under way now.
    pub(super) fn most(&self, health: Health) -> usize {
        if health.is_probing() {
            1
        } else if self.node.available_permits() < self.all / 2 {
            PER_TARGET_BUSY
        } else {
            PER_TARGET
        }
    }

    /// A turn, if there is one now.
    pub(super) fn try_take(&self, account: &AccountId, is_suspect: bool) -> Option<Turn> {
        let of_account = self.of_account(account).try_acquire_owned().ok()?;
        let suspect = if is_suspect {
            Some(Arc::clone(&self.suspects).try_acquire_owned().ok()?)
        } else {
            None
        };
        let node = Arc::clone(&self.node).try_acquire_owned().ok()?;
        Some(Turn { _account: of_account, _suspect: suspect, _node: node })
    }

    /// The next turn that is free.
    pub(super) fn take(
        &self,
        account: &AccountId,
        is_suspect: bool,
    ) -> impl Future<Output = Turn> + Send + 'static {
        let of_account = self.of_account(account);
        let suspects = is_suspect.then(|| Arc::clone(&self.suspects));
        let node = Arc::clone(&self.node);
        async move {
            let of_account = permit(of_account).await;
            let suspect = match suspects {
                Some(suspects) => Some(permit(suspects).await),
                None => None,
            };
            Turn { _account: of_account, _suspect: suspect, _node: permit(node).await }
        }
    }

    /// Tries under way now.
    pub(super) fn taken(&self) -> usize {
        self.all - self.node.available_permits()
    }

    /// Forgets accounts with nothing under way.
    pub(super) fn forget_idle(&self) {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        // Turns and those who wait hold the semaphore, too.
        accounts.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
    }

    fn of_account(&self, account: &AccountId) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = accounts.get(account) {
            return Arc::clone(semaphore);
        }
        let semaphore = Arc::new(Semaphore::new(PER_ACCOUNT));
        accounts.insert(account.clone(), Arc::clone(&semaphore));
        semaphore
    }
}

/// These semaphores are never closed, so this waits and does not fail.
async fn permit(semaphore: Arc<Semaphore>) -> OwnedSemaphorePermit {
    loop {
        if let Ok(permit) = Arc::clone(&semaphore).acquire_owned().await {
            return permit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u128) -> AccountId {
        AccountId::of(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn an_account_has_64_turns_and_leaves_the_others_theirs() {
        let turns = Turns::new(100);
        let taken: Vec<Turn> =
            std::iter::from_fn(|| turns.try_take(&account(1), false)).take(200).collect();
        assert_eq!((taken.len(), turns.taken()), (64, 64));
        assert!(turns.try_take(&account(2), false).is_some());
        drop(taken);
        assert_eq!(turns.taken(), 0);
        turns.forget_idle();
        assert!(turns.accounts.lock().unwrap().is_empty());
    }

    #[test]
    fn targets_that_do_not_work_get_half_of_all_turns_at_most() {
        let turns = Turns::new(40);
        let suspects: Vec<Turn> =
            std::iter::from_fn(|| turns.try_take(&account(1), true)).collect();
        assert_eq!(suspects.len(), 20);
        let others: Vec<Turn> = std::iter::from_fn(|| turns.try_take(&account(2), false)).collect();
        assert_eq!(others.len(), 20);
    }

    #[test]
    fn a_busy_node_gives_each_target_less() {
        let turns = Turns::new(10);
        let health = Health::default();
        assert_eq!(turns.most(health), PER_TARGET);
        let _taken: Vec<_> = (0..6).map(|n| turns.try_take(&account(n), false)).collect();
        assert_eq!(turns.most(health), PER_TARGET_BUSY);
        assert_eq!(turns.most(Health { streak: 5, ..health }), 1);
    }

    #[tokio::test]
    async fn whoever_waits_gets_the_next_turn() {
        let turns = Turns::new(1);
        let first = turns.try_take(&account(1), false).unwrap();
        let next = turns.take(&account(2), false);
        tokio::pin!(next);
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(first);
        // The freed turn is the waiter's, not a newcomer's.
        assert!(turns.try_take(&account(3), false).is_none());
        next.await;
    }
}
