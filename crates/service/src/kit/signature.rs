//! Signatures of bodies by a shared secret, as upstreams make them: HMAC-SHA256, hexadecimal.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::seal::hex;

/// The signature of a body.
#[must_use]
pub fn sign(secret: &[u8], body: &[u8]) -> String {
    let Ok(mut mac) = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(secret) else {
        return String::new();
    };
    mac.update(body);
    hex(&mac.finalize().into_bytes())
}

/// Whether a signature is of this body. No secret signs nothing.
#[must_use]
pub fn is_signed(secret: &[u8], body: &[u8], signature: &str) -> bool {
    !secret.is_empty() && is_same(sign(secret, body).as_str(), &signature.to_ascii_lowercase())
}

/// Whether two texts are the same, in a time that does not tell how far they are.
#[must_use]
pub fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::{is_signed, sign};

    #[test]
    fn only_the_secret_signs_and_every_byte_counts() {
        // RFC 4231 §4.3.
        let known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(sign(b"Jefe", b"what do ya want for nothing?"), known);
        assert!(is_signed(b"Jefe", b"what do ya want for nothing?", &known.to_uppercase()));
        assert!(!is_signed(b"Jefe", b"what do ya want for nothing!", known));
        assert!(!is_signed(b"jefe", b"what do ya want for nothing?", known));
        assert!(!is_signed(b"", b"", &sign(b"", b"")) && !is_signed(b"Jefe", b"", ""));
    }
}
