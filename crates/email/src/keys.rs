//! New keys that sign.

use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey};
use rsa::rand_core::{CryptoRng, RngCore};
use rsa::{RsaPrivateKey, RsaPublicKey};

use crate::dkim::KeyError;

/// Bits of an RSA key: fewer are not trusted any more, more do not fit into the answers of DNS.
const BITS: usize = 2048;

/// A new RSA key.
pub struct RsaPair {
    /// PKCS#8, DER.
    pub secret: Vec<u8>,
    /// What its record publishes: `SubjectPublicKeyInfo`, DER (RFC 6376 §3.6.1).
    pub public: Vec<u8>,
}

/// Makes an RSA key. `fill` is the source of chance. It takes a while: not on a thread that serves.
///
/// # Errors
/// [`KeyError`].
pub fn rsa(fill: impl FnMut(&mut [u8])) -> Result<RsaPair, KeyError> {
    let key = RsaPrivateKey::new(&mut Chance(fill), BITS).map_err(|_| KeyError)?;
    let secret = key.to_pkcs8_der().map_err(|_| KeyError)?.as_bytes().to_vec();
    let public = RsaPublicKey::from(&key).to_public_key_der().map_err(|_| KeyError)?.into_vec();
    Ok(RsaPair { secret, public })
}

/// A generator whose source is elsewhere.
struct Chance<F>(F);

impl<F: FnMut(&mut [u8])> RngCore for Chance<F> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        (self.0)(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        (self.0)(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        (self.0)(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rsa::rand_core::Error> {
        (self.0)(bytes);
        Ok(())
    }
}

impl<F: FnMut(&mut [u8])> CryptoRng for Chance<F> {}

#[cfg(test)]
mod tests {
    use ring::digest;

    use crate::dkim::{Key, Signer, sign};

    #[test]
    fn a_new_key_signs() {
        let mut count = 0_u64;
        let pair = super::rsa(|bytes| {
            for part in bytes.chunks_mut(32) {
                count += 1;
                let hash = digest::digest(&digest::SHA256, &count.to_le_bytes());
                part.copy_from_slice(&hash.as_ref()[..part.len()]);
            }
        });
        let pair = pair.unwrap();
        let key = Key::rsa(&pair.secret).unwrap();
        let signer = Signer { domain: "example.com", selector: "est1", at_s: 0 };
        assert!(sign(b"From: a@example.com\r\n\r\nhello\r\n", signer, &key).is_ok());
        assert!(pair.public.len() > 256);
    }
}
