//! Master keys and what is made with them: keyed hashes of codes, sealed secrets, signed cursors.
//!
//! There is one key at most times, and two while the one takes the other's place: what is written
//! carries the id of the key that it was written with, and every key that is there opens. Keyed
//! hashes that stand for ever (of the ledger, of people who were forgotten) stay under the keys
//! that the database began with: those are kept in it, sealed.

mod file;
mod ring;
pub mod text;

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use clock::Clock;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use ring::{KeyRow, KeyState};
use ring::{MasterKey, Ring};

/// Master keys at a time: one, and those that it takes the place of.
pub const MOST_KEYS: usize = 4;

/// Why there is no usable master key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not what it must be.
    #[error("a master key is 64 hexadecimal digits (32 bytes); put several on lines of their own")]
    Malformed,
    /// There are more than [`MOST_KEYS`].
    #[error("at most {MOST_KEYS} master keys are used at a time; {0} are given")]
    TooMany(usize),
    /// The file cannot be read or made.
    #[error("the master key file {0}: {1}")]
    File(String, std::io::Error),
    /// The database was made with another one.
    #[error("{}", lacks(missing, given, *is_other))]
    Missing {
        /// The id of the one that is needed.
        missing: String,
        /// The ids of those that are given.
        given: Vec<String>,
        /// Whether the database knows none of these.
        is_other: bool,
    },
    /// The keys that the database keeps do not open, although their key is there.
    #[error(
        "the row {0} of master_keys was changed: what it keeps does not open with that key. Put \
         the row back from a backup"
    )]
    Changed(String),
    /// There are no rows of keys, and the newest seal is of another key.
    #[error(
        "the table master_keys is empty, and what this database has was not sealed with {}. \
         Restore the table from a backup, unless the key is the wrong one",
        .0.join(", ")
    )]
    Forgotten(Vec<String>),
}

fn lacks(missing: &str, given: &[String], is_other: bool) -> String {
    let given = given.join(", ");
    let needs = format!("this database needs the master key with the fingerprint {missing}");
    if is_other {
        return format!("{needs}; what is given is {given}, which is another database's");
    }
    format!(
        "{needs} beside {given}. Put it back, in a line of its own: a backup from before \
         `rotate-key --drop` needs the key that was dropped. Only where no backup was restored and \
         the key was dropped, somebody wrote its row again: then delete the row with this key_id \
         from the table master_keys"
    )
}

/// Holds the keys derived from the master keys. Clones share them. No `Debug`.
#[derive(Clone)]
pub struct Vault {
    ring: Arc<RwLock<Arc<Ring>>>,
    clock: Clock,
}

