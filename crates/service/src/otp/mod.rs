//! Rank 8: one-time passcodes, the service's main job. A challenge is sent by chat-app or SMS, may
//! fall back from the one to the other with the same code, and is verified at most once.
//!
//! A challenge has one current attempt. `send` commits the challenge, its attempt and the hold on
//! the price together, and lets `dispatch` carry it. Whatever becomes of it, in the request, by a
//! receipt or in due work (`due`), ends in the same decisions (`owner`), so a crash at any point
//! is just a later visit to the same code.

pub mod api;
mod code;
mod due;
mod events;
pub mod fraud;
mod late;
mod limits;
mod list;
mod order;
mod owner;
mod parse;
mod problems;
mod reports;
pub mod retention;
mod send;
mod sender;
mod sent;
mod store;
mod verify;
mod view;
mod wording;

use std::str::FromStr;

use ::store::{FromVal, Val};
use clock::Millis;

use crate::carriers::Channel;
use crate::credits;
use crate::dispatch::{Attempt, STALE};
use crate::kit::described::described;
use crate::kit::id::{AccountId, AttemptId, ChallengeId};
use crate::kit::seal::text::SealedText;
use crate::kit::words::{UnknownWord, words};
use crate::senders::Unusable;

pub use due::{oldest_due, run, run_due};
pub use owner::Otp;
pub use reports::report;
pub use sent::sent_to;
pub use view::show;

words! {
    /// Where a challenge stands.
    pub enum Status {
        /// On its way.
        Sent = "sent",
        /// A receipt says that it arrived.
        Delivered = "delivered",
        /// The right code was given.
        Verified = "verified",
        /// Its time is over.
        Expired = "expired",
        /// It could not be delivered, or all guesses are used up.
        Failed = "failed",
    }
}

impl Status {
    const fn is_open(self) -> bool {
        matches!(self, Self::Sent | Self::Delivered)
    }
}

described!(
    Status as "OtpStatus": "Where a challenge stands.",
    Self::ALL.iter().map(|word| word.as_str())
);

/// Which channels may carry a passcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The chat-app, then SMS with the same code.
    Auto,
    /// This channel only.
    Only(Channel),
}

impl Mode {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Only(channel) => channel.as_str(),
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        if word == "auto" { Ok(Self::Auto) } else { word.parse().map(Self::Only) }
    }
}

impl FromVal for Mode {
    fn from_val(value: Val) -> Option<Self> {
        value.text()?.parse().ok()
    }
}

words! {
    /// Why a challenge failed.
    pub enum Reason {
        /// The recipient cannot be reached on any channel that was asked for.
        Unreachable = "unreachable",
        /// A receipt said no, or nobody said anything in time.
        Undelivered = "undelivered",
        /// The carrier failed for reasons that are not the recipient's.
        CarrierError = "carrier_error",
        /// The account could not pay the SMS that would have followed.
        InsufficientCredits = "insufficient_credits",
        /// All guesses are used up.
        AttemptsExhausted = "attempts_exhausted",
        /// The recipient says that they did not ask for it.
        ReportedByUser = "reported_by_user",
        /// The recipient asked to be forgotten.
        Erased = "erased",
    }
}

impl Reason {
    /// What a send that ends so is answered with; `None` = the challenge as it stands.
    const fn refusal(self) -> Option<Error> {
        match self {
            Self::Unreachable => Some(Error::Unreachable),
            Self::CarrierError => Some(Error::CarrierFailed),
            Self::InsufficientCredits => Some(Error::CreditsRanOut),
            Self::Undelivered | Self::AttemptsExhausted | Self::ReportedByUser | Self::Erased => {
                None
            }
        }
    }
}

described!(
    Reason as "OtpFailureReason": "Why a challenge failed.",
    Self::ALL.iter().map(|word| word.as_str())
);

/// A challenge as stored.
#[derive(Clone, Debug)]
pub struct Challenge {
    account: AccountId,
    id: ChallengeId,
    recipient: String,
    reference: Option<String>,
    mode: Mode,
    channel: Channel,
    status: Status,
    failure_reason: Option<Reason>,
    attempt: AttemptId,
    provider_message_id: String,
    attempts: i64,
    max_attempts: i64,
    fallback_used: bool,
    fallback: Fallback,
    settled: bool,
    wording: String,
    /// Whether the person is asked for a messaging session once it is delivered.
    asks_consent: bool,
    expires_at: Millis,
    verified_at: Option<Millis>,
    created_at: Millis,
    code: Option<SealedText>,
}

impl Challenge {
    /// Whether the code can still be verified.
    fn is_open(&self, now: Millis) -> bool {
        self.status.is_open() && now < self.expires_at
    }

    /// Its status as shown: expiry is a fact of time, not of a sweep.
    fn shown_status(&self, now: Millis) -> Status {
        if self.status.is_open() && now >= self.expires_at { Status::Expired } else { self.status }
    }

    /// The same with another attempt in the place of the current one.
    fn carried_by(&self, attempt: &Attempt, fallback_used: bool) -> Self {
        Self {
            attempt: attempt.id.clone(),
            provider_message_id: attempt.id.as_str().to_owned(),
            channel: attempt.channel,
            fallback_used,
            settled: false,
            ..self.clone()
        }
    }

