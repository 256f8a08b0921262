//! `[sms]`: carriers, routes to them, and who knows the networks of numbers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::SmsCarrier;
use super::bounds::{Check, ensure, within};
use crate::kit::id::AccountId;
use crate::kit::secret::Secret;

/// SMS carriers and which of them takes what. Its `Debug` hides the passwords in the tables.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sms {
    /// One table per carrier; each kind reads its own keys.
    pub carriers: std::collections::BTreeMap<String, toml::Table>,
    /// Longest prefix wins.
    pub routes: Vec<SmsRoute>,
    /// Where the networks of ported numbers are known.
    #[serde(default)]
    pub lookup: SmsLookup,
}

/// Who is asked for the network of a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SmsLookup {
    /// With `{number}` for the digits; empty = nobody.
    pub url: Secret,
    /// The header that carries the token.
    pub header: String,
    /// Its value; empty = no such header.
    pub token: Secret,
    /// Where the answer names the network: JSON pointers, whose values are put together.
    pub network: Vec<String>,
    /// How long a message waits for the answer.
    pub timeout_ms: u64,
    /// How long an answer holds, seconds.
    pub cache_s: i64,
    /// Numbers that are remembered.
    pub cache_numbers: usize,
}

impl Default for SmsLookup {
    fn default() -> Self {
        Self {
            url: Secret::new(String::new()),
            header: "Authorization".to_owned(),
            token: Secret::new(String::new()),
            network: vec!["/mcc".to_owned(), "/mnc".to_owned()],
            timeout_ms: 150,
            cache_s: 86_400,
            cache_numbers: 100_000,
        }
    }
}

impl Sms {
    /// The carriers, read and checked, by name. The settings were loaded, so each can be read.
    #[must_use]
    pub fn all(&self) -> Vec<(&str, SmsCarrier)> {
        let read =
            |(name, table)| Some((String::as_str(name), SmsCarrier::read(name, table).ok()?));
        self.carriers.iter().filter_map(read).collect()
    }
}

/// One route.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SmsRoute {
    /// `+` and the first digits.
    pub prefix: String,
    /// Only for messages of this account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// Only for messages of this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<SmsClass>,
    /// Only for numbers of this network, by `sms.lookup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Only by carriers that cost at most so much for a segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_price: Option<i64>,
    /// By whom, the first choice first.
    pub carriers: Vec<SmsChoice>,
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SmsClass {
    /// A passcode.
    Passcode,
    /// It follows from something that somebody did.
    Transactional,
    /// A campaign.
    Bulk,
}

impl SmsClass {
    /// As written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passcode => "passcode",
            Self::Transactional => "transactional",
            Self::Bulk => "bulk",
        }
    }
}

/// A carrier of a route.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a route names carriers by text, or by tables with name, priority, weight and price"
)]
pub enum SmsChoice {
    /// Its name; it takes what the ones before it cannot take now.
    Name(String),
    /// With all that may be said.
    Whole(SmsShare),
}

/// A carrier of a route, with its place among the others.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SmsShare {
    /// Its name.
    pub name: String,
    /// The lowest goes first. Of one that says none it is its place, where others say no more than
    /// their name, else 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Its share among those of one priority.
    #[serde(default = "SmsShare::one")]
    pub weight: u32,
    /// What it costs for a segment, in credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<i64>,
}

impl SmsShare {
    const fn one() -> u32 {
        1
    }
}

impl SmsChoice {
    /// The name of the carrier.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Whole(SmsShare { name, .. }) => name,
        }
    }

    /// All of it, for the carrier in this place of its route.
    #[must_use]
    pub fn at(&self, place: i64) -> SmsShare {
        match self {
            Self::Name(name) => {
                SmsShare { name: name.clone(), priority: Some(place), weight: 1, price: None }
            }
            Self::Whole(share) => {
                SmsShare { priority: share.priority.or(Some(place)), ..share.clone() }
            }
        }
    }
}

impl SmsRoute {
    /// Most carriers of a route.
    pub const MOST_CARRIERS: usize = 20;
    /// Most that a segment may cost.
    pub const MOST_CREDITS: i64 = 1_000_000_000;
    /// Its carriers, each with its priority.
    #[must_use]
    pub fn shares(&self) -> Vec<SmsShare> {
        let are_whole = self.carriers.iter().all(|one| matches!(one, SmsChoice::Whole(_)));
        let place = |at| if are_whole { 0 } else { at };
        (1..).zip(&self.carriers).map(|(at, choice)| choice.at(place(at))).collect()
    }

    /// Most digits of a prefix, as of a number (ITU-T E.164 §6.1).
    const MOST_DIGITS: usize = 15;

    /// The digits of a prefix, if it is one.
    #[must_use]
    pub fn digits(prefix: &str) -> Option<&str> {
        let digits = prefix.strip_prefix('+')?;
        let is_prefix =
            digits.len() <= Self::MOST_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
        // ITU-T E.164: no country code begins with 0.
        (is_prefix && !digits.starts_with('0')).then_some(digits)
    }

    /// The name of a network as it is compared, if it is one.
    #[must_use]
    pub fn network(name: &str) -> Option<String> {
        let is_clean = !name.contains(char::is_control);
        let name = name.trim();
        (is_clean && (1..=64).contains(&name.chars().count())).then(|| name.to_lowercase())
    }
}

