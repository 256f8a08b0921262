//! What stands between the lane and one number: how many messages a second the upstream takes of
//! it, how many for one person, and whether it works at all. What finds no way through is told when
//! to come back and waits in the queue; nothing fails here. Places are shared among the accounts of
//! the number, and passcodes go first.
//!
//! Each node keeps these figures by itself, since nobody else sees its answers in time. The bounds
//! of the upstream hold for all nodes together: with several, `chatapp.messages_per_s` is a node's
//! share.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as Line;
use tokio::time::{Instant, sleep};

use super::pairs::Pairs;

/// Submissions of one number that are under way, or about to be.
const PLACES: usize = 64;
/// Of these, what is no passcode.
const PATIENT_PLACES: usize = 48;
/// Of these, those of one account.
const OWN_PLACES: usize = 32;
/// Places that one account's passcodes take at most, with what else it sends.
const OWN_URGENT_PLACES: usize = 56;
/// The shortest and the longest rest of a number that does not work.
const REST: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// Answers in a row that were lost, or told of a passing fault, after which it rests.
const LOST_IN_A_ROW: u32 = 3;
/// While one message tries whether the number works again, the others come back after this.
const PROBE: Duration = Duration::from_secs(1);
/// Accounts above which those are forgotten that have nothing under way.
const MOST_SHARES: usize = 1_024;

/// What an answer says about the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// It works, whatever became of the message.
    Well,
    /// The answer was lost, or told of a fault that passes.
    Shaky,
    /// It cannot be reached.
    Down,
    /// It is given too much.
    Throttled,
    /// This person is sent too much by it.
    PairThrottled,
    /// Its token or its account is refused: nothing of it works until somebody sees to it.
    Barred,
}

/// Whose message wants to go through, and to whom.
#[derive(Clone, Copy)]
pub(super) struct Who<'a> {
    /// The account.
    pub(super) account: &'a str,
    /// The recipient's digits.
    pub(super) to: u64,
    /// Passcodes go first.
    pub(super) is_passcode: bool,
}

/// Why there is no way through now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The number does not work.
    Broken,
    /// The upstream asked for a pause, or all places are taken.
    Full,
    /// The recipient was sent too much.
    Pair,
}

/// No way through now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// When to come back.
    pub(super) after: Duration,
    /// Why.
    pub(super) why: Why,
}

/// The gate of one number.
pub(super) struct Gate {
    per_s: f64,
    book: Mutex<Book>,
    /// Who waits for the rate: passcodes, and the others.
    lines: [Line<()>; 2],
}

struct Book {
    taken: usize,
    shares: HashMap<String, Share>,
    /// Passcodes that wait for the rate.
    urgent: usize,
    tokens: f64,
    refilled_at: Instant,
    pairs: Pairs,
    /// Bad answers in a row.
    streak: u32,
    rest: Option<Rest>,
    /// Answers that asked to slow down, since the start.
    throttled: u64,
}

/// What an account has of the places, and when the next one comes back that found none.
struct Share {
    taken: usize,
    returns_at: Instant,
}

#[derive(Clone, Copy)]
struct Rest {
    until: Instant,
    why: Why,
}

/// A place, until it is dropped.
pub(super) struct Place<'g> {
    gate: &'g Gate,
    account: String,
    is_passcode: bool,
}

impl Gate {
    /// A gate that lets so many through each second.
    pub(super) fn new(per_s: u32) -> Self {
        let book = Book {
            taken: 0,
            shares: HashMap::new(),
            urgent: 0,
            tokens: burst(f64::from(per_s)),
            refilled_at: Instant::now(),
            pairs: Pairs::default(),
            streak: 0,
            rest: None,
            throttled: 0,
        };
        Self { per_s: f64::from(per_s), book: Mutex::new(book), lines: Default::default() }
    }

