//! The keys that sign the mail of a domain.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::Clock;
use email::dkim::{Key, Signer, sign};
use zeroize::Zeroizing;

use super::records::{ED25519_SELECTOR, RSA_SELECTOR};
use crate::app::{App, Env};
use crate::kit::id::{AccountId, EmailDomainId};

/// Mail of the sandbox leaves no machine and is not signed, so its domains share the public half of
/// an RSA key that nobody has.
const SANDBOX_RSA: &str = "\
     MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAuY5npZIj878+DebJO7Ct16DeUEDE3Avwo1T4L4iZnYbf\
     lhK/5ToWJ+a/HPpKcGr6Su/pa8jZyfGHXoovn0iLwY62JUcqZmhtCzbh9cMTebVqj+TkML7scZ6UzOGZNRKxReTC\
     /pogfjfGkUW+53mRSycpYiKK+awqrFp1ikCNlNrHupoMVrPUVdDk1jN7ql+MIY5yLFs9OJrjSNrm2wxE/qDzFft/\
     iIC4uyGTN/PlP5vGw4NPVchG1DhoHhdW9++5X4cyYq4PckzOf7rFL0mjDfunvi1vuNOxsHD3mpa57XxirdCFz3kl\
     z94JyXbB95xNRX4ZmWxL8go2cq/e7ue65QIDAQAB";
/// Bytes of the seed of an Ed25519 key.
const SEED: usize = 32;

/// The keys of a new domain.
pub(super) struct Keys {
    pub(super) rsa_public: Vec<u8>,
    pub(super) ed25519_public: Vec<u8>,
    /// The seed of the Ed25519 key, then the RSA key; those of the sandbox do not exist.
    secret: Option<Zeroizing<Vec<u8>>>,
}

/// Makes the keys of a new domain; `None` is a fault of the program.
pub(super) async fn make(app: &App, account: &AccountId, name: &str) -> Option<Keys> {
    if app.env == Env::Sandbox {
        let rsa_public = STANDARD.decode(SANDBOX_RSA).ok()?;
        // Somebody may publish it by mistake: only who has our keys could sign with it.
        let seed = app.vault.recipient_mac(account.as_str(), &format!("ed25519 {name}"));
        let ed25519_public = Key::ed25519(&seed).ok()?.ed25519_public().to_vec();
        return Some(Keys { rsa_public, ed25519_public, secret: None });
    }
    let clock = app.clock.clone();
    // It takes a tenth of a second of one core: not on a thread that serves.
    tokio::task::spawn_blocking(move || real(&clock)).await.ok()?
}

fn real(clock: &Clock) -> Option<Keys> {
    let mut secret = Zeroizing::new(vec![0; SEED]);
    clock.fill(&mut secret);
    let ed25519_public = Key::ed25519(&secret).ok()?.ed25519_public().to_vec();
    let rsa = email::keys::rsa(|bytes| clock.fill(bytes)).ok()?;
    secret.extend_from_slice(&rsa.secret);
    Some(Keys { rsa_public: rsa.public, ed25519_public, secret: Some(secret) })
}

impl Keys {
    /// The secret halves as stored.
    pub(super) fn seal(
        &self,
        app: &App,
        account: &AccountId,
        id: &EmailDomainId,
    ) -> Option<Vec<u8>> {
        let secret = self.secret.as_ref()?;
        Some(app.vault.seal(&place(account, id), secret))
    }
}

fn place<'a>(account: &'a AccountId, id: &'a EmailDomainId) -> [&'a str; 3] {
    ["email_domains", account.as_str(), id.as_str()]
}

/// What signs the mail of a domain.
pub(in crate::emails) struct Signers {
    domain: String,
    rsa: Key,
    ed25519: Key,
}

impl Signers {
    /// Opens what is stored; `None` where it cannot be.
    pub(super) fn open(
        app: &App,
        account: &AccountId,
        id: &EmailDomainId,
        domain: &str,
        sealed: &[u8],
    ) -> Option<Self> {
        let secret = Zeroizing::new(app.vault.open(&place(account, id), sealed)?);
        let (seed, rsa) = secret.split_at_checked(SEED)?;
        let (rsa, ed25519) = (Key::rsa(rsa).ok()?, Key::ed25519(seed).ok()?);
        Some(Self { domain: domain.to_owned(), rsa, ed25519 })
    }

    /// The signatures of a message, to be put in front of it; the RSA one first, which most
    /// servers look for.
    pub(in crate::emails) fn sign(&self, message: &[u8], at_s: i64) -> Option<Vec<u8>> {
        let by = |selector, key| {
            let signer = Signer { domain: &self.domain, selector, at_s };
            sign(message, signer, key).ok()
        };
        let mut signatures = by(RSA_SELECTOR, &self.rsa)?;
        signatures.extend(by(ED25519_SELECTOR, &self.ed25519)?);
        Some(signatures)
    }
}
