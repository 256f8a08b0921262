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
}

/// The local part of a return path.
#[must_use]
pub fn sign(key: &[u8; 32], token: &Token) -> String {
    let Token { message, position } = token;
    format!("{PREFIX}{message}.{position}.{}", mac(key, token))
}

/// What a local part is about; `None` when we did not make it.
#[must_use]
pub fn verify(key: &[u8; 32], local: &str) -> Option<Token> {
    let lower = local.to_ascii_lowercase();
    let mut parts = lower.strip_prefix(PREFIX)?.split('.');
    let token = Token { message: parts.next()?.to_owned(), position: parts.next()?.parse().ok()? };
    let given = parts.next()?;
    let expected = mac(key, &token);
    let is_same = given.len() == expected.len()
        && given.bytes().zip(expected.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
    (is_same && parts.next().is_none()).then_some(token)
}

fn mac(key: &[u8; 32], token: &Token) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let text = format!("return path\0{}\0{}", token.message, token.position);
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
        let token = Token { message: "01kdvqh6m4e5s8w2t9zb3y7n1f".into(), position: 49 };
        let local = sign(&[7; 32], &token);
        assert!(local.len() <= 64, "{local}");
        assert_eq!(verify(&[7; 32], &local), Some(token.clone()));
        assert_eq!(verify(&[7; 32], &local.to_ascii_uppercase()), Some(token));
        assert_eq!(verify(&[8; 32], &local), None);
        for forged in [
            local.replace(".49.", ".48."),
            local.replace("01k", "01m"),
            format!("{local}.x"),
            local[..local.len() - 1].to_owned(),
            "bounce+x".to_owned(),
            String::new(),
        ] {
            assert_eq!(verify(&[7; 32], &forged), None, "{forged}");
        }
    }
}
