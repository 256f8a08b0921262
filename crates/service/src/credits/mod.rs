//! Rank 5: the ledger and the prices. Transfers never change: a hold takes credits when a message
//! is accepted, and is posted (spent) or voided (given back) once; what was posted can be refunded
//! once. The resolution of a hold has the hold's UUID with the lowest bit set and its refund the
//! one with the second lowest set, so the primary key alone says that each happens once.
//!
//! `accounts.posted` and `.held` are the fold of an account's transfers; what can be spent is
//! `posted - held + credit_limit`. Every transfer carries a keyed hash of its fields, and
//! [`audit`] proves all of this. [`seals`] make visible what was removed.

pub mod api;
pub mod audit;
#[cfg(test)]
mod model;
pub mod prices;
pub mod seals;
pub mod store;

use ::store::{CommitError, Reject, WriteSet, args};
use clock::Millis;
use uuid::Uuid;

use crate::app::App;
use crate::kit::described::described;
use crate::kit::id::{AccountId, TransferId};
use crate::kit::page::Page;
use crate::kit::seal::{Vault, sha256_of};
use crate::kit::words::words;

pub use prices::{price, seed_prices};

/// The account has less available than the hold takes.
pub const INSUFFICIENT: Reject = Reject("insufficient_credits");
/// The hold was posted or voided before, or the charge refunded before.
pub const RESOLVED: Reject = Reject("hold_resolved");
/// There is no such hold of this amount: a fault of the program.
pub const NO_HOLD: Reject = Reject("no_such_hold");
/// What is to be refunded was never posted in this amount: a fault of the program.
pub const NOT_POSTED: Reject = Reject("not_posted");
/// A correction takes more than is available.
pub const NOT_AVAILABLE: Reject = Reject("credits_not_available");
/// The account does not exist, or has more credits than any account may have.
pub const NO_ACCOUNT: Reject = Reject("no_such_account");
/// A transfer of this id exists: a fault of the program.
pub const TRANSFER_EXISTS: Reject = Reject("transfer_exists");

/// Why something of the credits room did not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Less is available than is needed.
    #[error(
        "This costs {}, and {available} {} available. Top up, then send it again, under another \
         Idempotency-Key if it had one",
        if *required == 1 { "1 credit".to_owned() } else { format!("{required} credits") },
        if *available == 1 { "is" } else { "are" }
    )]
    Insufficient {
        /// What it costs.
        required: i64,
        /// What is left.
        available: i64,
    },
    /// A correction takes more than is available.
    #[error("the correction would take credits that are held or spent")]
    NotAvailable,
    /// Nothing is sold there.
    #[error("no price is set for {channel} {category} in {country}. Ask the operator to set one")]
    NoPrice {
        /// The channel.
        channel: String,
        /// The category.
        category: String,
        /// The country.
        country: String,
    },
    /// There is no such account.
    #[error("there is no such account")]
    NoAccount,
    /// The chain of seals is not the one that this process knows.
    #[error("seal {number} ({hash}) is missing or was replaced: run `estafette audit`")]
    SealsGone {
        /// The newest seal that this process knows.
        number: i64,
        /// Its hash.
        hash: String,
    },
    /// There is no chain of seals to go on from.
    #[error(
        "the seals are gone, or the audit log knows newer ones: run `estafette audit`, and restore \
         a backup"
    )]
    ChainGone,
    /// A read failed.
    #[error(transparent)]
    Db(#[from] ::store::Error),
    /// A commit failed.
    #[error(transparent)]
    Commit(CommitError),
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Rejected(NOT_AVAILABLE) => Self::NotAvailable,
            CommitError::Rejected(NO_ACCOUNT) => Self::NoAccount,
            error => Self::Commit(error),
        }
    }
}

/// What one message costs and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The hold, from [`new_hold`].
    pub hold: TransferId,
    /// Credits, not negative.
    pub amount: i64,
    /// Why, such as `otp.sms`.
    pub reason: &'static str,
    /// What is paid for.
    pub object_id: String,
}

/// The counters of an account, from one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// `prepaid` or `postpaid`.
    pub billing_mode: String,
    /// `pending`, `active` or `suspended`.
    pub status: String,
    /// What can be spent now: `posted - held + credit_limit`.
    pub available: i64,
    /// All posted movements.
    pub posted: i64,
    /// Held for messages whose fate is open.
    pub held: i64,
    /// How far `posted - held` may fall below zero.
    pub credit_limit: i64,
}

impl Balance {
    /// What is the account's own: without the credit limit, below zero for what is owed.
    #[must_use]
    pub fn own(&self) -> i64 {
        self.posted.saturating_sub(self.held)
    }
}

