//! What a callback brings: receipts, and what people wrote. One may bring many.

use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

use crate::answer::text_of;
use crate::describe::{Gateway, InboundShape, ReportShape};

/// Most items of one callback.
const MOST_ITEMS: usize = 1_000;
/// The longest value that is taken, characters.
const MOST_CHARS: usize = 10_000;

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
}

impl Incoming<'_> {
    /// A parameter of the URL.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
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

    /// All that it says as one value: JSON as it is, else an object of its parameters and fields.
    fn value(&self) -> Value {
        let is_json = self.header("content-type").is_some_and(|kind| kind.contains("json"));
        if is_json && let Ok(value) = serde_json::from_slice(self.body) {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Who.
    pub from: String,
    /// To which number or name.
    pub to: String,
    /// What.
    pub text: String,
    /// The gateway's id of it.
    pub id: String,
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
            items(&value, shape.list.as_deref()).filter_map(move |item| written(shape, item))
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
    let tidy = |text: String| text.chars().filter(|it| *it != '\0').take(MOST_CHARS).collect();
    found.map(text_of).map(tidy)
}

fn report(shape: &ReportShape, item: &Value) -> Option<Report> {
    let status = field(item, &shape.status)?.to_lowercase();
    let fate = *shape.states.get(&status)?;
    let id = match &shape.id {
        Some(at) => field(item, at).filter(|id| !id.is_empty())?,
        None => String::new(),
    };
    let error = shape.error.as_ref().and_then(|at| field(item, at)).unwrap_or_default();
    Some(Report { id, fate, error })
}

fn written(shape: &InboundShape, item: &Value) -> Option<Written> {
    let of = |at: &str| field(item, at).filter(|value| !value.is_empty());
    let id = shape.id.as_ref().and_then(|at| of(at)).unwrap_or_default();
    Some(Written { from: of(&shape.from)?, to: of(&shape.to)?, text: of(&shape.text)?, id })
}
