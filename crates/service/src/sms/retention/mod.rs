//! What is forgotten of SMS messages, and when: the text once no carrier needs it any more (that is
//! not here), the recipient after `retention.recipients_d`, the row after `retention.challenges_d`.
//! A person who asks is forgotten at once.

mod store;

use std::collections::BTreeSet;

use ::store::{CommitError, WriteSet};
use clock::{DAY, Millis};

use self::store as sql;
use super::{Error, decide, store as of_messages};
use crate::access::retention::{Old, sweep_accounts};
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::dispatch::recipients::{self, Kept, Place, pseudonym};
use crate::dispatch::retention as of_dispatch;
use crate::dispatch::{self, Failure};
use crate::kit::id::{AccountId, SmsId};
use crate::sms::Sms;

/// Times that a message is read again because another was faster.
const TRIES: u32 = 40;

/// Where recipients of SMS are.
const PLACE: Place = Place {
    table: "sms_messages",
    mark: "sms_recipients",
    stretch: sql::STRETCH,
    to: sql::TO,
    mask: sql::MASK,
};

/// Puts pseudonyms in the place of old recipients; answers how many.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn mask_recipients(app: &App, turn: &Turn) -> Result<u64, Error> {
    let bound = SmsId::bound(turn.now() - app.config.retention.recipients_d * DAY);
    Ok(recipients::mask_old(app, turn, &PLACE, bound.as_str()).await?)
}

/// Deletes messages from before `until`, which is asked for each environment; answers how many.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forget_messages(
    app: &App,
    turn: &Turn,
    until: impl Fn(Env) -> Millis + Send + Sync,
) -> Result<u64, Error> {
    let until = |env| SmsId::bound(until(env)).into();
    let old = Old { table: "sms_messages", oldest: sql::OLDEST, delete: sql::DELETE };
    sweep_accounts(app, turn, old, until).await
}

/// What an erasure found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Messages that named the recipient.
    pub messages: u64,
    /// Those of them that no carrier had, and that are ended.
    pub ended: u64,
    /// `Idempotency-Key`s that stood for them.
    pub idempotency_keys: u64,
}

impl Erased {
    /// Counts another account's.
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.ended += other.ended;
        self.idempotency_keys += other.idempotency_keys;
    }
}

/// Erases a recipient (`+` and digits) from an account: what was sent to it until now. What no
/// carrier has yet is not sent any more, and costs nothing. Doing it again finds nothing.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`]. What was not reached yet is found by doing it again.
pub async fn erase(app: &App, account: &AccountId, recipient: &str) -> Result<Erased, Error> {
    let now = app.now();
    let mut erased = Erased::default();
    let found = sent_to(app, account, recipient).await?;
    for row in found.iter().filter(|row| now < row.ends_at) {
        if end(app, account, &SmsId::stored(row.id.clone())).await? {
            erased.ended += 1;
        }
    }
    // Keys go first: without the messages nothing would lead to them any more.
    let keys = recipients::erase_keys::<Error>(app, account, recipient, &found).await;
    erased.idempotency_keys = keys?;
    let before = sent_to(app, account, &pseudonym(app, account, recipient)).await?;
    recipients::replace(app, &PLACE, account, &found).await?;
    // A carrier may have answered after an erasure before this one.
    recipients::replace(app, &PLACE, account, &before).await?;
    erased.messages = u64::try_from(found.len()).unwrap_or(u64::MAX);
    Ok(erased)
}

/// The messages that name a recipient, and those that did until it was erased or forgotten: what
/// else may show them is erased with them, every time.
///
/// # Errors
/// [`Error::Db`].
pub async fn messages_of(
    app: &App,
    account: &AccountId,
    recipient: &str,
) -> Result<BTreeSet<String>, Error> {
    let mut found = sent_to(app, account, recipient).await?;
    found.extend(sent_to(app, account, &pseudonym(app, account, recipient)).await?);
    Ok(found.into_iter().map(|row| row.id).collect())
}

async fn sent_to(app: &App, account: &AccountId, recipient: &str) -> Result<Vec<Kept>, Error> {
    // Ids may be of a clock that was ahead.
    let bound = SmsId::bound(app.now() + DAY);
    Ok(recipients::sent_to(app, &PLACE, account, recipient, bound.as_str()).await?)
}

/// Ends a message whose price is still only held; `false` when a carrier has it or it is over.
async fn end(app: &App, account: &AccountId, id: &SmsId) -> Result<bool, Error> {
    for _ in 0..TRIES {
        let Some(mut message) = of_messages::message(app, account, id).await? else {
            return Ok(false);
        };
        let attempt = dispatch::attempt(app, account, &message.attempt).await?;
        let Some(attempt) = attempt.filter(|attempt| attempt.state.is_held()) else {
            return Ok(false);
        };
        let mut set = WriteSet::of(account.as_str());
        dispatch::give_back::<Sms>(app, &mut set, &attempt, &Failure::silence());
        decide::erase(app, &mut set, &mut message);
        if of_dispatch::is_erased(app, set).await? {
            return Ok(true);
        }
    }
    // It changed all the time: the next try finds it quiet.
    Err(Error::Commit(CommitError::Overloaded))
}

impl From<of_dispatch::Error> for Error {
    fn from(error: of_dispatch::Error) -> Self {
        match error {
            of_dispatch::Error::Db(error) => Self::Db(error),
            of_dispatch::Error::Commit(error) => Self::Commit(error),
        }
    }
}
