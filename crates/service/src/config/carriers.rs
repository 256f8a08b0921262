//! What a table under `sms.carriers` may say, for each kind of carrier. Unknown keys are errors.

use serde::Deserialize;
use toml::{Table, Value};

use super::bounds::{Fault, url, within};
use super::plain;
use crate::kit::secret::Secret;
use crate::kit::words::one_of;

/// One SMS carrier.
#[derive(Clone, Debug)]
pub enum SmsCarrier {
    /// A message centre, by SMPP 3.4.
    Smpp(Box<Smpp>),
    /// A gateway, by HTTP.
    Http(Box<SmsHttp>),
}

/// A message centre.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Smpp {
    /// `smpp`.
    pub kind: String,
    /// Its name or address.
    pub host: String,
    /// 2775 by custom, 3550 with TLS.
    pub port: u16,
    /// The login.
    pub system_id: String,
    /// Its password.
    pub password: Secret,
    /// Some centres ask for one.
    pub system_type: String,
    /// Segments on their way that are not yet answered, of each bind.
    pub window: usize,
    /// How receipts write the ids of the answers.
    pub message_id: MessageId,
    /// Whether one bind goes both ways, or a pair of them.
    pub bind: BindMode,
    /// Binds (or pairs) of each node.
    pub binds: usize,
    /// Binds (or pairs) of all nodes together, as the carrier allows.
    pub max_binds: usize,
    /// Segments a second, of each bind; 0 = no limit.
    pub rate: u32,
    /// How long texts are cut.
    pub long: LongText,
    /// How the centre is told until when a message is of use.
    pub validity: ValidityForm,
    /// Whether the connection is TLS.
    pub tls: bool,
    /// PEM file of authorities that are trusted besides the public ones.
    pub ca_file: String,
    /// After this silence the centre is asked whether it is there, seconds.
    pub enquire_s: i64,
    /// How long an answer may take, seconds.
    pub response_s: i64,
    /// The sender of messages that name none.
    pub sender: String,
    /// `service_type` of every message.
    pub service_type: String,
    /// Types of numbers, where the carrier wants others than usual.
    pub source_ton: Option<u8>,
    /// See `source_ton`.
    pub source_npi: Option<u8>,
    /// See `source_ton`.
    pub dest_ton: Option<u8>,
    /// See `source_ton`.
    pub dest_npi: Option<u8>,
    /// Codes that mean: later.
    pub temporary_codes: Vec<u32>,
    /// Codes that mean: never.
    pub permanent_codes: Vec<u32>,
}

impl Default for Smpp {
    fn default() -> Self {
        Self {
            kind: "smpp".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 2775,
            system_id: String::new(),
            password: Secret::new(String::new()),
            system_type: String::new(),
            window: 10,
            message_id: MessageId::Auto,
            bind: BindMode::Transceiver,
            binds: 1,
            max_binds: 1,
            rate: 0,
            long: LongText::Udh8,
            validity: ValidityForm::Relative,
            tls: false,
            ca_file: String::new(),
            enquire_s: 30,
            response_s: 10,
            sender: String::new(),
            service_type: String::new(),
            source_ton: None,
            source_npi: None,
            dest_ton: None,
            dest_npi: None,
            temporary_codes: Vec::new(),
            permanent_codes: Vec::new(),
        }
    }
}

/// How receipts write ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageId {
    /// Not known.
    Auto,
    /// In hexadecimal, while the answers are decimal.
    Hex,
    /// In decimal, while the answers are hexadecimal.
    Decimal,
    /// As the answers.
    Text,
}

/// Which way the messages of a bind go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindMode {
    /// Both ways.
    Transceiver,
    /// One sends, another receives.
    Pair,
}

/// How the parts of a long text are known as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LongText {
    /// By a header with a reference of 8 bits.
    Udh8,
    /// The same of 16 bits.
    Udh16,
    /// By fields of SMPP.
    Sar,
    /// They are not cut here: the centre does it.
    Payload,
}

/// How `validity_period` is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidityForm {
    /// As a length of time.
    Relative,
    /// As an instant, UTC.
    Absolute,
    /// Not at all.
    Omit,
}

/// A gateway.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SmsHttp {
    /// `http`.
    pub kind: String,
    /// One of the gateways that are described in the program.
    pub preset: String,
    /// A file that describes another one.
    pub description: String,
    /// Where it is, without a trailing slash; empty = where the preset says.
    pub base_url: String,
    /// The login.
    pub username: String,
    /// Its password, key or token.
    pub password: Secret,
    /// The sender of messages that name none.
    pub sender: String,
    /// What callbacks carry in their URL to prove that they are the gateway's.
    pub callback_token: Secret,
    /// Requests at the same time.
    pub window: usize,
    /// Segments a second; 0 = no limit.
    pub rate: u32,
    /// How long an answer may take, seconds.
    pub timeout_s: u64,
}

impl Default for SmsHttp {
    fn default() -> Self {
        Self {
            kind: "http".to_owned(),
            preset: String::new(),
            description: String::new(),
            base_url: String::new(),
            username: String::new(),
            password: Secret::new(String::new()),
            sender: String::new(),
            callback_token: Secret::new(String::new()),
            window: 10,
            rate: 0,
            timeout_s: 10,
        }
    }
}