impl Vault {
    /// From keys of 64 hexadecimal digits, with white space between them. Until the database says
    /// otherwise, the first one writes.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    pub fn from_hex(text: &str, clock: Clock) -> Result<Self, KeyError> {
        let ring = Ring::read(text)?;
        Ok(Self { ring: Arc::new(RwLock::new(Arc::new(ring))), clock })
    }

    /// From a file.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn from_file(path: &Path, clock: Clock) -> Result<Self, KeyError> {
        Self::from_hex(&file::read(path)?, clock)
    }

    /// From a file, which is made with mode 0600 when it does not exist yet.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn from_file_or_new(path: &Path, clock: Clock) -> Result<Self, KeyError> {
        Self::from_hex(&file::read_or_make(path, &clock)?, clock)
    }

    /// The ids of the keys that are there. An id tells nothing of its key.
    #[must_use]
    pub fn key_ids(&self) -> Vec<String> {
        self.ring().ids()
    }

    /// The ids of the keys in the text that was read last, in its order.
    #[must_use]
    pub fn given(&self) -> Vec<String> {
        self.ring().given.clone()
    }

    /// The id of the key that writes.
    #[must_use]
    pub fn writes_with(&self) -> String {
        self.ring().writer().id()
    }

    /// What the database keeps of a key: the kept keys, sealed with it.
    #[must_use]
    pub fn kept_under(&self, key_id: &str) -> Option<Vec<u8>> {
        self.ring().kept_under(key_id, &self.clock)
    }

    /// Adds the keys of a text to those that are there; none is ever forgotten before a restart.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    pub fn learn(&self, text: &str) -> Result<(), KeyError> {
        let given = Ring::read(text)?;
        self.change(|ring| ring.with(given));
        Ok(())
    }

    /// Adds the keys of another vault, such as what a file has now.
    pub fn learn_from(&self, other: &Self) {
        let given = (*other.ring()).clone();
        self.change(|ring| ring.with(given));
    }

    /// Makes a new key, the first in the file, and learns it.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn add_to_file(&self, path: &Path) -> Result<(), KeyError> {
        let text = format!("{}\n{}\n", file::new_key(&self.clock), file::read(path)?.trim());
        // What could not be read again is not written.
        Ring::read(&text)?;
        file::replace(path, &text)?;
        self.learn(&text)
    }

    /// Takes keys out of a file by their ids.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn drop_from_file(&self, path: &Path, ids: &[String]) -> Result<(), KeyError> {
        let text = file::read(path)?;
        let stays =
            |hex: &&str| Ring::read(hex).is_ok_and(|ring| !ids.contains(&ring.writer().id()));
        let left: Vec<&str> = text.split_whitespace().filter(stays).collect();
        file::replace(path, &format!("{}\n", left.join("\n")))
    }

    /// Follows what the database says of its keys: which one writes, and what the kept keys are.
    /// Answers the ids of rows that the service did not write; they are passed over.
    ///
    /// # Errors
    /// [`KeyError::Missing`], [`KeyError::Changed`]: then nothing changes.
    pub fn follow(&self, rows: &[KeyRow]) -> Result<Vec<String>, KeyError> {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        let (followed, made_up) = ring.following(rows)?;
        *ring = Arc::new(followed);
        Ok(made_up)
    }

    /// The keyed hash in the row of a key, which says that the service wrote it.
    #[must_use]
    pub fn key_proof(&self, key_id: &str) -> [u8; 32] {
        ring::proof(&self.ring().kept, key_id)
    }

    fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.ring.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// In one step: of two that learn at the same time neither forgets what the other learned.
    fn change(&self, to: impl FnOnce(&Ring) -> Ring) {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        *ring = Arc::new(to(&ring));
    }

    /// The keyed hash under which a code is checked, bound to its account and challenge.
    #[must_use]
    pub fn code_mac(&self, account: &str, challenge: &str, code: &str) -> [u8; 32] {
        mac(&self.ring().writer().codes, &[account, challenge, code])
    }

    /// The hash of a code under the key that `stored` was made with, for the time while one key
    /// takes another's place; under the one that writes when it is none of them.
    #[must_use]
    pub fn code_mac_like(
        &self,
        stored: &[u8],
        account: &str,
        challenge: &str,
        code: &str,
    ) -> [u8; 32] {
        let ring = self.ring();
        let fields = [account, challenge, code];
        let found = ring.keys().map(|key| mac(&key.codes, &fields));
        let found = found.into_iter().find(|found| bool::from(found.ct_eq(stored)));
        found.unwrap_or_else(|| mac(&ring.writer().codes, &fields))
    }

    /// Whether one key takes another's place now.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.ring().keys().count() > 1
    }

    /// The keyed hash that makes a change to a ledger row visible.
    #[must_use]
    pub fn ledger_mac(&self, fields: &[&str]) -> [u8; 32] {
        mac(&self.ring().kept.ledger, fields)
    }

    /// The keyed hash under a seal of the ledger or a line of the audit log; the first field says
    /// which.
    #[must_use]
    pub fn proof_mac(&self, fields: &[&str]) -> [u8; 32] {
        mac(&self.ring().kept.proofs, fields)
    }

    /// The keyed hash that stands for a forgotten phone number, the same within one account.
    #[must_use]
    pub fn recipient_mac(&self, account: &str, e164: &str) -> [u8; 32] {
        mac(&self.ring().kept.recipients, &[account, e164])
    }

    /// The keyed hash under which a carrier's message is known again. Carriers' ids can hold phone
    /// numbers.
    #[must_use]
    pub fn upstream_mac(&self, fields: &[&str]) -> [u8; 32] {
        mac(&self.ring().kept.upstreams, fields)
    }

    /// The keyed hash by which a repeated request is known: of where it went, and of its body.
    #[must_use]
    pub fn request_mac(&self, place: [&str; 3], body: &[u8]) -> [u8; 32] {
        request_mac(self.ring().writer(), place, body)
    }

    /// Whether a stored hash is this request's under any of the keys.
    #[must_use]
    pub fn is_request_mac(&self, stored: &[u8], place: [&str; 3], body: &[u8]) -> bool {
        self.ring().keys().any(|key| bool::from(request_mac(key, place, body).ct_eq(stored)))
    }

    /// The keyed hash that stands for somebody who tries passwords: email and address. A rotation
    /// begins to count anew.
    #[must_use]
    pub fn guesser_mac(&self, fields: &[&str]) -> [u8; 32] {
        mac(&self.ring().writer().guessers, fields)
    }

    /// The keyed hash in a page cursor.
    #[must_use]
    pub fn cursor_mac(&self, fields: &[&str]) -> [u8; 32] {
        mac(&self.ring().writer().cursors, fields)
    }

    /// Whether the beginning of a cursor's hash is what any of the keys gives.
    #[must_use]
    pub fn is_cursor_mac(&self, fields: &[&str], given: &[u8]) -> bool {
        self.ring().keys().any(|key| {
            let expected = mac(&key.cursors, fields);
            expected.get(..given.len()).is_some_and(|part| bool::from(part.ct_eq(given)))
        })
    }

    /// Seals a secret for storage; `place` (table and row) is bound in, so that a sealed value
    /// copied to another row does not open.
    #[must_use]
    pub fn seal(&self, place: &[&str], plain: &[u8]) -> Vec<u8> {
        self.ring().writer().seal(place, plain, &self.clock)
    }

    /// Opens what [`Vault::seal`] made for the same place; `None` when it is not that.
    #[must_use]
    pub fn open(&self, place: &[&str], sealed: &[u8]) -> Option<Vec<u8>> {
        self.ring().open(place, sealed)
    }

    /// The same secret sealed with the key that writes now; `None` when it is so already, or does
    /// not open.
    #[must_use]
    pub fn reseal(&self, place: &[&str], sealed: &[u8]) -> Option<Vec<u8>> {
        let ring = self.ring();
        if ring.writer().is_mark_of(sealed) {
            return None;
        }
        let plain = ring.open(place, sealed)?;
        Some(ring.writer().seal(place, &plain, &self.clock))
    }
}

