//! The keys that are there, and which of them writes.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use clock::{Clock, Millis};
use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{KeyError, MOST_KEYS, hex, mac, unhex};
use crate::kit::words::words;

/// Bytes in front of what is sealed: the id of the key, and the nonce.
const MARK: usize = 4;
const NONCE: usize = 24;
/// What the kept keys are bound to.
const KEPT: [&str; 1] = ["master_keys"];

words! {
    /// Where a key is on its way, as the database has it.
    pub enum KeyState {
        /// All nodes learn of it; nothing is written with it yet.
        Next = "next",
        /// What is written carries it.
        Current = "current",
        /// What was written may still carry it.
        Former = "former",
    }
}

/// A key as the database knows it: without the key.
#[derive(Clone, Debug)]
pub struct KeyRow {
    /// Its id.
    pub key_id: String,
    /// Where it is on its way.
    pub state: KeyState,
    /// The kept keys, sealed with it.
    pub kept: Vec<u8>,
    /// Since when it is in that state.
    pub changed_at: Millis,
    /// The keyed hash that says that the service wrote the row.
    pub proof: Option<Vec<u8>>,
}

impl KeyRow {
    fn is_proven(&self, kept: &Kept) -> bool {
        let expected = proof(kept, &self.key_id);
        self.proof.as_ref().is_some_and(|given| bool::from(expected.ct_eq(given.as_slice())))
    }
}

/// What is in the row of a key to say that the service wrote it.
pub(super) fn proof(kept: &Kept, key_id: &str) -> [u8; 32] {
    mac(&kept.proofs, &["master_keys", key_id])
}

/// One master key and what is derived from it.
#[derive(Clone)]
pub(super) struct MasterKey {
    mark: [u8; MARK],
    pub(super) codes: [u8; 32],
    pub(super) cursors: [u8; 32],
    pub(super) requests: [u8; 32],
    pub(super) guessers: [u8; 32],
    own: Kept,
    cipher: XChaCha20Poly1305,
}

/// Keys of hashes that stand for ever: those of the master key that the database began with.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) ledger: [u8; 32],
    pub(super) recipients: [u8; 32],
    pub(super) proofs: [u8; 32],
    pub(super) upstreams: [u8; 32],
}

impl Kept {
    fn bytes(&self) -> Vec<u8> {
        [self.ledger, self.recipients, self.proofs, self.upstreams].concat()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (ledger, rest) = bytes.split_first_chunk::<32>()?;
        let (recipients, rest) = rest.split_first_chunk::<32>()?;
        let (proofs, rest) = rest.split_first_chunk::<32>()?;
        let upstreams = rest.first_chunk::<32>()?;
        Some(Self {
            ledger: *ledger,
            recipients: *recipients,
            proofs: *proofs,
            upstreams: *upstreams,
        })
    }
}

impl MasterKey {
    fn derive(master: &[u8; 32]) -> Self {
        let hkdf = Hkdf::<Sha256>::new(None, master);
        let sub = |info: &str| {
            let mut key = [0_u8; 32];
            // 32 bytes are far below HKDF's limit, so this cannot fail.
            let _within_limit = hkdf.expand(info.as_bytes(), &mut key);
            key
        };
        let id = sub("estafette key id v1");
        Self {
            mark: [id[0], id[1], id[2], id[3]],
            codes: sub("estafette codes v1"),
            cursors: sub("estafette cursors v1"),
            requests: sub("estafette requests v1"),
            guessers: sub("estafette guessers v1"),
            own: Kept {
                ledger: sub("estafette ledger v1"),
                recipients: sub("estafette recipients v1"),
                proofs: sub("estafette proofs v1"),
                upstreams: sub("estafette upstreams v1"),
            },
            cipher: XChaCha20Poly1305::new(&Key::from(sub("estafette seal v1"))),
        }
    }

    pub(super) fn id(&self) -> String {
        hex(&self.mark)
    }

    /// Whether a sealed value carries this key's id.
    pub(super) fn is_mark_of(&self, sealed: &[u8]) -> bool {
        sealed.starts_with(&self.mark)
    }

    pub(super) fn seal(&self, place: &[&str], plain: &[u8], clock: &Clock) -> Vec<u8> {
        let mut nonce = [0_u8; NONCE];
        clock.fill(&mut nonce);
        let aad = place.join("\u{1f}");
        let payload = Payload { msg: plain, aad: aad.as_bytes() };
        let mut sealed = [&self.mark[..], &nonce[..]].concat();
        // Encryption fails only beyond 256 GiB; an empty tail would not open again.
        sealed.extend(self.cipher.encrypt(&XNonce::from(nonce), payload).unwrap_or_default());
        sealed
    }

    /// Opens nonce and body, without the id in front.
    fn open(&self, place: &[&str], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = sealed.split_first_chunk::<NONCE>()?;
        let aad = place.join("\u{1f}");
        let payload = Payload { msg: body, aad: aad.as_bytes() };
        self.cipher.decrypt(&XNonce::from(*nonce), payload).ok()
    }
}

