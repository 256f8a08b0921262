//! The targets that this node holds, each with a lane: what the engine, the fan and the lanes know
//! of each other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clock::Millis;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::Target;
use super::bodies::Bodies;
use super::loans::Loan;
use super::permits::{Permits, Pool};
use super::tries::Job;
use crate::app::{App, Env};
use crate::kit::id::WebhookId;

/// How long a node has a target without prolonging, milliseconds.
pub(super) const LEASE_MS: i64 = 20_000;
/// How often it prolongs, milliseconds.
pub(super) const RENEW_MS: i64 = 5_000;
/// What a lane hears.
pub(super) type Notes = mpsc::UnboundedReceiver<Note>;

/// What a lane is told.
pub(super) enum Note {
    /// New deliveries, and the target as it is since.
    Jobs(Box<Target>, Vec<Job>),
    /// New deliveries that are not written down, and the target as it is since.
    Lent(Box<Target>, Vec<Loan>),
    /// The lease was taken anew, after it had run out.
    Adopt(Box<Target>),
    /// Something changed: look at the database.
    Look,
}

/// A lane as the engine knows it.
pub(super) struct Handle {
    pub(super) notes: mpsc::UnboundedSender<Note>,
    pub(super) wait: Arc<Wait>,
    pub(super) env: Env,
    epoch: i64,
    pub(super) work: i64,
}

/// Since when a lane has had due deliveries that it may not try yet, as the lane says.
pub(super) struct Wait(AtomicI64);

impl Default for Wait {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }
}

impl Wait {
    /// None: nothing waits, or the target is to blame.
    pub(super) fn note(&self, since: Option<Millis>) {
        self.0.store(since.map_or(i64::MAX, |since| since.0), Ordering::Relaxed);
    }

    pub(super) fn for_ms(&self, now: Millis) -> i64 {
        now.0.saturating_sub(self.0.load(Ordering::Relaxed)).max(0)
    }
}

/// The deliveries of one process.
pub(super) struct Engine {
    pub(super) app: App,
    pub(super) permits: Permits,
    pub(super) lanes: Mutex<HashMap<WebhookId, Handle>>,
    /// Places for deliveries that are not written down yet.
    pub(super) loans: Arc<Semaphore>,
    /// What lanes have made of events.
    pub(super) bodies: Bodies,
    pub(super) ended: Notify,
    /// Begins to work on a target that this node got.
    pub(super) start: fn(Arc<Self>, Target, Notes, Arc<Wait>),
}

impl Engine {
    /// The permits of a target's environment.
    pub(super) fn pool(&self, target: &Target) -> &Arc<Pool> {
        self.permits.of(target.env)
    }

    /// New deliveries for a target that this node has since the same write set, or has already.
    pub(super) fn hand_over(self: &Arc<Self>, target: Target, jobs: Vec<Job>) {
        if target.holder != Some(self.app.node) {
            return;
        }
        if let Some(handle) = self.lock().get_mut(&target.id)
            && handle.epoch == target.epoch
        {
            handle.work = target.work;
            if handle.notes.send(Note::Jobs(Box::new(target.clone()), jobs)).is_ok() {
                return;
            }
        }
        self.take_up(target);
    }

    /// Lends deliveries to a target that works and that this node has. Else they come back.
    pub(super) fn lend(&self, target: &Target, loans: Vec<Loan>) -> Result<(), Vec<Loan>> {
        if target.health.is_suspect() || target.health.parked_until > self.app.now() {
            return Err(loans);
        }
        let lanes = self.lock();
        let Some(handle) = lanes.get(&target.id).filter(|handle| handle.epoch == target.epoch)
        else {
            return Err(loans);
        };
        let sent = handle.notes.send(Note::Lent(Box::new(target.clone()), loans));
        sent.map_err(|unsent| match unsent.0 {
            Note::Lent(_, loans) => loans,
            _ => Vec::new(),
        })
    }

    /// A target whose lease this node just got.
    pub(super) fn take_up(self: &Arc<Self>, target: Target) {
        let mut lanes = self.lock();
        let (epoch, work) = (target.epoch, target.work);
        if let Some(handle) = lanes.get_mut(&target.id)
            && handle.notes.send(Note::Adopt(Box::new(target.clone()))).is_ok()
        {
            (handle.epoch, handle.work) = (epoch, work);
            return;
        }
        let (notes, heard) = mpsc::unbounded_channel();
        let (wait, env) = (Arc::<Wait>::default(), target.env);
        let handle = Handle { notes, wait: Arc::clone(&wait), env, epoch, work };
        lanes.insert(target.id.clone(), handle);
        (self.start)(Arc::clone(self), target, heard, wait);
    }

    /// A lane wants to end. It may not when its target was taken up again meanwhile.
    pub(super) fn end(&self, target: &Target) -> bool {
        let mut lanes = self.lock();
        let is_current = lanes.get(&target.id).is_some_and(|handle| handle.epoch == target.epoch);
        if is_current {
            lanes.remove(&target.id);
            self.ended.notify_one();
        }
        is_current
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<WebhookId, Handle>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
