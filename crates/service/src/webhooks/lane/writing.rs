//! How a lane writes down what came of its tries: many in one write set, while the next are under
//! way.

use std::collections::HashSet;

use clock::Millis;
use store::CommitError;

use super::{PAUSE_MS, TargetLane};
use crate::events;
use crate::kit::id::DeliveryId;
use crate::webhooks::outcome::{self, TryOutcome};
use crate::webhooks::settle::{self, News, Settled};
use crate::webhooks::store as sql;
use crate::webhooks::tries::Tried;

/// The chance by which a retry is as late as it may be.
const LATEST: u64 = 999;
/// Later retries wait for the look that comes with the renewal of the lease, milliseconds.
const SOON_MS: i64 = 10_000;
/// Retries so close to each other share a look, milliseconds.
const NEAR_MS: i64 = 100;

/// What was written, and whether it was.
pub(super) struct Written {
    tries: Vec<Tried>,
    pending: Vec<DeliveryId>,
    is_disabled: bool,
    /// Under which lease.
    epoch: i64,
    outcome: Result<(), CommitError>,
}

impl TargetLane {
    /// Writes down what came of the tries that ended, while the next ones are under way: the more
    /// there are, the more share a write set.
    pub(super) fn write_down(&mut self) {
        if self.writing.is_some() {
            return;
        }
        let pending = self.loans.ripe(&self.landed);
        let tries = std::mem::take(&mut self.landed);
        if tries.is_empty() && pending.is_empty() {
            return;
        }
        let app = self.engine.app.clone();
        let news = News { tries: &tries, loans: &self.loans, pending: &pending };
        let Settled { set, is_disabled } = settle::settle(&app, &self.target, &news);
        let epoch = self.target.epoch;
        self.writing = Some(Box::pin(async move {
            let outcome = app.db.commit(set).await.map(drop);
            Written { tries, pending, is_disabled, epoch, outcome }
        }));
    }

    pub(super) async fn written(&mut self, written: Written) {
        let Written { mut tries, pending, is_disabled, epoch, outcome } = written;
        match outcome {
            Ok(()) => {
                settle::count(&self.engine.app, &tries);
                self.note_retries(&tries);
                self.is_over = false;
                self.forget_written(&tries, &pending);
                if is_disabled {
                    self.target.active = false;
                    self.forget_queue();
                }
            }
            // Somebody else makes the deliveries of one of these events, or it is another one since
            // a person was erased: they are tried again. The others are written down without them.
            Err(CommitError::Rejected(events::TAKEN)) => {
                let lent = tries.extract_if(.., |one| self.loans.of(&one.job.delivery).is_some());
                let lent: Vec<Tried> = lent.collect();
                self.forget_written(&lent, &pending);
                self.landed.splice(0..0, tries);
            }
            // It has moved, or somebody else switched it off: that it does not work is no news.
            Err(CommitError::Rejected(sql::MOVED)) => {
                self.landed.splice(0..0, tries);
                self.loans.keep_ripe();
                self.is_over = false;
                self.refresh().await;
            }
            // This node lost the lease and has it again, and nobody had it meanwhile.
            Err(CommitError::Rejected(sql::LOST)) if epoch != self.target.epoch => {
                self.landed.splice(0..0, tries);
                self.loans.keep_ripe();
            }
            Err(CommitError::Rejected(_)) => self.is_lost = true,
            Err(error) => {
                // The tries were made and are written down as soon as that is possible.
                let webhook = self.target.id.as_str();
                tracing::warn!(%error, webhook, "tries not written down; trying again");
                self.landed.splice(0..0, tries);
                self.loans.keep_ripe();
                self.engine.app.clock.tick(PAUSE_MS).await;
            }
        }
    }

    /// Notes when tries that failed are made again, as far as that is before the next look anyway.
    fn note_retries(&mut self, tries: &[Tried]) {
        let (app, now) = (&self.engine.app, self.engine.app.now());
        let schedule_s = &app.config.webhooks.retry_schedule_s;
        for tried in tries.iter().filter(|tried| tried.outcome() == TryOutcome::Again) {
            let at = outcome::next_try(schedule_s, tried.job.step, None, now, LATEST);
            let soon = at.filter(|at| *at - now <= SOON_MS);
            self.again.extend(soon.map(|at| Millis(at.0 - at.0 % NEAR_MS + NEAR_MS)));
        }
    }

    /// Has the database looked at when what failed is due again: a busy target has no other reason.
    pub(super) fn look_for_retries(&mut self) {
        let now = self.engine.app.now();
        while self.again.first().is_some_and(|at| *at <= now) {
            self.again.pop_first();
            self.more = true;
        }
    }

    fn forget_written(&mut self, tries: &[Tried], pending: &[DeliveryId]) {
        for tried in tries {
            self.known.remove(&tried.job.delivery);
            // What was asked for during its try has its turn.
            self.more |= self.wished.remove(&tried.job.delivery);
            self.loans.end(&tried.job.delivery);
        }
        if pending.is_empty() {
            return;
        }
        for delivery in pending {
            self.loans.end(delivery);
        }
        // What waits is read like what other nodes leave, so that it does not wait in memory.
        let pending: HashSet<&DeliveryId> = pending.iter().collect();
        let known = &mut self.known;
        self.queue.retain(|job| {
            let waits = pending.contains(&job.delivery);
            if waits {
                known.remove(&job.delivery);
            }
            !waits
        });
        self.more |= pending.into_iter().any(|delivery| !self.known.contains(delivery));
    }
}
