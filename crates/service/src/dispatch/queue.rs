//! The queued way out. A message is born on its way where its carrier's lane has room on this node;
//! else it waits in the database, as do those whose time comes later, and any node with room takes
//! it out: by priority, then account after account, so that none has all permits, the oldest first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::store::CommitError;

use super::carry::carry_queued;
use super::in_hand;
use super::store as sql;
use super::stranded;
use super::{Attempt, Entry, Leg, NewLeg, Owner, QUEUED_LEASE_MS, State};
use crate::app::App;
use crate::carriers::binds::Presence;
use crate::carriers::inbox::Asker;
use crate::carriers::lane::Waits;
use crate::carriers::{Lane, Permit, Priority};
use crate::kit::id::AccountId;
use crate::kit::task;
use crate::metrics::LaneNow;

/// How often a queue is looked at that nobody speaks of, milliseconds: other nodes fill it, too.
const PAUSE_MS: u64 = 500;
/// Between two looks, so that permits come together that are taken out at once.
const BREATH: Duration = Duration::from_millis(2);
/// Permits that an account has before the next one is asked.
const QUANTUM: usize = 16;

/// A place in a carrier's lane: a permit, or the end of the queue. Dropping it returns the permit.
pub struct Slot {
    lane: Arc<Lane>,
    permit: Option<Permit>,
}

/// A way out for a message; `None` = no carrier leads there.
#[must_use]
pub fn slot(app: &App, leg: &NewLeg<'_>) -> Option<Slot> {
    let account = leg.account.as_str();
    let lane = app.carriers.best(leg.channel, account, leg.priority, leg.to)?;
    let permit = lane.enter(account, leg.priority);
    Some(Slot { lane, permit })
}

impl Slot {
    /// The attempt that takes the place: on its way, or queued. [`super::open`] makes it so.
    #[must_use]
    pub fn attempt(&self, app: &App, leg: &NewLeg<'_>) -> Attempt {
        let (now, lease_until) = (app.now(), app.now() + QUEUED_LEASE_MS);
        let carrier = self.lane.carrier().name().to_owned();
        let inline = Attempt::by(app, leg, carrier);
        if self.permit.is_some() {
            return Attempt { lease_until, next_at: Some(lease_until), ..inline };
        }
        let (state, next_at) = (State::Queued, Some(leg.give_up_at));
        Attempt { state, tries: 0, lease_until: now, queued_at: Some(now), next_at, ..inline }
    }

    /// Commit A is durable: the message goes out in the background, now or when its permit comes.
    pub fn go<O: Owner>(self, app: &App, leg: Leg<O>) {
        let Some(permit) = self.permit else { return self.lane.wake() };
        let waiter = app.carriers.inbox().expect(
            leg.attempt.id.as_str(),
            &leg.attempt.carrier,
            Asker::Nobody,
        );
        task::spawn(carry_queued(app.clone(), leg, permit, waiter));
    }
}

/// Serves the queues of all lanes, and moves what waits for a dead one, until the process drains.
pub async fn serve(app: App, owners: &'static [Entry]) {
    let lanes = app.carriers.lanes().map(|lane| {
        let clerk = Clerk {
            app: app.clone(),
            lane: Arc::clone(lane),
            owners,
            last: [""; 3].map(String::from),
            is_short: false,
        };
        clerk.run()
    });
    let lanes = futures_util::future::join_all(lanes);
    futures_util::future::join(lanes, stranded::follow(app.clone(), owners)).await;
}

