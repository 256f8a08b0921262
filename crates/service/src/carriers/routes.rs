//! Which carriers take which SMS: the longest prefix of the number, for an account or for all, for
//! a class or for all. The table is swapped as a whole, so a send sees the old one or the new one.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::binds::Presence;
use super::{Lane, Priority};
use crate::config::{SmsRoute, SmsShare};

pub use crate::config::SmsClass as Class;

/// Most routes of a table.
pub const MOST_ROUTES: usize = 10_000;

/// One route, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// `+` and the first digits; `+` alone is every number.
    pub prefix: String,
    /// Only for messages of this account.
    pub account_id: Option<String>,
    /// Only for messages of this class.
    pub class: Option<Class>,
    /// Only for numbers of this network, as `lookup` knows it.
    pub network: Option<String>,
    /// Only carriers that cost at most so much for a segment; one without a price costs nothing.
    pub max_price: Option<i64>,
    /// By whom.
    pub carriers: Vec<Choice>,
}

/// A carrier of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Its name.
    pub name: String,
    /// The lowest goes first; the next is for when none of those takes messages.
    pub priority: i64,
    /// Its share among those of the same priority.
    pub weight: u32,
    /// What it costs for a segment, in credits.
    pub price: Option<i64>,
}

impl Class {
    /// The class that goes out at a priority.
    #[must_use]
    pub const fn of(priority: Priority) -> Self {
        match priority {
            Priority::Passcode => Self::Passcode,
            Priority::Transactional => Self::Transactional,
            Priority::Bulk => Self::Bulk,
        }
    }
}

impl From<&SmsRoute> for Route {
    fn from(route: &SmsRoute) -> Self {
        let SmsRoute { prefix, account_id, class, network, max_price, .. } = route.clone();
        let choice = |SmsShare { name, priority, weight, price }| Choice {
            name,
            priority: priority.unwrap_or_default(),
            weight,
            price,
        };
        let carriers = route.shares().into_iter().map(choice).collect();
        Self { prefix, account_id, class, network, max_price, carriers }
    }
}

/// What is asked of the table.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Whose message.
    pub account: &'a str,
    /// What it is for.
    pub class: Class,
    /// Where it goes, `+` and digits.
    pub number: &'a str,
    /// The network of the number, where it is known.
    pub network: Option<&'a str>,
}

/// Why a table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct RouteFault {
    /// Which route.
    pub at: usize,
    /// Which field of it.
    pub field: Field,
    /// What is wrong.
    pub reason: String,
}

/// A field of a route; those of a carrier with its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The first digits.
    Prefix,
    /// The network.
    Network,
    /// What carriers may cost.
    MaxPrice,
    /// All of its carriers.
    Carriers,
    /// Which carrier.
    Name(usize),
    /// Its turn.
    Priority(usize),
    /// Its share.
    Weight(usize),
    /// What it costs.
    Price(usize),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix => f.write_str("prefix"),
            Self::Network => f.write_str("network"),
            Self::MaxPrice => f.write_str("max_price"),
            Self::Carriers => f.write_str("carriers"),
            Self::Name(place) => write!(f, "carriers/{place}"),
            Self::Priority(place) => write!(f, "carriers/{place}/priority"),
            Self::Weight(place) => write!(f, "carriers/{place}/weight"),
            Self::Price(place) => write!(f, "carriers/{place}/price"),
        }
    }
}

/// A table in force.
#[derive(Default)]
pub struct Table {
    routes: Vec<Route>,
    /// The entries of a prefix, the most particular first.
    by_prefix: HashMap<String, Vec<Entry>>,
    longest: usize,
}

/// The table that sends go by.
#[derive(Default)]
pub(super) struct InForce(RwLock<Stored>);

/// A table, and the version of the stored routes that it is made of; 0 = they are of the settings.
#[derive(Default)]
struct Stored {
    version: i64,
    table: Arc<Table>,
}

impl InForce {
    /// What is so before any routes are stored.
    pub(super) fn at_first(table: &Arc<Table>) -> Self {
        Self(RwLock::new(Stored { version: 0, table: Arc::clone(table) }))
    }

    /// Puts a table in the place of an earlier one: who stores two in turn may come here with the
    /// later one first.
    pub(super) fn swap(&self, version: i64, table: Arc<Table>) {
        let mut stored = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if version >= stored.version {
            *stored = Stored { version, table };
        }
    }

    pub(super) fn now(&self) -> Arc<Table> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).table)
    }
}

struct Entry {
    account: Option<String>,
    class: Option<Class>,
    network: Option<String>,
    /// By priority.
    tiers: Vec<Tier>,
}

#[derive(Default)]
struct Tier {
    lanes: Vec<(Arc<Lane>, u32)>,
    total: u64,
    turn: AtomicU64,
}

