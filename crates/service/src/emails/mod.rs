//! Rank 7: emails. An email is stored, answered, and then carried by `dispatch`, one attempt for
//! each recipient: each has its own price, its own tries and its own fate (`decide`), told by
//! `email.delivery` in one write set with the money. How the email stands follows from how many
//! recipients stand where.
//!
//! What it says is kept sealed, once for all recipients, and only while somebody may still have to
//! get it. Who may write is a matter of `domains`; who is not written to, of `suppressions`. What
//! other mail servers say comes in through `reports`; `unsubscribe` is for the people themselves.

pub mod api;
mod attempts;
mod bulk;
mod decide;
pub mod domains;
mod large;
pub mod notices;
mod parse;
pub mod reports;
pub mod retention;
mod return_paths;
mod send;
mod store;
pub mod suppressions;
pub mod unsubscribe;
mod view;

use endpoints::ToSchema;
use std::sync::Arc;

use clock::Millis;
use serde::Serialize;

use crate::app::App;
use crate::carriers::Priority;
use crate::credits;
use crate::kit::id::{AccountId, AttemptId, EmailId};
use crate::kit::problem::Problem;
use crate::kit::words::words;

pub use decide::Email;
pub use view::show;

/// Recipients of one email: to, cc and bcc together.
const MOST_RECIPIENTS: usize = 50;
/// Emails in one request.
const MOST_IN_BULK: usize = 100;

words! {
    /// Where an email or one of its recipients stands: `queued` (no relay has it yet), `sent` (a
    /// relay has it, or may have it), `delivered`, `bounced` (a mail server said that it cannot be
    /// delivered), `failed` (no relay took it), `suppressed` (the address is on the account's
    /// suppression list).
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = EmailStatus)]
    enum Status {
        Queued = "queued",
        Sent = "sent",
        Delivered = "delivered",
        Bounced = "bounced",
        Failed = "failed",
        Suppressed = "suppressed",
    }
}

/// How many recipients of an email stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally([i64; Status::ALL.len()]);

impl Tally {
    fn of(statuses: impl Iterator<Item = Status>) -> Self {
        let mut tally = Self::default();
        for status in statuses {
            tally.add(status, 1);
        }
        tally
    }

    fn add(&mut self, status: Status, number: i64) {
        let place = Status::ALL.iter().position(|known| *known == status);
        if let Some(count) = place.and_then(|place| self.0.get_mut(place)) {
            *count += number;
        }
    }

    fn has(self, status: Status) -> bool {
        let place = Status::ALL.iter().position(|known| *known == status);
        place.and_then(|place| self.0.get(place)).is_some_and(|count| *count > 0)
    }

    /// How the email stands: what is still to come first, then the worst of what came.
    fn status(self) -> Status {
        let order = [
            Status::Queued,
            Status::Sent,
            Status::Bounced,
            Status::Failed,
            Status::Delivered,
            Status::Suppressed,
        ];
        order.into_iter().find(|status| self.has(*status)).unwrap_or(Status::Suppressed)
    }
}

words! {
    /// Why a recipient did not get an email, or did not want it; `detail` says what the mail server
    /// said, or the reason in a sentence.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = EmailErrorCode)]
    enum Cause {
        MailboxUnavailable = "mailbox_unavailable",
        Undeliverable = "undeliverable",
        RelayRejected = "relay_rejected",
        SenderRefused = "sender_refused",
        NotSent = "not_sent",
        Suppressed = "suppressed",
        Complained = "complained",
        Erased = "erased",
    }
}

impl Cause {
    const fn sentence(self) -> &'static str {
        match self {
            Self::MailboxUnavailable => "There is no such mailbox.",
            Self::Undeliverable => "The recipient's mail server could not deliver the message.",
            Self::RelayRejected => "The mail relay rejected the message.",
            Self::SenderRefused => "The mail relay does not accept this sender.",
            Self::NotSent => "No mail relay took the message in time.",
            Self::Suppressed => "The address is on the account's suppression list.",
            Self::Complained => "The recipient reported the message as unwanted.",
            Self::Erased => "The recipient asked to be forgotten while the message was under way.",
        }
    }
}

words! {
    /// How a recipient is addressed.
    enum Kind {
        To = "to",
        Cc = "cc",
        Bcc = "bcc",
    }
}

