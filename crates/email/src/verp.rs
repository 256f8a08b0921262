//! Return paths that name the message and its recipient, with a keyed hash: a report that comes
//! back leads to what it is about, and one for mail that nobody sent leads nowhere.

use ring::hmac;

/// Bytes of the hash.
const MAC_BYTES: usize = 10;
/// Crockford's alphabet, lower case: some servers change the case of a local part.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Between what it is and what it is about.
const PREFIX: &str = "bounce+";

/// What a return path is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The message, letters and digits.
    pub message: String,
    /// Which of its recipients.
    pub position: u16,
    /// The domain of the address.
    pub domain: String,
}

/// A return path.
#[must_use]
pub fn sign(key: &[u8; 32], token: &Token) -> String {
    let Token { message, position, domain } = token;
    format!("{PREFIX}{message}.{position}.{}@{domain}", mac(key, token))
}

/// What an address is about; `None` when we did not make it.
#[must_use]
pub fn verify(key: &[u8; 32], address: &str) -> Option<Token> {
    let lower = address.to_ascii_lowercase();
    let (local, domain) = lower.rsplit_once('@')?;
    let mut parts = local.strip_prefix(PREFIX)?.split('.');
    let token = Token {
        message: parts.next()?.to_owned(),
        position: parts.next()?.parse().ok()?,
        domain: domain.to_owned(),
    };
    let given = parts.next()?;
    let expected = mac(key, &token);
    let is_same = given.len() == expected.len()
        && given.bytes().zip(expected.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
    (is_same && parts.next().is_none()).then_some(token)
}

fn mac(key: &[u8; 32], token: &Token) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let Token { message, position, domain } = token;
    let domain = domain.to_ascii_lowercase();
    let text = format!("return path\0{message}\0{position}\0{domain}");
    let tag = hmac::sign(&key, text.as_bytes());
    let bytes = tag.as_ref().get(..MAC_BYTES).unwrap_or_default();
    // Ten bytes are sixteen letters of five bits.
    let number = bytes.iter().fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
    (0..MAC_BYTES * 8 / 5)
        .rev()
        .filter_map(|place| {
            let letter = usize::try_from(number >> (place * 5) & 31).ok()?;
            ALPHABET.get(letter).map(|letter| char::from(*letter))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Token, sign, verify};

    #[test]
    fn a_return_path_leads_back_and_a_forged_one_nowhere() {
        let message = "01kdvqh6m4e5s8w2t9zb3y7n1f".into();
        let token = Token { message, position: 49, domain: "rp.example.com".into() };
        let path = sign(&[7; 32], &token);
        assert!(path.split('@').next().unwrap_or_default().len() <= 64, "{path}");
        assert_eq!(verify(&[7; 32], &path), Some(token.clone()));
        assert_eq!(verify(&[7; 32], &path.to_ascii_uppercase()), Some(token));
        assert_eq!(verify(&[8; 32], &path), None);
        for forged in [
            path.replace(".49.", ".48."),
            path.replace("01k", "01m"),
            path.replace("rp.example.com", "rp.example.org"),
            path.replace('@', ".x@"),
            path.replace("rp.example.com", ""),
            "bounce+x@rp.example.com".to_owned(),
            "bounce+x".to_owned(),
            String::new(),
        ] {
            assert_eq!(verify(&[7; 32], &forged), None, "{forged}");
        }
    }
}
