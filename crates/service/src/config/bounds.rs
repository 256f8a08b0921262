//! What a check of one setting comes to, and the checks that all of them are made of.

use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// One setting that cannot work.
pub(super) struct Fault {
    pub(super) key: String,
    pub(super) reason: String,
}

/// Whether a setting can work.
pub(super) type Check = Result<(), Fault>;

/// A condition that a setting must meet.
pub(super) fn ensure(holds: bool, key: &str, reason: &str) -> Check {
    if holds { Ok(()) } else { Err(Fault { key: key.to_owned(), reason: reason.to_owned() }) }
}

/// A number within bounds, which count as within.
pub(super) fn within(key: &str, value: i64, least: i64, most: i64) -> Check {
    let says = format!("must be {least} to {most}, is {value}");
    ensure((least..=most).contains(&value), key, &says)
}

/// An address that paths are put behind.
pub(super) fn url(key: &str, url: &str) -> Check {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else {
        return ensure(false, key, "must begin with http:// or https://");
    };
    ensure(!rest.ends_with('/'), key, "must not end with a slash")?;
    let is_plain = !rest.is_empty() && !rest.contains(['?', '#', '@', ' ']);
    ensure(is_plain, key, "must be a plain address without query, fragment or credentials")
}

/// Networks, of which each says what is wrong with it.
pub(super) fn networks<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let read =
        |text: &String| text.parse().map_err(|_no_network| D::Error::custom(no_network(text)));
    Vec::<String>::deserialize(from)?.iter().map(read).collect()
}

/// What is said of a text that is no network.
pub(super) fn no_network(text: &str) -> String {
    format!("{text:?} is not a network such as 10.0.0.0/8 or fd00::/8")
}
