//! The lane in front of a carrier, one on each node: how many submissions it may have under way,
//! and how many a second. Passcodes find room that bulk leaves free, no account has all of it, and
//! a carrier that fails is asked again by one message at a time.

mod backlog;
mod bucket;
mod health;
mod permit;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::binds::Presence;
use super::{Carrier, Outcome, Refusal};
use crate::kit::alarm::Alarm;
use backlog::Backlog;
use bucket::Bucket;
use health::Health;

pub use backlog::Waits;
pub use health::Subject;
pub use permit::Permit;

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Somebody waits for it now.
    Passcode,
    /// It follows from something that somebody did.
    Transactional,
    /// It can wait.
    Bulk,
}

impl Priority {
    /// All of them, the first first.
    pub const ALL: [Self; 3] = [Self::Passcode, Self::Transactional, Self::Bulk];

    /// As stored.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            Self::Passcode => 0,
            Self::Transactional => 1,
            Self::Bulk => 2,
        }
    }

    /// From what is stored.
    #[must_use]
    pub fn of(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.number() == number)
    }
}

/// How much a carrier may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Submissions under way at the same time, or whose outcome is not durable yet. A crash sends
    /// at most so many twice.
    pub window: usize,
    /// Submissions a second; `None` = as many as the window lets through.
    pub per_s: Option<u32>,
    /// Whether a refusal as throttled or down is the carrier's state, so that the others wait as
    /// well, and not that of one recipient.
    pub backs_off: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { window: 32, per_s: None, backs_off: true }
    }
}

/// A lane. It is shared by whoever sends by its carrier on this node.
pub struct Lane {
    carrier: Arc<dyn Carrier>,
    pace: Pace,
    book: Mutex<Book>,
    /// See [`Lane::second_try`].
    second_try: Arc<Semaphore>,
    work: Notify,
    /// That the carrier refuses what its settings are to blame for.
    alarm: Alarm,
    /// What became of its receipts.
    pub receipts: ReceiptCounts,
    /// What its answers were.
    pub answers: AnswerFigures,
}

/// A carrier's answers at this node, since the start.
#[derive(Debug, Default)]
pub struct AnswerFigures {
    /// Those that asked to slow down.
    pub throttled: AtomicU64,
    /// How long the latest took, milliseconds; 0 = there was none.
    pub round_trip_ms: AtomicU64,
}

/// What became of a carrier's receipts at this node, since the start.
#[derive(Debug, Default)]
pub struct ReceiptCounts {
    /// Led to their message at once.
    pub matched: AtomicU64,
    /// Led nowhere when they came, and to their message later.
    pub early: AtomicU64,
    /// Led nowhere when they came.
    pub parked: AtomicU64,
    /// Led to their message by an id in another form.
    pub guessed: AtomicU64,
}

struct Book {
    taken: usize,
    /// Those of them that are no passcodes.
    patient: usize,
    accounts: HashMap<String, usize>,
    /// Who waits for a permit, by account; none of these queues is empty.
    waiting: BTreeMap<String, VecDeque<Waiter>>,
    next_ticket: u64,
    bucket: Bucket,
    health: Health,
    backlog: Backlog,
}

struct Waiter {
    ticket: u64,
    priority: Priority,
    gets: oneshot::Sender<Permit>,
}

impl Lane {
    /// The lane of a carrier, at the pace that the carrier says.
    #[must_use]
    pub fn of(carrier: Arc<dyn Carrier>) -> Arc<Self> {
        let pace = carrier.pace();
        let book = Book {
            taken: 0,
            patient: 0,
            accounts: HashMap::new(),
            waiting: BTreeMap::new(),
            next_ticket: 0,
            bucket: Bucket::full(pace),
            health: Health::default(),
            backlog: Backlog::default(),
        };
        let (book, work) = (Mutex::new(book), Notify::new());
        let (receipts, answers) = (ReceiptCounts::default(), AnswerFigures::default());
        let (second_try, alarm) = (Arc::new(Semaphore::new(1)), Alarm::default());
        Arc::new(Self { carrier, pace, book, second_try, work, alarm, receipts, answers })
    }

