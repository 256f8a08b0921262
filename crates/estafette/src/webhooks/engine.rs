//! Finds what is to be done on this node, and gives each target that has work a lane of its own.
//! Woken by this process's own commits; what others left is found within a quarter of a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{WriteSet, args};
use tokio::sync::{Notify, mpsc};

use super::lane::{Lane, Note};
use super::tries::Job;
use super::turns::Turns;
use super::{Error, Target, fan, store as sql};
use crate::app::App;
use crate::events;
use crate::kit::id::WebhookId;

/// How long a node has a target without prolonging, milliseconds.
pub(super) const LEASE_MS: i64 = 20_000;
/// How often it prolongs, milliseconds.
pub(super) const RENEW_MS: i64 = 5_000;
/// How often the database is looked at when nothing wakes, milliseconds.
const PAUSE_MS: u64 = 250;
/// The shortest time between two looks of which the first found nothing.
const BREATH: Duration = Duration::from_millis(2);
/// Targets claimed in one write set.
const CLAIMED: i64 = 32;
/// Targets that a node has at most before it claims no more.
const MOST_LANES: usize = 1_024;
/// Looks between two times of tidying up.
const TIDY_EVERY: u32 = 40;

/// A lane as the engine knows it.
struct Handle {
    notes: mpsc::UnboundedSender<Note>,
    epoch: i64,
    work: i64,
}

/// The deliveries of one process.
pub(super) struct Engine {
    pub(super) app: App,
    pub(super) turns: Turns,
    lanes: Mutex<HashMap<WebhookId, Handle>>,
    ended: Notify,
}

/// Delivers until the process drains, and then until what is under way has ended.
pub async fn run(app: App) {
    let engine = Arc::new(Engine {
        turns: Turns::new(app.config.webhooks.parallel),
        app,
        lanes: Mutex::default(),
        ended: Notify::new(),
    });
    let mut looks = 0_u32;
    let mut is_tick = true;
    while !engine.app.is_draining() {
        let found_any = engine.look(is_tick).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "due webhooks not read; trying again");
            false
        });
        if is_tick {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(TIDY_EVERY) {
                engine.app.outgoing.forget_idle();
                engine.turns.forget_idle();
            }
        }
        if !found_any {
            // Most events are of accounts that nobody listens to: do not look at each of them.
            tokio::time::sleep(BREATH).await;
        }
        is_tick = tokio::select! {
            () = engine.app.db.rung() => false,
            () = engine.app.clock.tick(PAUSE_MS) => true,
        };
    }
    engine.drain().await;
}

impl Engine {
    /// Answers whether there was anything to do.
    async fn look(self: &Arc<Self>, is_tick: bool) -> Result<bool, Error> {
        if is_tick {
            if events::is_overdue(&self.app).await? {
                events::take_over(&self.app).await?;
            }
            self.look_at_held().await?;
        }
        let mut found_any = false;
        while fan::round(self).await? > 0 {
            found_any = true;
        }
        found_any |= self.claim().await?;
        self.app.metrics.webhook_load(self.lock().len(), self.turns.taken());
        Ok(found_any)
    }

    /// Takes targets with due work that nobody has. Answers whether there were any.
    async fn claim(self: &Arc<Self>) -> Result<bool, Error> {
        let mut found_any = false;
        while self.lock().len() < MOST_LANES {
            let (app, now) = (&self.app, self.app.now());
            let any: Option<(WebhookId,)> = app.db.row(sql::CLAIMABLE, args![now]).await?;
            if any.is_none() {
                break;
            }
            found_any = true;
            let mut set = WriteSet::of("webhooks");
            set.returning_rows(sql::CLAIM, args![app.node, now + LEASE_MS, now, CLAIMED]);
            for row in app.db.commit(set).await?.rows.into_iter().flatten() {
                self.take_up(store::FromRow::from_row(row)?);
            }
        }
        Ok(found_any)
    }

    /// Whether others left work for the targets that this node has.
    async fn look_at_held(&self) -> Result<(), Error> {
        if self.lock().is_empty() {
            return Ok(());
        }
        let held: Vec<(WebhookId, i64)> = self.app.db.rows(sql::HELD, args![self.app.node]).await?;
        let mut lanes = self.lock();
        for (id, work) in held {
            if let Some(handle) = lanes.get_mut(&id).filter(|handle| handle.work < work) {
                handle.work = work;
                // A lane that ended meanwhile gave the target back.
                let _ended = handle.notes.send(Note::Look);
            }
        }
        Ok(())
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

    /// A target whose lease this node just got.
    fn take_up(self: &Arc<Self>, target: Target) {
        let mut lanes = self.lock();
        let (epoch, work) = (target.epoch, target.work);
        if let Some(handle) = lanes.get_mut(&target.id)
            && handle.notes.send(Note::Adopt(Box::new(target.clone()))).is_ok()
        {
            (handle.epoch, handle.work) = (epoch, work);
            return;
        }
        let (notes, heard) = mpsc::unbounded_channel();
        lanes.insert(target.id.clone(), Handle { notes, epoch, work });
        tokio::spawn(Lane::new(Arc::clone(self), target, heard).run());
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

    /// Lets what is under way end; nothing new is begun.
    async fn drain(&self) {
        loop {
            let ended = self.ended.notified();
            {
                let lanes = self.lock();
                if lanes.is_empty() {
                    return;
                }
                for handle in lanes.values() {
                    let _ended = handle.notes.send(Note::Look);
                }
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WebhookId, Handle>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
