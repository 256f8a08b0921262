//! One target's deliveries on this node, from the moment that it has the target's lease until it
//! gives it back. A task of its own, so that a target that hangs keeps nobody but itself.

mod lease;
mod reading;
mod writing;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use clock::Millis;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::FuturesUnordered;
use store::CommitError;
use tokio::sync::mpsc;

use self::lease::sleep;
use self::writing::Written;
use super::held::{Engine, Note, Wait};
use super::loans::{Loan, Loans};
use super::outcome::{self, Health, TryOutcome};
use super::permits::Permit;
use super::recovery;
use super::tries::{Aim, Job, Tried};
use super::{Target, store as sql};
use crate::kit::id::DeliveryId;

/// Deliveries that wait in memory; the others wait in the database.
const WAITING: usize = 128;
/// The same of a target that is slow, failed last, or was never tried.
const SUSPECT_WAITING: usize = 4;
/// The same of deliveries that are not written down yet, which would be read again.
const LENT: usize = 512;
/// How many of those may go before what waits in the database.
const LENT_FIRST: usize = 256;
/// How long a lane without work keeps a target that works, so that it can be lent to.
const LINGER: Duration = Duration::from_millis(50);
/// How long a target waits that is only probed, while too many others are, milliseconds.
const PROBE_LATER_MS: i64 = 20_000;
/// How long to wait after the database failed, milliseconds.
const PAUSE_MS: u64 = 500;

/// What the lane knows of its target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetRow {
    /// What there is to know.
    Read,
    /// Somebody changed it: nothing is begun until it is read anew.
    Changed,
}

pub(super) struct TargetLane {
    engine: Arc<Engine>,
    notes: mpsc::UnboundedReceiver<Note>,
    wait: Arc<Wait>,
    target: Target,
    aim: Option<Arc<Aim>>,
    /// What is tried next, in the order in which it was due.
    queue: VecDeque<Job>,
    /// What is in memory, from the queue until it is written down.
    known: HashSet<DeliveryId>,
    /// What of it is not written down at all yet.
    loans: Loans,
    /// Whether the database may hold more that is due.
    more: bool,
    /// What somebody asked for while it was in memory already: its try may have begun before.
    wished: HashSet<DeliveryId>,
    /// What was lent since then.
    lent_first: usize,
    flying: FuturesUnordered<BoxFuture<'static, Tried>>,
    landed: Vec<Tried>,
    /// When what failed a moment ago is due again.
    again: BTreeSet<Millis>,
    writing: Option<BoxFuture<'static, Written>>,
    waiting: Option<BoxFuture<'static, Permit>>,
    permit: Option<Permit>,
    renew: Pin<Box<dyn Future<Output = ()> + Send>>,
    row: TargetRow,
    /// Another node has the target by now.
    is_lost: bool,
    /// The receiver is gone or has failed for too long: nothing is begun until that is written.
    is_over: bool,
}

impl TargetLane {
    /// A lane of a target whose lease this node has.
    pub(super) fn new(
        engine: Arc<Engine>,
        target: Target,
        notes: mpsc::UnboundedReceiver<Note>,
        wait: Arc<Wait>,
    ) -> Self {
        let renew = Box::pin(sleep(&engine));
        Self {
            engine,
            notes,
            wait,
            target,
            aim: None,
            queue: VecDeque::new(),
            known: HashSet::new(),
            loans: Loans::default(),
            more: true,
            wished: HashSet::new(),
            lent_first: 0,
            flying: FuturesUnordered::new(),
            landed: Vec::new(),
            again: BTreeSet::new(),
            writing: None,
            waiting: None,
            permit: None,
            renew,
            row: TargetRow::Read,
            is_lost: false,
            is_over: false,
        }
    }

    /// Carries what is due until nothing is, or until the lease is lost.
    pub(super) async fn run(mut self) {
        loop {
            self.carry().await;
            if self.engine.end(&self.target) {
                // What was lent at the last moment.
                while let Ok(note) = self.notes.try_recv() {
                    if let Note::Lent(_, loans) = note {
                        for loan in loans {
                            loan.give_back(&self.engine.app, self.target.env);
                        }
                    }
                }
                return;
            }
            // The lease was taken anew at the last moment: the news is here already. What could not
            // be written down is tried again.
            self.forget_tries();
            self.is_lost = false;
            while let Ok(note) = self.notes.try_recv() {
                self.heard(note);
            }
        }
    }

    /// Until the lease is given back or lost.
    async fn carry(&mut self) {
        while !self.is_lost {
            self.write_down();
            self.look_for_retries();
            if self.row == TargetRow::Changed {
                self.refresh().await;
                continue;
            }
            if let Err(error) = self.fill().await {
                let webhook = self.target.id.as_str();
                tracing::warn!(%error, webhook, "due deliveries not read; trying again");
                self.engine.app.clock.tick(PAUSE_MS).await;
                continue;
            }
            self.start();
            self.note_wait();
            if self.is_lost {
                break;
            }
            if !self.is_idle() {
                self.wait().await;
            } else if !self.linger().await && self.give_back().await {
                break;
            }
        }
    }

