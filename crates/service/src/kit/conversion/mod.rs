//! How many passcodes are sent and how many of them verified, by account and place: what the guard
//! against traffic that nobody wants goes by. In memory, so that a send waits for nothing; what is
//! new is written down within a second, and what other nodes wrote is read again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clock::{DAY, HOUR, Millis};

use crate::kit::words::words;

/// Places that are kept of one account; beyond, ranges are no longer told apart. Countries always
/// are: there are only so many.
const MOST_PLACES: usize = 5_000;
/// Days that the best one is looked for in.
const MEMORY_D: i64 = 14;
/// Unverified passcodes of a day and of an hour that are always let through.
const LEAST: [i64; 2] = [20, 3];

/// Sends and verifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passcodes sent.
    pub sent: i64,
    /// Those that were verified.
    pub verified: i64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.verified += other.verified;
    }

    fn unverified(self) -> i64 {
        (self.sent - self.verified).max(0)
    }
}

words! {
    /// A stretch of time that is counted by itself, as stored.
    #[derive(PartialOrd, Ord)]
    pub enum Span {
        /// 24 hours, UTC.
        Day = "d",
        /// 60 minutes.
        Hour = "h",
    }
}

impl Span {
    /// As shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }

    /// Which one an instant is in.
    #[must_use]
    pub fn bucket(self, at: Millis) -> i64 {
        at.0.div_euclid(match self {
            Self::Day => DAY,
            Self::Hour => HOUR,
        })
    }
}

/// What was counted at one place in one stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// A country, or `+` and the first digits of a range.
    pub place: String,
    /// The stretch of time.
    pub span: Span,
    /// Which one.
    pub bucket: i64,
    /// What was counted.
    pub counts: Counts,
}

/// From when on the figures were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// The first day.
    pub day: i64,
    /// The first hour.
    pub hour: i64,
}

impl Since {
    /// All that budgets go by.
    #[must_use]
    pub fn whole(now: Millis) -> Self {
        Self { day: Span::Day.bucket(now) - MEMORY_D - 1, ..Self::lately(now) }
    }

    /// What other nodes may still change: of the days before, nobody counts any more.
    #[must_use]
    pub fn lately(now: Millis) -> Self {
        Self { day: Span::Day.bucket(now) - 1, hour: Span::Hour.bucket(now) - 2 }
    }

    fn covers(self, span: Span, bucket: i64) -> bool {
        bucket >= if span == Span::Day { self.day } else { self.hour }
    }
}

/// What is to be written down.
#[derive(Debug, Default)]
pub struct Unwritten {
    /// What was counted, by account.
    pub figures: BTreeMap<String, Vec<Figure>>,
    /// What is to be told, and of whom.
    pub excesses: Vec<(String, Excess)>,
}

/// A budget that is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Where: a country, or `+` and the first digits of a range.
    pub place: String,
    /// Of a day or an hour.
    pub span: Span,
    /// Which one.
    pub bucket: i64,
    /// What was counted before this send.
    pub counts: Counts,
    /// Unverified passcodes that are let through.
    pub budget: i64,
}

/// The figures of this process.
#[derive(Default)]
pub struct Conversion {
    books: Mutex<Books>,
    /// Held by whoever writes figures down, so that a reader who waits for it sees all of them.
    pub writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Books {
    accounts: HashMap<String, Account>,
    /// Those with something to be written down.
    unwritten: BTreeSet<String>,
    excesses: Vec<(String, Excess)>,
}

#[derive(Default)]
struct Account {
    places: HashMap<String, Place>,
    /// Those with something to be written down.
    unwritten: BTreeSet<String>,
    /// What was told already.
    told: HashSet<(String, Span, i64)>,
    read_at: Option<Millis>,
    /// The day on which all that budgets go by was read.
    whole_on: Option<i64>,
}

/// A country or a range.
#[derive(Default)]
struct Place {
    figures: Figures,
    /// The part of them that is not written yet.
    unwritten: Figures,
}

type Figures = BTreeMap<(Span, i64), Counts>;

impl Account {
    /// Counts at a place, in several stretches of time. Most places are known, and cost no
    /// allocation.
    fn note(&mut self, place: &str, stretches: [(Span, i64); 2], counts: Counts) {
        if !self.places.contains_key(place) {
            if self.places.len() >= MOST_PLACES && is_range(place) {
                return;
            }
            self.places.insert(place.to_owned(), Place::default());
        }
        let Some(own) = self.places.get_mut(place) else { return };
        if own.unwritten.is_empty() {
            self.unwritten.insert(place.to_owned());
        }
        for stretch in stretches {
            own.figures.entry(stretch).or_default().add(counts);
            own.unwritten.entry(stretch).or_default().add(counts);
        }
    }