impl Table {
    /// Puts a table together.
    ///
    /// # Errors
    /// The first route that cannot be used, or names a carrier that there is not.
    pub fn of(routes: Vec<Route>, lanes: &[Arc<Lane>]) -> Result<Self, RouteFault> {
        let table = Self::stored(routes, lanes)?;
        for (at, route) in table.routes.iter().enumerate() {
            let mut carriers = route.carriers.iter().enumerate();
            if let Some((place, choice)) = carriers.find(|(_, choice)| !is_known(choice, lanes)) {
                let known: Vec<&str> = lanes.iter().map(|lane| lane.carrier().name()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let name = &choice.name;
                let reason =
                    format!("is {name:?}, which is not under sms.carriers; known: {known}");
                return Err(RouteFault { at, field: Field::Name(place), reason });
            }
        }
        Ok(table)
    }

    /// The same of routes whose carriers may have left the settings since. Those are passed over; a
    /// route that has no other leads nowhere, for its messages are not meant for another route.
    ///
    /// # Errors
    /// The first route that cannot be used.
    pub fn stored(routes: Vec<Route>, lanes: &[Arc<Lane>]) -> Result<Self, RouteFault> {
        let mut table = Self::default();
        for (at, route) in routes.iter().enumerate() {
            let digits = check(at, route)?;
            let entry = Entry::of(route, lanes);
            let entries = table.by_prefix.entry(digits.to_owned()).or_default();
            let is_same = |e: &Entry| {
                (&e.account, e.class, &e.network) == (&entry.account, entry.class, &entry.network)
            };
            if entries.iter().any(is_same) {
                let reason = format!("is {} in two routes alike: remove one", route.prefix);
                return Err(RouteFault { at, field: Field::Prefix, reason });
            }
            entries.push(entry);
            entries.sort_by_key(|e| (e.account.is_none(), e.class.is_none()));
            table.longest = table.longest.max(digits.len());
        }
        table.routes = routes;
        Ok(table)
    }

    /// All lanes for every number, in their order.
    #[must_use]
    pub fn all(lanes: &[Arc<Lane>]) -> Self {
        let names = lanes.iter().map(|lane| lane.carrier().name().to_owned());
        let route = Route { prefix: "+".to_owned(), carriers: in_order(names), ..Route::default() };
        let routes = if lanes.is_empty() { vec![] } else { vec![route] };
        Self::of(routes, lanes).unwrap_or_default()
    }

    /// The carriers that routes name and that there are not.
    #[must_use]
    pub fn unknown(&self, lanes: &[Arc<Lane>]) -> BTreeSet<String> {
        let choices = self.routes.iter().flat_map(|route| &route.carriers);
        let unknown = choices.filter(|choice| !is_known(choice, lanes));
        unknown.map(|choice| choice.name.clone()).collect()
    }

    /// The routes, as they were written.
    #[must_use]
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Whether a message goes somewhere at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_prefix.is_empty()
    }

    /// The carrier that is to take a message: of the first priority that has one that takes
    /// messages now. Where none does, one whose connection is on another node, else the first.
    #[must_use]
    pub fn choose(&self, wanted: Wanted<'_>) -> Option<Arc<Lane>> {
        let entry = self.find(wanted)?;
        entry.well(wanted.account, |_| true).or_else(|| entry.first(|_| true))
    }

    /// Another carrier for a message than those that did not take it: one that takes messages now,
    /// or whose connection is on another node.
    #[must_use]
    pub fn another(&self, wanted: Wanted<'_>, refused_by: &[String]) -> Option<Arc<Lane>> {
        let is_other = |lane: &Lane| !refused_by.iter().any(|name| name == lane.carrier().name());
        self.find(wanted)?.well(wanted.account, is_other)
    }

    /// Whether a route leads there.
    #[must_use]
    pub fn leads(&self, wanted: Wanted<'_>) -> bool {
        self.find(wanted).is_some_and(|entry| !entry.tiers.is_empty())
    }

    /// Whether some node is connected to a carrier there, as far as is known.
    #[must_use]
    pub fn is_reached(&self, wanted: Wanted<'_>) -> bool {
        let tiers = self.find(wanted).map(|entry| entry.tiers.as_slice()).unwrap_or_default();
        let mut lanes = tiers.iter().flat_map(|tier| &tier.lanes);
        lanes.any(|(lane, _)| lane.presence() != Presence::Nowhere)
    }

    /// Whether it may make a difference in which network a number is.
    #[must_use]
    pub fn asks(&self, number: &str) -> bool {
        let has_network = |entries: &Vec<Entry>| entries.iter().any(|e| e.network.is_some());
        self.entries(number).any(has_network)
    }

    /// A route of the number's network before all others.
    fn find(&self, wanted: Wanted<'_>) -> Option<&Entry> {
        let fits = |entry: &Entry, network: Option<&str>| {
            entry.network.as_deref() == network
                && entry.account.as_deref().is_none_or(|account| account == wanted.account)
                && entry.class.is_none_or(|class| class == wanted.class)
        };
        let of = |network: Option<&str>| {
            self.entries(wanted.number)
                .find_map(|entries| entries.iter().find(|entry| fits(entry, network)))
        };
        wanted.network.and_then(|network| of(Some(network))).or_else(|| of(None))
    }

