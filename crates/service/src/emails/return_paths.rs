//! Return paths: the address to which other mail servers report what became of one copy of an
//! email. Its local part says which copy it is, under a keyed hash and for a month.

use clock::DAY;
use email::verp::{Token, sign, verify};

use super::Piece;
use crate::app::{App, Env};
use crate::kit::id::EmailId;

/// How long after an email reports of it are believed. Servers give up after five days; people
/// complain later.
const LIFE_MS: i64 = 30 * DAY;
/// Under a domain: where return paths of its mail lead.
const HOST: &str = "rp";
/// What ids of emails begin with.
const PREFIX: &str = "eml_";

/// A copy of an email.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) email: EmailId,
    pub(super) position: i64,
}

/// The return path of a copy from this domain; `None` where the service does not listen to reports.
pub(super) fn of(app: &App, piece: &Piece, domain: &str) -> Option<String> {
    if app.env != Env::Live || app.config.email.reports.is_empty() {
        return None;
    }
    let message = piece.email.as_str().strip_prefix(PREFIX)?.to_owned();
    let position = u16::try_from(piece.position).ok()?;
    let domain = format!("{HOST}.{domain}");
    Some(sign(&key(app), &Token { message, position, domain }))
}

/// The copy that a return path of ours leads to, while reports of it are believed.
pub(super) fn read(app: &App, address: &str) -> Option<Copy> {
    let Token { message, position, .. } = verify(&key(app), address)?;
    let email = EmailId::parse(&format!("{PREFIX}{message}"))?;
    let is_recent = email.as_str() >= EmailId::bound(app.now() - LIFE_MS).as_str();
    is_recent.then(|| Copy { email, position: i64::from(position) })
}

/// The domain whose host of return paths this is.
pub(super) fn domain_of(host: &str) -> Option<&str> {
    host.strip_prefix(HOST)?.strip_prefix('.')
}

/// Kept for as long as the deployment has its data, whatever key writes by then.
fn key(app: &App) -> [u8; 32] {
    app.vault.upstream_mac(&["return paths of emails"])
}
