//! Tokens of people: `est_pt_` (portal) and `est_at_` (staff) and 43 random base62 characters,
//! which are 256 bits. Only their SHA-256 is stored; they expire and can be revoked.

use clock::{Clock, Millis};
use store::{WriteSet, args};

use super::{key, store as sql};
use crate::app::App;
use crate::kit::id::SessionId;
use crate::kit::seal::sha256;
use crate::kit::secret::Secret;
use crate::kit::words::words;

/// 62^43 is just above 2^256.
const RANDOM: usize = 43;

words! {
    /// Whom a token is for; the one kind never opens what the other does.
    pub enum Kind {
        /// A user.
        Portal = "portal",
        /// A member of the operator's staff.
        Staff = "staff",
    }
}

impl Kind {
    const fn fixed(self) -> &'static str {
        match self {
            Self::Portal => "est_pt_",
            Self::Staff => "est_at_",
        }
    }
}

/// A new token of a kind.
#[must_use]
pub fn make(clock: &Clock, kind: Kind) -> Secret {
    Secret::new(format!("{}{}", kind.fixed(), key::random(clock, RANDOM)))
}

/// Whether a text is meant to be a token, good or not.
#[must_use]
pub fn has_form(text: &str) -> bool {
    Kind::ALL.iter().any(|kind| text.starts_with(kind.fixed()))
}

/// Whether a text has the form of a token of this kind.
#[must_use]
pub fn is_well_formed(text: &str, kind: Kind) -> bool {
    text.strip_prefix(kind.fixed())
        .is_some_and(|tail| tail.len() >= RANDOM && tail.len() <= 64 && key::is_base62(tail))
}

/// The hash under which a token is stored.
#[must_use]
pub fn hash(token: &str) -> [u8; 32] {
    sha256(token.as_bytes())
}

/// Adds a new token of a subject, with the id of its session, to a write set; answers the token and
/// when it expires.
#[must_use]
pub fn new_token(app: &App, set: &mut WriteSet, kind: Kind, subject: &str) -> (Secret, Millis) {
    let token = make(&app.clock, kind);
    let now = app.now();
    let expires_at = now + life_ms(app, kind);
    let session = SessionId::new(&app.clock);
    let args = args![hash(token.expose()), kind.as_str(), subject, &session, now, expires_at];
    set.push(sql::ADD_TOKEN, args);
    (token, expires_at)
}

/// How long a token of a kind is good, milliseconds.
#[must_use]
pub fn life_ms(app: &App, kind: Kind) -> i64 {
    let life_s = match kind {
        Kind::Portal => app.config.access.portal_token_s,
        Kind::Staff => app.config.access.staff_token_s,
    };
    life_s.saturating_mul(1_000)
}

/// Whether a token opens what it is for.
///
/// # Errors
/// When the database cannot be read.
pub async fn is_good(app: &App, hash: [u8; 32]) -> Result<bool, store::Error> {
    let row: Option<sql::TokenRow> = app.db.row(sql::TOKEN, args![hash]).await?;
    Ok(row.is_some_and(|row| row.revoked_at.is_none() && row.expires_at > app.now()))
}

/// Adds the end of one token to a write set.
pub fn revoke(app: &App, set: &mut WriteSet, token_hash: [u8; 32]) {
    set.push(sql::REVOKE_TOKEN, args![app.now(), token_hash]);
}

/// Adds the end of all tokens of a subject, but `keep`, to a write set.
pub fn revoke_all(app: &App, set: &mut WriteSet, subject: &str, keep: Option<[u8; 32]>) {
    // No token hashes to the empty text, so it keeps none.
    let keep = keep.map(|hash| hash.to_vec()).unwrap_or_default();
    set.push(sql::REVOKE_TOKENS_OF_SUBJECT, args![app.now(), subject, keep]);
}

/// To be called when the end of tokens of a person is committed: what they have open at this node
/// looks at its token at once.
pub fn ended(app: &App, subject: &str) {
    app.sockets.doubt(subject);
}

/// Adds the end of what was mailed to a user to reset their password with, to a write set: whoever
/// reads their mailbox must not undo what they did to keep others out. Staff have no resets.
pub fn end_resets(app: &App, set: &mut WriteSet, user: &str) {
    set.push(sql::END_RESETS, args![app.now(), user]);
}

#[cfg(test)]
mod tests {
    use super::{Kind, is_well_formed, make};
    use clock::{Clock, Millis};

    #[test]
    fn a_token_has_the_form_of_its_own_kind_only() {
        let clock = Clock::held(Millis(0), 5);
        let portal = make(&clock, Kind::Portal);
        assert!(is_well_formed(portal.expose(), Kind::Portal));
        assert!(!is_well_formed(portal.expose(), Kind::Staff));
        let staff = make(&clock, Kind::Staff);
        assert!(is_well_formed(staff.expose(), Kind::Staff));
        assert!(!is_well_formed(staff.expose(), Kind::Portal));
    }

    #[test]
    fn short_and_foreign_texts_are_no_tokens() {
        for text in ["", "est_pt_", "est_pt_abc", &format!("est_pt_{}", "-".repeat(43))] {
            assert!(!is_well_formed(text, Kind::Portal), "{text}");
        }
    }
}
