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
    /// It was not delivered, or not even sent, within its time.
    Expired,
    /// A free-form message, and the recipient has not written lately.
    WindowClosed,
    /// The recipient wants no more of this sender.
    OptedOut,
    /// The template is not there, or may not be sent.
    Template,
}

impl Refusal {
    /// Whether it is about the recipient rather than the carrier.
    #[must_use]
    pub const fn is_of_recipient(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::BadRecipient
                | Self::Undelivered
                | Self::Expired
                | Self::WindowClosed
                | Self::OptedOut
        )
    }

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

/// The longest code of a carrier that is kept, characters.
const MOST_CODE_CHARS: usize = 64;
/// The longest run of digits in one, but for hexadecimal: what is longer is somebody's number, or a
/// passcode.
const MOST_CODE_DIGITS: usize = 5;

/// What a carrier says of a message, as far as it is a code: its first word. Some answer in prose,
/// which may quote the number and the text, and neither may be kept with it.
#[must_use]
pub fn code_of(said: &str) -> Option<String> {
    let word = said.split_whitespace().next()?;
    let is_alone = word.len() == said.trim().len();
    let is_code = |letter: char| letter.is_ascii_alphanumeric() || "_-.:/#".contains(letter);
    let has_mark = word.contains(|letter: char| letter.is_ascii_digit() || "_/".contains(letter));
    let is_short = word.len() <= MOST_CODE_CHARS && word.chars().all(is_code);
    let digits =
        |part: &str| part.split(|letter: char| !letter.is_ascii_digit()).map(str::len).max();
    let hexadecimal = |part: &&str| !part.starts_with("0x");
    let longest = word.split('/').filter(hexadecimal).filter_map(digits).max();
    let is_clean = is_short && longest.unwrap_or(0) <= MOST_CODE_DIGITS;
    (is_clean && (is_alone || has_mark)).then(|| word.to_owned())
}

impl FromStr for Refusal {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|refusal| refusal.as_str() == word).ok_or(UnknownWord)
    }
}

#[cfg(test)]
mod tests {
    use super::code_of;

    #[test]
    fn a_code_is_kept_and_prose_is_not() {
        for code in [
            "21610",
            "InvalidPhoneNumber",
            "REJECTED_DESTINATION",
            "0x0000000b",
            "027",
            "5.1.1",
            "NACK/0x0000000b/Invalid",
        ] {
            assert_eq!(code_of(code).as_deref(), Some(code));
        }
        let long = "NACK/11/Invalid destination address";
        assert_eq!(code_of(long).as_deref(), Some("NACK/11/Invalid"));
        let endless = "A".repeat(65);
        for prose in [
            "",
            " ",
            "Cannot send hello to 393123490777",
            "code 482913 for +393331234567 refused",
            "482913",
            "393123490778",
            "err:393123490778",
            "+33612345678",
            "héllo",
            &endless,
        ] {
            assert_eq!(code_of(prose), None, "{prose:?}");
        }
    }
}
