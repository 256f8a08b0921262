//! A carrier's message made fit to be kept: bounded, and without what a database refuses.

use clock::Millis;

use crate::app::App;
use crate::carriers::{Channel, Inbound};
use crate::kit::keywords::Keyword;
use crate::kit::msisdn::Msisdn;

/// Most characters of a message that are kept: more than any upstream hands over in one piece.
const MOST_CHARS: usize = 10_000;
/// Most characters of a number or name.
const MOST_ADDRESS_CHARS: usize = 64;
/// Fewest digits of an international number that is told from a short code.
const SHORTEST_NUMBER: usize = 9;
/// Most characters of a carrier's id that are kept; all of it counts for knowing it again.
const MOST_ID_CHARS: usize = 255;
/// Longest payload that is kept, bytes.
const MOST_RAW_BYTES: usize = 64 * 1024;

/// A message as it is kept.
pub(super) struct Message {
    pub(super) channel: Channel,
    pub(super) carrier: String,
    pub(super) upstream_id: String,
    /// Stands for carrier and id.
    pub(super) mac: [u8; 32],
    pub(super) sender: Address,
    pub(super) recipient: Address,
    pub(super) text: String,
    /// The payload of a button.
    pub(super) button: Option<String>,
    /// The carrier's id of the message that it answers.
    pub(super) context: Option<String>,
    pub(super) keyword: Option<Keyword>,
    pub(super) raw_json: String,
    pub(super) received_at: Millis,
}

/// Somebody who writes or is written to: a phone, or a short code or name.
pub(super) enum Address {
    Phone(Msisdn),
    Other(String),
}

impl Address {
    /// Reads what a carrier has, or what a query asks for.
    pub(super) fn read(text: &str) -> Self {
        Msisdn::parse(text).map_or_else(|_| Self::Other(other(text)), Self::Phone)
    }

    /// As stored and shown.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Phone(number) => number.e164(),
            Self::Other(text) => text,
        }
    }
}

/// A short code or name as it is. What is as long as an international number gets its `+`, also
/// where no numbering plan knows it: carriers write one number with and without.
fn other(text: &str) -> String {
    let text = text.trim();
    let digits = text.strip_prefix('+').or_else(|| text.strip_prefix("00")).unwrap_or(text);
    let is_number = (SHORTEST_NUMBER..=15).contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_number { format!("+{digits}") } else { tidy(text, MOST_ADDRESS_CHARS) }
}

impl Message {
    pub(super) fn of(app: &App, inbound: &Inbound) -> Self {
        let received_at = inbound.received_at.clamp(Millis(0), app.now());
        let raw_json = inbound.raw.to_string();
        Self {
            channel: inbound.channel,
            carrier: tidy(&inbound.carrier, MOST_ADDRESS_CHARS),
            upstream_id: tidy(&inbound.upstream_id, MOST_ID_CHARS),
            mac: mac(app, inbound),
            sender: Address::read(&inbound.sender),
            recipient: Address::read(&inbound.recipient),
            text: tidy(&inbound.text, MOST_CHARS),
            button: inbound.button.clone(),
            context: inbound.context.clone(),
            keyword: match (inbound.is_words, &inbound.button) {
                (true, None) => Keyword::in_message(&inbound.text),
                (true, Some(_)) => Keyword::on_button(&inbound.text),
                (false, _) => None,
            },
            raw_json: if raw_json.len() <= MOST_RAW_BYTES {
                raw_json
            } else {
                serde_json::json!({ "truncated": true, "bytes": raw_json.len() }).to_string()
            },
            received_at,
        }
    }
}

/// What the message is known by when it is brought again.
fn mac(app: &App, inbound: &Inbound) -> [u8; 32] {
    let Inbound { carrier, upstream_id, sender, recipient, text, received_at, .. } = inbound;
    if upstream_id.is_empty() {
        let at = received_at.0.to_string();
        return app.vault.upstream_mac(&[carrier, sender, recipient, text, &at]);
    }
    app.vault.upstream_mac(&[carrier, upstream_id])
}

/// At most so many characters, without NUL, which PostgreSQL has no text for.
fn tidy(text: &str, most_chars: usize) -> String {
    let letters = text.chars().take(most_chars);
    letters
        .map(|letter| if letter == '\0' { char::REPLACEMENT_CHARACTER } else { letter })
        .collect()
}