/// What the carriers of the other channels are called: queues and receipts know carriers by name.
const TAKEN: [&str; 2] = ["cloud-api", "relay"];
/// What the names of the simulated carriers begin with.
const SIMULATED: &str = "simulated-";

/// Whether carriers and routes can be used together.
pub(super) fn check(sms: &Sms) -> Check {
    for (name, table) in &sms.carriers {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        let key = format!("sms.carriers.{name}");
        let says = "a carrier's name has only a-z, 0-9, _ and -";
        ensure(!name.is_empty() && name.bytes().all(plain), &key, says)?;
        let is_taken = TAKEN.contains(&name.as_str()) || name.starts_with(SIMULATED);
        let says = "cloud-api, relay and what begins with simulated- name other carriers";
        ensure(!is_taken, &key, says)?;
        SmsCarrier::read(name, table)?;
    }
    let mut seen = BTreeSet::new();
    for route in &sms.routes {
        if let Err(why) = usable(sms, route) {
            ensure(false, "sms.routes", &why)?;
        }
        let network = route.network.as_deref().and_then(SmsRoute::network);
        let says = format!("there are two routes for {} alike: remove one", route.prefix);
        let subject = (&route.prefix, &route.account_id, route.class, network);
        ensure(seen.insert(subject), "sms.routes", &says)?;
    }
    lookup(&sms.lookup)
}

fn usable(sms: &Sms, route: &SmsRoute) -> Result<(), String> {
    let SmsRoute { prefix, account_id, network, carriers, .. } = route;
    if SmsRoute::digits(prefix).is_none() {
        let most = SmsRoute::MOST_DIGITS;
        return Err(format!("the prefix {prefix:?} must be + and at most {most} digits"));
    }
    if account_id.as_deref().is_some_and(|id| AccountId::parse(id).is_none()) {
        let what = "must be acc_ and 26 characters";
        return Err(format!("the account_id of the route {prefix} {what}"));
    }
    if network.as_deref().is_some_and(|name| SmsRoute::network(name).is_none()) {
        return Err(format!("the network of the route {prefix} must have 1 to 64 characters"));
    }
    if network.is_some() && sms.lookup.url.is_empty() {
        return Err(format!("the route {prefix} names a network, and sms.lookup.url is empty"));
    }
    let most = SmsRoute::MOST_CARRIERS;
    if !(1..=most).contains(&carriers.len()) {
        return Err(format!("the route {prefix} must name 1 to {most} carriers"));
    }
    let mut named = BTreeSet::new();
    for share in carriers.iter().map(|choice| choice.at(0)) {
        let SmsShare { name, priority, weight, price } = share;
        if !named.insert(name.clone()) {
            return Err(format!("the route {prefix} names {name} more than once"));
        }
        if !sms.carriers.contains_key(&name) {
            let what = "which is no table under sms.carriers";
            return Err(format!("the route {prefix} names {name}, {what}"));
        }
        if !(1..=1_000).contains(&weight) || !(0..=1_000).contains(&priority.unwrap_or(0)) {
            let what = "a weight of 1 to 1000 and a priority of 0 to 1000";
            return Err(format!("the route {prefix} must give {name} {what}"));
        }
        let most = SmsRoute::MOST_CREDITS;
        if price.is_some_and(|price| !(0..=most).contains(&price)) {
            return Err(format!("the route {prefix} must give {name} a price of 0 to {most}"));
        }
    }
    let most = route.max_price.unwrap_or(i64::MAX);
    if !carriers.iter().any(|choice| choice.at(0).price.unwrap_or(0) <= most) {
        return Err(format!("the max_price of the route {prefix} is below all of its prices"));
    }
    Ok(())
}

fn lookup(lookup: &SmsLookup) -> Check {
    let url = lookup.url.expose();
    let is_url = url.starts_with("https://") || url.starts_with("http://");
    let says = "must be empty, or begin with https:// or http:// and have {number} in it";
    ensure(url.is_empty() || is_url && url.contains("{number}"), "sms.lookup.url", says)?;
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let header = &lookup.header;
    let is_header = !header.is_empty() && header.bytes().all(is_name);
    ensure(is_header, "sms.lookup.header", "must be the name of a header")?;
    let is_plain = !lookup.token.expose().contains(|letter: char| letter.is_control());
    ensure(is_plain, "sms.lookup.token", "must be one line")?;
    let are_pointers = lookup.network.iter().all(|pointer| pointer.starts_with('/'));
    let says = "must be 1 to 4 JSON pointers, such as /mcc";
    ensure(are_pointers && (1..=4).contains(&lookup.network.len()), "sms.lookup.network", says)?;
    let count = |number| i64::try_from(number).unwrap_or(i64::MAX);
    within("sms.lookup.timeout_ms", i64::try_from(lookup.timeout_ms).unwrap_or(i64::MAX), 1, 150)?;
    within("sms.lookup.cache_s", lookup.cache_s, 60, 2_592_000)?;
    within("sms.lookup.cache_numbers", count(lookup.cache_numbers), 1, 10_000_000)
}
