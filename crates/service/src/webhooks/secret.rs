//! Signing secrets: the forms in which they are given, how several live side by side after a
//! rotation, and the signature itself (Standard Webhooks 1.0.0, symmetric).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::{Clock, DAY, Millis};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroize;

use crate::kit::secret::Secret;

/// What a secret in canonical form begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a secret that we make.
const MADE: usize = 32;
/// How long a secret still signs after a rotation, milliseconds.
const OVERLAP: i64 = DAY;
/// Secrets that sign at the same time.
const MOST: usize = 3;

/// Why a text is no secret. The words finish "the secret …".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Too few bytes.
    TooShort,
    /// Too many bytes.
    TooLong,
    /// `whsec_` with something else than base64 behind it.
    Malformed,
}

/// The canonical form of what a tenant gives: `whsec_` and base64 of 24 to 64 bytes as it is, any
/// other text of 16 to 64 bytes as its UTF-8 bytes.
///
/// # Errors
/// See [`Fault`].
pub fn canonical(given: &Secret) -> Result<Secret, Fault> {
    let text = given.expose();
    let Some(encoded) = text.strip_prefix(PREFIX) else {
        return match text.len() {
            ..16 => Err(Fault::TooShort),
            16..=64 => Ok(written(text.as_bytes())),
            _ => Err(Fault::TooLong),
        };
    };
    let mut bytes = STANDARD.decode(encoded).map_err(|_| Fault::Malformed)?;
    let size = bytes.len();
    bytes.zeroize();
    match size {
        ..24 => Err(Fault::TooShort),
        24..=64 => Ok(given.clone()),
        _ => Err(Fault::TooLong),
    }
}

/// A new secret.
#[must_use]
pub fn make(clock: &Clock) -> Secret {
    let mut bytes = [0_u8; MADE];
    clock.fill(&mut bytes);
    let made = written(&bytes);
    bytes.zeroize();
    made
}

fn written(bytes: &[u8]) -> Secret {
    Secret::new(format!("{PREFIX}{}", STANDARD.encode(bytes)))
}

/// The secrets of one target, newest first. It is what is sealed.
#[derive(Clone, Deserialize, Serialize)]
pub struct Secrets(Vec<One>);

#[derive(Clone, Deserialize, Serialize)]
struct One {
    /// In canonical form.
    secret: String,
    /// Milliseconds since 1970; none = until the next rotation.
    until: Option<i64>,
}

impl Drop for One {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl Secrets {
    /// Of a new target.
    #[must_use]
    pub fn of(secret: &Secret) -> Self {
        Self(vec![One { secret: secret.expose().to_owned(), until: None }])
    }

    /// What was sealed.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// What is to be sealed.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The newest.
    #[must_use]
    pub fn newest(&self) -> Option<Secret> {
        self.0.first().map(|one| Secret::new(one.secret.clone()))
    }

    /// Puts a new one in front. The others still sign for a day; the oldest goes when there are
    /// too many.
    #[must_use]
    pub fn rotated(&self, secret: &Secret, now: Millis) -> Self {
        let mut all = Self::of(secret).0;
        for one in &self.0 {
            let until = one.until.unwrap_or(now.0 + OVERLAP);
            if until > now.0 && one.secret != secret.expose() {
                all.push(One { secret: one.secret.clone(), until: Some(until) });
            }
        }
        all.truncate(MOST);
        Self(all)
    }

    /// The keys that sign at an instant, newest first.
    #[must_use]
    pub fn keys(&self, now: Millis) -> Vec<Key> {
        let live = self.0.iter().filter(|one| one.until.is_none_or(|until| until > now.0));
        live.filter_map(|one| Key::of(&one.secret)).collect()
    }
}

/// A secret ready to sign with. Its state is derived once, not at each signature.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    fn of(secret: &str) -> Option<Self> {
        let mut bytes = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
        let key = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&bytes).ok();
        bytes.zeroize();
        key.map(Self)
    }

    fn sign(&self, id: &str, at_s: &str, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        for part in [id.as_bytes(), b".", at_s.as_bytes(), b".", body] {
            mac.update(part);
        }
        STANDARD.encode(mac.finalize().into_bytes())
    }
}

