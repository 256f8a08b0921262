//! Rank 6: what recipients of an SMS see as its sender. An account asks for a sender, the
//! operator's staff approves or rejects it, and only approved ones are used.

pub mod api;
pub mod store;

use ::store::{CommitError, Error, Reject, WriteSet, args};
use clock::Millis;
use futures_util::future::BoxFuture;

use crate::access::audit::{self, By, Entry};
use crate::access::idempotency::Claim;
use crate::access::limits::{self, Limited};
use crate::app::App;
use crate::kit::described::described;
use crate::kit::id::{AccountId, SenderId};
use crate::kit::keywords::Keyword;
use crate::kit::page::Page;
use crate::kit::words::words;

/// The sender disappeared between the look-up and the decision.
const GONE: Reject = Reject("sender_gone");
/// The account may not use the sender.
pub const NOT_APPROVED: Reject = Reject("sender_not_approved");
/// The account asked for the same sender at the same moment.
const ASKED: Reject = Reject("sender_asked_for");
/// The account has [`MOST`] senders.
const FULL: Reject = Reject("senders_full");

/// Senders of one account. A rejected one gives way to a new one when there are so many.
pub const MOST: i64 = 50;

/// Most accounts that one sender is looked up for.
const MOST_OWNERS: i64 = 1_000;

words! {
    /// Whether a sender may be used.
    pub enum Status {
        /// Staff have not looked at it.
        Pending = "pending",
        /// It may.
        Approved = "approved",
        /// It may not.
        Rejected = "rejected",
    }

    /// What staff decide about a sender.
    pub enum Verdict {
        /// It may be used.
        Approved = "approved",
        /// It may not.
        Rejected = "rejected",
    }
}

described!(
    Status as "SenderStatus": "Whether a sender may be used.",
    Self::ALL.iter().map(|status| status.as_str())
);

described!(
    Verdict as "SenderDecision": "What staff decide about a sender.",
    Self::ALL.iter().map(|verdict| verdict.as_str())
);

impl Verdict {
    /// How the sender stands then.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Approved => Status::Approved,
            Self::Rejected => Status::Rejected,
        }
    }
}

/// A sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Whose it is.
    pub account: AccountId,
    /// Its id.
    pub id: SenderId,
    /// As the recipient sees it.
    pub value: String,
    /// Whether it may be used.
    pub status: Status,
    /// Why it was rejected, or what staff noted.
    pub reason: Option<String>,
    /// When it was asked for.
    pub created_at: Millis,
}

/// Why a value is no sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Networks do not take it.
    #[error("must be 3 to 15 digits, or 1 to 11 of A-Z a-z 0-9 space . - _ & with a letter")]
    Form,
    /// People are asked to answer it.
    #[error("must not be a keyword such as STOP or START, which people answer to senders")]
    Keyword,
}

/// Why an account may not use a sender, in words that follow on what names it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is none, and is not repeated.
    #[error(" {0}")]
    Value(Fault),
    /// The account never asked for it.
    #[error(", {0}, is not approved for this account: ask for it with POST /v1/senders")]
    Unknown(String),
    /// Nobody decided yet.
    #[error(
        ", {0}, is not approved yet: GET /v1/senders shows what becomes of it. Use an approved one \
         until then"
    )]
    Pending(String),
    /// Staff said no.
    #[error(", {0}, was rejected: GET /v1/senders says why. Use another one")]
    Rejected(String),
}

/// Whether a value can be a sender: up to 11 letters, digits, spaces and `.-_&` with at least one
/// letter, or 3 to 15 digits of a number or short code, `+` in front or not; and no keyword.
///
/// # Errors
/// See [`Fault`].
pub fn check(value: &str) -> Result<(), Fault> {
    if !is_well_formed(value) {
        return Err(Fault::Form);
    }
    if Keyword::in_message(value).is_some() { Err(Fault::Keyword) } else { Ok(()) }
}

fn is_well_formed(value: &str) -> bool {
    let digits = value.strip_prefix('+').unwrap_or(value);
    let is_number =
        (3..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = (1..=11).contains(&value.len())
        && value.trim() == value
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" .-_&".contains(&byte))
        && value.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_number || is_name
}

/// Whether the account may use this sender.
///
/// # Errors
/// When the database cannot be read.
pub async fn is_approved(app: &App, account: &AccountId, value: &str) -> Result<bool, Error> {
    let found: Option<Sender> = app.db.row(store::BY_VALUE, args![account, value]).await?;
    Ok(found.is_some_and(|sender| sender.status == Status::Approved))
}

/// Why the account may not use a sender that was refused.
///
/// # Errors
/// When the database cannot be read.
pub async fn why_not(app: &App, account: &AccountId, value: &str) -> Result<Unusable, Error> {
    if let Err(fault) = check(value) {
        return Ok(Unusable::Value(fault));
    }
    let found: Option<Sender> = app.db.row(store::BY_VALUE, args![account, value]).await?;
    Ok(match found.map(|sender| sender.status) {
        None => Unusable::Unknown(value.to_owned()),
        Some(Status::Rejected) => Unusable::Rejected(value.to_owned()),
        // Approved a moment ago: it is seen the next time.
        Some(Status::Pending | Status::Approved) => Unusable::Pending(value.to_owned()),
    })
}

