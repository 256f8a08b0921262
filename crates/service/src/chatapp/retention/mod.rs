//! What is forgotten of chat-app messages and sessions, and when: what a message says once no
//! carrier needs it any more (that is not here), the recipient after `retention.recipients_d`, the
//! row after `retention.challenges_d`. A person who asks is forgotten at once. Templates name
//! nobody.

mod store;

use std::collections::BTreeSet;

use ::store::{CommitError, WriteSet};
use clock::{DAY, Millis};

use self::store as sql;
use super::Error;
use super::messages::{Chatapp, decide, store as of_messages};
use super::sessions::{self, store as of_sessions};
use crate::access::retention::{Old, sweep_accounts};
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::dispatch::recipients::{self, Kept, Place, pseudonym};
use crate::dispatch::retention as of_dispatch;
use crate::dispatch::{self, Failure};
use crate::kit::id::{AccountId, ConsentId, MessageId};

/// Times that a message is read again because another was faster.
const TRIES: u32 = 40;

/// Where recipients of messages are.
const MESSAGES: Place = Place {
    table: "chatapp_messages",
    mark: "chatapp_recipients",
    stretch: sql::MESSAGES,
    to: sql::MESSAGES_TO,
    mask: sql::MASK_MESSAGE,
};

/// Where persons of sessions are.
const SESSIONS: Place = Place {
    table: "chatapp_sessions",
    mark: "session_recipients",
    stretch: sql::SESSIONS,
    to: sql::SESSIONS_WITH,
    mask: sql::MASK_SESSION,
};

/// Puts pseudonyms in the place of old recipients; answers how many.
///
/// # Errors
/// See [`Error`].
pub async fn mask_recipients(app: &App, turn: &Turn) -> Result<u64, Error> {
    let before = turn.now() - app.config.retention.recipients_d * DAY;
    let bound = MessageId::bound(before);
    let messages = recipients::mask_old(app, turn, &MESSAGES, bound.as_str()).await?;
    let bound = ConsentId::bound(before);
    Ok(messages + recipients::mask_old(app, turn, &SESSIONS, bound.as_str()).await?)
}

/// Deletes messages and sessions from before `until`, which is asked for each environment; answers
/// how many.
///
/// # Errors
/// See [`Error`].
pub async fn forget_messages(
    app: &App,
    turn: &Turn,
    until: impl Fn(Env) -> Millis + Send + Sync,
) -> Result<u64, Error> {
    let bound = |env| MessageId::bound(until(env)).into();
    let place = Old {
        table: "chatapp_messages",
        oldest: sql::OLDEST_MESSAGE,
        delete: sql::DELETE_MESSAGES,
    };
    let messages = sweep_accounts::<Error>(app, turn, place, bound).await?;
    let bound = |env| ConsentId::bound(until(env)).into();
    let place = Old {
        table: "chatapp_sessions",
        oldest: sql::OLDEST_SESSION,
        delete: sql::DELETE_SESSIONS,
    };
    Ok(messages + sweep_accounts::<Error>(app, turn, place, bound).await?)
}

/// What an erasure found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Messages and sessions that named the person.
    pub messages: u64,
    /// Those of them that were open, and are ended.
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

/// Erases a recipient (`+` and digits) from an account: what was sent to it until now, and its
/// sessions. What no carrier has yet is not sent any more, and costs nothing. Doing it again finds
/// nothing.
///
/// # Errors
/// See [`Error`]. What was not reached yet is found by doing it again.
pub async fn erase(app: &App, account: &AccountId, recipient: &str) -> Result<Erased, Error> {
    let now = app.now();
    let mut erased = Erased::default();
    let messages = of_place(app, account, &MESSAGES, recipient).await?;
    let sessions = of_place(app, account, &SESSIONS, recipient).await?;
    for row in messages.iter().filter(|row| now < row.ends_at) {
        erased.ended += u64::from(end(app, account, &MessageId::stored(row.id.clone())).await?);
    }
    for row in sessions.iter().filter(|row| now < row.ends_at) {
        let id = ConsentId::stored(row.id.clone());
        erased.ended += u64::from(end_session(app, account, &id).await?);
    }
    // Keys go first: without the messages nothing would lead to them any more.
    let keys = recipients::erase_keys::<Error>(app, account, recipient, &messages).await;
    erased.idempotency_keys = keys?;
    for (place, found) in [(&MESSAGES, &messages), (&SESSIONS, &sessions)] {
        let before = of_place(app, account, place, &pseudonym(app, account, recipient)).await?;
        recipients::replace(app, place, account, found).await?;
        // A carrier may have answered after an erasure before this one.
        recipients::replace(app, place, account, &before).await?;
    }
    erased.messages = u64::try_from(messages.len() + sessions.len()).unwrap_or(u64::MAX);
    Ok(erased)
}

/// The messages and sessions that name a person, and those that did until they were erased or
/// forgotten: what else may show them is erased with them, every time.
///
/// # Errors
/// See [`Error`].
pub async fn objects_of(
    app: &App,
    account: &AccountId,
    recipient: &str,
) -> Result<BTreeSet<String>, Error> {
    let mut ids = BTreeSet::new();
    for place in [&MESSAGES, &SESSIONS] {
        for name in [recipient, pseudonym(app, account, recipient).as_str()] {
            let found = of_place(app, account, place, name).await?;
            ids.extend(found.into_iter().map(|row| row.id));
        }
    }
    Ok(ids)
}

async fn of_place(
    app: &App,
    account: &AccountId,
    place: &Place,
    recipient: &str,
) -> Result<Vec<Kept>, Error> {
    // Ids of each table begin with a word of its own, below this.
    Ok(recipients::sent_to(app, place, account, recipient, "~").await?)
}

/// Ends a message whose price is still only held; `false` when a carrier has it or it is over.
async fn end(app: &App, account: &AccountId, id: &MessageId) -> Result<bool, Error> {
    for _ in 0..TRIES {
        let Some(mut message) = of_messages::message(app, account, id).await? else {
            return Ok(false);
        };
        let attempt = dispatch::attempt(app, account, &message.attempt).await?;
        let Some(attempt) = attempt.filter(|attempt| attempt.state.is_held()) else {
            return Ok(false);
        };
        let mut set = WriteSet::of(account.as_str());
        dispatch::give_back::<Chatapp>(app, &mut set, &attempt, &Failure::silence());
        decide::erase(app, &mut set, &mut message);
        if of_dispatch::is_erased(app, set).await? {
            return Ok(true);
        }
    }
    // It changed all the time: the next try finds it quiet.
    Err(Error::Commit(CommitError::Overloaded))
}

/// Ends a session that is open; `false` when it is over.
async fn end_session(app: &App, account: &AccountId, id: &ConsentId) -> Result<bool, Error> {
    for _ in 0..TRIES {
        let Some(mut session) = of_sessions::session(app, account, id).await? else {
            return Ok(false);
        };
        if !session.is_open() {
            return Ok(false);
        }
        let mut set = WriteSet::of(account.as_str());
        sessions::erase(app, &mut set, &mut session);
        if of_dispatch::is_erased(app, set).await? {
            return Ok(true);
        }
    }
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
