//! Signatures: DKIM (RFC 6376) with RSA-2048 and SHA-256, and with Ed25519 (RFC 8463), both over
//! relaxed headers and a relaxed body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};

/// What is signed. What people see, and what says how to read it, is named once
/// more than it occurs, so that nobody can add another (RFC 6376 §8.15).
const SEALED: &[&str] = &[
    "from",
    "to",
    "cc",
    "reply-to",
    "subject",
    "date",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
];
/// What is signed beside it, where it is there.
const SIGNED: &[&str] = &["message-id", "list-unsubscribe", "list-unsubscribe-post"];

/// A key that signs.
pub enum Key {
    /// RSA, at least 2048 bits.
    Rsa(Box<RsaKeyPair>),
    /// Ed25519.
    Ed25519(Box<Ed25519KeyPair>),
}

/// Why a key is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signing key cannot be read")]
pub struct KeyError;

impl Key {
    /// An RSA key in PKCS#8, DER.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn rsa(pkcs8: &[u8]) -> Result<Self, KeyError> {
        RsaKeyPair::from_pkcs8(pkcs8).map(|key| Self::Rsa(Box::new(key))).map_err(|_| KeyError)
    }

    /// An Ed25519 key from its seed.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn ed25519(seed: &[u8]) -> Result<Self, KeyError> {
        let key = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| KeyError)?;
        Ok(Self::Ed25519(Box::new(key)))
    }

    const fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "rsa-sha256",
            Self::Ed25519(_) => "ed25519-sha256",
        }
    }

    /// The public half of an Ed25519 key, 32 bytes: what its record publishes (RFC 8463 §4). Empty
    /// for RSA, whose record holds another form of the key.
    #[must_use]
    pub fn ed25519_public(&self) -> &[u8] {
        match self {
            Self::Rsa(_) => &[],
            Self::Ed25519(key) => key.public_key().as_ref(),
        }
    }

    fn sign(&self, hashed: &[u8]) -> Result<Vec<u8>, KeyError> {
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                // PKCS#1 v1.5 signatures take no chance: the generator only blinds.
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), hashed, &mut signature)
                    .map_err(|_| KeyError)?;
                Ok(signature)
            }
            // RFC 8463 §3: it signs the SHA-256 of what RSA would.
            Self::Ed25519(key) => {
                Ok(key.sign(digest::digest(&digest::SHA256, hashed).as_ref()).as_ref().to_vec())
            }
        }
    }
}

/// Who signs.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// `d=`: the domain.
    pub domain: &'a str,
    /// `s=`: where under `_domainkey` its key is.
    pub selector: &'a str,
    /// `t=`: when, seconds since 1970.
    pub at_s: i64,
}

/// The header field that signs a message, with its line end, to be put in front of it. Lines end
/// in CR LF in the message.
///
/// # Errors
/// [`KeyError`].
pub fn sign(message: &[u8], signer: Signer<'_>, key: &Key) -> Result<Vec<u8>, KeyError> {
    let (head, body) = split(message);
    let fields = fields(head);
    let mut names = Vec::new();
    let mut hashed = Vec::with_capacity(head.len());
    for name in SEALED.iter().chain(SIGNED) {
        let of_name: Vec<&Field<'_>> = fields.iter().filter(|field| field.is(name)).collect();
        // From the bottom upwards (RFC 6376 §5.4.2).
        for field in of_name.iter().rev() {
            names.push(*name);
            field.relax_into(&mut hashed);
        }
        if SEALED.contains(name) {
            names.push(name);
        }
    }
    let body_hash = STANDARD.encode(digest::digest(&digest::SHA256, &relaxed_body(body)));
    let Signer { domain, selector, at_s } = signer;
    let unsigned = format!(
        "v=1; a={}; c=relaxed/relaxed; d={domain}; s={selector};\r\n t={at_s}; \
         h={};\r\n bh={};\r\n b=",
        key.algorithm(),
        names.join(":\r\n  "),
        body_hash,
    );
    let own = Field { name: b"DKIM-Signature", value: unsigned.as_bytes() };
    own.relax_into(&mut hashed);
    // The signature's own field ends without a line end (RFC 6376 §3.7).
    hashed.truncate(hashed.len().saturating_sub(2));
    let signature = STANDARD.encode(key.sign(&hashed)?);
    let mut field = format!("DKIM-Signature: {unsigned}").into_bytes();
    for chunk in signature.as_bytes().chunks(72) {
        field.extend_from_slice(b"\r\n  ");
        field.extend_from_slice(chunk);
    }
    field.extend_from_slice(b"\r\n");
    Ok(field)
}

struct Field<'m> {
    name: &'m [u8],
    /// Everything behind the colon, with its folds.
    value: &'m [u8],
}

