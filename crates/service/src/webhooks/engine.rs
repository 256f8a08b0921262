//! Finds what is to be done on this node, and gives each target that has work a lane of its own.
//! Woken by this process's own commits; what others left is found within a quarter of a second.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use store::{Bell, CommitError, WriteSet, args};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::bodies::Bodies;
use super::held::{Engine, LEASE_MS, Note, Notes, Wait};
use super::lane::TargetLane;
use super::permits::Permits;
use super::{Error, Target, fan, store as sql};
use crate::app::{App, Env};
use crate::events;
use crate::kit::id::WebhookId;
use crate::kit::task;

/// How often the database is looked at when nothing wakes, milliseconds.
const PAUSE_MS: u64 = 250;
const PAUSE: Duration = Duration::from_millis(PAUSE_MS);
/// The shortest time between two looks of which the first found nothing; twice as long after each
/// further one, up to this.
const BREATH: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(16)];
/// Rings when a target was changed by its owner.
pub(super) const CHANGED: Bell = Bell("webhook changed");
/// Targets claimed in one write set.
const CLAIMED: i64 = 32;
/// Targets of one environment that a node has at most before it claims no more of it. Fresh events
/// give it more than that, so what one environment has says nothing about the other.
const MOST_LANES: usize = 1_024;
/// Deliveries that are not written down yet, on this node: what they hold is in memory.
const MOST_LOANS: usize = 8_192;
/// Looks between two times of tidying up.
const TIDY_EVERY: u32 = 40;

/// Delivers until the process drains, and then until what is under way has ended.
pub async fn run(app: App) {
    let engine = Arc::new(Engine {
        permits: Permits::new(app.config.webhooks.parallel),
        app,
        lanes: Mutex::default(),
        loans: Arc::new(Semaphore::new(MOST_LOANS)),
        bodies: Bodies::default(),
        ended: Notify::new(),
        start,
    });
    let hand_out = async |env| hand_out(&engine, env).await;
    tokio::join!(
        hand_out(Env::Live),
        hand_out(Env::Sandbox),
        look_out(&engine),
        look_after(&engine)
    );
    engine.drain().await;
    if let Err(error) = events::leave(&engine.app).await {
        tracing::warn!(%error, "events in hand are left to other nodes in two seconds");
    }
}

/// Works on events that are handed over, until the process drains.
async fn hand_out(engine: &Arc<Engine>, env: Env) {
    while !engine.app.is_draining() {
        fan::of_hand(engine, env).await;
        tokio::select! {
            () = engine.app.db.rung(events::in_hand_bell(env)) => {}
            () = engine.app.rest(PAUSE_MS) => {}
        }
    }
}

/// Tells lanes when somebody changed their target or left work for it, until the process drains.
async fn look_after(engine: &Arc<Engine>) {
    while !engine.app.is_draining() {
        tokio::select! {
            () = engine.app.db.rung(CHANGED) => {}
            () = engine.app.rest(PAUSE_MS) => {}
        }
        if let Err(error) = engine.look_at_held().await {
            tracing::warn!(%error, "targets that this node has not read; trying again");
        }
    }
}

/// Looks for what the database has to do, until the process drains.
async fn look_out(engine: &Arc<Engine>) {
    let mut looks = 0_u32;
    let mut ticked: Option<Instant> = None;
    let [shortest, longest] = BREATH;
    let mut breath = shortest;
    while !engine.app.is_draining() {
        // By its own clock: the bell may never rest, and what others left does not ring it.
        let is_tick = ticked.is_none_or(|at| at.elapsed() >= PAUSE);
        if is_tick {
            ticked = Some(Instant::now());
            breath = shortest;
        }
        let found_any = engine.look(is_tick).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "due webhooks not read; trying again");
            false
        });
        if is_tick {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(TIDY_EVERY) {
                engine.app.outgoing.forget_idle();
            }
        }
        if found_any {
            breath = shortest;
        } else {
            // Most events are of accounts that nobody listens to: do not look at each of them.
            tokio::time::sleep(breath).await;
            breath = longest.min(breath * 2);
        }
        tokio::select! {
            () = engine.app.db.rung(events::BELL) => {}
            () = engine.app.rest(PAUSE_MS) => {}
        }
    }
}

