//! How a carrier does, as far as its answers tell. One that fails or throttles rests, and is asked
//! again by one message at a time. A bad answer may be about its message and not about the carrier:
//! the carrier rests for all only when several accounts get such answers and nobody a good one,
//! else only for the account; a number that keeps getting them beside good ones is not counted.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::carriers::{Outcome, Refusal};

/// The shortest and the longest rest.
const REST: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// What it takes to rest: so many lost answers, or one that asked to slow down.
const ENOUGH: usize = 3;
/// Times that a number got a bad answer while others got good ones, after which its bad answers say
/// nothing of the carrier; for how long; and most numbers of which that is kept.
const PROVEN: u32 = 3;
const REMEMBERED: Duration = Duration::from_mins(10);
const MOST_NUMBERS: usize = 1_000;
/// Accounts above which those are forgotten that it does not rest for.
const MOST_ACCOUNTS: usize = 1_000;

/// Whom an answer was about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Whose message.
    pub account: &'a str,
    /// Where it went.
    pub to: &'a str,
}

/// What is known of a carrier.
#[derive(Default)]
pub(super) struct Health {
    /// For everybody.
    all: Rest,
    /// For accounts that had bad answers since their last good one.
    accounts: HashMap<String, Account>,
    /// Who had bad answers since the last good one of all.
    doubters: HashMap<String, usize>,
    /// Numbers that had some while others had good ones.
    numbers: HashMap<String, (u32, Instant)>,
    /// Those that had some since the last good one.
    doubtful: HashSet<String>,
}

#[derive(Default)]
struct Account {
    rest: Rest,
    /// Numbers whose answers were lost.
    lost: HashSet<String>,
}

#[derive(Default)]
struct Rest {
    streak: u32,
    until: Option<Instant>,
}

impl Rest {
    /// Rests, each time for twice as long. What comes in a rest was under way when it began: a cut
    /// connection that loses a whole window is one failure, and only what it asks for counts.
    fn extend(&mut self, wait: Duration) {
        let [shortest, longest] = REST;
        let mut rest = wait;
        if self.left().is_zero() {
            rest = rest.max(shortest * 2_u32.saturating_pow(self.streak.min(5)));
            self.streak += 1;
        }
        self.until = self.until.max(Some(Instant::now() + rest.min(longest)));
    }

    fn left(&self) -> Duration {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        self.until.map(left).unwrap_or_default()
    }
}

impl Health {
    /// What an answer says.
    pub(super) fn note(&mut self, outcome: &Outcome, subject: Subject<'_>) {
        match outcome {
            Outcome::Refused { class: Refusal::Throttled { after_ms }, .. } => {
                self.doubt(subject, Some(Duration::from_millis(*after_ms)));
            }
            Outcome::Refused { class: Refusal::Down, .. } => self.all.extend(Duration::ZERO),
            Outcome::Unknown => self.doubt(subject, None),
            // Its time was over here, before the carrier was asked.
            Outcome::Refused { class: Refusal::Expired, .. } => {}
            Outcome::Accepted { .. } | Outcome::InParts { .. } | Outcome::Refused { .. } => {
                self.trust(subject);
            }
        }
    }

    /// For how long it rests for this account.
    pub(super) fn rest(&self, account: &str) -> Duration {
        self.all.left().max(self.own_rest(account))
    }

    /// Whether it rests for this account because of what the account's own messages met.
    pub(super) fn rests_alone(&self, account: &str) -> bool {
        !self.own_rest(account).is_zero()
    }

    fn own_rest(&self, account: &str) -> Duration {
        self.accounts.get(account).map(|account| account.rest.left()).unwrap_or_default()
    }

    /// Whether it rests for anybody.
    pub(super) fn is_resting(&self) -> bool {
        let mut own = self.accounts.values().map(|account| account.rest.left());
        !self.all.left().is_zero() || own.any(|left| !left.is_zero())
    }

    /// Whether one message at a time asks how it does.
    pub(super) fn is_probed(&self) -> bool {
        self.all.until.is_some()
    }

    /// Whether one message of this account at a time does.
    pub(super) fn is_probed_by(&self, account: &str) -> bool {
        self.accounts.get(account).is_some_and(|account| account.rest.until.is_some())
    }

    /// A good answer: the carrier is well, so what others got was about their messages, unless all
    /// got such.
    fn trust(&mut self, subject: Subject<'_>) {
        if std::mem::take(&mut self.all).until.is_some() {
            self.accounts.clear();
            self.doubtful.clear();
        }
        self.accounts.remove(subject.account);
        self.doubters.clear();
        self.doubtful.remove(subject.to);
        self.numbers.remove(subject.to);
        let until = Instant::now() + REMEMBERED;
        for number in self.doubtful.drain() {
            if self.numbers.len() >= MOST_NUMBERS {
                self.numbers.retain(|_, (_, until)| *until > Instant::now());
            }
            let known = self.numbers.contains_key(&number);
            if known || self.numbers.len() < MOST_NUMBERS {
                let (times, ends) = self.numbers.entry(number).or_insert((0, until));
                (*times, *ends) = (*times + 1, until);
            }
        }
    }

    /// An answer that was lost, or that asked to `wait`.
    fn doubt(&mut self, subject: Subject<'_>, wait: Option<Duration>) {
        let proven = self.numbers.get(subject.to);
        let is_proven =
            proven.is_some_and(|(times, until)| *times >= PROVEN && *until > Instant::now());
        if is_proven {
            return;
        }
        if self.doubtful.len() < MOST_NUMBERS {
            self.doubtful.insert(subject.to.to_owned());
        }
        if self.accounts.len() >= MOST_ACCOUNTS {
            self.accounts.retain(|_, account| !account.rest.left().is_zero());
        }
        let account = self.accounts.entry(subject.account.to_owned()).or_default();
        if wait.is_none() && account.lost.len() < ENOUGH {
            account.lost.insert(subject.to.to_owned());
        }
        let weight = if wait.is_some() { ENOUGH } else { account.lost.len() };
        if weight >= ENOUGH {
            account.rest.extend(wait.unwrap_or_default());
        }
        let doubter = self.doubters.entry(subject.account.to_owned()).or_default();
        *doubter = weight.max(*doubter);
        if self.doubters.len() > 1 && self.doubters.values().sum::<usize>() >= ENOUGH {
            self.all.extend(wait.unwrap_or_default());
        }
    }
}