    /// A place for one message, or when to come back.
    pub(super) fn enter(&self, who: Who<'_>) -> Result<Place<'_>, Wait> {
        let now = Instant::now();
        let mut book = self.book();
        if let Some(rest) = book.rest {
            // When the rest is over, one message tries whether it works.
            let left = rest.until.saturating_duration_since(now);
            let wait = if left.is_zero() && book.taken > 0 { PROBE } else { left };
            if !wait.is_zero() {
                return Err(self.turn_away(&mut book, who, now + wait, rest.why));
            }
        }
        if let Some(after) = book.pairs.wait(who.to, now) {
            return Err(Wait { after, why: Why::Pair });
        }
        let own = book.shares.get(who.account).map_or(0, |share| share.taken);
        let has_place = if who.is_passcode {
            book.taken < PLACES && own < OWN_URGENT_PLACES
        } else {
            book.taken < PATIENT_PLACES && own < OWN_PLACES
        };
        if !has_place {
            return Err(self.turn_away(&mut book, who, now, Why::Full));
        }
        book.pairs.take(who.to, now);
        book.taken += 1;
        book.share(who.account, now).taken += 1;
        let account = who.account.to_owned();
        Ok(Place { gate: self, account, is_passcode: who.is_passcode })
    }

    /// Those of an account that find no way come back one after another, at the number's rate, so
    /// that they do not all knock at once.
    fn turn_away(&self, book: &mut Book, who: Who<'_>, from: Instant, why: Why) -> Wait {
        let now = Instant::now();
        let [_, longest] = REST;
        let share = book.share(who.account, now);
        let returns_at = share.returns_at.max(from) + Duration::from_secs_f64(1.0 / self.per_s);
        share.returns_at = returns_at.min(now + longest);
        Wait { after: share.returns_at.saturating_duration_since(now), why }
    }

    /// What an answer to a message for `to` says; `true` = the number rests from now on.
    pub(super) fn note(&self, to: u64, health: Health) -> bool {
        let now = Instant::now();
        let mut book = self.book();
        let was_well = book.rest.is_none();
        book.throttled += u64::from(health == Health::Throttled);
        let [shortest, longest] = REST;
        let backed_off = |steps: u32| (shortest * 2_u32.saturating_pow(steps.min(5))).min(longest);
        let (rest, why) = match health {
            Health::Well | Health::PairThrottled => {
                book.streak = 0;
                book.rest = None;
                if health == Health::Well {
                    book.pairs.ease(to);
                } else {
                    book.pairs.hold(to, now);
                }
                return false;
            }
            Health::Shaky if book.streak + 1 < LOST_IN_A_ROW => {
                book.streak += 1;
                return false;
            }
            Health::Shaky => (backed_off(book.streak + 1 - LOST_IN_A_ROW), Why::Broken),
            Health::Down => (backed_off(book.streak), Why::Broken),
            Health::Throttled => (backed_off(book.streak), Why::Full),
            Health::Barred => (longest, Why::Broken),
        };
        book.streak += 1;
        book.rest = Some(Rest { until: now + rest, why });
        was_well
    }

    /// Whether the number does not work, as far as is known.
    pub(super) fn is_resting(&self) -> bool {
        self.book().rest.is_some()
    }

    /// Answers that asked to slow down, since the start.
    pub(super) fn throttled(&self) -> u64 {
        self.book().throttled
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn share(&mut self, account: &str, now: Instant) -> &mut Share {
        if self.shares.len() >= MOST_SHARES {
            self.shares.retain(|_, share| share.taken > 0 || share.returns_at > now);
        }
        let fresh = || Share { taken: 0, returns_at: now };
        self.shares.entry(account.to_owned()).or_insert_with(fresh)
    }

    /// Takes what one message needs of the rate; else how long that takes.
    fn token(&mut self, per_s: f64, is_passcode: bool) -> Option<Duration> {
        let now = Instant::now();
        let passed = now.duration_since(self.refilled_at).as_secs_f64();
        self.refilled_at = now;
        self.tokens = (self.tokens + passed * per_s).min(burst(per_s));
        let yields = self.urgent > 0 && !is_passcode;
        if self.tokens >= 1.0 && !yields {
            self.tokens -= 1.0;
            return None;
        }
        let missing = if yields { 1.0 } else { 1.0 - self.tokens };
        Some(Duration::from_secs_f64(missing / per_s).max(Duration::from_millis(1)))
    }
}

/// What may go out at once after a pause: a tenth of a second's worth.
fn burst(per_s: f64) -> f64 {
    (per_s / 10.0).max(1.0)
}

impl Place<'_> {
    /// Waits until the rate lets the message through: passcodes first, the others in their order.
    pub(super) async fn turn(&self) {
        let _urgent = self.is_passcode.then(|| Urgent::among(self.gate));
        let [first, patient] = &self.gate.lines;
        let _head = if self.is_passcode { first.lock().await } else { patient.lock().await };
        loop {
            let wait = self.gate.book().token(self.gate.per_s, self.is_passcode);
            let Some(wait) = wait else { return };
            sleep(wait).await;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut book = self.gate.book();
        book.taken -= 1;
        if let Some(share) = book.shares.get_mut(&self.account) {
            share.taken -= 1;
        }
    }
}

/// A passcode that waits for the rate, until it is dropped.
struct Urgent<'g>(&'g Gate);

impl<'g> Urgent<'g> {
    fn among(gate: &'g Gate) -> Self {
        gate.book().urgent += 1;
        Self(gate)
    }
}

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        self.0.book().urgent -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::{Gate, Health, OWN_PLACES, OWN_URGENT_PLACES, PATIENT_PLACES, PLACES, Who, Why};

