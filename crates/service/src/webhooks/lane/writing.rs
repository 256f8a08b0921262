//! How a lane writes down what came of its tries: many in one write set, while the next are under
//! way.

use std::collections::HashSet;

use store::CommitError;

use super::{PAUSE_MS, TargetLane};
use crate::events;
use crate::kit::id::DeliveryId;
use crate::webhooks::settle::{self, News, Settled};
use crate::webhooks::tries::Tried;

/// What was written, and whether it was.
pub(super) struct Written {
    tries: Vec<Tried>,
    pending: Vec<DeliveryId>,
    is_disabled: bool,
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
        self.writing = Some(Box::pin(async move {
            let outcome = app.db.commit(set).await.map(drop);
            Written { tries, pending, is_disabled, outcome }
        }));
    }

    pub(super) async fn written(&mut self, written: Written) {
        let Written { mut tries, pending, is_disabled, outcome } = written;
        match outcome {
            Ok(()) => {
                settle::count(&self.engine.app, &tries);
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