    /// The entries of each prefix of a number, the longest first.
    fn entries(&self, number: &str) -> impl Iterator<Item = &Vec<Entry>> {
        let digits = number.trim_start_matches('+');
        let longest = self.longest.min(digits.len());
        (0..=longest).rev().filter_map(move |length| self.by_prefix.get(digits.get(..length)?))
    }
}

/// Carriers, each the fallback of the one before.
pub fn in_order(names: impl IntoIterator<Item = String>) -> Vec<Choice> {
    let choice = |(priority, name)| Choice { name, priority, weight: 1, price: None };
    (1..).zip(names).map(choice).collect()
}

fn is_known(choice: &Choice, lanes: &[Arc<Lane>]) -> bool {
    lanes.iter().any(|lane| lane.carrier().name() == choice.name)
}

/// The digits of the prefix of a route that can be used.
fn check(at: usize, route: &Route) -> Result<&str, RouteFault> {
    let fault = |field, reason: &str| RouteFault { at, field, reason: reason.to_owned() };
    let digits = SmsRoute::digits(&route.prefix);
    let digits = digits
        .ok_or_else(|| fault(Field::Prefix, "must be + and the first digits, such as +33"))?;
    let is_name = |network: &String| SmsRoute::network(network).is_some();
    if !route.network.as_ref().is_none_or(is_name) {
        let reason = "must be a network as sms.lookup names it, such as 20801";
        return Err(fault(Field::Network, reason));
    }
    if route.carriers.is_empty() || route.carriers.len() > SmsRoute::MOST_CARRIERS {
        return Err(fault(Field::Carriers, "must name 1 to 20 carriers"));
    }
    for (place, choice) in route.carriers.iter().enumerate() {
        if route.carriers.iter().take(place).any(|before| before.name == choice.name) {
            return Err(fault(Field::Name(place), "is named before in this route"));
        }
        if !(1..=1_000).contains(&choice.weight) {
            return Err(fault(Field::Weight(place), "must be 1 to 1000"));
        }
        if !(0..=1_000).contains(&choice.priority) {
            return Err(fault(Field::Priority(place), "must be 0 to 1000"));
        }
        if choice.price.is_some_and(|price| !(0..=SmsRoute::MOST_CREDITS).contains(&price)) {
            return Err(fault(Field::Price(place), "must be 0 to 1000000000 credits"));
        }
    }
    let is_affordable = |choice: &Choice| choice.price.unwrap_or(0) <= most(route);
    if !route.carriers.iter().any(is_affordable) {
        return Err(fault(
            Field::MaxPrice,
            "leaves no carrier: one without a price counts as 0 credits, all others cost more",
        ));
    }
    Ok(digits)
}

fn most(route: &Route) -> i64 {
    route.max_price.unwrap_or(i64::MAX)
}

impl Entry {
    fn of(route: &Route, lanes: &[Arc<Lane>]) -> Self {
        let mut tiers: std::collections::BTreeMap<i64, Tier> = std::collections::BTreeMap::new();
        for choice in &route.carriers {
            let lane = lanes.iter().find(|lane| lane.carrier().name() == choice.name);
            let Some(lane) = lane.filter(|_| choice.price.unwrap_or(0) <= most(route)) else {
                continue;
            };
            let tier = tiers.entry(choice.priority).or_default();
            tier.lanes.push((Arc::clone(lane), choice.weight));
            tier.total += u64::from(choice.weight);
        }
        let tiers = tiers.into_values().collect();
        let network = route.network.as_deref().and_then(SmsRoute::network);
        Self { account: route.account_id.clone(), class: route.class, network, tiers }
    }

    /// The first that fits, by priority.
    fn first(&self, fits: impl Fn(&Lane) -> bool) -> Option<Arc<Lane>> {
        self.tiers.iter().find_map(|tier| tier.next(&fits))
    }

    /// The first that fits and takes messages of an account now, else one that other nodes reach.
    fn well(&self, account: &str, fits: impl Fn(&Lane) -> bool) -> Option<Arc<Lane>> {
        let takes =
            |lane: &Lane| lane.presence() == Presence::Here && !lane.is_resting_for(account);
        let elsewhere = |lane: &Lane| lane.presence() == Presence::Elsewhere;
        self.first(|lane| fits(lane) && takes(lane))
            .or_else(|| self.first(|lane| fits(lane) && elsewhere(lane)))
    }
}

impl Tier {
    /// The one whose turn it is, by weight; if that one does not fit, the next that does.
    fn next(&self, fits: impl Fn(&Lane) -> bool) -> Option<Arc<Lane>> {
        let mut place = match self.lanes.as_slice() {
            [] | [_] => 0,
            _ => self.turn.fetch_add(1, Ordering::Relaxed) % self.total.max(1),
        };
        let mut first = 0;
        for (at, (_, weight)) in self.lanes.iter().enumerate() {
            if place < u64::from(*weight) {
                first = at;
                break;
            }
            place -= u64::from(*weight);
        }
        let (before, from) = self.lanes.split_at(first);
        let found = from.iter().chain(before).find(|(lane, _)| fits(lane));
        found.map(|(lane, _)| Arc::clone(lane))
    }
}

#[cfg(test)]
mod tests;
