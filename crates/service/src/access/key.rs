//! API keys as texts: `est_live_` or `est_test_`, 30 random base62 characters and 6 of CRC-32 over
//! everything before them. A typo is detected without a look-up. The pattern for secret scanners is
//! `est_(live|test)_[0-9A-Za-z]{36}`.

use clock::Clock;

use crate::app::Env;
use crate::kit::secret::Secret;

/// Digits of base62, in the order of their values.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LIVE: &str = "est_live_";
const TEST: &str = "est_test_";
/// Random characters: 178 bits.
const RANDOM: usize = 30;
/// Characters of the checksum: 62^6 is just above 2^32.
const CHECKSUM: usize = 6;
/// Random characters that are shown in `key_prefix`.
const SHOWN: usize = 8;

/// The text is no API key: mistyped, cut, or something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not an API key")]
pub struct Malformed;

/// A new key for an environment.
#[must_use]
pub fn make(clock: &Clock, env: Env) -> Secret {
    let mut text = String::with_capacity(LIVE.len() + RANDOM + CHECKSUM);
    text.push_str(fixed(env));
    text.push_str(&random(clock, RANDOM));
    let checksum = checksum(&text);
    text.extend(checksum);
    Secret::new(text)
}

/// Which environment a key is for, when it is well formed and its checksum agrees.
///
/// # Errors
/// [`Malformed`].
pub fn check(text: &str) -> Result<Env, Malformed> {
    let (env, tail) = [Env::Live, Env::Sandbox]
        .into_iter()
        .find_map(|env| text.strip_prefix(fixed(env)).map(|tail| (env, tail)))
        .ok_or(Malformed)?;
    if tail.len() != RANDOM + CHECKSUM || !is_base62(tail) {
        return Err(Malformed);
    }
    let (body, sum) = text.split_at_checked(text.len() - CHECKSUM).ok_or(Malformed)?;
    if checksum(body).eq(sum.chars()) { Ok(env) } else { Err(Malformed) }
}

/// Whether a text is meant to be an API key, good or not: tokens of people begin otherwise.
#[must_use]
pub fn has_form(text: &str) -> bool {
    text.starts_with(LIVE) || text.starts_with(TEST)
}

/// What may be shown of a key: the fixed part and the first 8 random characters.
#[must_use]
pub fn prefix(key: &Secret) -> String {
    key.expose().chars().take(LIVE.len() + SHOWN).collect()
}

/// Uniform base62 characters, fit for secrets.
#[must_use]
pub fn random(clock: &Clock, length: usize) -> String {
    (0..length).map(|_| digit(clock.below(62))).collect()
}

/// A password for somebody who gave none: 118 bits, in groups that can be read aloud.
#[must_use]
pub fn made_up_password(clock: &Clock) -> Secret {
    // Without letters and digits that look alike.
    const ALPHABET: &[u8; 31] = b"abcdefghjkmnpqrstuvwxyz23456789";
    let mut password = String::new();
    for at in 0..24 {
        if at > 0 && at % 6 == 0 {
            password.push('-');
        }
        let index = usize::try_from(clock.below(31)).unwrap_or_default();
        password.push(char::from(ALPHABET.get(index).copied().unwrap_or(b'a')));
    }
    Secret::new(password)
}

/// Whether a text is made of base62 digits only.
#[must_use]
pub fn is_base62(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

const fn fixed(env: Env) -> &'static str {
    match env {
        Env::Live => LIVE,
        Env::Sandbox => TEST,
    }
}

/// CRC-32 in base62, most significant digit first, filled up with zeros.
fn checksum(body: &str) -> impl Iterator<Item = char> + use<> {
    let mut rest = u64::from(crc32fast::hash(body.as_bytes()));
    let mut digits = ['0'; CHECKSUM];
    for place in digits.iter_mut().rev() {
        *place = digit(rest % 62);
        rest /= 62;
    }
    digits.into_iter()
}

fn digit(value: u64) -> char {
    let found = usize::try_from(value).ok().and_then(|index| ALPHABET.get(index));
    char::from(found.copied().unwrap_or(b'0'))
}

#[cfg(test)]
mod tests {
    use super::{ALPHABET, Malformed, check, make, prefix};
    use crate::app::Env;
    use crate::kit::secret::Secret;
    use clock::{Clock, Millis};

    fn clock() -> Clock {
        Clock::held(Millis(0), 11)
    }

    #[test]
    fn a_new_key_is_well_formed_and_names_its_environment() {
        for (env, fixed) in [(Env::Live, "est_live_"), (Env::Sandbox, "est_test_")] {
            let key = make(&clock(), env);
            assert_eq!(key.expose().len(), 45);
            assert!(key.expose().starts_with(fixed));
            assert_eq!(check(key.expose()), Ok(env));
            assert_eq!(prefix(&key), key.expose()[..17]);
        }
    }

    #[test]
    fn two_keys_are_never_the_same() {
        let clock = clock();
        assert_ne!(make(&clock, Env::Live).expose(), make(&clock, Env::Live).expose());
    }

    #[test]
    fn one_mistyped_character_never_passes() {
        let key = make(&clock(), Env::Sandbox);
        for position in 0..key.expose().len() {
            for digit in ALPHABET.iter().chain(b"_- ") {
                let mut bytes = key.expose().as_bytes().to_vec();
                if bytes[position] == *digit {
                    continue;
                }
                bytes[position] = *digit;
                let typo = String::from_utf8(bytes).unwrap();
                assert_eq!(check(&typo), Err(Malformed), "{typo}");
            }
        }
    }

    #[test]
    fn swapped_neighbours_cuts_and_additions_never_pass() {
        let key = make(&clock(), Env::Live);
        let text = key.expose();
        for position in 0..text.len() - 1 {
            let mut bytes = text.as_bytes().to_vec();
            bytes.swap(position, position + 1);
            let swapped = String::from_utf8(bytes).unwrap();
            assert!(swapped == text || check(&swapped).is_err(), "{swapped}");
        }
        for other in ["", "est_live_", &text[..44], &format!("{text}0"), &format!(" {text}"), "ü"]
        {
            assert_eq!(check(other), Err(Malformed), "{other}");
        }
        assert_eq!(check(&text.replace("est_live_", "est_test_")), Err(Malformed));
    }

    #[test]
    fn the_checksum_of_a_known_text_stays_what_it_is() {
        // CRC-32 of "123456789" is 0xCBF43926 = 3421780262.
        let mut value = 0_u64;
        for shown in super::checksum("123456789") {
            let digit = ALPHABET.iter().position(|known| char::from(*known) == shown).unwrap();
            value = value * 62 + u64::try_from(digit).unwrap();
        }
        assert_eq!(value, 0xCBF4_3926);
        assert_eq!(prefix(&Secret::new("est_test_abcdefghijkl".into())), "est_test_abcdefgh");
    }
}
