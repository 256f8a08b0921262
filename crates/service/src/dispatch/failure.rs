//! Why an attempt did not work out.

use super::State;
use crate::carriers::Refusal;

/// Why an attempt did not work out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The attempt's last state: refused, failed, lapsed or expired.
    pub state: State,
    /// What the carrier means by it; `None` = it said nothing.
    pub refusal: Option<Refusal>,
    /// The carrier's own code, for support.
    pub code: Option<String>,
}

impl Failure {
    /// The carrier said no.
    #[must_use]
    pub fn refused(refusal: Refusal, code: String) -> Self {
        Self { state: State::Refused, refusal: Some(refusal), code: Some(code) }
    }

    /// A receipt said no.
    #[must_use]
    pub fn receipt(refusal: Refusal, code: Option<String>) -> Self {
        Self { state: State::Failed, refusal: Some(refusal), code }
    }

    /// Nobody said anything in time.
    #[must_use]
    pub fn silence() -> Self {
        Self { state: State::Lapsed, refusal: None, code: None }
    }

    /// Its time was over before it went out.
    #[must_use]
    pub fn expired() -> Self {
        Self { state: State::Expired, refusal: None, code: None }
    }

    /// Its recipient asked for silence while it waited; no carrier was asked.
    #[must_use]
    pub fn unwanted() -> Self {
        Self { state: State::Refused, refusal: Some(Refusal::OptedOut), code: None }
    }

    /// Without the carrier's words, which can have the number of whoever is forgotten.
    #[must_use]
    pub fn in_silence(self) -> Self {
        Self { code: None, ..self }
    }

    /// Whether the recipient cannot be reached that way.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self.refusal, Some(Refusal::Unreachable | Refusal::BadRecipient))
    }
}
