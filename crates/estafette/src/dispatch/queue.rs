//! The queued way out. A message is born on its way where its carrier's lane has room on this node;
//! else it waits in the database, as do those whose time comes later, and any node with room takes
//! it out: by priority, then account after account, so that none has all turns, the oldest first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::store::{CommitError, WriteSet};

use super::carry::carry_queued;
use super::store::{self as sql, Place};
use super::{
    Attempt, Carried, Entry, Leg, NewLeg, Next, Owner, QUEUED_LEASE_MS, State, Unwritten, write,
};
use crate::app::App;
use crate::carriers::binds::Presence;
use crate::carriers::{Lane, Priority, Turn};
use crate::kit::id::AccountId;

/// How often a queue is looked at that nobody speaks of, milliseconds: other nodes fill it, too.
const PAUSE_MS: u64 = 500;
/// Between two looks, so that turns come together that are taken out at once.
const BREATH: Duration = Duration::from_millis(2);
/// Turns that an account has before the next one is asked.
const QUANTUM: usize = 16;
/// How long a request waits for another node to carry what it sends, and how often it looks.
const ELSEWHERE: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The longest that a single throttled message waits, milliseconds.
const THROTTLED_MS: i64 = 30_000;

/// A place in a carrier's lane: a turn, or the end of the queue. Dropping it gives the turn back.
pub struct Slot {
    lane: Arc<Lane>,
    turn: Option<Turn>,
}

/// A way out for a message; `None` = no carrier leads there.
#[must_use]
pub fn slot(app: &App, leg: &NewLeg<'_>) -> Option<Slot> {
    let account = leg.account.as_str();
    let lane = app.carriers.best(leg.channel, (account, leg.priority), leg.to)?;
    let turn = lane.enter(account, leg.priority);
    Some(Slot { lane, turn })
}

impl Slot {
    /// The attempt that takes the place: on its way, or queued. [`super::open`] makes it so.
    #[must_use]
    pub fn attempt(&self, app: &App, leg: &NewLeg<'_>) -> Attempt {
        let (now, lease_until) = (app.now(), app.now() + QUEUED_LEASE_MS);
        let carrier = self.lane.carrier().name().to_owned();
        let inline = Attempt { carrier, ..Attempt::new(app, leg) };
        if self.turn.is_some() {
            return Attempt { lease_until, next_at: Some(lease_until), ..inline };
        }
        let (state, next_at) = (State::Queued, Some(leg.give_up_at));
        Attempt { state, tries: 0, lease_until: now, queued_at: Some(now), next_at, ..inline }
    }

    /// Commit A is durable: the message goes out in the background, now or when its turn comes.
    pub fn go<O: Owner>(self, app: &App, leg: Leg<O>) {
        let Some(turn) = self.turn else { return self.lane.wake() };
        let waiter = app.carriers.inbox().expect(leg.attempt.id.as_str());
        tokio::spawn(carry_queued(app.clone(), leg, turn, waiter));
    }
}

/// Serves the queues of all lanes until the process drains.
pub async fn serve(app: App, owners: &'static [Entry]) {
    let lanes = app.carriers.lanes().map(|lane| {
        let clerk = Clerk {
            app: app.clone(),
            lane: Arc::clone(lane),
            owners,
            last: [""; 3].map(String::from),
        };
        clerk.run()
    });
    futures_util::future::join_all(lanes).await;
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
}

impl Clerk {
    async fn run(mut self) {
        while !self.app.draining.load(Ordering::SeqCst) {
            tokio::select! {
                () = self.lane.woken() => tokio::time::sleep(BREATH).await,
                () = self.app.rest(PAUSE_MS) => {}
            }
            if let Err(error) = self.serve().await {
                let carrier = self.lane.carrier().name();
                tracing::warn!(%error, carrier, "queue not read; trying again");
                self.app.rest(1_000).await;
            }
            let (turns, wait_s) = (self.lane.taken(), self.lane.wait().as_secs_f64());
            self.app.metrics.lane(self.lane.carrier().name(), turns, wait_s);
        }
    }

    /// As long as there is room, the first priority first.
    async fn serve(&mut self) -> Result<(), CommitError> {
        for priority in Priority::ALL {
            if self.serve_all_of(priority).await? {
                self.lane.set_backlog(Some(priority));
                return Ok(());
            }
        }
        self.lane.set_backlog(None);
        Ok(())
    }

