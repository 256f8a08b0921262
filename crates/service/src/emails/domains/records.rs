//! The records that a domain has to publish.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use email::dkim::published;

use super::Domain;
use crate::app::{App, Env};
use crate::carriers::simulated;
use crate::kit::dns::NoAnswer;
use crate::kit::words::words;

/// The selectors of the keys.
pub(super) const RSA_SELECTOR: &str = "est1";
pub(super) const ED25519_SELECTOR: &str = "est2";
/// Where under a domain reports of its mail go.
const RETURN_PATH: &str = "rp";

words! {
    /// A record.
    pub(super) enum Record {
        /// The domain is the account's.
        Ownership = "ownership",
        /// The key that most servers check.
        Rsa = "rsa",
        /// A second one, for servers that know Ed25519.
        Ed25519 = "ed25519",
        /// Where reports go, so that SPF is about the sender's own domain.
        ReturnPath = "return_path",
        /// What to do with mail that fails. Never written over: any policy is good.
        Dmarc = "dmarc",
    }
}

/// What name servers say of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// It is as it should be.
    pub(super) is_good: bool,
    /// What is at its name.
    pub(super) texts: Vec<String>,
}

impl Record {
    /// Whether a domain is verified only with it.
    pub(super) const fn is_required(self) -> bool {
        matches!(self, Self::Ownership | Self::Rsa | Self::ReturnPath)
    }

    /// Its type in DNS.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::ReturnPath => "CNAME",
            Self::Ownership | Self::Rsa | Self::Ed25519 | Self::Dmarc => "TXT",
        }
    }

    /// Its name.
    pub(super) fn name(self, domain: &str) -> String {
        let front = match self {
            Self::Ownership => "_estafette".to_owned(),
            Self::Rsa => format!("{RSA_SELECTOR}._domainkey"),
            Self::Ed25519 => format!("{ED25519_SELECTOR}._domainkey"),
            Self::ReturnPath => RETURN_PATH.to_owned(),
            Self::Dmarc => "_dmarc".to_owned(),
        };
        format!("{front}.{domain}")
    }

    /// What is at its name, and whether it is among that; other records beside it do not matter.
    pub(super) async fn look(self, app: &App, domain: &Domain) -> Result<Seen, NoAnswer> {
        let (name, wanted) = (self.name(&domain.name), self.value(app, domain));
        if self == Self::ReturnPath {
            let texts = app.dns.aliases(&name).await?;
            return Ok(Seen { is_good: texts.contains(&wanted), texts });
        }
        let texts = app.dns.texts(&name).await?;
        let is_it = |text: &String| match self {
            Self::Rsa => published(text).is_some_and(|key| key == domain.rsa_key),
            Self::Ed25519 => published(text).is_some_and(|key| key == domain.ed25519_key),
            // Any policy is good (RFC 7489 §6.6.3).
            Self::Dmarc => text.trim_start().starts_with("v=DMARC1"),
            Self::Ownership | Self::ReturnPath => text.trim() == wanted,
        };
        Ok(Seen { is_good: texts.iter().any(is_it), texts })
    }

    /// What it should say.
    pub(super) fn value(self, app: &App, domain: &Domain) -> String {
        match self {
            Self::Ownership => format!("estafette-verify={}", domain.token),
            Self::Rsa => format!("v=DKIM1; k=rsa; p={}", STANDARD.encode(&domain.rsa_key)),
            Self::Ed25519 => {
                format!("v=DKIM1; k=ed25519; p={}", STANDARD.encode(&domain.ed25519_key))
            }
            Self::ReturnPath => return_host(app),
            Self::Dmarc => "v=DMARC1; p=none;".to_owned(),
        }
    }
}

/// The host to which return paths of all domains lead.
fn return_host(app: &App) -> String {
    match app.env {
        Env::Sandbox => format!("{RETURN_PATH}.{}", simulated::DOMAIN),
        Env::Live => format!("{RETURN_PATH}.{}", app.config.mail_name()),
    }
}