    fn who(account: &str, to: u64) -> Who<'_> {
        Who { account, to, is_passcode: false }
    }

    fn passcode(account: &str, to: u64) -> Who<'_> {
        Who { is_passcode: true, ..who(account, to) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_number_lets_through_what_its_rate_allows_and_nothing_fails() {
        let gate = Gate::new(80);
        let begin = Instant::now();
        for to in 0..168 {
            gate.enter(who("a", to)).unwrap().turn().await;
        }
        let took = begin.elapsed();
        // Eight at once, then eighty a second.
        let bounds = Duration::from_millis(1_990)..Duration::from_millis(2_400);
        assert!(bounds.contains(&took), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_passcode_overtakes_those_that_wait() {
        let gate = std::sync::Arc::new(Gate::new(10));
        let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let run = |who: Who<'static>| {
            let (gate, order) = (gate.clone(), order.clone());
            tokio::spawn(async move {
                let place = gate.enter(who).unwrap();
                place.turn().await;
                order.lock().unwrap().push(who.to);
            })
        };
        let mut tasks: Vec<_> = (0..20).map(|to| run(who("a", to))).collect();
        tokio::time::sleep(Duration::from_millis(150)).await;
        tasks.push(run(passcode("b", 99)));
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        assert!(order.iter().position(|to| *to == 99).unwrap() < 5, "{order:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_account_takes_all_places_and_passcodes_find_one() {
        let gate = Gate::new(80);
        let mut held: Vec<_> =
            (0..OWN_PLACES as u64).map(|to| gate.enter(who("a", to)).unwrap()).collect();
        let first = gate.enter(who("a", 1_000)).err().unwrap();
        let second = gate.enter(who("a", 1_001)).err().unwrap();
        assert_eq!(first.why, Why::Full);
        assert!(second.after > first.after, "they come back one after another");
        for to in OWN_PLACES as u64..PATIENT_PLACES as u64 {
            held.push(gate.enter(who("b", to)).unwrap());
        }
        assert!(gate.enter(who("b", 2_000)).is_err());
        for to in PATIENT_PLACES as u64..PLACES as u64 {
            held.push(gate.enter(passcode("a", to)).unwrap());
        }
        assert!(gate.enter(passcode("b", 3_000)).is_err());
        held.clear();
        assert!(gate.enter(who("a", 1_000)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn passcodes_of_one_account_leave_places_for_those_of_others() {
        let gate = Gate::new(80);
        let _held: Vec<_> = (0..OWN_URGENT_PLACES as u64)
            .map(|to| gate.enter(passcode("a", to)).unwrap())
            .collect();
        assert_eq!(gate.enter(passcode("a", 100)).err().unwrap().why, Why::Full);
        assert!(gate.enter(passcode("b", 101)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_number_that_is_barred_rests_and_one_message_tries_it_again() {
        let gate = Gate::new(80);
        assert!(gate.note(1, Health::Barred));
        let wait = gate.enter(who("a", 1)).err().unwrap();
        assert_eq!(wait.why, Why::Broken);
        advance(Duration::from_secs(31)).await;
        let probe = gate.enter(who("a", 2)).unwrap();
        assert!(gate.enter(who("b", 3)).is_err(), "the others wait for what it finds");
        assert!(!gate.note(2, Health::Well));
        assert!(gate.enter(who("b", 3)).is_ok());
        drop(probe);
    }

    #[tokio::test(start_paused = true)]
    async fn lost_answers_in_a_row_make_it_rest_and_a_throttling_upstream_is_given_time() {
        let gate = Gate::new(80);
        assert!(!gate.note(1, Health::Shaky) && !gate.note(1, Health::Shaky));
        assert!(gate.enter(who("a", 1)).is_ok());
        assert!(gate.note(1, Health::Shaky));
        assert_eq!(gate.enter(who("a", 1)).err().unwrap().why, Why::Broken);
        gate.note(1, Health::Well);
        gate.note(1, Health::Throttled);
        assert_eq!(gate.enter(who("a", 1)).err().unwrap().why, Why::Full);
        advance(Duration::from_millis(1_100)).await;
        assert!(gate.enter(who("a", 1)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn one_person_is_held_back_and_nobody_else() {
        let gate = Gate::new(80);
        gate.note(1, Health::PairThrottled);
        let wait = gate.enter(who("a", 1)).err().unwrap();
        assert_eq!((wait.why, wait.after), (Why::Pair, Duration::from_secs(4)));
        assert!(gate.enter(who("a", 2)).is_ok());
    }
}
