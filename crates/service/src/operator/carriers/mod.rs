//! The carriers as staff sees them, and the routes of SMS as staff sets them: a whole table at a
//! time, taken whole or not at all.

pub mod api;
mod subjects;

use endpoints::ToSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::carriers::routes::{Choice, Class, Field, MOST_ROUTES, Route, RouteFault};
use crate::config::{SmsChoice, SmsRoute, SmsShare};
use crate::kit::described::described_words;
use crate::kit::json;
use crate::kit::problem::Item;

described_words!(
    pub(crate) RouteClass: "What the messages of a route are for.",
    ["passcode", "transactional", "bulk"]
);

/// A route of SMS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteView {
    /// `+` and the first digits of the numbers that it is for; `+` alone is every number. The
    /// longest prefix wins; of one prefix, the route that names the account, then the class.
    #[schema(example = "+33")]
    pub prefix: String,
    /// Only for messages of this account.
    #[serde(default)]
    pub account_id: Option<String>,
    /// Only for messages of this class: `passcode`, `transactional` or `bulk`.
    #[serde(default)]
    #[schema(value_type = Option<RouteClass>)]
    pub class: Option<Class>,
    /// Only for numbers of this network, as the look-up of the settings (`sms.lookup`) names it.
    /// Such a route goes before those without.
    #[serde(default)]
    #[schema(example = "20801")]
    pub network: Option<String>,
    /// Carriers whose `price` is above this are left out.
    #[serde(default)]
    pub max_price: Option<i64>,
    /// 1 to 20 carriers: a name, the first choice first, or an object with priority and weight.
    #[schema(example = json!(["main"]))]
    pub carriers: Vec<ChoiceView>,
}

/// A carrier of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum ChoiceView {
    /// Its name; it takes what the ones before it cannot take now.
    Name(String),
    /// With all that may be said.
    Whole {
        /// Its name.
        name: String,
        /// The lowest goes first, 0 to 1000. Without one it is its place, from 1, where others say
        /// no more than their name, else 0.
        #[serde(default)]
        priority: Option<i64>,
        /// Its share among those of one priority, 1 to 1000.
        #[serde(default)]
        #[schema(default = 1)]
        weight: Option<u32>,
        /// What it costs for a segment, in credits.
        #[serde(default)]
        price: Option<i64>,
    },
}

impl From<RouteView> for Route {
    fn from(view: RouteView) -> Self {
        let RouteView { prefix, account_id, class, network, max_price, carriers } = view;
        let choice = |choice| match choice {
            ChoiceView::Name(name) => SmsChoice::Name(name),
            ChoiceView::Whole { name, priority, weight, price } => {
                let weight = weight.unwrap_or(1);
                SmsChoice::Whole(SmsShare { name, priority, weight, price })
            }
        };
        let carriers = carriers.into_iter().map(choice).collect();
        // As the settings would say it: what is left out means the same.
        Self::from(&SmsRoute { prefix, account_id, class, network, max_price, carriers })
    }
}

impl From<&Route> for RouteView {
    fn from(route: &Route) -> Self {
        let Route { prefix, account_id, class, network, max_price, carriers } = route.clone();
        let is_plain = (1..)
            .zip(&carriers)
            .all(|(at, one)| (one.priority, one.weight, one.price) == (at, 1, None));
        let view = |Choice { name, priority, weight, price }| {
            if is_plain {
                ChoiceView::Name(name)
            } else {
                let (priority, weight) = (Some(priority), Some(weight));
                ChoiceView::Whole { name, priority, weight, price }
            }
        };
        let carriers = carriers.into_iter().map(view).collect();
        Self { prefix, account_id, class, network, max_price, carriers }
    }
}

/// Reads the routes of a body. Members that are unknown are faults where that `is_strict`, and else
/// left out.
///
/// # Errors
/// Every fault with its pointer.
pub fn read(value: Option<Value>, is_strict: bool) -> Result<Vec<Route>, Vec<Item>> {
    let fault = |code, detail| Err(vec![Item::at("/routes", code, detail)]);
    let items = match value {
        None => return fault("required", "is required"),
        Some(Value::Array(items)) if items.len() > MOST_ROUTES => {
            return fault("too_long", "must have at most 10,000 items");
        }
        Some(Value::Array(items)) => items,
        Some(_) => return fault("invalid_type", "must be an array"),
    };
    let mut faults = Vec::new();
    let mut routes = Vec::with_capacity(items.len());
    for (at, mut item) in items.into_iter().enumerate() {
        if !is_strict {
            forget_unknown(&mut item);
        }
        match RouteView::deserialize(&item) {
            Ok(view) => routes.push(view.into()),
            Err(_) => faults.push(fault_of(&format!("/routes/{at}"), &item)),
        }
    }
    if faults.is_empty() { Ok(routes) } else { Err(faults) }
}

