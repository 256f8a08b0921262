//! The master key and what is made with it: keyed hashes of codes, sealed secrets, signed cursors.

use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use clock::Clock;
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// Bytes of the nonce in front of what is sealed.
const NONCE: usize = 24;

/// Holds the keys derived from the master key. Clones share nothing secret by accident: there is
/// no `Debug`.
#[derive(Clone)]
pub struct Vault {
    codes: [u8; 32],
    cursors: [u8; 32],
    ledger: [u8; 32],
    recipients: [u8; 32],
    upstreams: [u8; 32],
    cipher: XChaCha20Poly1305,
    clock: Clock,
}

/// Why there is no usable master key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not 64 hexadecimal digits.
    #[error("the master key must be 64 hexadecimal digits (32 bytes)")]
    Malformed,
    /// The file cannot be read or made.
    #[error("the master key file {0}: {1}")]
    File(String, std::io::Error),
}

impl Vault {
    /// From 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    pub fn from_hex(hex: &str, clock: Clock) -> Result<Self, KeyError> {
        let master = unhex(hex.trim()).ok_or(KeyError::Malformed)?;
        Ok(Self::derive(&master, clock))
    }

    /// From a file, which is made with mode 0600 when it does not exist yet.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn from_file(path: &Path, clock: Clock) -> Result<Self, KeyError> {
        let failed = |error| KeyError::File(path.display().to_string(), error);
        match std::fs::read_to_string(path) {
            Ok(hex) => Self::from_hex(&hex, clock),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut master = [0_u8; 32];
                clock.fill(&mut master);
                match write_private(path, &hex(&master)) {
                    // Another process was first: its key is the key.
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                        let hex = std::fs::read_to_string(path).map_err(failed)?;
                        Self::from_hex(&hex, clock)
                    }
                    Err(error) => Err(failed(error)),
                    Ok(()) => Ok(Self::derive(&master, clock)),
                }
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn derive(master: &[u8; 32], clock: Clock) -> Self {
        let hkdf = Hkdf::<Sha256>::new(None, master);
        let sub = |info: &str| {
            let mut key = [0_u8; 32];
            // 32 bytes are far below HKDF's limit, so this cannot fail.
            let _within_limit = hkdf.expand(info.as_bytes(), &mut key);
            key
        };
        let seal = sub("estafette seal v1");
        Self {
            codes: sub("estafette codes v1"),
            cursors: sub("estafette cursors v1"),
            ledger: sub("estafette ledger v1"),
            recipients: sub("estafette recipients v1"),
            upstreams: sub("estafette upstreams v1"),
            cipher: XChaCha20Poly1305::new(&Key::from(seal)),
            clock,
        }
    }

    /// The keyed hash under which a code is checked, bound to its account and challenge.
    #[must_use]
    pub fn code_mac(&self, account: &str, challenge: &str, code: &str) -> [u8; 32] {
        mac(&self.codes, &[account, challenge, code])
    }

    /// The keyed hash that makes a change to a ledger row visible.
    #[must_use]
    pub fn ledger_mac(&self, fields: &[&str]) -> [u8; 32] {
        mac(&self.ledger, fields)
    }

    /// The keyed hash that stands for a forgotten phone number, the same within one account.
    #[must_use]
    pub fn recipient_mac(&self, account: &str, e164: &str) -> [u8; 32] {
        mac(&self.recipients, &[account, e164])
    }

    /// The keyed hash under which a carrier's message is known again. Carriers' ids can hold phone
    /// numbers.
    #[must_use]
    pub fn upstream_mac(&self, fields: &[&str]) -> [u8; 32] {
        mac(&self.upstreams, fields)
    }

    /// The keyed hash in a page cursor.
    #[must_use]
    pub fn cursor_mac(&self, fields: &[&str]) -> [u8; 32] {
        mac(&self.cursors, fields)
    }

    /// Seals a secret for storage; `place` (table and row) is bound in, so that a sealed value
    /// copied to another row does not open.
    #[must_use]
    pub fn seal(&self, place: &[&str], plain: &[u8]) -> Vec<u8> {
        let mut nonce = [0_u8; NONCE];
        self.clock.fill(&mut nonce);
        let aad = place.join("\u{1f}");
        let payload = Payload { msg: plain, aad: aad.as_bytes() };
        let mut sealed = nonce.to_vec();
        // Encryption fails only beyond 256 GiB; an empty tail would not open again.
        sealed.extend(self.cipher.encrypt(&XNonce::from(nonce), payload).unwrap_or_default());
        sealed
    }

    /// Opens what [`Vault::seal`] made for the same place; `None` when it is not that.
    #[must_use]
    pub fn open(&self, place: &[&str], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = sealed.split_at_checked(NONCE)?;
        let nonce: [u8; NONCE] = nonce.try_into().ok()?;
        let aad = place.join("\u{1f}");
        let payload = Payload { msg: body, aad: aad.as_bytes() };
        self.cipher.decrypt(&XNonce::from(nonce), payload).ok()
    }
}

/// SHA-256, for keys and tokens that carry enough chance of their own.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut bytes = [0_u8; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Fields are prefixed with their length, so that two lists never read as one.
fn mac(key: &[u8; 32], fields: &[&str]) -> [u8; 32] {
    let Ok(mut mac) = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key) else {
        return [0; 32];
    };
    for field in fields {
        mac.update(&u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
        mac.update(field.as_bytes());
    }
    mac.finalize().into_bytes().into()
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::Vault;
    use clock::{Clock, Millis};

    fn vault() -> Vault {
        Vault::from_hex(&"07".repeat(32), Clock::held(Millis(0), 1)).unwrap()
    }

    #[test]
    fn a_sealed_secret_opens_only_in_its_own_place() {
        let vault = vault();
        let sealed = vault.seal(&["challenges", "otp_1"], b"123456");
        assert!(!sealed.windows(6).any(|window| window == b"123456"));
        assert_eq!(vault.open(&["challenges", "otp_1"], &sealed), Some(b"123456".to_vec()));
        assert_eq!(vault.open(&["challenges", "otp_2"], &sealed), None);
        assert_eq!(vault.open(&["challenges", "otp_1"], &sealed[..20]), None);
    }

    #[test]
    fn fields_of_a_mac_do_not_run_together() {
        let vault = vault();
        assert_ne!(vault.code_mac("a", "bc", "d"), vault.code_mac("ab", "c", "d"));
    }

    #[test]
    fn a_key_file_is_made_once_and_kept_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/master.key");
        let first = Vault::from_file(&path, Clock::system()).unwrap();
        let again = Vault::from_file(&path, Clock::system()).unwrap();
        assert_eq!(first.code_mac("a", "b", "c"), again.code_mac("a", "b", "c"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
