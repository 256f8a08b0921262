//! Permits: which tries may be under way on this node. Each environment has permits of its own,
//! so that the sandbox never weighs on live. They are shared between accounts first: whoever has
//! fewest gets the next one, an account has an eighth of them at most, and the last quarter is
//! only for accounts that have none. Targets that are slow, fail, or are not known yet are
//! suspects: half of all permits at most are theirs, and half of what their account may have.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::outcome::{Health, SLOW_MS};
use crate::app::Env;
use crate::kit::id::AccountId;

/// Tries of one target at the same time.
const PER_TARGET: usize = 16;
/// The same while the node has much to do, and of a target that is not known yet.
const PER_TARGET_BUSY: usize = 2;
/// A try that takes longer makes its target a suspect.
const SLOW: Duration = Duration::from_millis(SLOW_MS.unsigned_abs());

/// The permits of both environments.
pub(super) struct Permits {
    live: Arc<Pool>,
    sandbox: Arc<Pool>,
}

/// The permits of one environment.
pub(super) struct Pool {
    all: usize,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    taken: usize,
    suspects: usize,
    accounts: HashMap<AccountId, Share>,
    /// Who waits for a permit, by account; none of these queues is empty.
    waiting: BTreeMap<AccountId, Queues>,
    next_ticket: u64,
}

/// What an account has.
#[derive(Clone, Copy, Default)]
struct Share {
    taken: usize,
    suspects: usize,
}

/// Those of one account that wait, in their order.
#[derive(Default)]
struct Queues {
    proven: VecDeque<Waiter>,
    suspects: VecDeque<Waiter>,
}

struct Waiter {
    ticket: u64,
    gets: oneshot::Sender<Permit>,
}

/// The right to one try, until it is dropped.
pub(super) struct Permit {
    pool: Arc<Pool>,
    account: AccountId,
    is_suspect: bool,
}

impl Permits {
    /// So many tries of each environment on this node at the same time.
    pub(super) fn new(all: usize) -> Self {
        Self { live: Pool::new(all), sandbox: Pool::new(all) }
    }

    /// Those of an environment.
    pub(super) fn of(&self, env: Env) -> &Arc<Pool> {
        match env {
            Env::Live => &self.live,
            Env::Sandbox => &self.sandbox,
        }
    }

    /// Tries under way now.
    pub(super) fn taken(&self) -> usize {
        self.live.book().taken + self.sandbox.book().taken
    }
}

impl Pool {
    fn new(all: usize) -> Arc<Self> {
        Arc::new(Self { all, book: Mutex::default() })
    }

    /// How many tries a target may have under way now.
    pub(super) fn most(&self, health: Health) -> usize {
        if health.is_probing() {
            1
        } else if !health.is_known() || self.book().taken > self.all / 2 {
            PER_TARGET_BUSY
        } else {
            PER_TARGET
        }
    }

    /// A permit, if there is one now.
    pub(super) fn try_take(
        self: &Arc<Self>,
        account: &AccountId,
        is_suspect: bool,
    ) -> Option<Permit> {
        let mut book = self.book();
        let share = book.accounts.get(account).copied().unwrap_or_default();
        self.may(&book, share, is_suspect).then(|| self.give(&mut book, account, is_suspect))
    }

