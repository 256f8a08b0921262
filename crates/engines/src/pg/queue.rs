//! What waits for a batcher: bounded in number over all queues, and in time for each set.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use store::{CommitError, Done, WriteSet};

/// What a caller learns of its set.
pub(super) type Outcome = Result<Done, CommitError>;

/// A set and who waits for it.
pub(super) struct Job {
    pub(super) set: WriteSet,
    /// How often a connection was lost under it.
    pub(super) losses: u8,
    since: Instant,
    answer: oneshot::Sender<Outcome>,
}

impl Job {
    pub(super) fn new(set: WriteSet) -> (Self, oneshot::Receiver<Outcome>) {
        let (answer, answered) = oneshot::channel();
        (Self { set, losses: 0, since: Instant::now(), answer }, answered)
    }

    /// The last word; a caller that went away needs none.
    pub(super) fn answer(self, outcome: Outcome) {
        let _gone = self.answer.send(outcome);
    }

    pub(super) fn fail(self, why: &str) {
        self.answer(Err(CommitError::Unavailable(why.to_owned())));
    }
}

/// Sets that wait, over all queues of an engine.
pub(super) struct Room {
    waiting: AtomicUsize,
    limit: usize,
}

impl Room {
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: AtomicUsize::new(0), limit: limit.max(1) }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn enter(&self) -> bool {
        let more = |waiting| (waiting < self.limit).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    fn leave(&self, jobs: usize) {
        self.waiting.fetch_sub(jobs, Ordering::SeqCst);
    }
}

/// Why nothing is executed now.
struct Outage {
    since: Instant,
    why: String,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    outage: Option<Outage>,
    is_closed: bool,
}

/// The sets of one batcher, first come first served.
pub(super) struct Queue {
    state: Mutex<State>,
    room: Arc<Room>,
    patience: Duration,
    wake: Notify,
}

impl Queue {
    pub(super) fn new(room: Arc<Room>, patience: Duration) -> Self {
        Self { state: Mutex::default(), room, patience, wake: Notify::new() }
    }

    /// Adds a set at the end.
    pub(super) fn push(&self, job: Job) -> Result<(), CommitError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(closed());
        }
        // Nobody is kept waiting for what has not come back for so long.
        if let Some(outage) = state.outage.as_ref().filter(|o| o.since.elapsed() > self.patience) {
            return Err(CommitError::Unavailable(outage.why.clone()));
        }
        if !self.room.enter() {
            return Err(CommitError::Overloaded);
        }
        state.jobs.push_back(job);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Puts sets back to the front, where they came from.
    pub(super) fn put_back(&self, jobs: Vec<Job>) {
        let mut state = self.lock();
        self.room.waiting.fetch_add(jobs.len(), Ordering::SeqCst);
        for job in jobs.into_iter().rev() {
            state.jobs.push_front(job);
        }
    }

    /// Up to `most` sets as soon as there is one; `None` when the queue is closed and empty.
    /// Dropping the future loses nothing.
    pub(super) async fn take(&self, most: usize) -> Option<Vec<Job>> {
        loop {
            self.expire("the database is too slow");
            {
                let mut state = self.lock();
                let found = state.jobs.len().min(most.max(1));
                if found > 0 {
                    self.room.leave(found);
                    return Some(state.jobs.drain(..found).collect());
                }
                if state.is_closed {
                    return None;
                }
            }
            self.wake.notified().await;
        }
    }

    /// Answers the sets that waited too long. They are out of the queue: none is executed later.
    pub(super) fn expire(&self, why: &str) {
        let mut expired = Vec::new();
        {
            let mut state = self.lock();
            // Sets that were put back are older than what follows them.
            while state.jobs.front().is_some_and(|job| job.since.elapsed() > self.patience) {
                expired.extend(state.jobs.pop_front());
            }
            let why = state.outage.as_ref().map_or(why, |outage| outage.why.as_str()).to_owned();
            self.room.leave(expired.len());
            drop(state);
            for job in expired {
                job.fail(&why);
            }
        }
    }

    /// The database cannot be reached.
    pub(super) fn outage(&self, why: &str) {
        let mut state = self.lock();
        let since = state.outage.as_ref().map_or_else(Instant::now, |outage| outage.since);
        state.outage = Some(Outage { since, why: why.to_owned() });
    }

    /// The database is back.
    pub(super) fn recovered(&self) {
        self.lock().outage = None;
    }

    /// No further sets; what waits is still executed.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_one();
    }

    /// Closed and empty.
    pub(super) fn is_over(&self) -> bool {
        let state = self.lock();
        state.is_closed && state.jobs.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn closed() -> CommitError {
    CommitError::Unavailable("the store is closed".to_owned())
}