/// Returns when nothing that this process handed to a carrier waits for its answer, or to be
/// settled.
pub async fn drained(app: &App) {
    while !app.carriers.inbox().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Takes messages out of the queue of one lane.
struct Clerk {
    app: App,
    lane: Arc<Lane>,
    owners: &'static [Entry],
    /// The account that was served last, by priority.
    last: [String; 3],
    /// Whether some were left at the last look that found no room.
    is_short: bool,
}

impl Clerk {
    async fn run(mut self) {
        while !self.app.draining.load(Ordering::SeqCst) {
            tokio::select! {
                () = self.lane.woken() => tokio::time::sleep(BREATH).await,
                () = self.refilled() => {}
                () = self.app.rest(PAUSE_MS) => {}
            }
            if let Err(error) = self.serve().await {
                let carrier = self.lane.carrier().name();
                tracing::warn!(%error, carrier, "queue not read; trying again");
                self.app.rest(1_000).await;
            }
            let carrier = self.lane.carrier();
            self.app.metrics.lane(LaneNow {
                carrier: carrier.name(),
                submissions: self.lane.taken(),
                wait_s: self.lane.wait().as_secs_f64(),
                sends_only: carrier.load().sends_only,
            });
        }
    }

    /// Returns when the lane's rate lets through some of those that were left: nobody says so.
    async fn refilled(&self) {
        match self.lane.refills_in().filter(|_| self.is_short) {
            Some(refills_in) => tokio::time::sleep(refills_in.max(BREATH)).await,
            None => std::future::pending().await,
        }
    }

    /// As long as there is room, the first priority first. A node without a connection leaves the
    /// queue to those that have one: what it handed over itself would come back to it, to fail.
    async fn serve(&mut self) -> Result<(), CommitError> {
        match self.lane.presence() {
            Presence::Here => {}
            // What waits, waits there.
            Presence::Elsewhere => {
                self.lane.set_backlog(None);
                return Ok(());
            }
            Presence::Nowhere => return Ok(()),
        }
        let mut left = None;
        for priority in Priority::ALL {
            left = self.serve_all_of(priority).await?.or(left);
            if let Some(Waits::ForRoom(_)) = left {
                break;
            }
        }
        self.is_short = matches!(left, Some(Waits::ForRoom(_)));
        self.lane.set_backlog(left);
        Ok(())
    }

    /// Account after account; answers what those wait for that are left.
    async fn serve_all_of(&mut self, priority: Priority) -> Result<Option<Waits>, CommitError> {
        // Those that nothing was taken of since something was taken of another. Another node may
        // empty the queue of any of them meanwhile.
        let mut refused = BTreeSet::new();
        let mut left = None;
        while !self.app.is_draining() {
            let Some(account) = self.next_in_line(priority).await? else { return Ok(None) };
            if refused.contains(&account) {
                return Ok(left);
            }
            account.as_str().clone_into(self.last_of(priority));
            if self.take_out(&account, priority).await? > 0 {
                refused.clear();
                left = None;
                continue;
            }
            // Those that wait for room say more than those that others do not wait for.
            if left.is_none_or(|left| left == Waits::Alone) {
                left = Some(self.lane.waits(account.as_str(), priority));
            }
            refused.insert(account);
        }
        Ok(left)
    }

    fn last_of(&mut self, priority: Priority) -> &mut String {
        let [passcode, transactional, bulk] = &mut self.last;
        match priority {
            Priority::Passcode => passcode,
            Priority::Transactional => transactional,
            Priority::Bulk => bulk,
        }
    }

    /// The account after the one that was served last, round and round.
    async fn next_in_line(&mut self, priority: Priority) -> Result<Option<AccountId>, CommitError> {
        let last = self.last_of(priority).clone();
        let carrier = self.lane.carrier().name();
        let next = sql::next_in_line(&self.app, carrier, priority, &last).await?;
        if next.is_some() || last.is_empty() {
            return Ok(next);
        }
        sql::next_in_line(&self.app, carrier, priority, "").await.map_err(CommitError::from)
    }

    /// Takes some of an account's out, as many as find room, and answers how many.
    async fn take_out(
        &self,
        account: &AccountId,
        priority: Priority,
    ) -> Result<usize, CommitError> {
        let more = || self.lane.try_take(account.as_str(), priority);
        let permits: Vec<Permit> = std::iter::from_fn(more).take(QUANTUM).collect();
        let Ok(limit @ 1..) = i64::try_from(permits.len()) else { return Ok(0) };
        let carrier = self.lane.carrier().name();
        let found = sql::claim(&self.app, carrier, priority, account, limit).await?;
        let count = found.len();
        for (found, permit) in found.into_iter().zip(permits) {
            let Some(entry) = Entry::find(self.owners, &found.kind) else {
                tracing::error!(kind = found.kind, "a message of no known channel");
                continue;
            };
            tokio::spawn((entry.take_out)(self.app.clone(), found.attempt, permit));
        }
        Ok(count)
    }
}

/// Carries an attempt that this node took out of the queue.
pub(super) fn take_out<O: Owner>(
    app: App,
    attempt: Attempt,
    permit: Permit,
) -> impl Future<Output = ()> + Send + 'static {
    // At once: a stop waits for it.
    let waiter = app.carriers.inbox().expect(attempt.id.as_str(), &attempt.carrier, Asker::Nobody);
    async move {
        let load = || O::load(&app, &attempt.account, &attempt.object_id);
        match in_hand::read(&app, &attempt, load).await {
            Some(Some(message)) => {
                carry_queued(app, Leg::<O>::new(message, attempt), permit, waiter).await;
            }
            Some(None) => {
                tracing::error!(object = attempt.object_id, "an attempt without its message");
            }
            None => {}
        }
    }
}
