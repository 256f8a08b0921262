//! Codes: made by chance, kept as a keyed hash for checking and sealed for a later leg.

use std::sync::Arc;

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

/// The code of a challenge that may still go out: sealed, as it is stored, and open where this
/// process has just sealed it.
#[derive(Clone, Debug)]
pub(super) struct KeptCode(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    sealed: Vec<u8>,
    open: Option<Secret>,
}

impl KeptCode {
    /// As it was stored.
    pub(super) fn stored(sealed: Vec<u8>) -> Self {
        Self(Arc::new(Kept { sealed, open: None }))
    }

    /// Seals a code.
    pub(super) fn new(app: &App, account: &AccountId, id: &ChallengeId, code: &Secret) -> Self {
        let place = ["challenges", account.as_str(), id.as_str()];
        let sealed = app.vault.seal(&place, code.expose().as_bytes());
        Self(Arc::new(Kept { sealed, open: Some(code.clone()) }))
    }

    /// As it is to be stored.
    pub(super) fn sealed(&self) -> &[u8] {
        &self.0.sealed
    }
}

/// The code of a challenge while it is still kept.
pub(super) fn code_of(app: &App, challenge: &Challenge) -> Option<Secret> {
    let Kept { sealed, open } = &*challenge.code.as_ref()?.0;
    if open.is_some() {
        return open.clone();
    }
    let place = ["challenges", challenge.account.as_str(), challenge.id.as_str()];
    let code = app.vault.open(&place, sealed)?;
    String::from_utf8(code).ok().map(Secret::new)
}
