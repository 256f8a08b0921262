//! Verifying: one guarded statement counts the guess, compares and ends the challenge, so that a
//! thousand guesses at once are still five.

use store::{CommitError, FromRow, Row, WriteSet};

use super::{Challenge, Error, Reason, STALE, Status, events, fraud, limits, store as sql};
use crate::access::idempotency::{Claim, Seen};
use crate::app::{Account, App};
use crate::kit::id::{AccountId, ChallengeId};
use crate::kit::msisdn::Msisdn;
use crate::kit::secret::Secret;
use crate::kit::throttle::Class;

/// Which challenge is meant: whatever is given must agree.
pub(super) struct Address {
    pub(super) id: Option<ChallengeId>,
    pub(super) reference: Option<String>,
    pub(super) to: Option<Msisdn>,
}

/// A right guess.
pub(super) struct Verified {
    pub(super) id: ChallengeId,
    pub(super) at: clock::Millis,
}

/// Judges one guess.
pub(super) async fn verify(
    app: &App,
    whose: &Account,
    address: &Address,
    code: &Secret,
    claim: &Claim,
) -> Result<Verified, Error> {
    let account = &whose.id;
    let id = find(app, account, address).await?;
    let now = app.now();
    let mac = mac_of(app, account, &id, code).await?;
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, id.as_str(), None, now);
    sql::verify(&mut set, account, &id, mac, now);
    events::judged(app, &mut set, account, &id);
    limits::count_guess(app, &mut set, account, &id);
    if let Some(key) = claim.key() {
        sql::tell_verdict(&mut set, account, &id, key);
    }
    match app.db.commit(set).await {
        Ok(done) => {
            let Judged { status, attempts, max_attempts, recipient, carrier } = done.only()?;
            if status == Status::Verified {
                fraud::verified(app, whose, &recipient, &carrier);
            }
            Judgement { status, attempts, max_attempts, at: now }.tell(id)
        }
        Err(CommitError::Rejected(STALE)) => {
            let why = why_not(app, account, &id).await?;
            // A repeat is told of this challenge, whatever is sent meanwhile. These cost nothing,
            // so only so many are kept.
            if claim.key().is_some() && app.throttle.take(Class::Refusal, account.as_str()).is_ok()
            {
                claim.stand_for(app, id.as_str()).await?;
            }
            Err(why)
        }
        Err(error) => Err(error.into()),
    }
}

/// The hash that a right guess has. While one master key takes another's place, a challenge may be
/// older than the new one.
async fn mac_of(
    app: &App,
    account: &AccountId,
    id: &ChallengeId,
    code: &Secret,
) -> Result<[u8; 32], Error> {
    let (account_id, challenge) = (account.as_str(), id.as_str());
    if app.vault.is_rotating()
        && let Some(stored) = sql::code_mac(app, account, id).await?
    {
        return Ok(app.vault.code_mac_like(&stored, account_id, challenge, code.expose()));
    }
    Ok(app.vault.code_mac(account_id, challenge, code.expose()))
}

/// The challenge after a guess, and by whom it went last.
struct Judged {
    status: Status,
    attempts: i64,
    max_attempts: i64,
    recipient: String,
    carrier: String,
}

impl FromRow for Judged {
    fn from_row(mut row: Row) -> Result<Self, ::store::Error> {
        Ok(Self {
            status: row.take(0)?,
            attempts: row.take(1)?,
            max_attempts: row.take(2)?,
            recipient: row.take(3)?,
            carrier: row.take(4)?,
        })
    }
}

/// What one guess came to.
struct Judgement {
    /// The challenge after it.
    status: Status,
    attempts: i64,
    max_attempts: i64,
    /// When it was judged, if it was right.
    at: clock::Millis,
}

impl Judgement {
    /// As stored by [`sql::tell_verdict`].
    fn stored(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let status = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse::<i64>().ok();
        let (attempts, max_attempts, at) = (number()?, number()?, clock::Millis(number()?));
        Some(Self { status, attempts, max_attempts, at })
    }

    fn tell(self, id: ChallengeId) -> Result<Verified, Error> {
        let Self { status, attempts, max_attempts, at } = self;
        match status {
            Status::Verified => Ok(Verified { id, at }),
            Status::Failed => Err(Error::Exhausted { challenge: id, attempts, max_attempts }),
            status => Err(Error::WrongCode { challenge: id, status, attempts, max_attempts }),
        }
    }
}

/// What a guess with the same Idempotency-Key came to when it was judged.
pub(super) async fn seen(app: &App, account: &AccountId, seen: &Seen) -> Result<Verified, Error> {
    let id = ChallengeId::parse(&seen.object_id).ok_or(Error::Unknown)?;
    if let Some(judgement) = seen.answer.as_deref().and_then(Judgement::stored) {
        return judgement.tell(id);
    }
    // Not judged, because the challenge was over, or by a version that kept no verdicts: nothing
    // may make a wrong guess a right one.
    let challenge = sql::challenge(app, account, &id).await?.ok_or(Error::Unknown)?;
    match challenge.shown_status(app.now()) {
        status @ (Status::Sent | Status::Delivered) => {
            let (attempts, max_attempts) = (challenge.attempts, challenge.max_attempts);
            Err(Error::WrongCode { challenge: id, status, attempts, max_attempts })
        }
        _ => Err(why_not(app, account, &id).await?),
    }
}

async fn find(app: &App, account: &AccountId, address: &Address) -> Result<ChallengeId, Error> {
    let id = match (&address.id, &address.reference, &address.to) {
        (Some(id), _, _) => id.clone(),
        (None, Some(reference), _) => {
            sql::newest_by_reference(app, account, reference).await?.ok_or(Error::Unknown)?
        }
        (None, None, Some(to)) => {
            sql::newest_by_recipient(app, account, to).await?.ok_or(Error::Unknown)?
        }
        (None, None, None) => return Err(Error::Unknown),
    };
    let given = [address.id.is_some(), address.reference.is_some(), address.to.is_some()];
    if given.into_iter().filter(|given| *given).count() > 1 {
        let challenge = sql::challenge(app, account, &id).await?.ok_or(Error::Unknown)?;
        if !agrees(&challenge, address) {
            return Err(Error::Unknown);
        }
    }
    Ok(id)
}

fn agrees(challenge: &Challenge, address: &Address) -> bool {
    let reference = address.reference.as_ref();
    reference.is_none_or(|given| challenge.reference.as_ref() == Some(given))
        && address.to.as_ref().is_none_or(|to| to.e164() == challenge.recipient)
}

/// Why the guess was not even looked at.
pub(super) async fn why_not(
    app: &App,
    account: &AccountId,
    id: &ChallengeId,
) -> Result<Error, Error> {
    let Some(challenge) = sql::challenge(app, account, id).await? else {
        return Ok(Error::Unknown);
    };
    Ok(match challenge.shown_status(app.now()) {
        Status::Verified => Error::AlreadyVerified,
        Status::Failed if challenge.failure_reason == Some(Reason::AttemptsExhausted) => {
            let Challenge { id, attempts, max_attempts, .. } = challenge;
            Error::Exhausted { challenge: id, attempts, max_attempts }
        }
        Status::Failed => Error::Failed {
            reason: challenge.failure_reason.unwrap_or(Reason::Undelivered),
            challenge: challenge.id,
        },
        Status::Sent | Status::Delivered | Status::Expired => {
            Error::Expired { challenge: challenge.id }
        }
    })
}
