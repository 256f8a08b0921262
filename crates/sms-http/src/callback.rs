//! What a callback brings: receipts, and what people wrote. One may bring many.

use std::net::IpAddr;

use chrono::{DateTime, FixedOffset};
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

use crate::answer::text_of;
use crate::describe::{Gateway, InboundShape, PartsShape, ReportShape, Ucs2Shape};

/// Most items of one callback: more than fit into the largest request that is taken.
const MOST_ITEMS: usize = 100_000;
/// The longest value that is taken, characters.
const MOST_CHARS: usize = 10_000;
/// Longest id of a message, as in answers.
const MOST_ID_CHARS: usize = 255;

/// A request that came in.
#[derive(Clone, Copy)]
pub struct Incoming<'a> {
    /// The URL as the gateway was given it, with its query.
    pub url: &'a str,
    /// What is behind the question mark.
    pub query: &'a str,
    /// Names in lower case, and values.
    pub headers: &'a [(String, String)],
    /// The body.
    pub body: &'a [u8],
    /// The address that it comes from.
    pub from: Option<IpAddr>,
}

impl Incoming<'_> {
    /// A parameter of the URL.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }

    /// The octets of a parameter of the URL, which need not be text.
    fn octets(&self, name: &str) -> Option<Vec<u8>> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(known, _)| *known == name)?;
        let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let (mut octets, mut rest) = (Vec::new(), value.as_bytes());
        while let Some((first, behind)) = rest.split_first() {
            let escaped = behind.get(..2).filter(|_| *first == b'%').and_then(hex);
            octets.push(escaped.unwrap_or(if *first == b'+' { b' ' } else { *first }));
            rest = behind.get(if escaped.is_some() { 2 } else { 0 }..).unwrap_or_default();
        }
        Some(octets)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The fields of a form.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        let pairs = form_urlencoded::parse(self.body);
        pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    }

    /// All that it says as one value: JSON as it is, also where nothing says that it is some, else
    /// an object of its parameters and fields.
    fn value(&self) -> Value {
        let kind = self.header("content-type").unwrap_or_default();
        let looks_like_json = matches!(self.body.trim_ascii_start().first(), Some(b'{' | b'['));
        let may_be_json = kind.contains("json") || looks_like_json && !kind.contains("urlencoded");
        if may_be_json && let Ok(value) = serde_json::from_slice(self.body) {
            return value;
        }
        let mut all = serde_json::Map::new();
        let query = form_urlencoded::parse(self.query.as_bytes());
        for (name, value) in query {
            all.insert(name.into_owned(), Value::String(value.into_owned()));
        }
        for (name, value) in self.form() {
            all.insert(name, Value::String(value));
        }
        Value::Object(all)
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// On its way.
    Sent,
    /// It arrived.
    Delivered,
    /// It will not arrive.
    Undelivered,
    /// Its time was over.
    Expired,
    /// The gateway or the network refused it.
    Rejected,
}

/// A receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The gateway's id of the message; empty where the URL says which it is.
    pub id: String,
    /// What became of it.
    pub fate: Fate,
    /// The gateway's word for why.
    pub error: String,
}

/// What somebody wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Who.
    pub from: String,
    /// To which number or name.
    pub to: String,
    /// What.
    pub text: String,
    /// The gateway's id of it.
    pub id: String,
    /// When the gateway received it, milliseconds since 1970, where it says so.
    pub at_ms: Option<i64>,
    /// Which part of a long message it is, where it is one.
    pub part: Option<Part>,
    /// All that the gateway says of it.
    pub raw: Value,
}

/// A place in a long message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What the parts of one message share, besides who wrote to whom.
    pub reference: String,
    /// Which one it is, from 1 to `total`.
    pub number: u8,
    /// How many there are, at least 2.
    pub total: u8,
}

/// All that a callback brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Receipts.
    pub reports: Vec<Report>,
    /// Messages.
    pub written: Vec<Written>,
}

impl Gateway {
    /// Reads a callback. What says nothing that is known is left out.
    #[must_use]
    pub fn take(&self, incoming: &Incoming<'_>) -> Brought {
        let value = incoming.value();
        let reports = self.report.iter().flat_map(|shape| {
            items(&value, shape.list.as_deref()).filter_map(move |item| report(shape, item))
        });
        let written = self.inbound.iter().flat_map(|shape| {
            items(&value, shape.list.as_deref())
                .filter_map(move |item| written(shape, item, incoming))
        });
        Brought { reports: reports.collect(), written: written.collect() }
    }
}

