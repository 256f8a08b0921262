//! `[sms]`: carriers, routes to them, and who knows the networks of numbers.

use serde::{Deserialize, Serialize};

use super::SmsCarrier;
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
    /// Only for numbers of this network, by `sms.lookup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Names of carriers, first choice first.
    pub carriers: Vec<String>,
}
