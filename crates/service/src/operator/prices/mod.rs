//! Prices as staff sets them: a list of new prices in one body, taken whole or not at all.

pub mod api;

use clock::Millis;
use serde_json::{Map, Value};

use crate::app::App;
use crate::credits::prices::{CATEGORIES, CHANNELS, Price, categories_of, is_country, new_id};
use crate::kit::body::whole;
use crate::kit::json::escaped;
use crate::kit::problem::Item;
use crate::kit::words::one_of;

/// The most that one message or segment may cost.
const DEAREST: i64 = 1_000_000_000;
/// The most prices in one request.
const MOST: usize = 1_000;

/// Reads the `prices` of a body.
///
/// # Errors
/// Every fault with its pointer.
pub fn read(app: &App, value: Option<Value>) -> Result<Vec<Price>, Vec<Item>> {
    let fault = |code, detail| Err(vec![Item::at("/prices", code, detail)]);
    let items = match value {
        None => return fault("required", "is required"),
        Some(Value::Array(items)) if items.is_empty() => {
            return fault("too_short", "must have at least 1 item");
        }
        Some(Value::Array(items)) if items.len() > MOST => {
            return fault("too_long", "must have at most 1000 items");
        }
        Some(Value::Array(items)) => items,
        Some(_) => return fault("invalid_type", "must be an array"),
    };
    // One for all, so that those without an instant of their own begin together.
    let now = app.now();
    let mut faults = Vec::new();
    let mut prices: Vec<Price> = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let pointer = format!("/prices/{index}");
        let Value::Object(map) = item else {
            faults.push(Item::at(&pointer, "invalid_type", "must be an object"));
            continue;
        };
        let mut reader = Reader { map, pointer: &pointer, faults: &mut faults };
        let Some(price) = reader.price(app, now) else { continue };
        if prices.iter().any(|other| is_same_kind(other, &price)) {
            faults.push(Item::at(
                &pointer,
                "out_of_range",
                "is for the same as an item before it and starts when that does: give one of them \
                 another `valid_from`",
            ));
        }
        prices.push(price);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    // A base price ends promotions that were there before it, not those that come with it.
    prices.sort_by_key(|price| price.valid_until.is_some());
    Ok(prices)
}

fn is_same_kind(one: &Price, other: &Price) -> bool {
    one.channel == other.channel
        && one.category == other.category
        && one.country == other.country
        && one.valid_from == other.valid_from
        && one.valid_until.is_some() == other.valid_until.is_some()
}

/// Reads one object of the list.
struct Reader<'a> {
    map: Map<String, Value>,
    pointer: &'a str,
    faults: &'a mut Vec<Item>,
}

impl Reader<'_> {
    fn price(&mut self, app: &App, now: Millis) -> Option<Price> {
        let channel = self.word("channel", CHANNELS);
        let category = match &channel {
            Some(channel) => self.word("category", categories_of(channel)),
            None => self.word("category", CATEGORIES),
        };
        let country = self.country();
        let credits = self.credits();
        let before = self.faults.len();
        let valid_from = self.instant("valid_from");
        let valid_until = self.instant("valid_until");
        if app.is_strict() {
            for name in self.map.keys().cloned().collect::<Vec<_>>() {
                let known = "is not a field of a price; known: channel, category, country, \
                             credits, valid_from, valid_until";
                self.fault(&name, "unknown_field", known);
            }
        }
        if self.faults.len() > before {
            return None;
        }
        // What was charged in the past was charged at the price of then: no price starts before.
        let valid_from = valid_from.unwrap_or(now).max(now);
        if valid_until.is_some_and(|until| until <= valid_from) {
            self.fault("valid_until", "out_of_range", "must be after valid_from");
            return None;
        }
        let (channel, category) = (channel?, category?);
        let (country, credits, id) = (country?, credits?, new_id(app));
        let replaced_at = None;
        Some(Price {
            id,
            channel,
            category,
            country,
            credits,
            valid_from,
            valid_until,
            replaced_at,
        })
    }

    fn fault(&mut self, name: &str, code: &'static str, detail: impl Into<String>) {
        let name = escaped(name);
        self.faults.push(Item::at(&format!("{}/{name}", self.pointer), code, detail));
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name) {
            Some(Value::String(text)) => return Some(text),
            Some(_) => self.fault(name, "invalid_type", "must be a string"),
            None => self.fault(name, "required", "is required"),
        }
        None
    }

    fn word(&mut self, name: &str, choices: &[&str]) -> Option<String> {
        let text = self.text(name)?;
        if !choices.contains(&text.as_str()) {
            self.fault(name, "invalid_enum", one_of(choices));
            return None;
        }
        Some(text)
    }

    fn country(&mut self) -> Option<String> {
        let text = self.text("country")?;
        if !is_country(&text) {
            self.fault(
                "country",
                "invalid_enum",
                "must be * or the ISO 3166 code of a country, like DE or GB",
            );
            return None;
        }
        Some(text)
    }

    fn credits(&mut self) -> Option<i64> {
        match self.take("credits") {
            None => self.fault("credits", "required", "is required"),
            Some(value) if !value.is_number() => {
                self.fault("credits", "invalid_type", "must be an integer");
            }
            Some(value) => match whole(&value) {
                Some(credits) if (0..=DEAREST).contains(&credits) => return Some(credits),
                _ => {
                    let detail = format!("must be an integer from 0 to {DEAREST}");
                    self.fault("credits", "out_of_range", detail);
                }
            },
        }
        None
    }

    fn instant(&mut self, name: &str) -> Option<Millis> {
        let value = self.take(name)?;
        let at = value.as_str().and_then(Millis::parse);
        if at.is_none() {
            self.fault(name, "invalid_type", "must be an RFC 3339 timestamp");
        }
        at
    }
}