    /// Account after account; answers whether some are left that find no room.
    async fn serve_all_of(&mut self, priority: Priority) -> Result<bool, CommitError> {
        // The first of those in a row that nothing was taken of.
        let mut first_refused: Option<AccountId> = None;
        while !self.app.is_draining() {
            let Some(account) = self.next_in_line(priority).await? else { return Ok(false) };
            if first_refused.as_ref() == Some(&account) {
                return Ok(true);
            }
            account.as_str().clone_into(self.last_of(priority));
            if self.take_out(&account, priority).await? > 0 {
                first_refused = None;
            } else {
                first_refused.get_or_insert(account);
            }
        }
        Ok(true)
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
        let lost = |error: ::store::Error| CommitError::Unavailable(error.to_string());
        let last = self.last_of(priority).clone();
        let carrier = self.lane.carrier().name();
        let next = sql::next_in_line(&self.app, carrier, priority, &last).await.map_err(lost)?;
        if next.is_some() || last.is_empty() {
            return Ok(next);
        }
        sql::next_in_line(&self.app, carrier, priority, "").await.map_err(lost)
    }

    /// Takes some of an account's out, as many as find room, and answers how many.
    async fn take_out(
        &self,
        account: &AccountId,
        priority: Priority,
    ) -> Result<usize, CommitError> {
        let more = || self.lane.try_take(account.as_str(), priority);
        let turns: Vec<Turn> = std::iter::from_fn(more).take(QUANTUM).collect();
        let Ok(limit @ 1..) = i64::try_from(turns.len()) else { return Ok(0) };
        let queue = (self.lane.carrier().name(), priority);
        let found = sql::claim(&self.app, queue, account, limit).await?;
        let count = found.len();
        for (found, turn) in found.into_iter().zip(turns) {
            let Some(entry) = Entry::find(self.owners, &found.kind) else {
                tracing::error!(kind = found.kind, "a message of no known channel");
                continue;
            };
            tokio::spawn((entry.take_out)(self.app.clone(), found.attempt, turn));
        }
        Ok(count)
    }
}

/// Carries an attempt that this node took out of the queue. What fails is found again when the
/// lease ends.
pub(super) fn take_out<O: Owner>(
    app: App,
    a: Attempt,
    turn: Turn,
) -> impl Future<Output = ()> + Send + 'static {
    // At once: a stop waits for it.
    let waiter = app.carriers.inbox().expect(a.id.as_str());
    async move {
        match O::load(&app, &a.account, &a.object_id).await {
            Ok(Some(message)) => carry_queued(app, Leg::<O>::new(message, a), turn, waiter).await,
            Ok(None) => tracing::error!(object = a.object_id, "an attempt without its message"),
            Err(error) => {
                tracing::warn!(%error, object = a.object_id, "message not read; trying again");
            }
        }
    }
}

/// The carrier asked to slow down: this message goes out later, and it was no try.
pub(super) async fn postpone(app: &App, a: &Attempt, after_ms: u64) {
    let after_ms = i64::try_from(after_ms).unwrap_or(THROTTLED_MS).clamp(1, THROTTLED_MS);
    let next_at = (app.now() + after_ms).min(a.give_up_at);
    let mut set = WriteSet::of(a.account.as_str());
    let place = Place { tries: a.tries - 1, ..Place::later(a, Some("throttled"), next_at) };
    sql::put_back(&mut set, a, place);
    // What is not written is found again when the lease ends.
    let _lost = write(app, &a.object_id, set).await;
}

/// Whether only other nodes reach the carrier of an attempt.
pub(super) fn is_elsewhere(app: &App, a: &Attempt) -> bool {
    let lane = app.carriers.lane(&a.carrier);
    lane.is_some_and(|lane| lane.presence() == Presence::Elsewhere)
}

/// Leaves an attempt that a request carries to a node that reaches its carrier, and waits for what
/// becomes of it, for as long as somebody can be expected to wait.
pub(super) async fn hand_over<O: Owner>(app: &App, leg: &mut Leg<O>) -> Result<Next, Unwritten> {
    let a = &leg.attempt;
    let mut set = WriteSet::of(a.account.as_str());
    let later = Place::later(a, None, a.give_up_at);
    sql::put_back(&mut set, a, Place { queued_at: Some(app.now()), tries: 0, ..later });
    write(app, &a.object_id, set).await?;
    let until = tokio::time::Instant::now() + ELSEWHERE;
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(LOOK_AGAIN).await;
        let read = sql::attempt(app, &a.account, &a.id).await;
        let now = read.ok().flatten().map(|a| a.state);
        if !matches!(now, Some(State::Queued | State::Sending)) {
            break;
        }
    }
    // Whoever took it has written what became of it.
    Ok(Next::Nothing(Carried::Moved))
}