/// Refuses the set with [`NOT_APPROVED`] if the account may not use this sender. It writes nothing.
pub fn guard(set: &mut WriteSet, account: &AccountId, value: &str) {
    set.absent(store::IS_NOT_APPROVED, args![account, value], NOT_APPROVED);
}

/// Why a sender cannot be asked for.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The account has [`MOST`] senders.
    #[error("the account has {MOST} senders already")]
    Full,
    /// A read failed.
    #[error(transparent)]
    Db(#[from] Error),
    /// Nothing was stored.
    #[error(transparent)]
    Commit(CommitError),
}

impl From<CommitError> for AskError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Rejected(FULL) => Self::Full,
            other => Self::Commit(other),
        }
    }
}

/// Accounts that may use this sender, each once. A number may be written with or without its plus.
/// See [`crate::app::OwnersOf`].
#[must_use]
pub fn owners_of<'a>(app: &'a App, value: &'a str) -> BoxFuture<'a, Result<Vec<AccountId>, Error>> {
    Box::pin(async move {
        let bare = value.strip_prefix('+').unwrap_or(value);
        let args = args![bare, format!("+{bare}"), app.env.as_str(), MOST_OWNERS];
        let rows: Vec<(AccountId,)> = app.db.rows(store::OWNERS, args).await?;
        let mut owners: Vec<AccountId> = rows.into_iter().map(|(account,)| account).collect();
        owners.sort_unstable();
        owners.dedup();
        Ok(owners)
    })
}

/// Asks for a sender; one that was asked for before stays as it is.
///
/// # Errors
/// See [`AskError`].
pub async fn ask(
    app: &App,
    account: &AccountId,
    value: &str,
    by: By<'_>,
    claim: &Claim,
) -> Result<Sender, AskError> {
    let id = SenderId::new(&app.clock);
    let new = Sender {
        account: account.clone(),
        created_at: id.time(),
        id,
        value: value.to_owned(),
        status: Status::Pending,
        reason: None,
    };
    let known: Option<Sender> = app.db.row(store::BY_VALUE, args![account, value]).await?;
    let is_new = known.is_none();
    let asked = known.unwrap_or(new);
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, asked.id.as_str(), None, app.now());
    if is_new {
        add(app, &mut set, &asked, by);
    }
    match app.db.commit(set).await {
        Ok(_) => Ok(asked),
        // Somebody else asked for the same at this moment: it stands where theirs does.
        Err(CommitError::Rejected(ASKED)) => {
            let found: Option<Sender> = app.db.row(store::BY_VALUE, args![account, value]).await?;
            let found = found.ok_or(AskError::Commit(CommitError::Overloaded))?;
            claim.stand_for(app, found.id.as_str()).await?;
            Ok(found)
        }
        Err(error) => Err(error.into()),
    }
}

fn add(app: &App, set: &mut WriteSet, new: &Sender, by: By<'_>) {
    let Sender { account, id, value, status, .. } = new;
    limits::one_by_one(set, account, Limited::Senders);
    set.push(store::MAKE_ROOM, args![account, value, MOST]);
    set.absent(store::LAST_OF_ALL, args![account, value, MOST - 1], FULL);
    let reason: Option<String> = None;
    set.guard(
        store::INSERT,
        args![account, id, value, status.as_str(), reason, new.created_at],
        ASKED,
    );
    let detail = serde_json::json!({ "value": value });
    let entry = Entry::of_account(account, id.as_str(), by, "sender.request", detail);
    audit::record(app, set, &entry);
}

/// A sender by its id, for staff.
///
/// # Errors
/// When the database cannot be read.
pub async fn find(app: &App, id: &SenderId) -> Result<Option<Sender>, Error> {
    app.db.row(store::BY_ID, args![id]).await
}

/// Adds staff's decision to a set.
pub fn decide(set: &mut WriteSet, sender: &Sender, status: Status, reason: Option<&str>) {
    set.guard(store::DECIDE, args![status.as_str(), reason, &sender.account, &sender.id], GONE);
}

/// One page of senders, newest first, with one row more when there are more. No account: all
/// accounts, for staff.
///
/// # Errors
/// When the database cannot be read.
pub async fn list(
    app: &App,
    account: Option<&AccountId>,
    status: Option<Status>,
    page: &Page,
) -> Result<Vec<Sender>, Error> {
    let (status, limit) = (status.map_or("", Status::as_str), page.limit.saturating_add(1));
    match account {
        Some(account) => {
            app.db.rows(store::OF_ACCOUNT, args![account, &page.after, status, limit]).await
        }
        None => app.db.rows(store::OF_ALL, args![&page.after, status, limit]).await,
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, check};

    #[test]
    fn names_numbers_and_short_codes_are_senders() {
        for good in ["Estafette", "A", "B & B", "x.y-z_1", "12345", "+4915112345678", "123"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_networks_do_not_take_is_no_sender() {
        for bad in ["", "12", "1234567890123456", "ABCDEFGHIJKL", " A", "A ", "Ä", "1-2", "+A", "+"]
        {
            assert_eq!(check(bad), Err(Fault::Form), "{bad}");
        }
    }

    #[test]
    fn what_people_answer_is_no_sender() {
        for bad in ["STOP", "Stop.", "start", "UNSUBSCRIBE", "Arret", "opt-out"] {
            assert_eq!(check(bad), Err(Fault::Keyword), "{bad}");
        }
    }
}
