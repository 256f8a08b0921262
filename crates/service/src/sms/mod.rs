//! Rank 8: SMS messages. A message is stored, answered, and then carried by `dispatch`: the request
//! waits for no carrier. What becomes of it (`decide`) moves its status and is told by
//! `sms.delivery`, in one write set with the money.
//!
//! What it says is kept sealed, and only while it may have to be sent.

pub mod api;
mod decide;
mod parse;
pub mod retention;
mod send;
mod sent;
mod store;
mod view;

use clock::{DAY, Millis};
use endpoints::ToSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::carriers::Priority;
use crate::credits;
use crate::kit::id::{AccountId, AttemptId, SmsId};
use crate::kit::seal::text::SealedText;
use crate::kit::secret::Secret;
use crate::kit::words::words;

pub use decide::Sms;
pub use sent::sent_to;
pub use view::show;

/// How long a message may take to arrive where a request does not say, seconds.
const VALIDITY_S: i64 = DAY / 1_000;
/// The shortest and longest that a request may say, seconds. Carriers' receipts that come early are
/// kept for the longest.
const VALIDITY_BOUNDS_S: (i64, i64) = (60, 3 * DAY / 1_000);

words! {
    /// Where a message stands: `queued` (no carrier has it yet), `submitted` (a carrier has it, or
    /// may have it), `delivered`, `undelivered` (the network could not deliver it to the phone),
    /// `failed` (no carrier took it), `expired` (its validity ended without news of its delivery).
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = SmsStatus)]
    enum Status {
        Queued = "queued",
        Submitted = "submitted",
        Delivered = "delivered",
        Undelivered = "undelivered",
        Failed = "failed",
        Expired = "expired",
    }
}

words! {
    /// What a message is for: the transactional go first, and once more after an unclear answer.
    #[derive(Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = SmsClass)]
    pub enum Class {
        /// Somebody waits for it.
        Transactional = "transactional",
        /// A campaign.
        Bulk = "bulk",
    }
}

impl Class {
    const fn priority(self) -> Priority {
        match self {
            Self::Transactional => Priority::Transactional,
            Self::Bulk => Priority::Bulk,
        }
    }
}

words! {
    /// Why a message did not arrive; `detail` says each in a sentence.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = SmsErrorCode)]
    enum Cause {
        RecipientUnreachable = "recipient_unreachable",
        SenderRefused = "sender_refused",
        CarrierRejected = "carrier_rejected",
        Undelivered = "undelivered",
        ValidityEnded = "validity_ended",
        NotSubmitted = "not_submitted",
        NoReceipt = "no_receipt",
        RecipientOptedOut = "recipient_opted_out",
        Erased = "erased",
    }
}

impl Cause {
    const fn sentence(self) -> &'static str {
        match self {
            Self::RecipientUnreachable => "The carrier cannot reach this number.",
            Self::SenderRefused => "The carrier does not accept this sender.",
            Self::CarrierRejected => "The carrier rejected the message.",
            Self::Undelivered => "The network could not deliver the message.",
            Self::ValidityEnded => "The network did not deliver the message within its validity.",
            Self::NotSubmitted => "No carrier took the message within its validity.",
            Self::NoReceipt => "No receipt said what became of the message within its validity.",
            Self::RecipientOptedOut => "The recipient asked for silence while the message waited.",
            Self::Erased => "The recipient asked to be forgotten while the message was under way.",
        }
    }
}

words! {
    /// The alphabet that a text needs: `gsm7` (160 characters in one segment, 153 in each of
    /// several) or `ucs2` (70 and 67).
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = SmsEncoding)]
    enum Encoding {
        Gsm7 = "gsm7",
        Ucs2 = "ucs2",
    }
}

impl From<sms_text::Encoding> for Encoding {
    fn from(encoding: sms_text::Encoding) -> Self {
        match encoding {
            sms_text::Encoding::Gsm7 => Self::Gsm7,
            sms_text::Encoding::Ucs2 => Self::Ucs2,
        }
    }
}

/// A message as stored.
#[derive(Clone, Debug)]
pub struct Message {
    account: AccountId,
    id: SmsId,
    recipient: String,
    reference: Option<String>,
    sender: String,
    text: Option<SealedText>,
    class: Class,
    encoding: Encoding,
    segments: i64,
    charged_credits: i64,
    attempt: AttemptId,
    status: Status,
    cause: Option<Cause>,
    carrier_code: Option<String>,
    event_count: i64,
    valid_until: Millis,
    created_at: Millis,
    updated_at: Millis,
}

/// What a message says, sealed for its place.
fn seal(app: &App, account: &AccountId, id: &SmsId, text: &str) -> SealedText {
    SealedText::new(&app.vault, &place(account, id), Secret::new(text.to_owned()))
}

/// What a message says, while it is kept.
fn text_of(app: &App, message: &Message) -> Option<Secret> {
    message.text.as_ref()?.open(&app.vault, &place(&message.account, &message.id))
}

fn place<'a>(account: &'a AccountId, id: &'a SmsId) -> [&'a str; 3] {
    ["sms_messages", account.as_str(), id.as_str()]
}

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The account's list does not have the recipient's country.
    #[error("The account may not send to {0}: ask the operator to open the country")]
    CountryNotAllowed(String),
    /// The sender is not one of the account's approved ones, or there is none.
    #[error("{0}")]
    SenderNotApproved(String),
    /// The recipient said STOP to this account.
    #[error("This person answered STOP: only passcodes reach them until they answer START")]
    OptedOut,
    /// No carrier leads to the number.
    #[error(
        "No SMS carrier serves this number: nothing was sent or charged. Ask the operator to \
         configure one"
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
