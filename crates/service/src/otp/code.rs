//! Codes: made by chance, kept as a keyed hash for checking and sealed for a later leg.

use super::Challenge;
use crate::app::App;
use crate::kit::id::{AccountId, ChallengeId};
use crate::kit::seal::text::SealedText;
use crate::kit::secret::Secret;

pub(super) fn new_code(app: &App, length: u32) -> Secret {
    let number = app.clock.below(10_u64.pow(length));
    Secret::new(format!("{number:0width$}", width = length as usize))
}

pub(super) fn mac(app: &App, account: &AccountId, id: &ChallengeId, code: &Secret) -> [u8; 32] {
    app.vault.code_mac(account.as_str(), id.as_str(), code.expose())
}

/// The code of a challenge, sealed for its place.
pub(super) fn seal(app: &App, account: &AccountId, id: &ChallengeId, code: &Secret) -> SealedText {
    SealedText::new(&app.vault, &place(account, id), code.clone())
}

/// The code of a challenge while it is still kept.
pub(super) fn code_of(app: &App, challenge: &Challenge) -> Option<Secret> {
    let code = challenge.code.as_ref()?;
    code.open(&app.vault, &place(&challenge.account, &challenge.id))
}

fn place<'a>(account: &'a AccountId, id: &'a ChallengeId) -> [&'a str; 3] {
    ["challenges", account.as_str(), id.as_str()]
}