    /// The same, verified.
    fn verified_at(self, now: Millis) -> Self {
        Self { status: Status::Verified, verified_at: Some(now), code: None, ..self }
    }

    /// Whether SMS takes over when the chat-app does not deliver.
    fn falls_back(&self) -> bool {
        self.mode == Mode::Auto && self.channel == Channel::Chatapp
    }
}

/// How long the chat-app has before SMS takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fallback {
    /// As it is stored: milliseconds, below 0 where the node that made the challenge had no SMS.
    stored_ms: i64,
}

impl Fallback {
    const fn new(after_ms: i64, has_sms: bool) -> Self {
        Self { stored_ms: if has_sms { after_ms } else { -after_ms } }
    }

    const fn after_ms(self) -> i64 {
        self.stored_ms.abs()
    }

    /// Whether there was SMS to fall back to when the challenge was made.
    const fn is_promised(self) -> bool {
        self.stored_ms > 0
    }
}

fn guesses(left: i64) -> String {
    if left == 1 { "1 guess is".to_owned() } else { format!("{left} guesses are") }
}

/// Why a passcode was not sent or not verified, in sentences for whoever called: what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The account's list does not have the recipient's country.
    #[error("The account may not send to {0}: ask the operator to open the country.")]
    CountryNotAllowed(String),
    /// Too few of the passcodes to this country or range of numbers are verified.
    #[error(
        "Too few of the passcodes to {0} are verified: report those that are verified elsewhere, \
         or ask the operator to open it."
    )]
    FraudBlocked(String),
    /// The sender is not one of the account's approved ones.
    #[error("`sms_sender`{0}. It may be left out.")]
    SenderNotApproved(Unusable),
    /// The recipient was sent one a moment ago, whatever came of it.
    #[error(
        "Wait {wait_s} s before sending to this recipient on this channel again; a send that was \
         refused counts, too. A passcode that arrived stays good."
    )]
    ResendTooSoon {
        /// Seconds to wait.
        wait_s: i64,
    },
    /// The recipient got too many passcodes lately.
    #[error("This recipient has been sent too many passcodes recently. Wait {wait_s} s.")]
    RecipientLimit {
        /// Seconds to wait.
        wait_s: i64,
    },
    /// Too many wrong codes were tried for the recipient.
    #[error(
        "Too many wrong codes were tried for this recipient, so its passcodes are an hour apart. \
         Wait {wait_s} s."
    )]
    GuessLimit {
        /// Seconds to wait.
        wait_s: i64,
    },
    /// All requested channels refused.
    #[error(
        "All requested channels refused this recipient. Check the number, or allow another \
         channel."
    )]
    Unreachable,
    /// The carrier failed for reasons that are not the recipient's.
    #[error(
        "The carrier did not take the message, and nothing was charged. Try again later; if that \
         does not help, ask the operator."
    )]
    CarrierFailed,
    /// No carrier of a channel that was asked for leads to the number.
    #[error("{0}. Ask the operator, or use another channel.")]
    NoCarrier(&'static str),
    /// No node is connected to a carrier of SMS that leads to the number.
    #[error(
        "The SMS carrier for this number is out of reach at the moment. Nothing was sent or \
         charged. Repeat the request."
    )]
    OutOfReach,
    /// No such challenge of this account.
    #[error(
        "No challenge matches. Check `challenge_id`, `reference` and `to`, which must agree where \
         several are given."
    )]
    Unknown,
    /// Its time is over.
    #[error("The passcode is no longer valid. Send a new one.")]
    Expired {
        /// The challenge.
        challenge: ChallengeId,
    },
    /// All guesses are used up.
    #[error("The challenge takes no more guesses, not even the right code. Send a new passcode.")]
    Exhausted {
        /// The challenge.
        challenge: ChallengeId,
        /// Guesses so far.
        attempts: i64,
        /// Guesses allowed.
        max_attempts: i64,
    },
    /// It was verified before.
    #[error("A passcode works once. Treat the earlier verification as the one that counts.")]
    AlreadyVerified,
    /// It failed before it could be verified.
    #[error(
        "The passcode was not delivered ({}), so no code verifies it. Send a new one.",
        reason.as_str()
    )]
    Failed {
        /// The challenge.
        challenge: ChallengeId,
        /// Why.
        reason: Reason,
    },
    /// A wrong guess.
    #[error("Ask the person to type the code again; {} left.", guesses(max_attempts - attempts))]
    WrongCode {
        /// The challenge.
        challenge: ChallengeId,
        /// Where it stands now.
        status: Status,
        /// Guesses so far.
        attempts: i64,
        /// Guesses allowed.
        max_attempts: i64,
    },
    /// The credits did not suffice for the SMS.
    #[error(
        "The chat-app did not reach the recipient, and the account has too few credits for the SMS \
         fallback. Nothing was charged. Top up, then send again."
    )]
    CreditsRanOut,
    /// The first request with this `Idempotency-Key` is still running.
    #[error("The first request is being carried out. Repeat this one in a second.")]
    InProgress,
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