    /// The turn of a message whose answer was lost. They go one after the other: where one of them
    /// makes the carrier cut the connection, it takes no other's second and last try with it.
    pub async fn second_try(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.second_try).acquire_owned().await.ok()
    }

    /// Who is at its end.
    #[must_use]
    pub fn carrier(&self) -> &Arc<dyn Carrier> {
        &self.carrier
    }

    /// How much it may be given.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        self.pace
    }

    /// Whether this node reaches the carrier.
    #[must_use]
    pub fn presence(&self) -> Presence {
        self.carrier.presence()
    }

    /// A permit for a new message, if there is one and nobody who waits in the database comes
    /// first.
    #[must_use]
    pub fn enter(self: &Arc<Self>, account: &str, priority: Priority) -> Option<Permit> {
        let mut book = self.book();
        let is_next = book.backlog.lets_in(priority);
        let permit = if is_next { self.try_give(&mut book, account, priority) } else { None };
        if permit.is_none() {
            let waits = book.waits(account, priority);
            book.backlog.add(waits);
        }
        permit
    }

    /// A permit, if there is one now.
    #[must_use]
    pub fn try_take(self: &Arc<Self>, account: &str, priority: Priority) -> Option<Permit> {
        self.try_give(&mut self.book(), account, priority)
    }

    /// The next permit for this account; `None` when there is none within `patience`, or where
    /// some of its priority wait in the database and the account is served already: whoever waits
    /// here is served before those.
    pub async fn take(
        self: &Arc<Self>,
        account: &str,
        priority: Priority,
        patience: Duration,
    ) -> Option<Permit> {
        let is_behind = {
            let book = self.book();
            !book.backlog.lets_in(priority) && book.taken_by(account) > 0
        };
        if is_behind {
            return None;
        }
        if let Some(permit) = self.try_take(account, priority) {
            return Some(permit);
        }
        let mut got = self.wait_in_line(account, priority);
        let give_up = Instant::now() + patience;
        while Instant::now() < give_up {
            // Permits that time gives back come without anybody saying so.
            let look_again =
                self.opens_in(account).unwrap_or(patience).max(Duration::from_millis(1));
            let look_again = (Instant::now() + look_again).min(give_up);
            match tokio::time::timeout_at(look_again, &mut got).await {
                Ok(permit) => return permit.ok(),
                Err(_) => self.hand_out(),
            }
        }
        // One may have come in the last moment.
        got.try_recv().ok()
    }

    fn wait_in_line(&self, account: &str, priority: Priority) -> oneshot::Receiver<Permit> {
        let (gets, got) = oneshot::channel();
        let mut book = self.book();
        let ticket = book.next_ticket;
        book.next_ticket += 1;
        let queue = book.waiting.entry(account.to_owned()).or_default();
        queue.retain(|waiter| !waiter.gets.is_closed());
        queue.push_back(Waiter { ticket, priority, gets });
        got
    }

    /// When the rate or a rest lets the next one through.
    fn opens_in(&self, account: &str) -> Option<Duration> {
        let book = self.book();
        let rest = Some(book.health.rest(account));
        let rate = self.pace.per_s.map(|per_s| {
            Duration::from_secs_f64((1.0 - book.bucket.tokens).max(0.0) / f64::from(per_s))
        });
        rest.filter(|rest| !rest.is_zero()).max(rate)
    }

    /// What the carrier's answer says about the carrier.
    pub fn note(&self, outcome: &Outcome, subject: Subject<'_>, took: Duration) {
        if matches!(outcome, Outcome::Refused { class: Refusal::Throttled { .. }, .. }) {
            self.answers.throttled.fetch_add(1, Ordering::Relaxed);
        }
        if *outcome != Outcome::Unknown {
            let took_ms = u64::try_from(took.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
            self.answers.round_trip_ms.store(took_ms, Ordering::Relaxed);
        }
        if let Outcome::Refused { class, .. } = outcome
            && class.is_of_settings()
        {
            self.alarm(*class);
        }
        if self.pace.backs_off {
            self.book().health.note(outcome, subject);
        }
    }

    /// Once a minute: all messages of a campaign may get the same answer.
    fn alarm(&self, class: Refusal) {
        if self.alarm.is_due() {
            let (carrier, class) = (self.carrier.name(), class.as_str());
            tracing::error!(carrier, class, "the carrier refuses messages: see its settings");
        }
    }

    /// Whether its carrier fails now for this account, as far as is known.
    #[must_use]
    pub fn is_resting_for(&self, account: &str) -> bool {
        !self.book().health.rest(account).is_zero()
    }

    /// Whether it does for anybody.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        self.book().health.is_resting()
    }

    /// Whether it failed, and nobody had a good answer since.
    #[must_use]
    pub fn is_doubted(&self) -> bool {
        self.book().health.is_probed()
    }

    /// When the rate lets some through again; `None` = it does now. Then it is no matter of the
    /// rate who waits, and whoever gives a permit back says so.
    #[must_use]
    pub fn refills_in(&self) -> Option<Duration> {
        self.book().bucket.refills_in(self.pace)
    }

    /// What a message waits for that got no permit.
    #[must_use]
    pub fn waits(&self, account: &str, priority: Priority) -> Waits {
        self.book().waits(account, priority)
    }

    /// What waits in the database, as somebody saw who looked.
    pub fn set_backlog(&self, waits: Option<Waits>) {
        self.book().backlog.set(waits);
    }

    /// For how long some have waited in the database without a break.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.book().backlog.wait()
    }

    /// Says that something waits in the database.
    pub fn wake(&self) {
        self.work.notify_one();
    }

    /// Returns when something waits in the database, or may find room now. For one listener.
    pub async fn woken(&self) {
        self.work.notified().await;
    }

    /// Permits that are taken now.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.book().taken
    }

    /// Whether one more may be under way.
    fn may(&self, book: &Book, account: &str, priority: Priority) -> bool {
        let all = self.pace.window.max(1);
        // Kept free for those who come first, and for other accounts.
        let (spare, own) = match priority {
            // An account's own messages do not keep its passcodes out.
            Priority::Passcode => (0, all - all / 8),
            Priority::Transactional => (all / 4, all - all / 4),
            Priority::Bulk => (all / 2, all - all / 2),
        };
        // One place that is kept free is for an account that has none: what another has under way,
        // and a carrier holds up, tells nothing of its own.
        let has_none = book.taken_by(account) == 0;
        let spare = if has_none && spare > 1 { spare - 1 } else { spare };
        let is_patient = priority != Priority::Passcode;
        let is_resting = !book.health.rest(account).is_zero();
        let is_probed = book.health.is_probed() && book.patient > 0;
        let is_absent = self.presence() != Presence::Here;
        let is_held_back = is_absent || is_resting || is_probed || book.rests_alone(account);
        !(is_patient && is_held_back) && book.taken < all - spare && book.taken_by(account) < own
    }

    fn try_give(
        self: &Arc<Self>,
        book: &mut Book,
        account: &str,
        priority: Priority,
    ) -> Option<Permit> {
        let own = book.taken_by(account);
        let is_overtaken = book.waiting.iter().any(|(account, waiters)| {
            let comes_first = |waiter: &Waiter| {
                let is_alike = waiter.priority == priority && book.taken_by(account) <= own;
                (waiter.priority < priority || is_alike) && !waiter.gets.is_closed()
            };
            waiters.iter().any(comes_first)
        });
        if is_overtaken || !self.may(book, account, priority) || !book.bucket.has_one(self.pace) {
            return None;
        }
        Some(self.give(book, account, priority))
    }

    fn give(self: &Arc<Self>, book: &mut Book, account: &str, priority: Priority) -> Permit {
        book.bucket.tokens -= 1.0;
        book.taken += 1;
        book.patient += usize::from(priority != Priority::Passcode);
        match book.accounts.get_mut(account) {
            Some(taken) => *taken += 1,
            None => drop(book.accounts.insert(account.to_owned(), 1)),
        }
        Permit { lane: Arc::clone(self), account: account.to_owned(), priority }
    }

    /// Gives permits to those who wait, as far as there are any.
    fn hand_out(self: &Arc<Self>) {
        // A permit that nobody takes any more comes back, which needs the book.
        let mut refused = Vec::new();
        let mut book = self.book();
        while book.bucket.has_one(self.pace) {
            let Some((account, waiter)) = self.next(&mut book) else { break };
            if !waiter.gets.is_closed() {
                let permit = self.give(&mut book, &account, waiter.priority);
                refused.extend(waiter.gets.send(permit).err());
            }
        }
        drop(book);
    }

    /// Who is next: of those that may, the first by priority, of an account with fewest permits,
    /// then whoever waits longest.
    fn next(&self, book: &mut Book) -> Option<(String, Waiter)> {
        let mut best: Option<((Priority, usize, u64), &String)> = None;
        for (account, queue) in &book.waiting {
            let Some(first) = queue.front() else { continue };
            let taken = book.taken_by(account);
            let rank = (first.priority, taken, first.ticket);
            let is_better = best.is_none_or(|(other, _)| rank < other);
            if is_better && self.may(book, account, first.priority) {
                best = Some((rank, account));
            }
        }
        let account = best.map(|(_, account)| account.clone())?;
        let queue = book.waiting.get_mut(&account)?;
        let waiter = queue.pop_front()?;
        if queue.is_empty() {
            book.waiting.remove(&account);
        }
        Some((account, waiter))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Permits that an account has.
    fn taken_by(&self, account: &str) -> usize {
        self.accounts.get(account).copied().unwrap_or_default()
    }

    /// Whether its own messages keep an account's next one back, and nobody else's.
    fn rests_alone(&self, account: &str) -> bool {
        let is_asking = self.health.is_probed_by(account) && self.taken_by(account) > 0;
        is_asking || self.health.rests_alone(account)
    }

    fn waits(&self, account: &str, priority: Priority) -> Waits {
        if priority != Priority::Passcode && self.rests_alone(account) {
            Waits::Alone
        } else {
            Waits::ForRoom(priority)
        }
    }
}

#[cfg(test)]
mod tests;