fn items<'v>(value: &'v Value, list: Option<&str>) -> impl Iterator<Item = &'v Value> + use<'v> {
    let listed = list.and_then(|list| value.pointer(list)).and_then(Value::as_array);
    let (many, one) = match (list, listed) {
        (Some(_), Some(items)) => (items.as_slice(), None),
        (Some(_), None) => (&[][..], None),
        (None, _) => (&[][..], Some(value)),
    };
    many.iter().take(MOST_ITEMS).chain(one)
}

/// A field by its pointer, or by its name.
fn field(item: &Value, at: &str) -> Option<String> {
    let found = if at.starts_with('/') { item.pointer(at) } else { item.get(at) };
    // PostgreSQL has no text with NUL.
    let tidy = |text: String| text.replace('\0', "\u{fffd}").chars().take(MOST_CHARS).collect();
    found.map(text_of).map(tidy)
}

fn report(shape: &ReportShape, item: &Value) -> Option<Report> {
    let state = |at: &str| shape.states.get(&field(item, at)?.to_lowercase()).copied();
    let detail = shape.detail.as_deref().and_then(state);
    let fate = detail.or_else(|| state(&shape.status))?;
    let id = match &shape.id {
        // A longer one is none of ours: answers are cut there, and no database has to index it.
        Some(at) => {
            let id = field(item, at)?.trim().to_owned();
            Some(id).filter(|id| (1..=MOST_ID_CHARS).contains(&id.chars().count()))?
        }
        None => String::new(),
    };
    let error = shape.error.as_ref().and_then(|at| field(item, at)).unwrap_or_default();
    Some(Report { id, fate, error })
}

fn written(shape: &InboundShape, item: &Value, incoming: &Incoming<'_>) -> Option<Written> {
    let of = |at: &str| field(item, at).filter(|value| !value.is_empty());
    let id = shape.id.as_ref().and_then(|at| of(at)).unwrap_or_default();
    let decoded = shape.ucs2.as_ref().and_then(|shape| ucs2(shape, item, incoming));
    let media = shape.media.as_ref().and_then(|at| of(at));
    let media = media.map(|media| format!("[{}]", media.split('/').next().unwrap_or_default()));
    let text = decoded.or_else(|| of(&shape.text)).or(media);
    Some(Written {
        from: of(&shape.from)?,
        to: of(&shape.to)?,
        // One without a text is a message as well; a receipt has not even the field.
        text: text.or_else(|| field(item, &shape.text))?,
        id,
        at_ms: shape.at.as_ref().and_then(|at| instant(&of(at)?)),
        part: shape.parts.as_ref().and_then(|shape| part(shape, item)),
        raw: without_proof(item),
    })
}

/// All that the callback says of a message, but what only the gateway may know.
fn without_proof(item: &Value) -> Value {
    let mut raw = item.clone();
    if let Value::Object(members) = &mut raw {
        members.retain(|name, _| name != "token");
    }
    raw
}

/// The text behind the octets of UCS-2, where the message has such.
fn ucs2(shape: &Ucs2Shape, item: &Value, incoming: &Incoming<'_>) -> Option<String> {
    if field(item, &shape.coding)? != shape.is {
        return None;
    }
    let units: Vec<u16> = match (&shape.hex, &shape.octets) {
        (Some(hex), _) => {
            let hex = field(item, hex)?;
            let unit = |digits| u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
            hex.as_bytes().chunks(4).map(unit).collect::<Option<_>>()?
        }
        (None, Some(octets)) => {
            let octets = incoming.octets(octets)?;
            octets.as_chunks().0.iter().copied().map(u16::from_be_bytes).collect()
        }
        (None, None) => return None,
    };
    let text = String::from_utf16_lossy(&units).replace('\0', "\u{fffd}");
    Some(text.chars().take(MOST_CHARS).collect()).filter(|text: &String| !text.is_empty())
}

fn part(shape: &PartsShape, item: &Value) -> Option<Part> {
    let number = field(item, &shape.number)?.parse().ok()?;
    let total = field(item, &shape.total)?.parse().ok()?;
    let reference = field(item, &shape.reference)?;
    (total > 1 && (1..=total).contains(&number)).then_some(Part { reference, number, total })
}

/// Milliseconds since 1970.
fn instant(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<i64>() {
        return seconds.checked_mul(1_000);
    }
    let read = |text: &str| text.parse::<DateTime<FixedOffset>>().ok();
    read(text).or_else(|| read(&format!("{text}Z"))).map(|at| at.timestamp_millis())
}