words! {
    /// What moved credits.
    pub enum TransferKind {
        /// The operator's.
        Topup = "topup",
        /// The operator took some back.
        Correction = "correction",
        /// They are set aside for a message.
        Hold = "hold",
        /// The message is paid.
        Post = "post",
        /// The message costs nothing after all.
        Void = "void",
        /// The message was paid, and is paid back.
        Refund = "refund",
    }
}

described!(
    TransferKind as "TransferKind": "What moved credits.",
    Self::ALL.iter().map(|kind| kind.as_str())
);

impl TransferKind {
    /// Whether it is the first of the transfers that belong together.
    const fn begins(self) -> bool {
        matches!(self, Self::Topup | Self::Correction | Self::Hold)
    }
}

/// One row of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its id.
    pub id: TransferId,
    /// A [`TransferKind`], as it is stored: what somebody changed is still shown to be so.
    pub kind: String,
    /// Credits, never negative.
    pub amount: i64,
    /// The hold that is resolved, or the post that is refunded.
    pub of: Option<TransferId>,
    /// Why.
    pub reason: String,
    /// What it is about.
    pub object_id: String,
    /// When.
    pub created_at: Millis,
    /// Keyed hash of all the above and the account.
    pub mac: Vec<u8>,
}

impl Transfer {
    /// What it did to the credits that can be spent.
    #[must_use]
    pub fn effect(&self) -> i64 {
        match self.kind() {
            Some(TransferKind::Topup | TransferKind::Void | TransferKind::Refund) => self.amount,
            Some(TransferKind::Hold | TransferKind::Correction) => self.amount.saturating_neg(),
            Some(TransferKind::Post) | None => 0,
        }
    }

    /// What it is; `None` = nothing that the service writes.
    fn kind(&self) -> Option<TransferKind> {
        self.kind.parse().ok()
    }

    /// The hash that the row must carry.
    fn seal(&self, vault: &Vault, account: &str) -> [u8; 32] {
        let (amount, created_at) = (self.amount.to_string(), self.created_at.0.to_string());
        vault.ledger_mac(&self.fields(account, &amount, &created_at))
    }

    /// Whether the service wrote the row just so.
    fn is_genuine(&self, vault: &Vault, account: &str) -> bool {
        self.mac == self.seal(vault, account)
    }

    /// What its seal covers. No key: a row that is genuine says the rest.
    fn digest(&self, account: &str) -> [u8; 32] {
        let (amount, created_at) = (self.amount.to_string(), self.created_at.0.to_string());
        sha256_of(&self.fields(account, &amount, &created_at).map(str::as_bytes))
    }

    fn fields<'a>(
        &'a self,
        account: &'a str,
        amount: &'a str,
        created_at: &'a str,
    ) -> [&'a str; 8] {
        let of = self.of.as_ref().map_or("", TransferId::as_str);
        let id = self.id.as_str();
        [account, id, &self.kind, amount, of, &self.reason, &self.object_id, created_at]
    }
}

/// A fresh time-ordered UUID whose two lowest bits are free for the resolution and the refund.
#[must_use]
pub fn new_hold(app: &App) -> Uuid {
    Uuid::from_u128(app.clock.uuid().as_u128() & !3)
}

/// The id under which a hold is posted or voided.
#[must_use]
pub fn resolution_of(hold: &TransferId) -> TransferId {
    TransferId::of(Uuid::from_u128(hold.uuid().as_u128() | 1))
}

/// The id under which a posted hold is refunded.
#[must_use]
pub fn refund_of(hold: &TransferId) -> TransferId {
    TransferId::of(Uuid::from_u128(hold.uuid().as_u128() | 2))
}

/// Takes the amount from what is available; the set is refused with [`INSUFFICIENT`] otherwise.
pub fn hold(app: &App, set: &mut WriteSet, account: &AccountId, charge: &Charge) {
    set.contended(store::HOLD, args![charge.amount, account], INSUFFICIENT);
    let transfer = of_charge(app, charge, TransferKind::Hold, charge.hold.clone(), None);
    insert(app, set, account, transfer, TRANSFER_EXISTS);
}

/// The held amount is spent; refused with [`RESOLVED`] when the hold is resolved already.
pub fn post(app: &App, set: &mut WriteSet, account: &AccountId, charge: &Charge) {
    resolve(app, set, account, charge, TransferKind::Post);
    set.contended(store::POST, args![charge.amount, account, &charge.hold], NO_HOLD);
}

/// The held amount is free again; refused with [`RESOLVED`] when the hold is resolved already.
pub fn void(app: &App, set: &mut WriteSet, account: &AccountId, charge: &Charge) {
    resolve(app, set, account, charge, TransferKind::Void);
    set.contended(store::VOID, args![charge.amount, account, &charge.hold], NO_HOLD);
}

