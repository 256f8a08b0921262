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
use endpoints::ToSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::credits;
use crate::kit::id::{AccountId, AttemptId, ConsentId, MessageId};
use crate::kit::words::words;

pub use decide::Chatapp;
pub(super) use parse::DEFAULT_LANGUAGE;
pub use parse::template_language;
pub use sent::sent_to;
pub use view::show;

/// How long a message may wait for its carrier, and for the first receipt, milliseconds.
const VALIDITY_MS: i64 = DAY;

words! {
    /// Where a message stands: `submitted` (no carrier has said that it has it), `sent` (the
    /// carrier has it), `delivered`, `read`, `failed`.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = ChatappStatus)]
    pub(super) enum Status {
        Submitted = "submitted",
        Sent = "sent",
        Delivered = "delivered",
        Read = "read",
        Failed = "failed",
    }
}

impl Status {
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

words! {
    /// How a message is paid.
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = ChatappBillingMode)]
    pub enum BillingMode {
        /// The price of its country and category.
        Direct = "direct",
        /// Nothing, within an active session.
        Session = "session",
    }
}

words! {
    /// What the price of a message is of.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = ChatappBillingKind)]
    pub(super) enum BillingKind {
        Session = "session",
        Service = "service",
        Utility = "utility",
        Marketing = "marketing",
        Authentication = "authentication",
    }
}

words! {
    /// Why a message did not arrive; `detail` says each in a sentence.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = ChatappErrorCode)]
    pub(super) enum Cause {
        RecipientUnreachable = "recipient_unreachable",
        CarrierRejected = "carrier_rejected",
        Undelivered = "undelivered",
        NotSubmitted = "not_submitted",
        NoReceipt = "no_receipt",
        Erased = "erased",
        MessagingWindowClosed = "messaging_window_closed",
        RecipientOptedOut = "recipient_opted_out",
        TemplateNotApproved = "template_not_approved",
    }
}

impl Cause {
    const fn sentence(self) -> &'static str {
        match self {
            Self::RecipientUnreachable => "The recipient cannot be reached on the chat-app.",
            Self::CarrierRejected => "The chat-app rejected the message.",
            Self::Undelivered => "The chat-app could not deliver the message.",
            Self::NotSubmitted => "The chat-app did not take the message within a day.",
            Self::NoReceipt => "Nobody said within a day whether the chat-app has the message.",
            Self::Erased => "The recipient asked to be forgotten while the message was under way.",
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
    fn of(app: &App, message: &Message) -> Option<Self> {
        let place = ["chatapp_messages", message.account.as_str(), message.id.as_str()];
        let json = app.vault.open(&place, message.content_sealed.as_ref()?)?;
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
    #[error("{detail}")]
    Params {
        /// The field of the request.
        pointer: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// The recipient wrote nothing within a day.
    #[error("The recipient has not written within the last 24 hours: send an approved template")]
    WindowClosed,
    /// The account has no active session with the recipient.
    #[error("The account has no active session with this recipient: send with `direct`")]
    NoActiveSession,
    /// There is no carrier for the chat-app.
    #[error(
        "No carrier is configured for the chat-app: nothing was sent or charged. Ask the operator \
         to configure one"
    )]
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
