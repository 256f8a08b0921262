//! Rank 8: support. A user opens a ticket, the operator's staff answers, both over HTTP or live
//! chat. It needs no message channel.
//!
//! A ticket's messages are numbered (`seq`) in the statement that locks the ticket's row, so their
//! order is the order of commits and has no gap. Whoever missed something asks for what comes after
//! the number they know. Notes of staff are messages with `internal = 1`; every statement that
//! reads messages for a user leaves them out ([`Reader`]).
//!
//! `decide` has the rules as pure functions, `tickets` and `messages` carry them out, `due` does
//! what time brings (targets, the end of resolved tickets), `events` tells of it.

pub mod admin;
pub mod api;
pub mod canned;
pub mod chat;
mod decide;
mod due;
mod events;
pub mod files;
mod kinds;
pub mod messages;
pub mod retention;
mod search;
mod show;
mod store;
mod tickets;
pub mod view;

use ::store::{CommitError, Reject};
use clock::Millis;

pub use due::{run, run_due};
pub use kinds::{Priority, Side, Status};
pub use show::show;

use crate::access::Who;
use crate::access::idempotency;
use crate::kit::id::{AccountId, StaffId, TicketId, TicketMessageId, UserId};

/// Another request changed the ticket meanwhile: read again and decide again.
const STALE: Reject = Reject("ticket_stale");
/// The client sent this message before.
const SENT_BEFORE: Reject = Reject("ticket_message_sent_before");
/// The account has as many open tickets as it may.
const FULL: Reject = Reject("tickets_full");
/// The account's attachments take as much as they may.
const STORAGE_FULL: Reject = Reject("ticket_storage_full");
/// Times that a ticket is read again because another request was faster.
const TRIES: u32 = 20;
/// Messages of one ticket.
const MOST_MESSAGES: i64 = 20_000;
/// Longest message, characters.
pub const LONGEST_MESSAGE: usize = 10_000;

/// A ticket as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    account: AccountId,
    id: TicketId,
    env: String,
    subject: String,
    category: String,
    priority: Priority,
    status: Status,
    assignee: Option<StaffId>,
    last_seq: i64,
    /// The number of the newest message that its user may see.
    shown_seq: i64,
    version: i64,
    user_read_seq: i64,
    staff_read_seq: i64,
    first_reply_at: Option<Millis>,
    reply: Target,
    resolution: Target,
    paused_at: Option<Millis>,
    paused_ms: i64,
    resolved_at: Option<Millis>,
    closed_at: Option<Millis>,
    rating: Option<i64>,
    rating_comment: Option<String>,
    merged_into: Option<TicketId>,
    follows: Option<TicketId>,
    created_at: Millis,
    updated_at: Millis,
}

/// By when something is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Target {
    /// When it is missed; `None` = there is none, or it is met or missed.
    due_at: Option<Millis>,
    /// When it comes near; `None` = that was told.
    near_at: Option<Millis>,
    missed: bool,
}

/// A message as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    account: AccountId,
    ticket: TicketId,
    seq: i64,
    id: TicketMessageId,
    side: Side,
    author: String,
    internal: bool,
    body: String,
    client_message_id: Option<String>,
    created_at: Millis,
}

/// Who writes, or changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Author {
    /// The account's owner.
    User(UserId),
    /// A member of the operator's staff.
    Staff(StaffId),
}

impl Author {
    /// The side that they are on.
    #[must_use]
    pub const fn side(&self) -> Side {
        match self {
            Self::User(_) => Side::User,
            Self::Staff(_) => Side::Admin,
        }
    }

    /// Their id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::User(id) => id.as_str(),
            Self::Staff(id) => id.as_str(),
        }
    }

    fn who(&self) -> Who {
        match self {
            Self::User(id) => Who::User(id.clone()),
            Self::Staff(id) => Who::Staff(id.clone()),
        }
    }
}

/// For whom something is read: staff see notes and all accounts, a user neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader<'a> {
    /// The owner of this account.
    User(&'a AccountId),
    /// Any member of staff.
    Staff,
}

impl Reader<'_> {
    const fn sees_notes(self) -> bool {
        matches!(self, Self::Staff)
    }
}

/// What goes wrong in this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such ticket, message, file or reply for whoever asks.
    #[error("there is no such object")]
    Unknown,
    /// The ticket is closed.
    #[error("the ticket is closed")]
    Closed {
        /// The ticket that goes on with it, if it was merged.
        merged_into: Option<TicketId>,
        /// Whether it is staff who are told, and who cannot open another one.
        to_staff: bool,
    },
    /// The file has expired.
    #[error("the file was deleted")]
    Expired,
    /// The file storage failed.
    #[error("the file storage failed: {0}")]
    Storage(String),
    /// A bound of the account or the ticket, as it stands, is reached; says which.
    #[error("{0}")]
    Full(String),
    /// A field names something that does not exist or does not fit.
    #[error("/{field} {detail}")]
    Field {
        /// The member of the body.
        field: &'static str,
        /// What is wrong.
        detail: &'static str,
    },
    /// The same request is being carried out right now.
    #[error("the same request is still running")]
    InProgress,
    /// A read failed.
    #[error(transparent)]
    Db(#[from] ::store::Error),
    /// A write failed.
    #[error(transparent)]
    Commit(CommitError),
}

impl Error {
    /// Whoever reads the ticket finds it closed.
    fn closed(reader: Reader<'_>, ticket: &Ticket) -> Self {
        let to_staff = reader == Reader::Staff;
        Self::Closed { merged_into: ticket.merged_into.clone(), to_staff }
    }

    /// The fault of whoever named an object, if there is no such one; any other error as it is.
    fn or_unknown(self, fault: Self) -> Self {
        if matches!(self, Self::Unknown) { fault } else { self }
    }

    /// Whether another request was faster: it is worth another try.
    fn is_race(&self) -> bool {
        matches!(self, Self::Commit(CommitError::Rejected(STALE | SENT_BEFORE)))
    }
}

/// Does again what another request overtook, [`TRIES`] times at most.
async fn retried<T, F>(act: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for _ in 1..TRIES {
        match act().await {
            Err(error) if error.is_race() => tokio::task::yield_now().await,
            other => return other,
        }
    }
    act().await
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Rejected(idempotency::SEEN) => Self::InProgress,
            CommitError::Rejected(FULL) => {
                let detail =
                    "The account has as many open tickets as it may. Write in one of them.";
                Self::Full(detail.to_owned())
            }
            CommitError::Rejected(STORAGE_FULL) => {
                let detail = "The account's attachments take all the space they may. They go some \
                              time after their tickets are closed; send a link instead.";
                Self::Full(detail.to_owned())
            }
            other => Self::Commit(other),
        }
    }
}