    /// The next permit that is free for this account.
    pub(super) fn take(
        self: &Arc<Self>,
        account: &AccountId,
        is_suspect: bool,
    ) -> impl Future<Output = Permit> + Send + use<> {
        let (gets, got) = oneshot::channel();
        let mut book = self.book();
        let ticket = book.next_ticket;
        book.next_ticket += 1;
        let queue = book.waiting.entry(account.clone()).or_default().of(is_suspect);
        queue.retain(|waiter| !waiter.gets.is_closed());
        queue.push_back(Waiter { ticket, gets });
        drop(book);
        self.hand_out();
        async move {
            match got.await {
                Ok(permit) => permit,
                // Nobody throws a waiter away that still waits.
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// Whether one more may be under way.
    fn may(&self, book: &Book, share: Share, is_suspect: bool) -> bool {
        let of_account = (self.all / 8).max(1);
        let of_the_busy = (self.all / 4 * 3).max(1);
        let is_first = share.taken == 0;
        let fits = if is_suspect {
            book.suspects < (self.all / 2).max(1)
                && share.suspects < (of_account / 2).max(1)
                && book.taken < of_the_busy
        } else {
            book.taken < if is_first { self.all } else { of_the_busy }
        };
        fits && share.taken < of_account
    }

    fn give(self: &Arc<Self>, book: &mut Book, account: &AccountId, is_suspect: bool) -> Permit {
        book.count(account, is_suspect);
        Permit { pool: Arc::clone(self), account: account.clone(), is_suspect }
    }

    /// Gives permits to those who wait, as far as there are any.
    fn hand_out(self: &Arc<Self>) {
        // A permit that nobody takes any more comes back, which needs the book.
        let mut refused = Vec::new();
        let mut book = self.book();
        while let Some((account, is_suspect)) = self.next(&mut book) {
            let Some(waiter) = book.pop(&account, is_suspect) else { break };
            if !waiter.gets.is_closed() {
                let permit = self.give(&mut book, &account, is_suspect);
                refused.extend(waiter.gets.send(permit).err());
            }
        }
        drop(book);
    }

    /// Who is next: of those that may, an account with fewest permits, proven targets first, then
    /// whoever waits longest.
    fn next(&self, book: &mut Book) -> Option<(AccountId, bool)> {
        let mut best: Option<((usize, bool, u64), &AccountId)> = None;
        for (account, queues) in &book.waiting {
            let share = book.accounts.get(account).copied().unwrap_or_default();
            for (queue, is_suspect) in [(&queues.proven, false), (&queues.suspects, true)] {
                let Some(first) = queue.front() else { continue };
                let rank = (share.taken, is_suspect, first.ticket);
                let is_better = best.is_none_or(|(other, _)| rank < other);
                if is_better && self.may(book, share, is_suspect) {
                    best = Some((rank, account));
                }
            }
        }
        best.map(|((_, is_suspect, _), account)| (account.clone(), is_suspect))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn count(&mut self, account: &AccountId, is_suspect: bool) {
        let share = self.accounts.entry(account.clone()).or_default();
        self.taken += 1;
        share.taken += 1;
        if is_suspect {
            self.suspects += 1;
            share.suspects += 1;
        }
    }

    fn uncount(&mut self, account: &AccountId, is_suspect: bool) {
        self.taken -= 1;
        self.suspects -= usize::from(is_suspect);
        let Some(share) = self.accounts.get_mut(account) else { return };
        share.taken -= 1;
        share.suspects -= usize::from(is_suspect);
        if share.taken == 0 {
            self.accounts.remove(account);
        }
    }

    fn pop(&mut self, account: &AccountId, is_suspect: bool) -> Option<Waiter> {
        let queues = self.waiting.get_mut(account)?;
        let waiter = queues.of(is_suspect).pop_front();
        if queues.proven.is_empty() && queues.suspects.is_empty() {
            self.waiting.remove(account);
        }
        waiter
    }
}

impl Queues {
    fn of(&mut self, is_suspect: bool) -> &mut VecDeque<Waiter> {
        if is_suspect { &mut self.suspects } else { &mut self.proven }
    }
}

impl Permit {
    /// Spends it on a try, which counts as a suspect's as soon as it takes long.
    pub(super) async fn over<F: Future>(mut self, mut work: Pin<&mut F>) -> F::Output {
        if let Ok(done) = timeout(SLOW, &mut work).await {
            return done;
        }
        self.note_slow();
        work.await
    }

    fn note_slow(&mut self) {
        if !self.is_suspect {
            self.is_suspect = true;
            let mut book = self.pool.book();
            book.suspects += 1;
            if let Some(share) = book.accounts.get_mut(&self.account) {
                share.suspects += 1;
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pool.book().uncount(&self.account, self.is_suspect);
        self.pool.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u128) -> AccountId {
        AccountId::of(uuid::Uuid::from_u128(number))
    }

    fn all_of(pool: &Arc<Pool>, number: u128, is_suspect: bool) -> Vec<Permit> {
        std::iter::from_fn(|| pool.try_take(&account(number), is_suspect)).collect()
    }

    #[test]
    fn an_account_has_an_eighth_and_half_of_it_for_suspects() {
        let pool = Pool::new(512);
        let suspects = all_of(&pool, 1, true);
        let proven = all_of(&pool, 1, false);
        assert_eq!((suspects.len(), proven.len()), (32, 32));
        drop((suspects, proven));
        assert_eq!(all_of(&pool, 1, false).len(), 64);
        let book = pool.book();
        assert_eq!((book.taken, book.suspects, book.accounts.len()), (0, 0, 0));
    }

    #[test]
    fn suspects_have_half_and_the_last_quarter_is_for_those_who_have_none() {
        let pool = Pool::new(64);
        let suspects: Vec<_> = (0..100).flat_map(|number| all_of(&pool, number, true)).collect();
        assert_eq!(suspects.len(), 32);
        let busy: Vec<_> = (200..202).flat_map(|number| all_of(&pool, number, false)).collect();
        assert_eq!(busy.len(), 16, "eight for each: three quarters are taken");
        let late: Vec<_> = (300..400).flat_map(|number| all_of(&pool, number, false)).collect();
        assert_eq!(late.len(), 16, "one for each of sixteen");
        assert_eq!(pool.book().taken, 64);
    }

    #[test]
    fn the_environments_have_turns_of_their_own() {
        let permits = Permits::new(8);
        let taken: Vec<_> =
            (0..20).filter_map(|n| permits.of(Env::Sandbox).try_take(&account(n), false)).collect();
        assert_eq!((taken.len(), permits.taken()), (8, 8));
        assert!(permits.of(Env::Live).try_take(&account(1), false).is_some());
    }

    #[test]
    fn a_try_that_turns_out_slow_counts_as_a_suspect() {
        let pool = Pool::new(16);
        let mut permit = pool.try_take(&account(1), false).unwrap();
        permit.note_slow();
        permit.note_slow();
        assert!(pool.try_take(&account(1), true).is_none(), "it has its one already");
        assert!(pool.try_take(&account(1), false).is_some());
        drop(permit);
        assert_eq!(pool.book().suspects, 0);
    }

    #[test]
    fn a_busy_node_gives_each_target_less_and_an_unknown_one_no_more() {
        let pool = Pool::new(16);
        let known = Health { pace_ms: Some(5), ..Health::default() };
        assert_eq!(pool.most(known), PER_TARGET);
        assert_eq!(pool.most(Health::default()), PER_TARGET_BUSY);
        assert_eq!(pool.most(Health { streak: 5, ..known }), 1);
        let _taken: Vec<_> = (0..9).map(|n| pool.try_take(&account(n), false)).collect();
        assert_eq!(pool.most(known), PER_TARGET_BUSY);
    }

    #[tokio::test]
    async fn the_account_with_fewest_turns_gets_the_next_one() {
        let pool = Pool::new(16);
        let mut taken: Vec<Permit> = (0..6).flat_map(|n| all_of(&pool, n, false)).collect();
        taken.extend((10..14).filter_map(|n| pool.try_take(&account(n), false)));
        assert_eq!(pool.book().taken, 16);
        // The first who waits has two already, the second one, the third none.
        let [many, one, none] = [0, 10, 20].map(|n| pool.take(&account(n), false));
        tokio::pin!(many, one, none);
        assert!(futures_util::poll!(&mut many).is_pending());
        drop(taken.pop());
        let none = none.await;
        assert!(futures_util::poll!(&mut one).is_pending());
        drop(taken);
        drop((one.await, many.await, none));
        assert_eq!(pool.book().taken, 0);
    }

    #[tokio::test]
    async fn whoever_stops_waiting_keeps_nobody_waiting() {
        let pool = Pool::new(1);
        let first = pool.try_take(&account(1), false).unwrap();
        drop(pool.take(&account(2), false));
        let next = pool.take(&account(3), false);
        drop(first);
        drop(next.await);
        let book = pool.book();
        assert_eq!((book.taken, book.waiting.len()), (0, 0));
    }
}