/// An email as stored, without what it says.
#[derive(Clone, Debug)]
struct Letter {
    account: AccountId,
    id: EmailId,
    from_email: String,
    reply_to: Option<String>,
    subject: String,
    reference: Option<String>,
    size_bytes: i64,
    priority: Priority,
    tally: Tally,
    charged_credits: i64,
    valid_until: Millis,
    created_at: Millis,
    updated_at: Millis,
}

/// A recipient of an email.
#[derive(Clone, Debug)]
struct Recipient {
    position: i64,
    kind: Kind,
    /// As written; empty once it is forgotten.
    mailbox: String,
    status: Status,
    cause: Option<Cause>,
    /// What the mail server said.
    detail: Option<String>,
}

/// What one recipient gets: the message of an attempt.
#[derive(Clone)]
pub struct Piece {
    account: AccountId,
    email: EmailId,
    position: i64,
    /// As written; empty once it is forgotten.
    mailbox: String,
    address_mac: Vec<u8>,
    status: Status,
    cause: Option<Cause>,
    detail: Option<String>,
    attempt: AttemptId,
    credits: i64,
    change_count: i64,
    from_email: String,
    valid_until: Millis,
    /// Whether the account does not write to this address by now.
    is_suppressed: bool,
    /// What it says, while it may have to go out.
    said: Option<Said>,
}

/// What an email says, where it is.
#[derive(Clone)]
enum Said {
    /// In the database: it is large.
    Stored,
    /// Here, as it is stored.
    Sealed(Arc<[u8]>),
    /// Here, as it goes out.
    Opened(Arc<Vec<u8>>),
}

impl Piece {
    /// The object of its attempts.
    fn object_id(&self) -> String {
        format!("{}.{}", self.email, self.position)
    }

    fn address(&self) -> Option<email::Address> {
        email::Mailbox::parse(&self.mailbox).ok().map(|mailbox| mailbox.address)
    }
}

/// The email and the position that the object of an attempt names.
fn read_object_id(id: &str) -> Option<(EmailId, i64)> {
    let (email, position) = id.split_once('.')?;
    Some((EmailId::parse(email)?, position.parse().ok()?))
}

/// Where what an email says is sealed for.
fn place<'a>(account: &'a AccountId, id: &'a EmailId) -> [&'a str; 3] {
    ["email_contents", account.as_str(), id.as_str()]
}

/// The keyed hash under which an account knows an address.
fn address_mac(app: &App, account: &AccountId, address: &email::Address) -> Vec<u8> {
    app.vault.recipient_mac(account.as_str(), &address.key()).to_vec()
}

/// Why an email was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sender's domain is not one that the account may write from.
    #[error(
        "The account has not verified the domain {0}: add it with POST /v1/email-domains, publish \
         its records, then verify it"
    )]
    DomainNotVerified(String),
    /// On the shared domain, what looks like the operator's own address is nobody's.
    #[error(
        "This address of the shared domain is the operator's own. Use another part before the @"
    )]
    Reserved,
    /// There is no carrier for email.
    #[error(
        "No mail relay is configured: nothing was sent or charged. Ask the operator to configure \
         one"
    )]
    NoCarrier,
    /// No keys could be made for a domain, or they cannot be read.
    #[error("The keys of the domain are out of order")]
    NoKeys,
    /// The account has as many domains as it may have.
    #[error("An account has at most {} domains. Remove one that is no longer used", domains::MOST)]
    TooManyDomains,
    /// The account had keys made for too many domains of late.
    #[error("Too many domains were added in the last hour")]
    TooManyKeys(Problem),
    /// No such object of this account.
    #[error("The id is unknown, or belongs to another account")]
    Unknown,
    /// Credits.
    #[error(transparent)]
    Credits(#[from] credits::Error),
    /// Storage.
    #[error(transparent)]
    Db(#[from] ::store::Error),
    /// Storage.
    #[error(transparent)]
    Commit(#[from] ::store::CommitError),
}

#[cfg(test)]
mod tests {
    use super::{Status, Tally};

    #[test]
    fn an_email_stands_where_the_slowest_or_the_worst_of_its_recipients_does() {
        use Status::{Bounced, Delivered, Failed, Queued, Sent, Suppressed};
        for (statuses, status) in [
            (vec![Delivered, Queued, Bounced], Queued),
            (vec![Delivered, Sent, Bounced], Sent),
            (vec![Delivered, Bounced, Failed], Bounced),
            (vec![Delivered, Failed], Failed),
            (vec![Delivered, Suppressed], Delivered),
            (vec![Suppressed, Suppressed], Suppressed),
        ] {
            assert_eq!(Tally::of(statuses.into_iter()).status(), status);
        }
    }
}
