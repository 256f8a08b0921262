//! Messages over the chat-app: a text while the recipient's window is open, or an approved template
//! at any time. A message is stored, answered, and carried by `dispatch`. What becomes of it
//! (`decide`) moves its status upwards and is told by `chatapp.status`, in one write set with the
//! money. One of unknown fate is never sent again.
//!
//! What it says is kept sealed, and only while it may have to be sent.

pub mod api;
pub(super) mod decide;
mod parse;
mod send;
mod sent;
pub(super) mod store;
mod view;

use clock::{DAY, Millis};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::credits;
use crate::kit::id::{AccountId, AttemptId, ConsentId, MessageId};

pub use decide::Chatapp;
pub(super) use parse::{DEFAULT_LANGUAGE, language as read_language};
pub use sent::sent_to;
pub use view::show;

/// How long a message may wait for its carrier, and for the first receipt, milliseconds.
const VALIDITY_MS: i64 = DAY;

/// Where a message stands: `submitted` (no carrier has said that it has it), `sent` (the carrier
/// has it), `delivered`, `read`, `failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChatappStatus)]
pub(super) enum Status {
    Submitted,
    Sent,
    Delivered,
    Read,
    Failed,
}

impl Status {
    const ALL: [Self; 5] = [Self::Submitted, Self::Sent, Self::Delivered, Self::Read, Self::Failed];

    /// As stored and shown.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Read => "read",
            Self::Failed => "failed",
        }
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// A message only ever moves to a higher one. What failed was given back, and stays so.
    const fn rank(self) -> u8 {
        match self {
            Self::Submitted => 0,
            Self::Sent => 1,
            Self::Delivered => 2,
            Self::Read => 3,
            Self::Failed => 4,
        }
    }
}

/// How a message is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChatappBillingMode)]
pub enum BillingMode {
    /// The price of its country and category.
    Direct,
    /// Nothing, within an active session.
    Session,
}

impl BillingMode {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Session => "session",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::Direct, Self::Session].into_iter().find(|mode| mode.as_str() == word)
    }
}

/// What the price of a message is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChatappBillingKind)]
pub(super) enum BillingKind {
    Session,
    Service,
    Utility,
    Marketing,
    Authentication,
}

impl BillingKind {
    const ALL: [Self; 5] =
        [Self::Session, Self::Service, Self::Utility, Self::Marketing, Self::Authentication];

    /// As stored and shown, and the category of prices.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Service => "service",
            Self::Utility => "utility",
            Self::Marketing => "marketing",
            Self::Authentication => "authentication",
        }
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Why a message did not arrive; `detail` says each in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChatappErrorCode)]
pub(super) enum Cause {
    RecipientUnreachable,
    CarrierRejected,
    Undelivered,
    NotSubmitted,
    NoReceipt,
    Erased,
    MessagingWindowClosed,
    RecipientOptedOut,
    TemplateNotApproved,
}

impl Cause {
    const ALL: [Self; 9] = [
        Self::MessagingWindowClosed,
        Self::RecipientOptedOut,
        Self::TemplateNotApproved,
        Self::RecipientUnreachable,
        Self::CarrierRejected,
        Self::Undelivered,
        Self::NotSubmitted,
        Self::NoReceipt,
        Self::Erased,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::RecipientUnreachable => "recipient_unreachable",
            Self::CarrierRejected => "carrier_rejected",
            Self::Undelivered => "undelivered",
            Self::NotSubmitted => "not_submitted",
            Self::NoReceipt => "no_receipt",
            Self::Erased => "erased",
            Self::MessagingWindowClosed => "messaging_window_closed",
            Self::RecipientOptedOut => "recipient_opted_out",
            Self::TemplateNotApproved => "template_not_approved",
        }
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::RecipientUnreachable => "The recipient cannot be reached on the chat-app.",
            Self::CarrierRejected => "The chat-app rejected the message.",
            Self::Undelivered => "The chat-app could not deliver the message.",
            Self::NotSubmitted => "The chat-app did not take the message within a day.",
            Self::NoReceipt => "Nobody said within a day whether the chat-app has the message.",
            Self::Erased => "The recipient asked to be forgotten before the message was sent.",
            Self::MessagingWindowClosed => "The recipient's window was closed when it was sent.",
            Self::RecipientOptedOut => "The recipient wants no more messages of this sender.",
            Self::TemplateNotApproved => "The chat-app does not send this template now.",
        }
    }
}

/// A message as stored. What it says is in it only sealed.
#[derive(Clone, Debug)]
pub struct Message {
    account: AccountId,
    id: MessageId,
    recipient: String,
    country: String,
    reference: Option<String>,
    client_id: Option<String>,
    billing_mode: BillingMode,
    billing_kind: BillingKind,
    template: Option<String>,
    language: Option<String>,
    content_sealed: Option<Vec<u8>>,
    charged_credits: i64,
    session: Option<ConsentId>,
    pub(super) attempt: AttemptId,
    status: Status,
    cause: Option<Cause>,
    carrier_code: Option<String>,
    event_count: i64,
    valid_until: Millis,
    created_at: Millis,
    updated_at: Millis,
}

/// What a message says, as it is sealed. No `Debug`: it holds what somebody is told.
#[derive(Clone, Serialize, Deserialize)]
struct Said {
    /// What a phone shows.
    text: String,
    /// What fills a template, in order.
    params: Vec<String>,
    /// The parts of a template that the request wrote itself.
    components: Vec<serde_json::Value>,
    /// What is written on a template's quick replies.
    replies: Vec<String>,
}

impl Said {
    fn seal(&self, app: &App, account: &AccountId, id: &MessageId) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        app.vault.seal(&["chatapp_messages", account.as_str(), id.as_str()], &json)
    }

    /// What a message says, while it is kept.
    fn of(app: &App, m: &Message) -> Option<Self> {
        let place = ["chatapp_messages", m.account.as_str(), m.id.as_str()];
        let json = app.vault.open(&place, m.content_sealed.as_ref()?)?;
        serde_json::from_slice(&json).ok()
    }
}

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The account's list does not have the recipient's country.
    #[error("The account may not send to {0}: ask the operator to open the country")]
    CountryNotAllowed(String),
    /// The recipient said STOP to this account.
    #[error("This person answered STOP: only passcodes reach them until they answer START")]
    OptedOut,
    /// There is no such template, or it is not approved.
    #[error("{0}")]
    TemplateNotApproved(String),
    /// What is to fill the template does not fit.
    #[error("{0}")]
    Params(String),
    /// The recipient wrote nothing within a day.
    #[error("The recipient has not written within the last 24 hours: send an approved template")]
    WindowClosed,
    /// The account has no active session with the recipient.
    #[error("The account has no active session with this recipient: send with `direct`")]
    NoActiveSession,
    /// There is no carrier for the chat-app.
    #[error("No carrier is configured for the chat-app: nothing was sent or charged")]
    NoCarrier,
    /// No such message of this account.
    #[error("The id is unknown, or belongs to another account")]
    Unknown,
    /// Credits.
    #[error(transparent)]
    Credits(#[from] credits::Error),
    /// Storage.
    #[error(transparent)]
    Db(#[from] ::store::Error),
    /// Storage.
    #[error(transparent)]
    Commit(#[from] ::store::CommitError),
}
