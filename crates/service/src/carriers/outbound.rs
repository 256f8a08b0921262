//! A message on its way out, as a carrier gets it.

use std::sync::Arc;

use clock::Millis;
use serde_json::Value;

use super::Priority;
use crate::kit::msisdn::Msisdn;
use crate::kit::secret::Secret;

/// The shortest piece of a text that is told from chance, characters: as long as the shortest code.
const SHORTEST_QUOTE: usize = 4;

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A phone, by SMS or chat-app.
    Phone(Msisdn),
    /// A mailbox.
    Email(email::Address),
}

impl Address {
    /// The number, of a phone.
    #[must_use]
    pub fn phone(&self) -> Option<&Msisdn> {
        match self {
            Self::Phone(number) => Some(number),
            Self::Email(_) => None,
        }
    }

    /// The number or the address itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Phone(number) => number.e164(),
            Self::Email(address) => address.as_str(),
        }
    }

    /// The country that a price is for; empty where there is none.
    #[must_use]
    pub fn country(&self) -> &str {
        self.phone().map_or("", Msisdn::country)
    }
}

/// What a message says.
#[derive(Clone)]
pub enum Content {
    /// A passcode.
    Passcode {
        /// The text of an SMS, or the text that the chat-app template stands for.
        text: Secret,
        /// The code inside, for templates that take it as a parameter.
        code: Secret,
        /// Template and language; empty = the deployment's own.
        template: Template,
    },
    /// An approved template of the chat-app, filled in.
    Template {
        /// What a phone shows.
        text: Secret,
        /// Which one.
        template: Template,
        /// What its variables stand for, in order.
        params: Vec<Secret>,
        /// Parts as the upstream writes them, in the place of what `params` would make.
        components: Vec<Value>,
        /// The quick replies under it.
        replies: Vec<QuickReply>,
    },
    /// A question with buttons, to somebody whose window on the chat-app is open.
    Question {
        /// What a phone shows.
        text: Secret,
        /// What it can be answered with.
        replies: Vec<QuickReply>,
    },
    /// A text of the customer's own.
    Text {
        /// All of it.
        text: Secret,
        /// Parts that an SMS of it has; a carrier's rate counts them.
        parts: u32,
    },
    /// An email.
    Email(Mail),
}

/// An email as one recipient gets it.
#[derive(Clone)]
pub struct Mail {
    /// Where reports of it go: the envelope's sender.
    pub return_path: String,
    /// Header fields in front of all others that are this copy's own.
    pub front: Vec<u8>,
    /// The message (RFC 5322), shared by all copies.
    pub message: Arc<Vec<u8>>,
}

impl Content {
    /// What a phone shows; emails go to none.
    #[must_use]
    pub fn text(&self) -> Option<&Secret> {
        match self {
            Self::Passcode { text, .. }
            | Self::Template { text, .. }
            | Self::Question { text, .. }
            | Self::Text { text, .. } => Some(text),
            Self::Email(_) => None,
        }
    }

    /// Parts that count for a carrier's rate.
    #[must_use]
    pub fn parts(&self) -> u32 {
        match self {
            Self::Passcode { .. }
            | Self::Template { .. }
            | Self::Question { .. }
            | Self::Email(_) => 1,
            Self::Text { parts, .. } => (*parts).max(1),
        }
    }
}

/// A button that sends something back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuickReply {
    /// What is written on it.
    pub label: String,
    /// What comes back with a tap; empty = only what is written on it.
    pub payload: String,
}

/// One message on its way out. No `Debug`: it holds a code.
#[derive(Clone)]
pub struct Outbound {
    /// Whose message it is: receipts come back to this account.
    pub account_id: String,
    /// Our own id of this submission, echoed by carriers that can.
    pub attempt_id: String,
    /// The recipient.
    pub to: Address,
    /// The sender as the recipient sees it; empty = the carrier's own.
    pub sender: String,
    /// What it says.
    pub content: Content,
    /// Until when the carrier may try.
    pub valid_until: Millis,
    /// What goes before it, and after.
    pub priority: Priority,
}

impl Outbound {
    /// Whether a carrier's word repeats something of the text, such as its code.
    #[must_use]
    pub fn quotes(&self, word: &str) -> bool {
        let text = self.content.text().map_or("", Secret::expose);
        let mut pieces = word.split(|letter: char| !letter.is_ascii_alphanumeric());
        pieces.any(|piece| piece.len() >= SHORTEST_QUOTE && text.contains(piece))
    }
}

/// A chat-app template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Its name; empty = the deployment's authentication template.
    pub name: String,
    /// Its language.
    pub language: String,
}