/// What was posted comes back; refused with [`RESOLVED`] when it came back already.
pub fn refund(app: &App, set: &mut WriteSet, account: &AccountId, charge: &Charge) {
    let post = resolution_of(&charge.hold);
    let id = refund_of(&charge.hold);
    let transfer = of_charge(app, charge, TransferKind::Refund, id, Some(post.clone()));
    insert(app, set, account, transfer, RESOLVED);
    set.contended(store::REFUND, args![charge.amount, account, &post], NOT_POSTED);
}

/// Adds credits (more than 0) and answers the transfer's id; refused with [`NO_ACCOUNT`]. The set
/// returns what is the account's own then: see [`Balance::own`].
pub fn grant(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    amount: i64,
    reason: &str,
) -> TransferId {
    let amount = amount.max(0);
    set.returning_contended(store::GRANT, args![amount, account], NO_ACCOUNT);
    by_hand(app, set, account, ByHand { kind: TransferKind::Topup, amount, reason })
}

/// The play money of a new sandbox account, as the configuration says.
pub fn sandbox_grant(app: &App, set: &mut WriteSet, account: &AccountId) {
    let amount = app.config.credits.sandbox_grant;
    if amount > 0 {
        grant(app, set, account, amount, "sandbox");
    }
}

/// Takes `amount` credits (more than 0) back and answers the transfer's id; refused with
/// [`NOT_AVAILABLE`] when they are held or spent, and where there is only a credit limit. The set
/// returns the same as one of [`grant`].
pub fn correct(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    amount: i64,
    reason: &str,
) -> TransferId {
    set.returning_contended(store::CORRECT, args![amount, account], NOT_AVAILABLE);
    by_hand(app, set, account, ByHand { kind: TransferKind::Correction, amount, reason })
}

/// The counters of an account.
///
/// # Errors
/// [`Error::NoAccount`], [`Error::Db`].
pub async fn balance(app: &App, account: &AccountId) -> Result<Balance, Error> {
    app.db.row(store::BALANCE, args![account]).await?.ok_or(Error::NoAccount)
}

/// The error of a hold that was refused, with what there is and what it takes.
pub async fn insufficient(app: &App, account: &AccountId, required: i64) -> Error {
    match balance(app, account).await {
        Ok(Balance { available, .. }) => Error::Insufficient { required, available },
        Err(error) => error,
    }
}

/// One page of an account's transfers, newest first, with one row more when there are more.
///
/// Ids order the list, and a resolution shares its hold's: it stands directly above its hold.
///
/// # Errors
/// [`Error::Db`].
pub async fn ledger(app: &App, account: &AccountId, page: &Page) -> Result<Vec<Transfer>, Error> {
    let args = args![account, &page.after, page.limit.saturating_add(1)];
    Ok(app.db.rows(store::LEDGER, args).await?)
}

fn resolve(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    charge: &Charge,
    kind: TransferKind,
) {
    let id = resolution_of(&charge.hold);
    let transfer = of_charge(app, charge, kind, id, Some(charge.hold.clone()));
    insert(app, set, account, transfer, RESOLVED);
}

fn of_charge(
    app: &App,
    charge: &Charge,
    kind: TransferKind,
    id: TransferId,
    of: Option<TransferId>,
) -> Transfer {
    Transfer {
        id,
        kind: kind.as_str().to_owned(),
        amount: charge.amount,
        of,
        reason: charge.reason.to_owned(),
        object_id: charge.object_id.clone(),
        created_at: app.now(),
        mac: Vec::new(),
    }
}

/// A movement that the operator makes.
#[derive(Clone, Copy)]
struct ByHand<'a> {
    kind: TransferKind,
    amount: i64,
    reason: &'a str,
}

fn by_hand(app: &App, set: &mut WriteSet, account: &AccountId, movement: ByHand<'_>) -> TransferId {
    let ByHand { kind, amount, reason } = movement;
    let id = TransferId::of(new_hold(app));
    let transfer = Transfer {
        id: id.clone(),
        kind: kind.as_str().to_owned(),
        amount,
        of: None,
        reason: reason.to_owned(),
        object_id: account.as_str().to_owned(),
        created_at: app.now(),
        mac: Vec::new(),
    };
    insert(app, set, account, transfer, TRANSFER_EXISTS);
    id
}

fn insert(app: &App, set: &mut WriteSet, account: &AccountId, row: Transfer, exists: Reject) {
    let mac = row.seal(&app.vault, account.as_str());
    let is_late = app.sealing.is_behind_fence(&row.id);
    let of = row.of.map(String::from);
    let args = args![
        account,
        row.id.as_str(),
        row.kind,
        row.amount,
        of,
        row.reason,
        row.object_id,
        row.created_at,
        mac
    ];
    set.guard(store::INSERT, args, exists);
    if is_late {
        set.push(store::LATE, args![account, &row.id]);
    }
}
