//! What a centre's answer to a part means.

use ::smpp::{NotSent, Outcome, Status, StatusClass};

use crate::carriers::Refusal;
use crate::config;

/// How long a message waits that a link gave back, milliseconds.
const AGAIN_MS: u64 = 1_000;

/// The code of what never left.
pub(super) const NOT_SENT: &str = "not_sent";

/// The longest id of a message that is kept: four times what SMPP 3.4 §5.2.23 allows.
pub(super) const MOST_ID_OCTETS: usize = 255;

/// What became of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Taken, under this id; some centres give none.
    Accepted(String),
    /// Not taken, for certain.
    Refused(Refusal, String),
    /// Nobody knows.
    Unknown,
}

impl Verdict {
    pub(super) fn of(settings: &config::Smpp, outcome: Outcome) -> Self {
        match outcome {
            Outcome::Accepted { message_id } => {
                // One that nobody could keep is none.
                let is_usable = message_id.as_bytes().len() <= MOST_ID_OCTETS;
                Self::Accepted(if is_usable { message_id.to_string() } else { String::new() })
            }
            Outcome::Refused { status } => Self::Refused(class(settings, status), code(status)),
            Outcome::Unknown => Self::Unknown,
            Outcome::NotSent(why) => {
                let class = match why {
                    NotSent::Expired | NotSent::WrongWay => Refusal::Down,
                    // The node stops, or lost the slot: any other may take it at once.
                    NotSent::Closed => Refusal::Throttled { after_ms: 1 },
                    NotSent::Encode(_) => Refusal::Permanent,
                };
                Self::Refused(class, NOT_SENT.to_owned())
            }
        }
    }
}

/// What to do about a status: as the settings say, else as the specification's table does.
fn class(settings: &config::Smpp, status: Status) -> Refusal {
    if settings.temporary_codes.contains(&status.0) {
        return Refusal::Temporary;
    }
    if settings.permanent_codes.contains(&status.0) {
        return Refusal::Permanent;
    }
    match status.class() {
        StatusClass::Throttled => Refusal::Throttled { after_ms: AGAIN_MS },
        StatusClass::Temporary => Refusal::Temporary,
        StatusClass::BadRecipient => Refusal::BadRecipient,
        StatusClass::BadSender => Refusal::BadSender,
        StatusClass::Session => Refusal::Down,
        StatusClass::BadRequest | StatusClass::Success => Refusal::Unfit,
    }
}

fn code(status: Status) -> String {
    status.name().map_or_else(|| status.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use ::smpp::{Outcome, Status};

    use super::Verdict;
    use crate::carriers::Refusal;
    use crate::config::Smpp;

    #[test]
    fn a_carrier_may_mean_something_else_by_its_codes() {
        let verdict = |settings: &Smpp, code| {
            Verdict::of(settings, Outcome::Refused { status: Status(code) })
        };
        let usual = Smpp::default();
        let odd = Smpp {
            temporary_codes: vec![0x0B],
            permanent_codes: vec![0x08, 0x405],
            ..Smpp::default()
        };
        for (code, usually, here) in [
            (0x0B, Refusal::BadRecipient, Refusal::Temporary),
            (0x08, Refusal::Temporary, Refusal::Permanent),
            (0x405, Refusal::Temporary, Refusal::Permanent),
            (0x0A, Refusal::BadSender, Refusal::BadSender),
            (0x58, Refusal::Throttled { after_ms: 1_000 }, Refusal::Throttled { after_ms: 1_000 }),
            (0x04, Refusal::Down, Refusal::Down),
            (0x62, Refusal::Unfit, Refusal::Unfit),
        ] {
            for (settings, expected) in [(&usual, usually), (&odd, here)] {
                let Verdict::Refused(class, _) = verdict(settings, code) else { panic!("{code}") };
                assert_eq!(class, expected, "{code:#x}");
            }
        }
        let Verdict::Refused(_, code) = verdict(&usual, 0x0B) else { panic!() };
        assert_eq!(code, "ESME_RINVDSTADR");
    }
}
