//! Rank 5: what the service writes to its users by email: proof of an address, reset of a password,
//! a webhook that was disabled, a ticket that was answered. What makes a notice necessary writes it
//! in its own write set; `emails::notices` carries it. It names the user, not their address, so
//! there is nothing to erase.
//!
//! A *proof* is a token that only reaches the person by email: 256 bits, hashed at rest, of one
//! use, with an expiry; sealed beside its hash until the mail is out.

pub mod resets;
pub mod retention;
mod store;
mod texts;

use ::store::{Error as DbError, Reject, WriteSet, args};
use clock::{DAY, HOUR, Millis};

use self::store as sql;
use crate::access::key;
use crate::app::App;
use crate::kit::id::{AccountId, AttemptId, NoticeId, UserId};
use crate::kit::seal::sha256;
use crate::kit::secret::Secret;
use crate::kit::words::words;

pub use texts::{Letter, letter};

/// The proof was used meanwhile.
pub const USED: Reject = Reject("notice_used");
/// Somebody else moved the notice.
pub const MOVED: Reject = Reject("notice_moved");
/// How long a notice without a proof is worth sending, milliseconds.
const NEWS_MS: i64 = DAY;
/// Random characters of a proof: 62^43 is just above 2^256.
const RANDOM: usize = 43;
/// What proofs begin with, so that one that leaks is known for what it is.
const FIXED: &str = "est_pf_";

words! {
    /// What a notice says.
    pub enum Kind {
        /// The address is to be confirmed.
        VerifyEmail = "verify_email",
        /// A new password can be set.
        PasswordReset = "password_reset",
        /// A webhook target was disabled.
        WebhookDisabled = "webhook_disabled",
        /// Staff answered a ticket, and its user was not there.
        TicketAnswered = "ticket_answered",
    }
}

words! {
    /// Where a notice stands.
    pub enum State {
        /// For somebody to carry it.
        Waiting = "waiting",
        /// It has an attempt.
        Queued = "queued",
        /// A relay has it, or may have it.
        Sent = "sent",
        /// No relay took it in time.
        Failed = "failed",
    }
}

/// A notice, with the address that its user has now. No `Debug`: it holds the address.
#[derive(Clone)]
pub struct Notice {
    /// The user's live account.
    pub account: AccountId,
    /// Its id.
    pub id: NoticeId,
    /// What it says.
    pub kind: Kind,
    /// What it is about.
    pub object_id: String,
    /// The proof in it.
    pub sealed: Option<Vec<u8>>,
    /// Where it stands.
    pub state: State,
    /// What it goes by; empty while it waits.
    pub attempt: AttemptId,
    /// Changes so far.
    pub change_count: i64,
    /// Until when it is worth sending, and its proof good.
    pub valid_until: Millis,
    /// When it was written.
    pub created_at: Millis,
    /// To whom.
    pub email: String,
}

/// A proof that somebody showed and that is good.
#[derive(Clone, Debug)]
pub struct Proof {
    account: AccountId,
    id: NoticeId,
    /// Whose address it proves.
    pub user: UserId,
}

/// Whom a notice is for.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The user.
    pub user: &'a UserId,
    /// Their live account.
    pub live: &'a AccountId,
}

/// Whether the service writes to its users: there is a relay, and a domain to write from.
#[must_use]
pub fn is_on(app: &App) -> bool {
    let email = &app.config.email;
    !email.relay_url.is_empty() && !email.shared_domain.is_empty()
}

/// Adds the proof of a new user's address to a write set; nothing where the service writes to
/// nobody.
pub fn verify(app: &App, set: &mut WriteSet, reader: Reader<'_>) {
    if is_on(app) {
        prove(app, set, reader, Kind::VerifyEmail, &NoticeId::new(&app.clock));
    }
}

/// Adds a notice with a proof to a write set.
fn prove(app: &App, set: &mut WriteSet, reader: Reader<'_>, kind: Kind, id: &NoticeId) {
    let (Reader { user, live }, now) = (reader, app.now());
    let token = format!("{FIXED}{}", key::random(&app.clock, RANDOM));
    let sealed = app.vault.seal(&place(live, id), token.as_bytes());
    let life_s = match kind {
        Kind::PasswordReset => app.config.email.reset_life_s,
        _ => app.config.email.verify_life_s,
    };
    let valid_until = now + life_s * 1_000;
    let hash = sha256(token.as_bytes());
    let kind = kind.as_str();
    set.push(sql::ADD, args![live, id, user, kind, user, hash, sealed, valid_until, now]);
}

/// Adds news for the owner of an account, of either environment, to a write set; once an hour for
/// the same object.
pub fn tell_owner(app: &App, set: &mut WriteSet, account: &AccountId, kind: Kind, object_id: &str) {
    if !is_on(app) {
        return;
    }
    let now = app.now();
    let id = NoticeId::new(&app.clock);
    let args = args![&id, kind.as_str(), object_id, now + NEWS_MS, now, account, now - HOUR];
    set.push(sql::ADD_FOR_OWNER, args);
}

/// The proof of a kind that this token is, if it is still good.
///
/// # Errors
/// When the database cannot be read.
pub async fn proof(app: &App, token: &Secret, kind: Kind) -> Result<Option<Proof>, DbError> {
    let hash = sha256(token.expose().as_bytes());
    app.db.row(sql::BY_TOKEN, args![hash, kind.as_str(), app.now()]).await
}

/// Uses a proof, in the write set of what it allows; the user's others of the kind end, too. The
/// set is refused with [`USED`] if somebody was faster.
pub fn use_up(app: &App, set: &mut WriteSet, proof: &Proof, kind: Kind) {
    let now = app.now();
    set.guard(sql::USE, args![now, &proof.account, &proof.id], USED);
    set.push(sql::END_OTHERS, args![now, &proof.user, kind.as_str()]);
}

/// Notices that wait to be carried, the oldest first.
///
/// # Errors
/// When the database cannot be read.
pub async fn waiting(app: &App, limit: i64) -> Result<Vec<Notice>, DbError> {
    app.db.rows(sql::WAITING, args![limit]).await
}

/// One notice.
///
/// # Errors
/// When the database cannot be read.
pub async fn find(
    app: &App,
    account: &AccountId,
    id: &NoticeId,
) -> Result<Option<Notice>, DbError> {
    app.db.row(sql::BY_ID, args![account, id]).await
}

/// Moves a notice to a state, in a write set and in hand. What is over keeps no proof. The set is
/// refused with `moved` if somebody else moved it.
pub fn shift(set: &mut WriteSet, notice: &mut Notice, state: State, moved: Reject) {
    let (account, id) = (&notice.account, &notice.id);
    let args = args![state.as_str(), &notice.attempt, account, id, notice.change_count];
    set.guard(sql::SHIFT, args, moved);
    if matches!(state, State::Sent | State::Failed) {
        set.push(sql::DROP_SEALED, args![account, id]);
        notice.sealed = None;
    }
    notice.state = state;
    notice.change_count += 1;
}

/// Where a proof is sealed for.
fn place<'a>(account: &'a AccountId, id: &'a NoticeId) -> [&'a str; 3] {
    ["notices", account.as_str(), id.as_str()]
}
