//! What a gateway's answer means.

use serde::Deserialize;
use serde_json::Value;

use crate::describe::{Finder, Gateway, Rule};

/// The longest id or code that is taken.
const MOST: usize = 255;
/// Most parts of a message that are looked at.
const MOST_PARTS: usize = 20;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// It was taken.
    Accepted,
    /// Too fast: later.
    Throttled,
    /// Enough for now from this sender, or to this number; others go.
    Later,
    /// Later.
    Temporary,
    /// Not to this number.
    BadRecipient,
    /// Not from this sender.
    BadSender,
    /// No word on the message: the gateway does not know us, or has nothing at this address. It is
    /// for the operator to mend, and another carrier may take the message.
    Unfit,
    /// Never.
    Permanent,
    /// Nobody can tell.
    Unknown,
}

/// An answer, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What became of it.
    pub meaning: Meaning,
    /// The gateway's ids, one for each part that it tells of.
    pub ids: Vec<String>,
    /// Its own word for what went wrong.
    pub code: String,
}

impl Gateway {
    /// Reads an answer.
    #[must_use]
    pub fn read(&self, status: u16, body: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(body);
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let shape = &self.answer;
        let none = Value::Null;
        let listed =
            shape.list.as_ref().and_then(|list| json.pointer(list)).and_then(Value::as_array);
        let parts: Vec<&Value> = match (&shape.list, listed) {
            (Some(_), Some(parts)) if !parts.is_empty() => parts.iter().take(MOST_PARTS).collect(),
            (Some(_), _) => vec![&none],
            (None, _) => vec![&json],
        };
        let judged = parts.iter().map(|part| self.judge(status, &text, part, &json));
        // The first that was not taken decides: the phone would get no more than a piece.
        let worst = judged.clone().position(|meaning| meaning != Meaning::Accepted);
        let at = worst.unwrap_or(0);
        let meaning = judged.clone().nth(at).unwrap_or(Meaning::Unknown);
        let part = parts.get(at).copied().unwrap_or(&none);
        let found = |finder: &Option<Finder>, part: &Value| {
            let found = finder.as_ref().and_then(|finder| finder.find(&text, part, &json));
            let found = found.unwrap_or_default();
            found.chars().filter(|it| *it != '\0').take(MOST).collect::<String>()
        };
        let ids: Vec<String> = parts.iter().map(|part| found(&shape.id, part)).collect();
        // A yes without the id that a gateway always gives is somebody else's: a proxy's page.
        let is_strange = shape.id.is_some() && ids.iter().any(String::is_empty);
        let meaning = match meaning {
            Meaning::Accepted if is_strange => Meaning::Unknown,
            meaning => meaning,
        };
        let ids = if meaning == Meaning::Accepted { ids } else { Vec::new() };
        let code = found(&shape.code, part);
        let code = if code.is_empty() { format!("http {status}") } else { code };
        Answer { meaning, ids, code }
    }

    fn judge(&self, status: u16, text: &str, part: &Value, whole: &Value) -> Meaning {
        let rule = self.answer.rules.iter().find(|rule| rule.fits(status, text, part, whole));
        rule.map_or_else(|| by_status(status), |rule| rule.is)
    }
}

/// What a status means where no rule says more. After a 5xx, and a 408 of something in between,
/// nobody knows whether it was taken; a login, an address or a balance that is refused says nothing
/// of the message.
const fn by_status(status: u16) -> Meaning {
    match status {
        200..=299 => Meaning::Accepted,
        300..=399 | 401..=405 | 407 => Meaning::Unfit,
        429 => Meaning::Throttled,
        503 => Meaning::Temporary,
        408 | 500..=599 => Meaning::Unknown,
        _ => Meaning::Permanent,
    }
}

impl Rule {
    fn fits(&self, status: u16, text: &str, part: &Value, whole: &Value) -> bool {
        let is_status = self.status.is_none_or(|[from, to]| (from..=to).contains(&status));
        let begins = self.begins.as_ref().is_none_or(|begin| text.trim_start().starts_with(begin));
        let is_value = self.at.as_ref().is_none_or(|at| {
            let value = part.pointer(at).or(whole.pointer(at)).map(text_of);
            value.is_some_and(|value| self.values.is_empty() || self.values.contains(&value))
        });
        is_status && begins && is_value
    }
}

impl Finder {
    fn find(&self, text: &str, part: &Value, whole: &Value) -> Option<String> {
        match self {
            Self::At(pointer) => {
                let value = part.pointer(pointer).or(whole.pointer(pointer))?;
                Some(text_of(value).trim().to_owned())
            }
            Self::Between([before, after]) => {
                let (_, rest) = text.split_once(before.as_str())?;
                let end = if after.is_empty() { None } else { rest.find(after.as_str()) };
                let found = rest.get(..end.unwrap_or(rest.len()))?;
                Some(found.trim().to_owned())
            }
        }
    }
}

/// A value as a text, whatever it is in JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
