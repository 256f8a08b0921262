//! The keys that sign the mail of a domain.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::app::{App, Env};
use crate::kit::id::{AccountId, EmailDomainId};

/// Mail of the sandbox leaves no machine and is not signed, so its domains share the public half of
/// a key that nobody has.
const SANDBOX_RSA: &str = "\
     MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAuY5npZIj878+DebJO7Ct16DeUEDE3Avwo1T4L4iZnYbf\
     lhK/5ToWJ+a/HPpKcGr6Su/pa8jZyfGHXoovn0iLwY62JUcqZmhtCzbh9cMTebVqj+TkML7scZ6UzOGZNRKxReTC\
     /pogfjfGkUW+53mRSycpYiKK+awqrFp1ikCNlNrHupoMVrPUVdDk1jN7ql+MIY5yLFs9OJrjSNrm2wxE/qDzFft/\
     iIC4uyGTN/PlP5vGw4NPVchG1DhoHhdW9++5X4cyYq4PckzOf7rFL0mjDfunvi1vuNOxsHD3mpa57XxirdCFz3kl\
     z94JyXbB95xNRX4ZmWxL8go2cq/e7ue65QIDAQAB";
/// The same of Ed25519: the public key of RFC 8463 §A.2.
const SANDBOX_ED25519: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

/// The keys of a domain.
pub(super) struct Keys {
    pub(super) rsa_public: Vec<u8>,
    pub(super) ed25519_public: Vec<u8>,
}

/// Makes the keys of a new domain; `None` where nothing could be signed.
pub(super) fn make(app: &App) -> Option<Keys> {
    if app.env != Env::Sandbox {
        return None;
    }
    let decode = |text| STANDARD.decode(text).ok();
    Some(Keys { rsa_public: decode(SANDBOX_RSA)?, ed25519_public: decode(SANDBOX_ED25519)? })
}

impl Keys {
    /// The secret halves as stored; those of the sandbox do not exist.
    #[expect(clippy::unused_self, reason = "keys of live will have secrets")]
    pub(super) fn seal(&self, _: &App, _: &AccountId, _: &EmailDomainId) -> Option<Vec<u8>> {
        None
    }
}
