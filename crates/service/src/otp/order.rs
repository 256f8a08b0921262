//! What a request asks for, checked: all that a send needs to know of it.

use super::Mode;
use crate::kit::msisdn::Msisdn;
use crate::kit::secret::Secret;

/// A passcode to send, checked.
pub(super) struct Order {
    pub(super) to: Msisdn,
    pub(super) reference: Option<String>,
    pub(super) code: Option<Secret>,
    pub(super) code_length: u32,
    pub(super) mode: Mode,
    pub(super) sender: Option<String>,
    pub(super) template: Option<String>,
    pub(super) language: Option<String>,
    /// Whether the person is asked for a messaging session once it is delivered.
    pub(super) asks_consent: bool,
}

impl Order {
    /// What at most one open challenge of an account has: recipient and reference.
    pub(super) fn slot(&self) -> String {
        format!("{}|{}", self.to.e164(), self.reference.as_deref().unwrap_or(""))
    }

    /// The fields that choose another template than the service's own, in a sentence.
    pub(super) const fn chosen(&self) -> Option<&'static str> {
        match (&self.template, &self.language) {
            (Some(_), Some(_)) => Some("`template_name` and `template_language`"),
            (Some(_), None) => Some("`template_name`"),
            (None, Some(_)) => Some("`template_language`"),
            (None, None) => None,
        }
    }
}