/// SHA-256, for keys and tokens that carry enough chance of their own.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 over fields, each behind its length, so that two lists never read as one.
#[must_use]
pub fn sha256_of(fields: &[&[u8]]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for field in fields {
        digest.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
        digest.update(field);
    }
    digest.finalize().into()
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

/// 32 bytes from 64 hexadecimal digits.
#[must_use]
pub fn unhex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut bytes = [0_u8; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn request_mac(key: &MasterKey, [account, namespace, route]: [&str; 3], body: &[u8]) -> [u8; 32] {
    mac(&key.requests, &[account.as_bytes(), namespace.as_bytes(), route.as_bytes(), body])
}

/// Fields are prefixed with their length, so that two lists never read as one.
fn mac<F: AsRef<[u8]>>(key: &[u8; 32], fields: &[F]) -> [u8; 32] {
    let Ok(mut mac) = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key) else {
        return [0; 32];
    };
    for field in fields.iter().map(AsRef::as_ref) {
        mac.update(&u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
        mac.update(field);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::{KeyError, KeyRow, KeyState, Vault};
    use clock::{Clock, Millis};

    const PLACE: [&str; 2] = ["challenges", "otp_1"];

    fn vault(keys: &[&str]) -> Vault {
        let text: Vec<String> = keys.iter().map(|byte| byte.repeat(32)).collect();
        Vault::from_hex(&text.join("\n"), Clock::held(Millis(0), 1)).unwrap()
    }

    /// A row as the database has it.
    fn row(vault: &Vault, key: &str, state: KeyState) -> KeyRow {
        let key_id = self::vault(&[key]).writes_with();
        let kept = vault.kept_under(&key_id).unwrap();
        let proof = Some(vault.key_proof(&key_id).to_vec());
        KeyRow { key_id, state, kept, changed_at: Millis(0), proof }
    }

    #[test]
    fn a_sealed_secret_opens_only_in_its_own_place() {
        let vault = vault(&["07"]);
        let sealed = vault.seal(&PLACE, b"123456");
        assert!(!sealed.windows(6).any(|window| window == b"123456"));
        assert_eq!(vault.open(&PLACE, &sealed), Some(b"123456".to_vec()));
        assert_eq!(vault.open(&["challenges", "otp_2"], &sealed), None);
        assert_eq!(vault.open(&PLACE, &sealed[..20]), None);
    }

    #[test]
    fn fields_of_a_mac_do_not_run_together() {
        let vault = vault(&["07"]);
        assert_ne!(vault.code_mac("a", "bc", "d"), vault.code_mac("ab", "c", "d"));
    }

    #[test]
    fn a_request_is_told_from_others_by_all_that_it_is() {
        let (vault, place) = (vault(&["07"]), ["acc_1", "tenant", "POST /v1/a"]);
        let first = vault.request_mac(place, b"{}");
        assert_eq!(first, vault.request_mac(place, b"{}"));
        assert_ne!(first, vault.request_mac(place, b"{ }"));
        assert_ne!(first, vault.request_mac(["acc_1", "staff", "POST /v1/a"], b"{}"));
        assert_ne!(first, vault.request_mac(["acc_1", "tenant", "POST /v1/b"], b"{}"));
        assert_ne!(first, vault.request_mac(["acc_2", "tenant", "POST /v1/a"], b"{}"));
        let other = self::vault(&["08"]);
        assert!(!other.is_request_mac(&first, place, b"{}"), "keyed");
        let rotating = self::vault(&["08", "07"]);
        assert!(rotating.is_request_mac(&first, place, b"{}"), "known while a key is replaced");
        assert!(!rotating.is_request_mac(&first, place, b"{ }"));
    }

    #[test]
    fn what_an_old_key_wrote_is_opened_and_written_anew() {
        let old = vault(&["07"]);
        let sealed = old.seal(&PLACE, b"123456");
        let both = vault(&["08", "07"]);
        assert_eq!(both.open(&PLACE, &sealed), Some(b"123456".to_vec()));
        assert_eq!(old.reseal(&PLACE, &sealed), None, "it carries the key that writes");
        let renewed = both.reseal(&PLACE, &sealed).unwrap();
        assert_eq!(vault(&["08"]).open(&PLACE, &renewed), Some(b"123456".to_vec()));
        assert_eq!(old.open(&PLACE, &renewed), None);
        let mac = old.code_mac("a", "b", "1234");
        assert_ne!(both.code_mac("a", "b", "1234"), mac);
        assert_eq!(both.code_mac_like(&mac, "a", "b", "1234"), mac);
        assert_ne!(both.code_mac_like(&mac, "a", "b", "4321"), mac);
        let cursor = old.cursor_mac(&["list", "x"]);
        assert!(both.is_cursor_mac(&["list", "x"], &cursor[..12]));
        assert!(!both.is_cursor_mac(&["list", "y"], &cursor[..12]));
    }

    #[test]
    fn a_secret_from_before_there_were_ids_still_opens() {
        let vault = vault(&["08", "07"]);
        let sealed = self::vault(&["07"]).seal(&PLACE, b"123456");
        assert_eq!(vault.open(&PLACE, &sealed[4..]), Some(b"123456".to_vec()));
        assert!(vault.reseal(&PLACE, &sealed[4..]).is_some());
    }

    #[test]
    fn the_database_says_which_key_writes_and_what_is_kept_stays() {
        let old = vault(&["07"]);
        let first = row(&old, "07", KeyState::Current);
        old.follow(std::slice::from_ref(&first)).unwrap();
        let both = vault(&["08", "07"]);
        both.follow(std::slice::from_ref(&first)).unwrap();
        assert_eq!(both.writes_with(), old.writes_with(), "not the first in the file");
        let next = row(&both, "08", KeyState::Current);
        let former = KeyRow { state: KeyState::Former, ..first };
        both.follow(&[next.clone(), former.clone()]).unwrap();
        assert_eq!(both.writes_with(), vault(&["08"]).writes_with());
        let refused = vault(&["08"]).follow(&[next.clone(), former.clone()]);
        assert!(matches!(refused, Err(KeyError::Missing { missing, .. })
            if missing == old.writes_with()));
        // A row that nobody proves is no reason to stop, whatever it says.
        let made_up = KeyRow { key_id: "0bad0bad".into(), proof: None, ..former.clone() };
        let strangers = [next.clone(), made_up.clone()];
        assert_eq!(vault(&["08"]).follow(&strangers).unwrap(), ["0bad0bad"]);
        let usurper = KeyRow { state: KeyState::Current, ..made_up.clone() };
        let deposed = KeyRow { state: KeyState::Former, ..next.clone() };
        let loyal = vault(&["08"]);
        assert_eq!(loyal.follow(&[deposed, usurper]).unwrap(), ["0bad0bad"]);
        assert_eq!(loyal.writes_with(), vault(&["08"]).writes_with());
        assert!(loyal.follow(&[made_up]).is_err(), "nothing says what is kept");
        let changed = KeyRow { kept: vec![7; 200], ..next.clone() };
        assert!(matches!(loyal.follow(&[changed]), Err(KeyError::Changed(_))));
        // Without the old one, once that is dropped.
        let new = vault(&["08"]);
        new.follow(&[next]).unwrap();
        assert_eq!(new.ledger_mac(&["x"]), old.ledger_mac(&["x"]));
        assert_eq!(new.recipient_mac("x", "+1"), old.recipient_mac("x", "+1"));
        assert_ne!(new.code_mac("a", "b", "c"), old.code_mac("a", "b", "c"));
    }

    #[test]
    fn a_key_file_is_made_once_and_kept_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/master.key");
        assert!(Vault::from_file(&path, Clock::system()).is_err(), "only a new database has none");
        let first = Vault::from_file_or_new(&path, Clock::system()).unwrap();
        let again = Vault::from_file(&path, Clock::system()).unwrap();
        assert_eq!(first.code_mac("a", "b", "c"), again.code_mac("a", "b", "c"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