const KNOWN: [&str; 6] = ["prefix", "account_id", "class", "network", "max_price", "carriers"];
const KNOWN_OF_CARRIERS: [&str; 4] = ["name", "priority", "weight", "price"];

fn forget_unknown(item: &mut Value) {
    let Value::Object(members) = item else { return };
    members.retain(|name, _| KNOWN.contains(&name.as_str()));
    let carriers = members.get_mut("carriers").and_then(Value::as_array_mut);
    for members in carriers.into_iter().flatten().filter_map(Value::as_object_mut) {
        members.retain(|name, _| KNOWN_OF_CARRIERS.contains(&name.as_str()));
    }
}

/// A fault in a member of the object at a pointer.
fn in_member(at: &str, name: &str, code: &'static str, detail: &str) -> Item {
    Item::at(&format!("{at}/{}", json::escaped(name)), code, detail)
}

/// What keeps a value from being a route.
fn fault_of(at: &str, item: &Value) -> Item {
    let Value::Object(members) = item else {
        return Item::at(at, "invalid_type", "must be an object");
    };
    let fault = |name, code, detail: &str| in_member(at, name, code, detail);
    if let Some(name) = members.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        let detail = format!("is not a field of a route; known: {}", KNOWN.join(", "));
        return fault(name, "unknown_field", &detail);
    }
    if let Some(name) = ["prefix", "carriers"].into_iter().find(|name| item[*name].is_null()) {
        return fault(name, "required", "is required");
    }
    let is_text = |name: &&str| item[*name].is_null() || item[*name].is_string();
    if let Some(name) = ["prefix", "account_id", "class", "network"].iter().find(|n| !is_text(n)) {
        return fault(name, "invalid_type", "must be a string");
    }
    if !item["class"].is_null() && Class::deserialize(&item["class"]).is_err() {
        return fault("class", "invalid_enum", "must be one of passcode, transactional, bulk");
    }
    if !item["max_price"].is_null() && !item["max_price"].is_i64() {
        return fault("max_price", "invalid_type", "must be an integer");
    }
    let detail = "must be an array of names, or of objects with name, priority, weight and price";
    let carriers = item["carriers"].as_array().map_or(&[][..], Vec::as_slice);
    let bad = carriers.iter().position(|carrier| ChoiceView::deserialize(carrier).is_err());
    match bad.and_then(|place| Some((place, carriers.get(place)?))) {
        Some((place, carrier)) => fault_of_carrier(&format!("{at}/carriers/{place}"), carrier),
        None => fault("carriers", "invalid_type", detail),
    }
}

/// What keeps a value from being a carrier of a route.
fn fault_of_carrier(at: &str, carrier: &Value) -> Item {
    let Value::Object(members) = carrier else {
        return Item::at(at, "invalid_type", "must be a name, or an object with a name");
    };
    let fault = |name, code, detail: &str| in_member(at, name, code, detail);
    if let Some(name) = members.keys().find(|name| !KNOWN_OF_CARRIERS.contains(&name.as_str())) {
        let known = KNOWN_OF_CARRIERS.join(", ");
        return fault(name, "unknown_field", &format!("is not of a carrier here; known: {known}"));
    }
    match &carrier["name"] {
        Value::Null => return fault("name", "required", "is required"),
        Value::String(_) => {}
        _ => return fault("name", "invalid_type", "must be a string"),
    }
    let is_integer = |name: &&str| carrier[*name].is_null() || carrier[*name].is_i64();
    match ["priority", "weight", "price"].iter().find(|name| !is_integer(name)) {
        Some(name) => fault(name, "invalid_type", "must be an integer"),
        None => fault("weight", "out_of_range", "must be 1 to 1000"),
    }
}

/// A table that cannot be put in force, as an item of a problem.
#[must_use]
pub fn item(fault: &RouteFault) -> Item {
    let pointer = format!("/routes/{}/{}", fault.at, fault.field);
    let code = if matches!(fault.field, Field::Name(_)) { "invalid_enum" } else { "out_of_range" };
    Item::at(&pointer, code, fault.reason.clone())
}
