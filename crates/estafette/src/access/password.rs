//! Passwords: 12 to 256 characters, stored as argon2id (19 MiB, two passes). Hashing runs on
//! threads of its own, few at a time, and takes as long for an unknown email as for a known one.

use std::sync::atomic::{AtomicUsize, Ordering};

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};

use super::Error;
use crate::app::App;
use crate::kit::secret::Secret;

/// Fewest characters.
pub const MIN: usize = 12;
/// Most characters.
pub const MAX: usize = 256;
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
/// Requests that may wait for a hasher; more are answered 503 `overloaded`.
const MAX_WAITING: usize = 64;

/// Verified where there is no stored hash, so that the answer takes the same time. Nothing
/// hashes to its 32 zero bytes.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$ZXN0YWZldHRlLW5vYm9keQ$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// What is wrong with a new password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Below [`MIN`].
    #[error("must have at least 12 characters")]
    TooShort,
    /// Above [`MAX`].
    #[error("must have at most 256 characters")]
    TooLong,
}

impl Fault {
    /// The code of the item in a problem.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::TooLong => "too_long",
        }
    }
}

/// The rules for a new password.
///
/// # Errors
/// [`Fault`].
pub fn check(password: &str) -> Result<(), Fault> {
    match password.chars().count() {
        ..MIN => Err(Fault::TooShort),
        MIN..=MAX => Ok(()),
        _ => Err(Fault::TooLong),
    }
}

/// The PHC string to store.
///
/// # Errors
/// [`Error::Overloaded`] when too many wait, [`Error::Hashing`].
pub async fn hash(app: &App, password: &Secret) -> Result<String, Error> {
    let mut salt = [0_u8; 16];
    app.clock.fill(&mut salt);
    let password = password.clone();
    on_a_thread(app, move || hash_with(password.expose(), &salt)).await?
}

/// Whether this is the password of a stored PHC string; never, but after the same time, when
/// there is none.
///
/// # Errors
/// [`Error::Overloaded`] when too many wait, [`Error::Hashing`].
pub async fn is_right(app: &App, password: &Secret, stored: Option<&str>) -> Result<bool, Error> {
    let phc = stored.unwrap_or(NOBODY).to_owned();
    let password = password.clone();
    let matches = on_a_thread(app, move || verify(password.expose(), &phc)).await??;
    Ok(matches && stored.is_some())
}

/// Gives the place of a hasher back when the thread is done, even if nobody waits any more.
struct Place(App);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.hashers.add_permits(1);
    }
}

/// One that waits for a place.
struct Waiter;

impl Waiter {
    fn enter() -> Result<Self, Error> {
        let before = WAITING.fetch_add(1, Ordering::SeqCst);
        let waiter = Self;
        if before < MAX_WAITING { Ok(waiter) } else { Err(Error::Overloaded) }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn on_a_thread<T: Send + 'static>(
    app: &App,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let place = {
        let _waiter = Waiter::enter()?;
        let permit = app.hashers.acquire().await.map_err(|_| Error::Overloaded)?;
        permit.forget();
        Place(app.clone())
    };
    let thread = tokio::task::spawn_blocking(move || {
        let _place = place;
        work()
    });
    thread.await.map_err(|error| Error::Hashing(error.to_string()))
}

fn hash_with(password: &str, salt: &[u8]) -> Result<String, Error> {
    let hash: PasswordHash = hasher()?
        .hash_password_with_salt(password.as_bytes(), salt)
        .map_err(|error| Error::Hashing(error.to_string()))?;
    Ok(hash.to_string())
}

fn verify(password: &str, phc: &str) -> Result<bool, Error> {
    let hash = PasswordHash::new(phc).map_err(|error| Error::Hashing(error.to_string()))?;
    Ok(hasher()?.verify_password(password.as_bytes(), &hash).is_ok())
}

fn hasher() -> Result<Argon2<'static>, Error> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None);
    let params = params.map_err(|error| Error::Hashing(error.to_string()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

#[cfg(test)]
mod tests {
    use super::{Fault, NOBODY, check, hash_with, verify};

    #[test]
    fn only_the_password_itself_verifies() {
        let stored = hash_with("correct horse battery", b"0123456789abcdef").unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(verify("correct horse battery", &stored).unwrap());
        assert!(!verify("correct horse batterz", &stored).unwrap());
    }

    #[test]
    fn the_hash_of_nobody_costs_the_same_and_matches_nothing() {
        let stored = hash_with("x", b"0123456789abcdef").unwrap();
        let parameters = |phc: &str| phc.split('$').take(4).collect::<Vec<_>>().join("$");
        assert_eq!(parameters(NOBODY), parameters(&stored));
        assert_eq!(NOBODY.len(), stored.len());
        assert!(!verify("", NOBODY).unwrap());
    }

    #[test]
    fn lengths_are_counted_in_characters() {
        assert_eq!(check(&"ä".repeat(11)), Err(Fault::TooShort));
        assert_eq!(check(&"ä".repeat(12)), Ok(()));
        assert_eq!(check(&"ä".repeat(256)), Ok(()));
        assert_eq!(check(&"ä".repeat(257)), Err(Fault::TooLong));
    }
}