impl SmsCarrier {
    /// Reads a carrier's table.
    pub(super) fn read(name: &str, table: &Table) -> Result<Self, Fault> {
        let key = format!("sms.carriers.{name}");
        let wrong = |error: toml::de::Error| {
            // The key is named by itself, so that the fault says who gave it: on the last line of
            // the error if its value is at fault, in its message if there is no such key.
            let text = error.to_string();
            let last = text.trim_end().rsplit_once("\nin `").map(|(_, key)| key.trim_matches('`'));
            let named = last.or_else(|| error.message().split('`').nth(1));
            let named = named.filter(|name| table.contains_key(*name));
            let key = named.map_or_else(|| key.clone(), |name| format!("{key}.{name}"));
            // The message names key and type, and no secret: their types are checked before.
            Fault { key, reason: plain::reason(&error) }
        };
        match table.get("kind").and_then(Value::as_str).unwrap_or_default() {
            "smpp" => {
                let smpp: Smpp = typed(table).map_err(wrong)?;
                check_smpp(&key, &smpp)?;
                Ok(Self::Smpp(Box::new(smpp)))
            }
            "http" => {
                let http: SmsHttp = typed(table).map_err(wrong)?;
                check_http(&key, &http)?;
                Ok(Self::Http(Box::new(http)))
            }
            _ => {
                let reason = "is missing or unknown: it must be smpp or http".to_owned();
                Err(Fault { key: format!("{key}.kind"), reason })
            }
        }
    }
}

fn typed<T: serde::de::DeserializeOwned>(table: &Table) -> Result<T, toml::de::Error> {
    table.clone().try_into()
}

fn check_http(key: &str, http: &SmsHttp) -> Result<(), Fault> {
    let at = |name: &str| format!("{key}.{name}");
    let known = sms_http::PRESETS;
    if http.preset.is_empty() == http.description.is_empty() {
        let reason = "must name a preset, or description a file, and not both".to_owned();
        return Err(Fault { key: at("preset"), reason });
    }
    if !http.preset.is_empty() && !known.contains(&http.preset.as_str()) {
        return Err(Fault { key: at("preset"), reason: one_of(&known) });
    }
    if !http.base_url.is_empty() {
        url(&at("base_url"), &http.base_url)?;
    }
    within(&at("window"), i64::try_from(http.window).unwrap_or(i64::MAX), 1, 1_000)?;
    within(&at("rate"), http.rate.into(), 0, 100_000)?;
    within(&at("timeout_s"), i64::try_from(http.timeout_s).unwrap_or(i64::MAX), 1, 60)
}

fn check_smpp(key: &str, smpp: &Smpp) -> Result<(), Fault> {
    let at = |name: &str| format!("{key}.{name}");
    let wrong = |name: &str, reason: &str| Fault { key: at(name), reason: reason.to_owned() };
    if smpp.host.is_empty() || smpp.host.contains([':', '/', ' ']) && !smpp.host.contains("::") {
        return Err(wrong("host", "must be a name or an address, without scheme and port"));
    }
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    within(&at("port"), smpp.port.into(), 1, 65_535)?;
    within(&at("window"), count(smpp.window), 1, 1_000)?;
    within(&at("max_binds"), count(smpp.max_binds), 1, 1_000)?;
    within(&at("binds"), count(smpp.binds), 1, count(smpp.max_binds))?;
    within(&at("rate"), smpp.rate.into(), 0, 100_000)?;
    within(&at("enquire_s"), smpp.enquire_s, 5, 600)?;
    within(&at("response_s"), smpp.response_s, 1, 60)?;
    // Carriers issue longer names than SMPP 3.4 §5.2.1 allows; 64 octets are written.
    within(&at("system_id"), count(smpp.system_id.len()), 0, 64)?;
    within(&at("password"), count(smpp.password.expose().len()), 0, 64)?;
    within(&at("system_type"), count(smpp.system_type.len()), 0, 12)?;
    within(&at("service_type"), count(smpp.service_type.len()), 0, 5)?;
    if smpp.temporary_codes.iter().any(|code| smpp.permanent_codes.contains(code)) {
        return Err(wrong("temporary_codes", "must name no code that permanent_codes names"));
    }
    if !is_sender(&smpp.sender) {
        let says = "must be empty, at most 20 digits, or a name of at most 11 ASCII characters";
        return Err(wrong("sender", says));
    }
    Ok(())
}

/// What fits into `source_addr` (SMPP 3.4 §5.2.8) or, of a name, into an address of the network
/// (3GPP TS 23.040 §9.1.2.5).
fn is_sender(sender: &str) -> bool {
    let digits = sender.trim_start_matches('+');
    let is_number = digits.len() <= 20 && digits.bytes().all(|b| b.is_ascii_digit());
    let is_letter = |b: u8| b == b' ' || b.is_ascii_graphic();
    is_number || sender.len() <= 11 && sender.bytes().all(is_letter)
}