    /// Waits a little for more work. Answers whether any came.
    async fn linger(&mut self) -> bool {
        if !self.works() {
            return false;
        }
        let note = tokio::time::timeout(LINGER, self.notes.recv()).await.ok().flatten();
        note.map(|note| self.heard(note)).is_some()
    }

    /// Waits for whatever happens next.
    async fn wait(&mut self) {
        tokio::select! {
            Some(tried) = self.flying.next() => {
                let may_end = self.health_after(&tried).is_hopeless(self.engine.app.now());
                if may_end || tried.outcome() == TryOutcome::Gone {
                    // Its URL may have been changed meanwhile.
                    self.refresh().await;
                }
                self.land(tried);
            }
            Some(written) = OptionFuture::from(self.writing.as_mut()) => {
                self.writing = None;
                self.written(written).await;
            }
            Some(permit) = OptionFuture::from(self.waiting.as_mut()) => {
                self.waiting = None;
                self.permit = Some(permit);
            }
            note = self.notes.recv() => match note {
                Some(note) => self.heard(note),
                None => self.is_lost = true,
            },
            () = &mut self.renew => self.renew().await,
            () = self.loans.ripen(), if self.loans.can_ripen() => {}
            () = std::future::ready(()), if self.looks_further() => {}
        }
    }

    fn health_after(&self, tried: &Tried) -> Health {
        let app = &self.engine.app;
        let longest_ms = outcome::longest_park_ms(&app.config.webhooks.retry_schedule_s);
        self.target.health.after(tried.ended(), longest_ms, app.now())
    }

    /// A try ended. What it means for the target holds at once; only later is it written down.
    fn land(&mut self, tried: Tried) {
        let now = self.engine.app.now();
        if tried.was_at(&self.target) {
            self.target.health = self.health_after(&tried);
            self.is_over |= tried.ends(&self.target) || self.target.health.is_hopeless(now);
        }
        self.landed.push(tried);
    }

    fn heard(&mut self, note: Note) {
        match note {
            // The row was read since, and what was due with it.
            Note::Jobs(target, _) if target.work <= self.target.work => {}
            Note::Jobs(mut target, jobs) => {
                // A step that is missing was made by somebody else, who may have reset its health.
                if target.work == self.target.work + 1 {
                    // The row may be from before the last tries were written down.
                    target.health = self.target.health;
                } else {
                    self.more = true;
                }
                self.know(*target);
                for job in jobs {
                    // Once some are left to the database, all later ones are, until it was read.
                    self.more |= self.queue.len() >= WAITING || !self.is_open();
                    if !self.more && self.known.insert(job.delivery.clone()) {
                        self.queue.push_back(job);
                    }
                }
            }
            Note::Lent(target, loans) => {
                if target.work > self.target.work {
                    self.more = true;
                    self.know(*target);
                }
                for loan in loans {
                    self.borrow(loan);
                }
            }
            Note::Adopt(target) => {
                if target.epoch != self.target.epoch + 1 {
                    self.forget_tries();
                }
                self.target.epoch = target.epoch;
                self.know(*target);
                self.renew = Box::pin(sleep(&self.engine));
                self.more = true;
            }
            Note::Look => (self.row, self.more) = (TargetRow::Changed, true),
        }
    }

    /// Takes a delivery that is not written down: to be tried, or else to be written down as
    /// pending.
    fn borrow(&mut self, loan: Loan) {
        let is_taken = self.works() && self.queue.len() < LENT && self.lent_first < LENT_FIRST;
        self.more |= !is_taken;
        let is_behind = self.more || self.target.recover_after.is_some();
        self.lent_first += usize::from(is_behind);
        let job = self.loans.take(loan);
        if !is_taken {
            self.loans.turn_away(&job.delivery);
        } else if self.known.insert(job.delivery.clone()) {
            self.queue.push_back(job);
        }
    }

    /// Whether the target is as targets are that work.
    fn works(&self) -> bool {
        self.target.active && !self.target.health.is_suspect() && self.is_open()
    }

    /// Takes over what the database says of the target. Its health is ours to say, but somebody may
    /// have reset it; what is not written yet will be, unless it is of another URL.
    fn know(&mut self, target: Target) {
        let epoch = self.target.epoch;
        let is_written = self.writing.is_none() && self.landed.is_empty();
        let has_moved = target.url != self.target.url;
        let health = if is_written || has_moved { target.health } else { self.target.health };
        self.target = Target { health, epoch, ..target };
        if !self.target.active {
            self.forget_queue();
        }
    }

