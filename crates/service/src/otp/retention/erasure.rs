//! Erasing a recipient before its time, because the person asked for it: passcodes that are open
//! end, and every row that names the number names a pseudonym afterwards.

use std::collections::BTreeSet;
use std::time::Duration;

use ::store::{CommitError, WriteSet, args};
use clock::{DAY, Millis};

use super::store as sql;
use super::{Error, PLACE};
use crate::app::App;
use crate::dispatch::recipients::{self, Kept, chunk_of, pseudonym};
use crate::dispatch::retention::{hide, is_erased, unname};
use crate::dispatch::{self, Failure};
use crate::kit::id::{AccountId, ChallengeId};
use crate::otp::owner::Otp;
use crate::otp::{Reason, Status, events, store};

/// Times that a passcode is read again because another was faster.
const TRIES: u32 = 40;
/// A sender that waits for a receipt commits it within this after its wait.
const SLACK: Duration = Duration::from_millis(500);

/// What an erasure found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Passcodes that named the recipient.
    pub challenges: u64,
    /// Those of them that were open, and are ended.
    pub ended: u64,
    /// `Idempotency-Key`s that stood for them.
    pub idempotency_keys: u64,
}

impl Erased {
    /// Counts another account's.
    pub fn add(&mut self, other: Self) {
        self.challenges += other.challenges;
        self.ended += other.ended;
        self.idempotency_keys += other.idempotency_keys;
    }
}

/// Erases a recipient (`+` and digits) from an account: what was sent to it until now. Doing it
/// again finds nothing.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`]. What was not reached yet is found by doing it again.
pub async fn erase(app: &App, account: &AccountId, recipient: &str) -> Result<Erased, Error> {
    let now = app.now();
    let mut erased = Erased::default();
    let found = of_recipient(app, account, recipient, now).await?;
    let mut live = Vec::new();
    for row in found.iter().filter(|row| now < row.ends_at) {
        if end(app, account, &ChallengeId::stored(row.id.clone())).await? {
            live.push(row.id.as_str());
        }
    }
    // Keys go first: without the passcodes nothing would lead to them any more.
    let keys = recipients::erase_keys::<Error>(app, account, recipient, &found).await;
    erased.idempotency_keys = keys?;
    let before = erased_before(app, account, recipient).await?;
    recipients::replace(app, &PLACE, account, &found).await?;
    erase_again(app, account, &before).await?;
    forget(app, account, recipient).await?;
    if !live.is_empty() {
        // Who waited for a receipt of a passcode that was open may have noted the carrier's id, or
        // that the recipient cannot be reached.
        let wait = Duration::from_millis(app.config.otp.receipt_wait_ms);
        tokio::time::sleep(wait + SLACK).await;
        forget(app, account, recipient).await?;
        for chunk in live.chunks(chunk_of(app)) {
            let mut set = WriteSet::of(account.as_str());
            for id in chunk {
                set.push(sql::UNNAME, args![account, *id]);
                hide(app, &mut set, account, id).await?;
                unname(&mut set, account, id);
            }
            app.db.commit(set).await?;
        }
    }
    erased.challenges = u64::try_from(found.len()).unwrap_or(u64::MAX);
    erased.ended = u64::try_from(live.len()).unwrap_or(u64::MAX);
    Ok(erased)
}

/// The passcodes that name a recipient, and those that did until it was erased or forgotten: what
/// else may show them is erased with them, every time.
///
/// # Errors
/// [`Error::Db`].
pub async fn challenges_of(
    app: &App,
    account: &AccountId,
    recipient: &str,
) -> Result<BTreeSet<String>, Error> {
    let mut found = of_recipient(app, account, recipient, app.now()).await?;
    found.extend(erased_before(app, account, recipient).await?);
    Ok(found.into_iter().map(|row| row.id).collect())
}

/// Those that named the recipient once.
async fn erased_before(app: &App, account: &AccountId, number: &str) -> Result<Vec<Kept>, Error> {
    of_recipient(app, account, &pseudonym(app, account, number), app.now()).await
}

/// Looks once more at what carriers said of passcodes that were erased before: one of them may have
/// answered after that.
async fn erase_again(app: &App, account: &AccountId, before: &[Kept]) -> Result<(), Error> {
    for chunk in before.chunks(chunk_of(app)) {
        let mut set = WriteSet::of(account.as_str());
        for row in chunk {
            set.push(sql::UNNAME, args![account, row.id.as_str()]);
            hide(app, &mut set, account, &row.id).await?;
            unname(&mut set, account, &row.id);
        }
        app.db.commit(set).await?;
    }
    Ok(())
}

/// Everything that was sent to the recipient until `now`.
async fn of_recipient(
    app: &App,
    account: &AccountId,
    recipient: &str,
    now: Millis,
) -> Result<Vec<Kept>, Error> {
    // Ids may be of a clock that was ahead.
    let bound = ChallengeId::bound(now + DAY);
    Ok(recipients::sent_to(app, &PLACE, account, recipient, bound.as_str()).await?)
}

/// Ends a passcode that is open; `false` when it was over already. A price that is held goes back;
/// what was posted stays so, because the message went out.
async fn end(app: &App, account: &AccountId, id: &ChallengeId) -> Result<bool, Error> {
    let mut is_ours = false;
    for _ in 0..TRIES {
        let Some(challenge) = store::challenge(app, account, id).await? else { return Ok(is_ours) };
        if !challenge.is_open(app.now()) {
            return Ok(is_ours);
        }
        let Some(attempt) = dispatch::attempt(app, account, &challenge.attempt).await? else {
            return Ok(is_ours);
        };
        let mut set = WriteSet::of(account.as_str());
        if attempt.state.is_held() {
            dispatch::give_back::<Otp>(app, &mut set, &attempt, &Failure::silence());
        }
        store::close(&mut set, &challenge, Status::Failed, Some(Reason::Erased));
        events::failed(app, &mut set, &challenge, Reason::Erased);
        is_ours |= is_erased(app, set).await?;
    }
    // It changed all the time: the next try finds it quiet.
    Err(Error::Commit(CommitError::Overloaded))
}

/// Deletes what is remembered of the recipient for limits and reachability.
async fn forget(app: &App, account: &AccountId, recipient: &str) -> Result<(), Error> {
    let args = args![account, recipient];
    if app.db.row::<(Millis,)>(sql::IS_REMEMBERED, args.clone()).await?.is_some() {
        let mut set = WriteSet::of(account.as_str());
        set.push(sql::ERASE_RECIPIENT, args);
        app.db.commit(set).await?;
        app.metrics.deleted("recipients", 1);
    }
    Ok(())
}
