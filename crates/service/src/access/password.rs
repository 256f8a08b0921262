//! Passwords: 12 to 256 characters, none of the commonest, stored as argon2id (19 MiB, two passes).
//! Hashing runs on threads of its own, few at a time and in a fair line (`kit::hashers`), and takes
//! as long for an unknown email as for a known one.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};

use super::Error;
use crate::app::App;
use crate::kit::hashers::{Desk, Refusal, SHARE_OF_ADDRESS, Seat, Share};
use crate::kit::secret::Secret;

/// Fewest characters.
pub const MIN: usize = 12;
/// Most characters.
pub const MAX: usize = 256;
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;

/// Verified where there is no stored hash, so that the answer takes the same time. Nothing
/// hashes to its 32 zero bytes.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$ZXN0YWZldHRlLW5vYm9keQ$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The 10,000 commonest passwords that are long enough, one a line, in lower case; the lines that
/// begin with `# ` say where they are from.
const COMMONEST: &str = include_str!("commonest_passwords.txt");

/// What is wrong with a new password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Below [`MIN`].
    #[error("must have at least 12 characters")]
    TooShort,
    /// Above [`MAX`].
    #[error("must have at most 256 characters")]
    TooLong,
    /// Many people have it, so it is tried first.
    #[error("is one of the commonest passwords; choose one that nobody else has")]
    Commonest,
    /// The email, or the part before its @.
    #[error("must not be the email")]
    Email,
    /// A change that changes nothing.
    #[error("must differ from the current password")]
    Unchanged,
}

impl Fault {
    /// The code of the item in a problem.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::TooLong => "too_long",
            Self::Commonest | Self::Email | Self::Unchanged => "out_of_range",
        }
    }
}

/// The rules for a new password of the person with this email; an empty email is not compared.
///
/// # Errors
/// [`Fault`].
pub fn check(password: &str, email: &str) -> Result<(), Fault> {
    match password.chars().count() {
        ..MIN => return Err(Fault::TooShort),
        MIN..=MAX => {}
        _ => return Err(Fault::TooLong),
    }
    let lower = password.trim().to_lowercase();
    let email = email.trim().to_lowercase();
    let name = email.split('@').next().unwrap_or_default();
    if !email.is_empty() && (lower == email || lower == name) {
        return Err(Fault::Email);
    }
    let is_commonest = COMMONEST.lines().any(|line| line == lower);
    if is_commonest { Err(Fault::Commonest) } else { Ok(()) }
}

/// Whose share of the hashers a request uses.
#[derive(Clone, Debug)]
pub struct Asker {
    desk: Desk,
    shares: Vec<Share>,
}

impl Asker {
    /// Somebody without a token, at an address.
    #[must_use]
    pub fn at(desk: Desk, address: &str) -> Self {
        let of_address = Share { of: address.to_owned(), most: SHARE_OF_ADDRESS };
        Self { desk, shares: vec![of_address] }
    }

    /// A member of staff, who is known to be one.
    #[must_use]
    pub fn staff(id: &str) -> Self {
        Self::at(Desk::Staff, id)
    }

    /// The same for a person who is known: one thing at a time.
    #[must_use]
    pub fn known_as(mut self, id: &str) -> Self {
        self.shares.push(Share { of: id.to_owned(), most: 1 });
        self
    }

    /// The operator at the command line, who is alone there.
    #[must_use]
    pub const fn command_line() -> Self {
        Self { desk: Desk::Staff, shares: Vec::new() }
    }
}

/// Waits for a seat to hash one password.
///
/// # Errors
/// [`Error::Overloaded`] when too many wait, [`Error::OverShare`] when too many of theirs do.
pub async fn seat(app: &App, asker: &Asker) -> Result<Seat, Error> {
    app.hashers.seat(asker.desk, asker.shares.clone()).await.map_err(|refusal| match refusal {
        Refusal::Full => Error::Overloaded,
        Refusal::OverShare => Error::OverShare,
    })
}

/// The PHC string to store.
///
/// # Errors
/// As [`seat`]; [`Error::Hashing`].
pub async fn hash(app: &App, asker: &Asker, password: &Secret) -> Result<String, Error> {
    hash_at(app, seat(app, asker).await?, password).await
}

/// The same for who has a seat.
///
/// # Errors
/// [`Error::Hashing`].
pub async fn hash_at(app: &App, seat: Seat, password: &Secret) -> Result<String, Error> {
    let mut salt = [0_u8; 16];
    app.clock.fill(&mut salt);
    let password = password.clone();
    on_a_thread(seat, move || hash_with(password.expose(), &salt)).await?.0
}

/// Whether this is the password of a stored PHC string; never, but after the same time, when
/// there is none. Answers the seat as well.
///
/// # Errors
/// [`Error::Hashing`].
pub async fn is_right(
    seat: Seat,
    password: &Secret,
    stored: Option<&str>,
) -> Result<(bool, Seat), Error> {
    let phc = stored.unwrap_or(NOBODY).to_owned();
    let password = password.clone();
    let (matches, seat) = on_a_thread(seat, move || verify(password.expose(), &phc)).await?;
    Ok((matches? && stored.is_some(), seat))
}

/// The seat goes with the work: it is given back when that is done, even if nobody waits any more.
async fn on_a_thread<T: Send + 'static>(
    seat: Seat,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(T, Seat), Error> {
    let thread = tokio::task::spawn_blocking(move || (work(), seat));
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
    use super::{COMMONEST, Fault, MAX, MIN, NOBODY, check, hash_with, verify};

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
        assert_eq!(check(&"ä".repeat(11), ""), Err(Fault::TooShort));
        assert_eq!(check(&"ä".repeat(12), ""), Ok(()));
        assert_eq!(check(&"ä".repeat(256), ""), Ok(()));
        assert_eq!(check(&"ä".repeat(257), ""), Err(Fault::TooLong));
    }

    #[test]
    fn what_everybody_takes_and_the_email_are_refused_in_any_case() {
        for common in ["123456789012", "PasswordPassword", "Qwertyuiop12", "password1234 "] {
            assert_eq!(check(common, "ana@example.com"), Err(Fault::Commonest), "{common}");
        }
        let email = "Alexandra.Maria@example.com";
        for same in [email, "alexandra.maria@example.com", "alexandra.maria"] {
            assert_eq!(check(same, email), Err(Fault::Email), "{same}");
        }
        assert_eq!(check("alexandra.maria 17", email), Ok(()));
        assert_eq!(check("# Source of it", ""), Ok(()));
    }

    #[test]
    fn the_list_is_in_order_without_repeats_and_of_passwords_that_are_long_enough() {
        let list: Vec<&str> = COMMONEST.lines().filter(|line| !line.starts_with("# ")).collect();
        assert_eq!(list.len(), 10_000);
        assert!(list.is_sorted_by(|one, next| one < next));
        assert!(list.iter().all(|line| (MIN..=MAX).contains(&line.len())));
        assert!(list.iter().all(|line| *line == line.to_lowercase()));
    }
}
