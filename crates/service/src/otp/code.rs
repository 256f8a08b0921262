//! Codes: made by chance, kept as a keyed hash for checking and sealed for a later leg.

use super::Challenge;
use crate::app::App;
use crate::kit::id::{AccountId, ChallengeId};
use crate::kit::secret::Secret;

pub(super) fn new_code(app: &App, length: u32) -> Secret {
    let number = app.clock.below(10_u64.pow(length));
    Secret::new(format!("{number:0width$}", width = length as usize))
}

pub(super) fn mac(app: &App, account: &AccountId, id: &ChallengeId, code: &Secret) -> [u8; 32] {
    app.vault.code_mac(account.as_str(), id.as_str(), code.expose())
}

pub(super) fn seal(app: &App, account: &AccountId, id: &ChallengeId, code: &Secret) -> Vec<u8> {
    let place = ["challenges", account.as_str(), id.as_str()];
    app.vault.seal(&place, code.expose().as_bytes())
}

/// The code of a challenge while it is still kept.
pub(super) fn code_of(app: &App, challenge: &Challenge) -> Option<Secret> {
    let place = ["challenges", challenge.account.as_str(), challenge.id.as_str()];
    let code = app.vault.open(&place, challenge.code_sealed.as_ref()?)?;
    String::from_utf8(code).ok().map(Secret::new)
}