    /// Somebody else had the target meanwhile, or a person was erased from it: what is under way
    /// may not be written any more, and is tried again.
    fn forget_tries(&mut self) {
        self.flying.clear();
        self.landed.clear();
        self.writing = None;
        self.queue.clear();
        self.known.clear();
        self.wished.clear();
        self.loans.clear();
        self.is_over = false;
    }

    /// What waits in memory is left to the database.
    fn forget_queue(&mut self) {
        for job in self.queue.drain(..) {
            self.known.remove(&job.delivery);
            self.loans.turn_away(&job.delivery);
        }
        self.more = true;
    }

    /// Whether anything may be tried now.
    fn is_open(&self) -> bool {
        let app = &self.engine.app;
        !app.is_draining() && !self.is_over && self.target.health.parked_until <= app.now()
    }

    /// Whether the database is to be looked at before anything else can begin.
    fn looks_further(&self) -> bool {
        let recovers = self.target.active && self.target.recover_after.is_some();
        self.queue.is_empty() && (self.more || recovers) && self.is_open()
    }

    /// Reads what is due, when nothing waits in memory any more; else looks further through old
    /// events, if somebody asked for that.
    async fn fill(&mut self) -> Result<(), super::Error> {
        if !self.queue.is_empty() || !self.is_open() {
            return Ok(());
        }
        self.lent_first = 0;
        if self.more {
            self.load().await?;
        }
        let recovers = self.target.active && self.target.recover_after.is_some();
        if self.queue.is_empty() && !self.more && recovers {
            match recovery::step(&self.engine.app, &mut self.target, &self.loans).await {
                Ok(()) => self.more = true,
                Err(super::Error::Commit(CommitError::Rejected(sql::WISHED_ANEW))) => {
                    self.refresh().await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Starts as many tries as may be under way now.
    fn start(&mut self) {
        if self.queue.is_empty() || !self.is_open() {
            (self.waiting, self.permit) = (None, None);
            return;
        }
        let is_suspect = self.target.health.is_suspect();
        let engine = Arc::clone(&self.engine);
        let pool = engine.pool(&self.target);
        let most = pool.most(self.target.health);
        while !self.queue.is_empty() && self.flying.len() < most {
            // A database that takes nothing is noticed by what is not written down.
            if self.known.len() - self.queue.len() >= WAITING {
                return;
            }
            let permit = self.permit.take();
            let permit = permit.or_else(|| pool.try_take(&self.target.account, is_suspect));
            let Some(permit) = permit else { return self.wait_for_permit(is_suspect) };
            let Some(aim) = self.aim() else { return };
            let Some(job) = self.queue.pop_front() else { return };
            let app = engine.app.clone();
            let shot = async move { permit.over(pin!(aim.shoot(&app, job))).await };
            self.flying.push(Box::pin(shot));
        }
    }

    /// There is no permit. A target that may work gets in line; one that is slow or only probed
    /// comes again later, so that many of them do not fill the line, and the node's memory.
    fn wait_for_permit(&mut self, is_suspect: bool) {
        let health = &mut self.target.health;
        if health.is_probing() || health.is_slow() && self.flying.is_empty() {
            health.parked_until = self.engine.app.now() + PROBE_LATER_MS;
        } else if self.waiting.is_none() && !health.is_slow() {
            let permit = self.engine.pool(&self.target).take(&self.target.account, is_suspect);
            self.waiting = Some(Box::pin(permit));
        }
    }

    /// Since when what is due waits for the node. A target that does not work waits for itself.
    fn note_wait(&self) {
        let is_ours = self.is_open() && !self.target.health.is_suspect();
        self.wait.note(self.queue.front().filter(|_| is_ours).map(|job| job.due_at));
    }

    /// The target made ready, or nothing while its secrets cannot be opened: that is our fault and
    /// costs no try.
    fn aim(&mut self) -> Option<Arc<Aim>> {
        let app = &self.engine.app;
        if let Some(aim) = self.aim.as_ref().filter(|aim| aim.fits(&self.target, app.now())) {
            return Some(Arc::clone(aim));
        }
        match Aim::at(app, &self.target) {
            Ok(aim) => {
                let aim = Arc::new(aim);
                self.aim = Some(Arc::clone(&aim));
                Some(aim)
            }
            Err(error) => {
                let webhook = self.target.id.as_str();
                tracing::error!(%error, webhook, "nothing is sent without a signature");
                self.target.health.parked_until = app.now() + PROBE_LATER_MS;
                None
            }
        }
    }

    fn is_idle(&self) -> bool {
        let is_busy = !self.flying.is_empty()
            || !self.landed.is_empty()
            || self.writing.is_some()
            || !self.loans.is_empty()
            || self.waiting.is_some();
        let has_work = !self.queue.is_empty() || self.more;
        !(is_busy || has_work && self.is_open())
    }
}