/// The header `webhook-signature`: one signature for each key, newest first. `at_s` is what
/// `webhook-timestamp` says.
#[must_use]
pub fn signatures(keys: &[Key], id: &str, at_s: &str, body: &[u8]) -> String {
    let mut header = String::with_capacity(keys.len() * 48);
    for key in keys {
        if !header.is_empty() {
            header.push(' ');
        }
        header.push_str("v1,");
        header.push_str(&key.sign(id, at_s, body));
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(secret: &str, id: &str, at_s: &str, body: &str) -> String {
        let secrets = Secrets::of(&Secret::new(secret.to_owned()));
        signatures(&secrets.keys(Millis(0)), id, at_s, body.as_bytes())
    }

    #[test]
    fn the_published_vectors_hold() {
        assert_eq!(
            signed(
                "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
                "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                "1649367553",
                r#"{"email":"test@example.com","username":"test_user"}"#
            ),
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="
        );
        assert_eq!(
            signed(
                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                "1614265330",
                r#"{"test": 2432232314}"#
            ),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    fn given(text: &str) -> Result<String, Fault> {
        canonical(&Secret::new(text.to_owned())).map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn every_form_of_a_secret_becomes_the_canonical_one() {
        let own = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        assert_eq!(given(own).as_deref(), Ok(own));
        assert_eq!(given("sixteen bytes ok").as_deref(), Ok("whsec_c2l4dGVlbiBieXRlcyBvaw=="));
        assert_eq!(given("fifteen bytes ."), Err(Fault::TooShort));
        assert_eq!(given(&"x".repeat(65)), Err(Fault::TooLong));
        assert_eq!(given(&"é".repeat(33)), Err(Fault::TooLong));
        assert_eq!(given("whsec_not base64!"), Err(Fault::Malformed));
        assert_eq!(given("whsec_c2hvcnQ="), Err(Fault::TooShort));
        let url_safe = format!("whsec_{}", "-_".repeat(16));
        assert_eq!(given(&url_safe), Err(Fault::Malformed));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        assert_eq!(given(&long), Err(Fault::TooLong));
    }

    #[test]
    fn a_made_secret_has_32_bytes_and_is_taken_as_given() {
        let made = make(&Clock::held(Millis(0), 1));
        assert_eq!(canonical(&made).unwrap(), made);
        let encoded = made.expose().strip_prefix(PREFIX).unwrap();
        assert_eq!(STANDARD.decode(encoded).unwrap().len(), 32);
    }

    #[test]
    fn after_a_rotation_both_sign_for_a_day_and_three_at_most() {
        let clock = Clock::held(Millis(0), 1);
        let [a, b, c, d] = [(); 4].map(|()| make(&clock));
        let first = Secrets::of(&a);
        let second = first.rotated(&b, Millis(0));
        assert_eq!(second.newest(), Some(b.clone()));
        assert_eq!(second.keys(Millis(DAY - 1)).len(), 2);
        assert_eq!(second.keys(Millis(DAY)).len(), 1);
        let fourth = second.rotated(&c, Millis(1)).rotated(&d, Millis(2));
        assert_eq!(fourth.keys(Millis(3)).len(), 3);
        let header = signatures(&fourth.keys(Millis(3)), "evt_1", "1", b"{}");
        let newest = signatures(&Secrets::of(&d).keys(Millis(3)), "evt_1", "1", b"{}");
        assert!(header.starts_with(&newest));
        // The oldest went, not the one before.
        let gone = signatures(&first.keys(Millis(3)), "evt_1", "1", b"{}");
        assert!(!header.contains(&gone));
    }

    #[test]
    fn secrets_survive_being_stored() {
        let secrets = Secrets::of(&make(&Clock::held(Millis(0), 1)));
        let again = Secrets::read(&secrets.write()).unwrap();
        assert_eq!(again.newest(), secrets.newest());
        assert!(Secrets::read(b"x").is_none());
    }
}
