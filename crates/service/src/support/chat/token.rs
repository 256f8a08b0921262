//! Who opens a socket: a portal or staff token, or a one-use token that was made with one and
//! stands for it. While the socket is open, the token behind it is looked at again and again.

use ::store::{CommitError, Reject, WriteSet, args};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clock::Millis;

use super::Ending;
use super::store as sql;
use crate::access::holder::{self, Holder};
use crate::access::idempotency::{Claim, Seen};
use crate::access::retention::sweep;
use crate::app::App;
use crate::chores::Turn;
use crate::kit::id::TicketId;
use crate::kit::seal::sha256;
use crate::kit::secret::Secret;
use crate::support::{Error, Side};

/// What one-use tokens begin with.
const PREFIX: &str = "est_ct_";
/// And how many characters follow.
const LENGTH: usize = 43;
/// How long one may be used, milliseconds.
const LIFE_MS: i64 = 30_000;
const USED: Reject = Reject("chat_token_used");

/// Makes a one-use token for a ticket, behind which stands the token of this session.
pub(super) async fn make(
    app: &App,
    ticket: &TicketId,
    side: Side,
    session_hash: [u8; 32],
    claim: &Claim,
) -> Result<(Secret, Millis), Error> {
    let mut random = [0_u8; 32];
    app.clock.fill(&mut random);
    let token = Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random)));
    let expires_at = app.now() + LIFE_MS;
    let hash = sha256(token.expose().as_bytes());
    let mut set = WriteSet::of(ticket.as_str());
    set.push(sql::ADD_TOKEN, args![hash, ticket, side.as_str(), session_hash, expires_at]);
    claim.add_to(&mut set, ticket.as_str(), claim.seal(app, ticket.as_str(), &token), app.now());
    app.db.commit(set).await?;
    Ok((token, expires_at))
}

/// The token that an earlier, equal request made, for ten minutes.
pub(super) fn again(app: &App, seen: &Seen) -> Option<(Secret, Millis)> {
    Some((seen.secret(app)?, seen.created_at + LIFE_MS))
}

/// The session behind a token that was given for a ticket, or for what is none: a one-use token is
/// never for that.
pub(super) async fn admit(
    app: &App,
    ticket: Option<&TicketId>,
    side: Side,
    given: Option<&Secret>,
) -> Result<Holder, Ending> {
    let given = given.ok_or(Ending::NoToken)?;
    let hash = if let Some(rest) = given.expose().strip_prefix(PREFIX) {
        let is_one = rest.len() == LENGTH && URL_SAFE_NO_PAD.decode(rest).is_ok();
        let ticket = ticket.filter(|_| is_one).ok_or(Ending::NoToken)?;
        spend(app, ticket, side, given).await?
    } else if app.config.support.long_tokens_in_chat {
        sha256(given.expose().as_bytes())
    } else {
        return Err(Ending::NoToken);
    };
    stands(app, side, hash).await
}

async fn spend(
    app: &App,
    ticket: &TicketId,
    side: Side,
    given: &Secret,
) -> Result<[u8; 32], Ending> {
    let hash = sha256(given.expose().as_bytes());
    let broken = |error: CommitError| {
        tracing::warn!(%error, "a one-use token was not looked up");
        Ending::Broken
    };
    // Whoever guesses writes nothing.
    let found: Result<Option<(String,)>, _> = app.db.row(sql::TOKEN, args![hash]).await;
    found.map_err(|error| broken(error.into()))?.ok_or(Ending::NoToken)?;
    let mut set = WriteSet::of(ticket.as_str());
    set.returning(sql::USE_TOKEN, args![hash, ticket, side.as_str(), app.now()], USED);
    let done = match app.db.commit(set).await {
        Ok(done) => done,
        Err(CommitError::Rejected(_)) => return Err(Ending::NoToken),
        Err(error) => return Err(broken(error)),
    };
    let session: Result<(Vec<u8>,), _> = done.only();
    let session = session.ok().and_then(|(hash,)| hash.try_into().ok());
    session.ok_or(Ending::NoToken)
}

/// Whether a session still opens this side.
pub(super) async fn stands(app: &App, side: Side, hash: [u8; 32]) -> Result<Holder, Ending> {
    let session = match side {
        Side::User => holder::of_user(app, hash).await,
        Side::Admin => holder::of_staff(app, hash).await,
    };
    match session {
        Ok(Some(session)) if session.is_barred => Err(Ending::Forbidden),
        Ok(Some(session)) => Ok(session),
        Ok(None) => Err(Ending::NoToken),
        Err(error) => {
            tracing::warn!(%error, "a token was not looked up");
            Err(Ending::Broken)
        }
    }
}

/// Deletes one-use tokens that nobody used.
///
/// # Errors
/// See [`CommitError`].
pub async fn forget_tokens(app: &App, turn: &Turn) -> Result<u64, CommitError> {
    let args = args![turn.now() - LIFE_MS, app.config.retention.chunk];
    sweep(app, turn, "ticket_tokens", sql::FORGET_TOKENS, &args).await
}