/// All of them.
#[derive(Clone)]
pub(super) struct Ring {
    writer: MasterKey,
    others: Vec<MasterKey>,
    pub(super) kept: Kept,
    /// The ids of the keys in the text that was read last, in its order.
    pub(super) given: Vec<String>,
}

impl Ring {
    /// From hexadecimal digits, white space between the keys.
    pub(super) fn read(text: &str) -> Result<Self, KeyError> {
        let keys = text.split_whitespace().map(|hex| unhex(hex).ok_or(KeyError::Malformed));
        let mut keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(KeyError::Malformed);
        }
        if keys.len() > MOST_KEYS {
            return Err(KeyError::TooMany(keys.len()));
        }
        let writer = MasterKey::derive(&keys.remove(0));
        let others: Vec<_> = keys.iter().map(MasterKey::derive).collect();
        let kept = writer.own.clone();
        let given = std::iter::once(&writer).chain(&others).map(MasterKey::id).collect();
        Ok(Self { writer, others, kept, given })
    }

    pub(super) fn writer(&self) -> &MasterKey {
        &self.writer
    }

    /// The one that writes comes first.
    pub(super) fn keys(&self) -> impl Iterator<Item = &MasterKey> {
        std::iter::once(&self.writer).chain(&self.others)
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.keys().map(MasterKey::id).collect()
    }

    fn key(&self, id: &str) -> Option<&MasterKey> {
        self.keys().find(|key| key.id() == id)
    }

    pub(super) fn kept_under(&self, key_id: &str, clock: &Clock) -> Option<Vec<u8>> {
        self.key(key_id).map(|key| key.seal(&KEPT, &self.kept.bytes(), clock))
    }

    /// With the keys of another ring that are not there yet.
    pub(super) fn with(&self, other: Self) -> Self {
        let mut ring = Self { given: other.given.clone(), ..self.clone() };
        for key in std::iter::once(other.writer).chain(other.others) {
            if ring.keys().all(|known| known.mark != key.mark) {
                ring.others.push(key);
            }
        }
        ring
    }

    /// With the writer that the database names, and what it keeps, and the ids of rows that nobody
    /// proves. Every other key that something may be written with must be there. Whoever can write
    /// to the database but has no key can at most take a key's row away.
    pub(super) fn following(&self, rows: &[KeyRow]) -> Result<(Self, Vec<String>), KeyError> {
        let rows = || rows.iter().filter(|row| row.state != KeyState::Next);
        let is_other = rows().all(|row| self.key(&row.key_id).is_none());
        let lacks = |row: &KeyRow| {
            let missing = row.key_id.clone();
            KeyError::Missing { missing, given: self.ids(), is_other }
        };
        let Some(kept) = rows().find_map(|row| self.kept_in(row)) else {
            let lacking = rows().find(|row| self.key(&row.key_id).is_none());
            return match lacking.or_else(|| rows().next()) {
                Some(row) if self.key(&row.key_id).is_some() => {
                    Err(KeyError::Changed(row.key_id.clone()))
                }
                Some(row) => Err(lacks(row)),
                None => Ok((self.clone(), Vec::new())),
            };
        };
        let mut made_up = Vec::new();
        for row in rows().filter(|row| self.key(&row.key_id).is_none()) {
            if row.is_proven(&kept) {
                return Err(lacks(row));
            }
            made_up.push(row.key_id.clone());
        }
        // Whose state was changed by somebody is known by its key: the newest of them writes.
        let known = rows().filter(|row| self.key(&row.key_id).is_some());
        let writer = known.max_by_key(|row| (row.state == KeyState::Current, row.changed_at));
        let writer = writer.and_then(|row| self.key(&row.key_id)).unwrap_or(&self.writer).clone();
        let others = self.keys().filter(|key| key.mark != writer.mark).cloned().collect();
        Ok((Self { writer, others, kept, given: self.given.clone() }, made_up))
    }

    /// The keys that a row keeps, if its own key is there and opens it.
    fn kept_in(&self, row: &KeyRow) -> Option<Kept> {
        let key = self.key(&row.key_id)?;
        let kept = key.open(&KEPT, row.kept.get(MARK..).unwrap_or_default())?;
        Kept::read(&kept)
    }

    /// A value carries the id of its key; one from before there were ids is tried with all.
    pub(super) fn open(&self, place: &[&str], sealed: &[u8]) -> Option<Vec<u8>> {
        let (_, body) = sealed.split_at_checked(MARK)?;
        let marked = self.keys().find(|key| key.is_mark_of(sealed));
        let opened = marked.and_then(|key| key.open(place, body));
        opened.or_else(|| self.keys().find_map(|key| key.open(place, sealed)))
    }
}
