//! What the last four digits of a sandbox recipient make happen.

use crate::carriers::{Channel, Fate, Refusal};

/// One receipt to come.
#[derive(Debug)]
pub(super) struct Step {
    /// Milliseconds after the submission.
    pub(super) after_ms: i64,
    pub(super) fate: Fate,
    pub(super) error: Option<&'static str>,
}

/// How a submission goes.
#[derive(Debug)]
pub(super) struct Ending {
    /// Refused at once as unreachable, with this code.
    pub(super) refused: Option<&'static str>,
    /// Throttled twice before it is taken.
    pub(super) throttled_first: bool,
    /// Taken, but the answer is lost.
    pub(super) answer_lost: bool,
    /// Whether the handset shows it.
    pub(super) arrives: bool,
    pub(super) receipts: &'static [Step],
}

pub(super) const fn step(after_ms: i64, fate: Fate) -> Step {
    Step { after_ms, fate, error: None }
}

pub(super) const fn failure(after_ms: i64, refusal: Refusal, error: &'static str) -> Step {
    Step { after_ms, fate: Fate::Failed(refusal), error: Some(error) }
}

/// Upstream: the recipient cannot be reached on the chat-app.
const NOT_ON_CHATAPP: &str = "131026";

const DELIVERED: Ending = Ending {
    refused: None,
    throttled_first: false,
    answer_lost: false,
    arrives: true,
    receipts: &[step(0, Fate::Delivered)],
};
const REFUSED: Ending =
    Ending { refused: Some(NOT_ON_CHATAPP), arrives: false, receipts: &[], ..DELIVERED };
const SMS_REFUSED: Ending = Ending { refused: Some("11"), ..REFUSED };
const FAILS_LATER: Ending = Ending {
    arrives: false,
    receipts: &[failure(3_000, Refusal::Unreachable, NOT_ON_CHATAPP)],
    ..DELIVERED
};
const FAILS_AT_ONCE: Ending = Ending {
    arrives: false,
    receipts: &[failure(0, Refusal::Unreachable, NOT_ON_CHATAPP)],
    ..DELIVERED
};
const SILENT: Ending = Ending { arrives: false, receipts: &[], ..DELIVERED };
const ANSWER_LOST: Ending =
    Ending { answer_lost: true, receipts: &[step(0, Fate::Delivered)], ..DELIVERED };
const THROTTLED: Ending = Ending { throttled_first: true, ..DELIVERED };
const DISORDERLY: Ending = Ending {
    receipts: &[
        step(3_000, Fate::Delivered),
        step(3_000, Fate::Sent),
        step(3_000, Fate::Sent),
        step(3_000, Fate::Delivered),
    ],
    ..DELIVERED
};
const UNDELIVERED: Ending = Ending {
    arrives: false,
    receipts: &[failure(0, Refusal::Undelivered, "UNDELIV")],
    ..DELIVERED
};

/// What live would refuse a send with, before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearsed {
    /// The account cannot pay it.
    InsufficientCredits,
    /// The account may not send to the country.
    CountryNotAllowed,
    /// A passcode went to the recipient before.
    ResendTooSoon,
}

/// The refusal that a number scripts, by its last four digits.
pub(super) fn rehearsed(digits: &str) -> Option<Rehearsed> {
    match digits {
        "0031" => Some(Rehearsed::InsufficientCredits),
        "0032" => Some(Rehearsed::CountryNotAllowed),
        "0033" => Some(Rehearsed::ResendTooSoon),
        _ => None,
    }
}

/// What a person says to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Taps the button of this place.
    Button(usize),
    /// Writes this.
    Text(&'static str),
}

/// What the person of a number says to a prompt, by its last four digits.
pub(super) fn answer(digits: &str) -> Option<Answer> {
    match digits {
        "0011" => Some(Answer::Button(0)),
        "0012" => Some(Answer::Button(1)),
        "0013" => Some(Answer::Text("STOP")),
        _ => None,
    }
}

/// The ending of a number, by channel and last four digits (completions §1).
pub(super) fn ending(channel: Channel, digits: &str) -> &'static Ending {
    match (digits, channel) {
        ("0001" | "0004", Channel::Chatapp) => &REFUSED,
        ("0004", Channel::Sms) => &SMS_REFUSED,
        ("0002", Channel::Chatapp) => &FAILS_LATER,
        ("0003", Channel::Chatapp) => &SILENT,
        ("0005", _) => &ANSWER_LOST,
        ("0006", _) => &THROTTLED,
        ("0007", _) => &DISORDERLY,
        ("0008", Channel::Chatapp) => &FAILS_AT_ONCE,
        ("0021", Channel::Sms) => &UNDELIVERED,
        _ => &DELIVERED,
    }
}