/// Takes the targets from a process that was killed, before [`run`]. Only for a database that one
/// process at a time serves from: elsewhere its leases are waited out.
///
/// # Errors
/// See [`CommitError`].
pub async fn free(app: &App) -> Result<(), CommitError> {
    let mut set = WriteSet::of("webhooks");
    // However long they are: the clock of that process may have been ahead.
    set.push(sql::FREE, args![app.now()]);
    app.db.commit(set).await.map(drop)
}

/// Begins to work on a target that this node got.
fn start(engine: Arc<Engine>, target: Target, notes: Notes, wait: Arc<Wait>) {
    task::spawn(TargetLane::new(engine, target, notes, wait).run());
}

/// Of which environments this node takes more targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Any,
    Only(Env),
}

impl Wanted {
    /// None when it has as many of each as it may.
    fn beside(lanes: impl Iterator<Item = Env>) -> Option<Self> {
        let (live, sandbox): (Vec<Env>, Vec<Env>) = lanes.partition(|env| *env == Env::Live);
        match (live.len() < MOST_LANES, sandbox.len() < MOST_LANES) {
            (true, true) => Some(Self::Any),
            (true, false) => Some(Self::Only(Env::Live)),
            (false, true) => Some(Self::Only(Env::Sandbox)),
            (false, false) => None,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Only(env) => env.as_str(),
        }
    }
}

impl Engine {
    /// Answers whether there was anything to do.
    async fn look(self: &Arc<Self>, is_tick: bool) -> Result<bool, Error> {
        if is_tick && events::is_overdue(&self.app).await? {
            events::take_over(&self.app).await?;
        }
        let mut found_any = false;
        loop {
            let round = fan::round(self).await?;
            // Between the rounds: events that never cease must not keep what is due for long.
            found_any |= self.claim().await? || round.done > 0;
            self.show();
            // What came meanwhile has rung.
            if round.done == 0 || !round.leaves_some {
                return Ok(found_any);
            }
        }
    }

    /// What there is to do now, for the operator.
    fn show(&self) {
        let metrics = &self.app.metrics;
        let lanes = self.lock();
        metrics.webhook_load(lanes.len(), self.permits.taken());
        let now = self.app.now();
        for env in [Env::Live, Env::Sandbox] {
            let of_env = lanes.values().filter(|handle| handle.env == env);
            let longest_ms = of_env.map(|handle| handle.wait.for_ms(now)).max().unwrap_or(0);
            metrics.webhook_lane_lag(env.as_str(), longest_ms);
        }
    }

    /// Takes targets with due work that nobody has. Answers whether there were any.
    async fn claim(self: &Arc<Self>) -> Result<bool, Error> {
        let mut found_any = false;
        while let Some(wanted) = self.may_claim() {
            let (app, now) = (&self.app, self.app.now());
            let wanted = wanted.as_str();
            let any: Option<(WebhookId,)> = app.db.row(sql::CLAIMABLE, args![now, wanted]).await?;
            if any.is_none() {
                break;
            }
            found_any = true;
            let mut set = WriteSet::of("webhooks");
            set.returning_rows(sql::CLAIM, args![app.node, now + LEASE_MS, now, wanted, CLAIMED]);
            for row in app.db.commit(set).await?.rows.into_iter().flatten() {
                self.take_up(store::FromRow::from_row(row)?);
            }
        }
        Ok(found_any)
    }

    fn may_claim(&self) -> Option<Wanted> {
        Wanted::beside(self.lock().values().map(|handle| handle.env))
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
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_n;

    use super::{Env, MOST_LANES, Wanted};

    fn beside(live: usize, sandbox: usize) -> Option<Wanted> {
        Wanted::beside(repeat_n(Env::Sandbox, sandbox).chain(repeat_n(Env::Live, live)))
    }

    #[test]
    fn what_the_sandbox_has_keeps_no_target_of_live_from_a_node() {
        assert_eq!(beside(0, 0), Some(Wanted::Any));
        for sandbox in [MOST_LANES, 2 * MOST_LANES, 10 * MOST_LANES] {
            for live in [0, MOST_LANES - 1] {
                assert_eq!(beside(live, sandbox), Some(Wanted::Only(Env::Live)));
            }
        }
        assert_eq!(beside(MOST_LANES, 7), Some(Wanted::Only(Env::Sandbox)));
        assert_eq!(beside(MOST_LANES, MOST_LANES), None);
    }
}
