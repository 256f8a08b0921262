//! Why a carrier does not take a message, or its network does not deliver it.

use std::str::FromStr;

use crate::kit::words::UnknownWord;

/// Kinds of refusal, by what to do about them. A carrier knows what its own codes mean; nobody
/// above it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This recipient cannot be reached on this channel, now or ever.
    Unreachable,
    /// There is no such recipient.
    BadRecipient,
    /// The sender is not one that may be used.
    BadSender,
    /// The carrier asks to slow down: the same submission may go again later.
    Throttled {
        /// How long to wait, milliseconds.
        after_ms: u64,
    },
    /// It was held back, because its sender or its recipient has had enough for now. The carrier
    /// is well; the same submission may go again later.
    Later {
        /// How long to wait, milliseconds.
        after_ms: u64,
    },
    /// It may work later.
    Temporary,
    /// It will not work later either: credentials, template, configuration, content.
    Permanent,
    /// The carrier does not take it as it is written for it: a setting of it is wrong. Another may.
    Unfit,
    /// The carrier has a part of it, and does not take the rest for now: all of it may go again,
    /// to the same carrier.
    Halfway,
    /// The carrier is down.
    Down,
    /// It went out and did not arrive, for reasons that the carrier keeps to itself.
    Undelivered,
    /// It was not delivered within its time.
    Expired,
    /// A free-form message, and the recipient has not written lately.
    WindowClosed,
    /// The recipient wants no more of this sender.
    OptedOut,
    /// The template is not there, or may not be sent.
    Template,
}

impl Refusal {
    const ALL: [Self; 15] = [
        Self::Unfit,
        Self::Halfway,
        Self::WindowClosed,
        Self::OptedOut,
        Self::Template,
        Self::Unreachable,
        Self::BadRecipient,
        Self::BadSender,
        Self::Throttled { after_ms: 0 },
        Self::Later { after_ms: 0 },
        Self::Temporary,
        Self::Permanent,
        Self::Down,
        Self::Undelivered,
        Self::Expired,
    ];

    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::BadRecipient => "bad_recipient",
            Self::BadSender => "bad_sender",
            Self::Throttled { .. } => "throttled",
            Self::Later { .. } => "later",
            Self::Temporary => "temporary",
            Self::Permanent => "permanent",
            Self::Unfit => "unfit",
            Self::Halfway => "halfway",
            Self::Down => "down",
            Self::Undelivered => "undelivered",
            Self::Expired => "expired",
            Self::WindowClosed => "window_closed",
            Self::OptedOut => "opted_out",
            Self::Template => "template",
        }
    }
}

impl Refusal {
    /// After how many milliseconds the same submission goes again, where it only has to wait.
    #[must_use]
    pub const fn after_ms(self) -> Option<u64> {
        match self {
            Self::Throttled { after_ms } | Self::Later { after_ms } => Some(after_ms),
            _ => None,
        }
    }

    /// Whether the carrier may take it later.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        self.after_ms().is_some() || matches!(self, Self::Temporary | Self::Halfway | Self::Down)
    }

    /// Whether another carrier may take what this one certainly does not have.
    #[must_use]
    pub const fn is_of_carrier(self) -> bool {
        matches!(
            self,
            Self::Temporary | Self::Down | Self::Throttled { .. } | Self::BadSender | Self::Unfit
        )
    }

    /// Whether it is for the operator to mend.
    #[must_use]
    pub const fn is_of_settings(self) -> bool {
        matches!(self, Self::BadSender | Self::Unfit)
    }
}

impl FromStr for Refusal {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|refusal| refusal.as_str() == word).ok_or(UnknownWord)
    }
}