    /// What is to be written down.
    fn take(&mut self) -> Vec<Figure> {
        let mut all = Vec::new();
        for name in std::mem::take(&mut self.unwritten) {
            let Some(place) = self.places.get_mut(&name) else { continue };
            for ((span, bucket), counts) in std::mem::take(&mut place.unwritten) {
                all.push(Figure { place: name.clone(), span, bucket, counts });
            }
        }
        all
    }
}

/// The country and the range of a number.
#[must_use]
pub fn places(country: &str, e164: &str) -> [String; 2] {
    let range = e164.get(..e164.len().saturating_sub(4)).unwrap_or_default();
    [country.to_owned(), range.to_owned()]
}

/// Where is counted what was sent to a country and is no matter of its budgets. Like a range it
/// begins with a plus, so that it is not shown; no range has letters.
#[must_use]
pub fn exempt_of(country: &str) -> String {
    format!("+{country}")
}

/// Whether a place is a range of numbers, and no country.
fn is_range(place: &str) -> bool {
    place.strip_prefix('+').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

impl Books {
    fn note(&mut self, account: &str, places: &[String], at: Millis, counts: Counts) {
        if !self.accounts.contains_key(account) {
            self.accounts.insert(account.to_owned(), Account::default());
        }
        let Some(own) = self.accounts.get_mut(account) else { return };
        if own.unwritten.is_empty() {
            self.unwritten.insert(account.to_owned());
        }
        let stretches = [Span::Day, Span::Hour].map(|span| (span, span.bucket(at)));
        for place in places {
            own.note(place, stretches, counts);
        }
    }

    /// The budget that one more send would exceed: of several, one that was not told of yet.
    fn judge(&self, account: &str, places: &[String], now: Millis) -> Option<Excess> {
        let own = self.accounts.get(account)?;
        let none = Figures::new();
        let mut all = Vec::new();
        for place in places {
            let exempt = own.places.get(&exempt_of(place)).map_or(&none, |own| &own.figures);
            let Some(figures) = own.places.get(place).map(|own| &own.figures) else { continue };
            all.extend(exceeded(figures, exempt, now).into_iter().flatten().map(|over| {
                let Over { span, counts, budget } = over;
                Excess { place: place.clone(), span, bucket: span.bucket(now), counts, budget }
            }));
        }
        let is_told = |it: &Excess| own.told.contains(&(it.place.clone(), it.span, it.bucket));
        let news = all.iter().position(|it| !is_told(it)).unwrap_or(0);
        all.into_iter().nth(news)
    }
}

impl Conversion {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts.
    pub fn note(&self, account: &str, places: &[String], at: Millis, counts: Counts) {
        self.books().note(account, places, at, counts);
    }

    /// Counts one more send, unless `is_strict` and it would exceed a budget; at once, so that
    /// sends that come together do not all pass by the last place in it. Answers which budget.
    #[must_use]
    pub fn claim(
        &self,
        account: &str,
        places: &[String],
        now: Millis,
        is_strict: bool,
    ) -> Option<Excess> {
        let mut books = self.books();
        let excess = books.judge(account, places, now);
        if excess.is_none() || !is_strict {
            books.note(account, places, now, Counts { sent: 1, verified: 0 });
        }
        excess
    }

    /// Keeps a thing to tell, once for each place and stretch of time. Answers whether it is new.
    pub fn tell(&self, account: &str, excess: &Excess) -> bool {
        let mut books = self.books();
        let own = books.accounts.entry(account.to_owned()).or_default();
        let Excess { place, span, bucket, .. } = excess;
        own.told.retain(|(_, of, told)| of != span || told >= bucket);
        let is_new = own.told.insert((place.clone(), *span, *bucket));
        if is_new {
            books.excesses.push((account.to_owned(), excess.clone()));
        }
        is_new
    }

    /// What is to be written down, by account.
    #[must_use]
    pub fn take(&self) -> Unwritten {
        let mut books = self.books();
        let books = &mut *books;
        let mut all = BTreeMap::new();
        for account in std::mem::take(&mut books.unwritten) {
            let own = books.accounts.get_mut(&account);
            let figures = own.map(Account::take).unwrap_or_default();
            all.insert(account, figures);
        }
        Unwritten { figures: all, excesses: std::mem::take(&mut books.excesses) }
    }

    /// The figures of one account that are to be written down.
    #[must_use]
    pub fn take_of(&self, account: &str) -> Vec<Figure> {
        let mut books = self.books();
        books.unwritten.remove(account);
        books.accounts.get_mut(account).map(Account::take).unwrap_or_default()
    }

    /// It could not be written down.
    pub fn put_back(&self, account: &str, figures: Vec<Figure>, excesses: Vec<Excess>) {
        let mut books = self.books();
        books.excesses.extend(excesses.into_iter().map(|excess| (account.to_owned(), excess)));
        if figures.is_empty() {
            return;
        }
        books.unwritten.insert(account.to_owned());
        let own = books.accounts.entry(account.to_owned()).or_default();
        for Figure { place, span, bucket, counts } in figures {
            own.unwritten.insert(place.clone());
            let unwritten = &mut own.places.entry(place).or_default().unwritten;
            unwritten.entry((span, bucket)).or_default().add(counts);
        }
    }

    /// Whether what is stored of an account was read after an instant.
    #[must_use]
    pub fn is_read_since(&self, account: &str, at: Millis) -> bool {
        let books = self.books();
        books.accounts.get(account).and_then(|own| own.read_at).is_some_and(|read| read >= at)
    }

    /// From when on the figures of an account are to be read: of the days that are over only once
    /// a day.
    #[must_use]
    pub fn since(&self, account: &str, now: Millis) -> Since {
        let books = self.books();
        let whole_on = books.accounts.get(account).and_then(|own| own.whole_on);
        let is_whole = whole_on == Some(Span::Day.bucket(now));
        if is_whole { Since::lately(now) } else { Since::whole(now) }
    }

    /// What is stored of an account, of all nodes, in place of what was known [`Since`] then. What
    /// is not written yet is added to it.
    pub fn read(&self, account: &str, rows: Vec<Figure>, since: Since, now: Millis) {
        let mut books = self.books();
        let own = books.accounts.entry(account.to_owned()).or_default();
        let whole = Since::whole(now);
        own.places.retain(|_, Place { figures, unwritten }| {
            figures.retain(|(span, bucket), _| {
                *span == Span::Day && whole.covers(*span, *bucket) && !since.covers(*span, *bucket)
            });
            let anew = unwritten.iter().filter(|((span, bucket), _)| since.covers(*span, *bucket));
            figures.extend(anew.map(|(stretch, counts)| (*stretch, *counts)));
            !figures.is_empty() || !unwritten.is_empty()
        });
        if since == whole {
            own.whole_on = Some(Span::Day.bucket(now));
        }
        for Figure { place, span, bucket, counts } in rows {
            let figures = &mut own.places.entry(place).or_default().figures;
            figures.entry((span, bucket)).or_default().add(counts);
        }
        own.read_at = Some(now);
    }
}

/// Authgear's published budgets: of a day the greater of 20 and 0.3 of the best of 14 days; of an
/// hour the greatest of 3, a sixth of 0.2 of that best, and 0.2 of what was verified within it.
/// What was exempt counts neither as sent nor as verified.
fn exceeded(figures: &Figures, exempt: &Figures, now: Millis) -> [Option<Over>; 2] {
    let of = |span: Span, back: i64| {
        let stretch = (span, span.bucket(now) - back);
        let Counts { sent, verified } = figures.get(&stretch).copied().unwrap_or_default();
        let exempt = exempt.get(&stretch).copied().unwrap_or_default();
        Counts { sent: sent - exempt.sent, verified: verified - exempt.verified }
    };
    let best = (0..=MEMORY_D).map(|back| of(Span::Day, back).verified).max().unwrap_or(0);
    // What of the hour before is within the last 60 minutes, as if it had come evenly.
    let left_ms = HOUR - now.0.rem_euclid(HOUR);
    let before = of(Span::Hour, 1).verified * left_ms / HOUR;
    let verified = of(Span::Hour, 0).verified + before;
    let [least_of_day, least_of_hour] = LEAST;
    // 0.2 of the best, a sixth of it: one in thirty.
    let budgets = [
        (Span::Day, least_of_day.max(best * 3 / 10)),
        (Span::Hour, least_of_hour.max(best / 30).max(verified / 5)),
    ];
    budgets.map(|(span, budget)| {
        let counts = of(span, 0);
        (counts.unverified() >= budget).then_some(Over { span, counts, budget })
    })
}

/// A budget of a place that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Over {
    span: Span,
    counts: Counts,
    budget: i64,
}

#[cfg(test)]
mod tests;
