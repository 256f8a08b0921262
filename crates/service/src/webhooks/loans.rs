//! Deliveries of events in hand: tried before they are written down, so that nearly all of them are
//! written once. Until then the event stays due, and other nodes take it over after two seconds;
//! what takes a while is written down as pending long before.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use clock::Millis;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};

use super::tries::{Job, Tried};
use crate::app::{App, Env};
use crate::events::{self, Stored};
use crate::kit::id::DeliveryId;

/// How long a delivery may wait or be under way before it is written down as pending.
const UNWRITTEN: Duration = Duration::from_millis(500);

/// A delivery that is not written down yet, and its event.
pub(super) struct Loan {
    pub(super) job: Job,
    pub(super) event: Stored,
    /// One of those that this node has for them.
    pub(super) place: OwnedSemaphorePermit,
}

impl Loan {
    /// The event as it was handed over.
    pub(super) fn into_event(self) -> Stored {
        let body = String::from_utf8_lossy(&self.job.body).into_owned();
        Stored { body: Some(body), ..self.event }
    }

    /// Gives the event back to whoever makes its deliveries.
    pub(super) fn give_back(self, app: &App, env: Env) {
        events::hand_back(app, env, self.into_event());
    }
}

/// What a lane has to write down of a loan.
pub(super) struct Lent {
    pub(super) event: Stored,
    pub(super) due_at: Millis,
    until: Instant,
    _place: OwnedSemaphorePermit,
}

/// What a lane was lent.
#[derive(Default)]
pub(super) struct Loans {
    /// What waits, is under way, or has ended and is not written down yet.
    lent: HashMap<DeliveryId, Lent>,
    /// Runs until the first of it is to be written down as pending.
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether something is to be written down as pending.
    is_ripe: bool,
}

impl Loans {
    /// Takes a loan, and answers what is to be tried.
    pub(super) fn take(&mut self, loan: Loan) -> Job {
        let Loan { job, event, place } = loan;
        let until = Instant::now() + UNWRITTEN;
        if self.timer.is_none() {
            self.timer = Some(Box::pin(sleep_until(until)));
        }
        let lent = Lent { event, due_at: job.due_at, until, _place: place };
        self.lent.insert(job.delivery.clone(), lent);
        job
    }

    /// This one is not tried now: it is to be written down as pending at once.
    pub(super) fn turn_away(&mut self, delivery: &DeliveryId) {
        if let Some(lent) = self.lent.get_mut(delivery) {
            lent.until = Instant::now();
            self.is_ripe = true;
        }
    }

    /// What there is to write down of a delivery, if it is not written down at all yet.
    pub(super) fn of(&self, delivery: &DeliveryId) -> Option<&Lent> {
        self.lent.get(delivery)
    }

    /// It is written down, or somebody else's by now.
    pub(super) fn end(&mut self, delivery: &DeliveryId) {
        self.lent.remove(delivery);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns when something has waited for too long.
    pub(super) async fn ripen(&mut self) {
        if let Some(timer) = self.timer.as_mut() {
            timer.await;
            self.timer = None;
            self.is_ripe = true;
        }
    }

    /// Whether [`Self::ripen`] ever returns.
    pub(super) fn can_ripen(&self) -> bool {
        self.timer.is_some()
    }

    /// What is to be written down as pending, but for those tries that have ended.
    pub(super) fn ripe(&mut self, ended: &[Tried]) -> Vec<DeliveryId> {
        if !std::mem::take(&mut self.is_ripe) {
            return Vec::new();
        }
        let now = Instant::now();
        let has_ended = |one: &DeliveryId| ended.iter().any(|tried| tried.job.delivery == *one);
        let ripe = self.lent.iter().filter(|(_, lent)| lent.until <= now);
        let ripe = ripe.map(|(delivery, _)| delivery).filter(|delivery| !has_ended(delivery));
        let ripe: Vec<DeliveryId> = ripe.cloned().collect();
        let green = self.lent.values().map(|lent| lent.until).filter(|until| *until > now).min();
        self.timer = green.map(|until| Box::pin(sleep_until(until)));
        ripe
    }

    /// What could not be written down is to be written down as soon as that is possible.
    pub(super) fn keep_ripe(&mut self) {
        self.is_ripe = true;
    }
}
