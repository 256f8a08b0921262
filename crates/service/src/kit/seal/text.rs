//! Texts that are stored sealed: what a message says, the code of a passcode.

use std::sync::Arc;

use super::Vault;
use crate::kit::secret::Secret;

/// A text as it is stored, and open where this process has just sealed it: what goes out at once
/// need not be opened again. Clones share it.
#[derive(Clone, Debug)]
pub struct SealedText(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sealed: Vec<u8>,
    open: Option<Secret>,
}

impl SealedText {
    /// As it was stored.
    #[must_use]
    pub fn stored(sealed: Vec<u8>) -> Self {
        Self(Arc::new(Inner { sealed, open: None }))
    }

    /// Seals a text for its place.
    #[must_use]
    pub fn new(vault: &Vault, place: &[&str], text: Secret) -> Self {
        let sealed = vault.seal(place, text.expose().as_bytes());
        Self(Arc::new(Inner { sealed, open: Some(text) }))
    }

    /// As it is to be stored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.sealed
    }

    /// The text; nothing where no key opens it in this place.
    #[must_use]
    pub fn open(&self, vault: &Vault, place: &[&str]) -> Option<Secret> {
        if self.0.open.is_some() {
            return self.0.open.clone();
        }
        let text = vault.open(place, &self.0.sealed)?;
        String::from_utf8(text).ok().map(Secret::new)
    }
}
