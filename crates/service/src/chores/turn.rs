//! A node's turn at a chore: the lease that keeps other nodes away, and the pauses that keep the
//! chore from being noticed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::Millis;
use store::{CommitError, Db, Reject, WriteSet, args};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Witness;
use super::store as sql;

/// How long a node may be silent before another takes over, milliseconds.
pub(super) const LEASE_MS: i64 = 60_000;
/// A chore works for at most one part in this many of the time.
const SHARE: u32 = 10;
/// The longest pause, far below the lease.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// What is shorter than this needs no pause yet.
const SHORTEST_WORK: Duration = Duration::from_millis(5);
const LOST: Reject = Reject("chore_lost");

/// What a chore has of the runner.
pub struct Turn {
    pub(super) db: Db,
    pub(super) witness: Arc<Witness>,
    pub(super) name: &'static str,
    pub(super) holder: String,
    /// The shortest pause.
    pub(super) pause: Duration,
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) lease_until: Mutex<Millis>,
    pub(super) since: Mutex<Instant>,
    pub(super) is_over: AtomicBool,
}

impl Turn {
    /// The instant by which things are old: not the clock's alone, which may be wrong by a year.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.witness.now()
    }

    /// Call this after every small step, such as a read: rests when enough came together.
    pub async fn breathe(&self) -> bool {
        let busy = self.since.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if busy < SHORTEST_WORK { !self.is_over() } else { self.rest().await }
    }

    /// Call this after every chunk of writes: waits at least nine times as long as the chunk took,
    /// so that a busy database gets longer pauses. `false` = leave the rest: the process stops, or
    /// another node has the chore.
    pub async fn rest(&self) -> bool {
        let busy = self.since.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        let pause = (busy * (SHARE - 1)).min(LONGEST_PAUSE).max(self.pause);
        let is_stopped = tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = self.stop() => true,
        };
        let goes_on = !is_stopped && self.keep().await;
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if !goes_on {
            self.is_over.store(true, Ordering::SeqCst);
        }
        goes_on
    }

    async fn stop(&self) {
        let mut stopped = self.stopped.clone();
        // An error means that the sender is gone: stop as well.
        let _stopped = stopped.wait_for(|stop| *stop).await;
    }

    /// Makes the lease longer once half of it is over.
    async fn keep(&self) -> bool {
        let now = self.now();
        let until = *self.lease_until.lock().unwrap_or_else(PoisonError::into_inner);
        if (LEASE_MS / 2 + 1..=LEASE_MS).contains(&(until - now)) {
            return true;
        }
        let mut set = WriteSet::of(self.name);
        let longer = now + LEASE_MS;
        set.guard(sql::EXTEND, args![longer, self.name, self.holder.as_str()], LOST);
        match self.db.commit(set).await {
            Ok(_) => {
                *self.lease_until.lock().unwrap_or_else(PoisonError::into_inner) = longer;
                true
            }
            Err(CommitError::Rejected(_)) => false,
            // The next statement of the chore will say it, if it lasts.
            Err(error) => {
                tracing::debug!(%error, chore = self.name, "lease not extended");
                true
            }
        }
    }

    /// Whether the chore was told to leave the rest.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}