impl Field<'_> {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// RFC 6376 §3.4.2.
    fn relax_into(&self, out: &mut Vec<u8>) {
        out.extend(self.name.iter().map(u8::to_ascii_lowercase));
        out.push(b':');
        let start = out.len();
        for byte in self.value.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')) {
            match byte {
                b' ' | b'\t' if out.len() == start || out.last() == Some(&b' ') => {}
                b' ' | b'\t' => out.push(b' '),
                byte => out.push(byte),
            }
        }
        if out.len() > start && out.last() == Some(&b' ') {
            out.pop();
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Header and body, without the empty line between them.
fn split(message: &[u8]) -> (&[u8], &[u8]) {
    match message.windows(4).position(|four| four == b"\r\n\r\n") {
        Some(at) => {
            (message.get(..at + 2).unwrap_or_default(), message.get(at + 4..).unwrap_or_default())
        }
        None => (message, &[]),
    }
}

fn fields(head: &[u8]) -> Vec<Field<'_>> {
    let mut starts = vec![];
    let mut line_start = 0;
    while let Some(line) = head.get(line_start..).filter(|rest| !rest.is_empty()) {
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            starts.push(line_start);
        }
        let end = line.iter().position(|byte| *byte == b'\n').map_or(line.len(), |at| at + 1);
        line_start += end;
    }
    let ends = starts.iter().skip(1).copied().chain([head.len()]);
    let all = starts.iter().zip(ends).filter_map(|(start, end)| head.get(*start..end));
    all.filter_map(|field| {
        let colon = field.iter().position(|byte| *byte == b':')?;
        Some(Field { name: field.get(..colon)?.trim_ascii(), value: field.get(colon + 1..)? })
    })
    .collect()
}

/// A line without the white space at its end, which is spaces and tabs and nothing else (RFC 6376
/// §2.8): a form feed stays.
fn without_space_at_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |at| at + 1);
    line.get(..end).unwrap_or_default()
}

/// RFC 6376 §3.4.4.
fn relaxed_body(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 2);
    let mut empty_lines = 0;
    for line in body.split(|byte| *byte == b'\n') {
        let line = without_space_at_end(line.strip_suffix(b"\r").unwrap_or(line));
        if line.is_empty() {
            empty_lines += 1;
            continue;
        }
        for _ in 0..empty_lines {
            out.extend_from_slice(b"\r\n");
        }
        empty_lines = 0;
        let mut was_space = false;
        for byte in line {
            let is_space = matches!(byte, b' ' | b'\t');
            if !is_space {
                out.push(*byte);
            } else if !was_space {
                out.push(b' ');
            }
            was_space = is_space;
        }
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// What a key record of DNS publishes: the bytes of its `p=`. The order of tags, their spaces, and
/// how the text is split do not matter; an empty `p=` is a key that was revoked.
#[must_use]
pub fn published(record: &str) -> Option<Vec<u8>> {
    let plain: String = record.chars().filter(|letter| !letter.is_whitespace()).collect();
    let mut tags = plain.split(';').filter_map(|tag| tag.split_once('='));
    let (_, key) = tags.find(|(name, _)| *name == "p")?;
    let key = STANDARD.decode(key).ok()?;
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::{Key, Signer, fields, published, relaxed_body, sign, split};

    #[test]
    fn nobody_can_add_what_people_see() {
        let key = Key::ed25519(&[7; 32]).unwrap();
        let signer = Signer { domain: "a.example", selector: "s", at_s: 0 };
        let message = b"From: a@a.example\r\nSubject: x\r\nX-Own: y\r\n\r\nhello\r\n";
        let field = String::from_utf8(sign(message, signer, &key).unwrap()).unwrap();
        let plain: String = field.chars().filter(|letter| !letter.is_whitespace()).collect();
        let names = plain.split(';').find_map(|tag| tag.strip_prefix("h=")).unwrap();
        let times = |name| names.split(':').filter(|named| *named == name).count();
        let found = ["from", "subject", "reply-to", "cc", "x-own", "list-unsubscribe"].map(times);
        assert_eq!(found, [2, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn the_examples_of_the_rfc_are_relaxed_as_it_says() {
        // RFC 6376 §3.4.5.
        let message = b"A: X\r\nB : Y\t\r\n\tZ  \r\n\r\n C \r\nD \t E\r\n\r\n\r\n";
        let (head, body) = split(message);
        let mut out = Vec::new();
        for field in fields(head) {
            field.relax_into(&mut out);
        }
        assert_eq!(String::from_utf8_lossy(&out), "a:X\r\nb:Y Z\r\n");
        assert_eq!(String::from_utf8_lossy(&relaxed_body(body)), " C\r\nD E\r\n");
        assert!(relaxed_body(b"\r\n\r\n").is_empty());
    }

    #[test]
    fn a_form_feed_is_no_white_space() {
        assert_eq!(relaxed_body(b"one\x0c\r\n\x0c\r\nend \t\r\n"), b"one\x0c\r\n\x0c\r\nend\r\n");
    }

    #[test]
    fn only_the_key_of_a_record_counts() {
        let key = Some(b"key".to_vec());
        assert_eq!(published("v=DKIM1; k=rsa; p=a2V5"), key);
        assert_eq!(published("k=rsa;p=a2 V5 ;t=s"), key);
        assert_eq!(published("v=DKIM1; p="), None);
        assert_eq!(published("nonsense"), None);
    }
}
