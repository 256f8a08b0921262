//! Seals: what makes removed rows visible. One chain for the whole database. A seal covers a block
//! of rows (their number, their sum, a digest of them) and the hash of the seal before it, and is
//! keyed: whoever has the database but not the master key can neither make one nor take one out of
//! the middle. The newest one's hash, kept elsewhere, also shows that the end is missing.
//!
//! [`round`] makes them. A block is a stretch of an account's transfer ids. Ids are in the order of
//! time, so new rows come behind it, except the end of an old hold and a late refund, whose ids
//! follow from the hold's. Therefore each round ends by publishing a *fence*, and the next one,
//! half an hour later, seals what lies before it. Whoever writes a transfer behind the fence says
//! so in `late_transfers`, in the same write set; those rows are no part of the block and have
//! seals of their own. A send writes ahead of the fence and pays nothing for all this.

pub mod adopt;
mod round;
pub mod store;
pub mod terms;

use ::store::{CommitError, Db, Error as DbError, Reject, WriteSet, args};
use clock::{MINUTE, Millis};
use serde::Serialize;

use self::store as sql;
use super::{Error, Transfer};
use crate::access::retention::Accounts;
use crate::app::{App, Env};
use crate::kit::id::{AttemptId, AuditId, TransferId};
use crate::kit::seal::{Vault, hex, sha256_of, unhex};
use crate::kit::sealing::SealHead;
use crate::kit::walk::Found;

pub use round::{Round, round};

/// Seals that belong to no account.
pub const NOBODY: &str = "";
/// The fence stays this far behind the clock, milliseconds, so that the post of a send that is
/// going on is not late.
const FENCE_DELAY_MS: i64 = MINUTE;
/// Appending to the chain against others who do.
const TRIES: u32 = 20;
/// Another seal has the number.
const TAKEN: Reject = Reject("seal_taken");
/// Somebody else sealed these rows.
const OVERTAKEN: Reject = Reject("seal_overtaken");

/// What a seal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Transfers before `until` are being sealed; the end of a round.
    Fence,
    /// A block of an account's transfers.
    Transfers,
    /// Transfers of an account that came late for their block.
    Late,
    /// How an account pays, as the audit log says up to `until`.
    Terms,
    /// A block of the audit log.
    AuditLog,
    /// Retention deletes what is before `until`, from here on.
    Forgotten(Forgotten),
}

/// What retention deletes that the audit would miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Attempts of accounts of one environment.
    Attempts(Env),
    /// Lines of the audit log.
    AuditLog,
}

impl Kind {
    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Transfers => "transfers",
            Self::Late => "late",
            Self::Terms => "terms",
            Self::AuditLog => "audit_log",
            Self::Forgotten(Forgotten::Attempts(Env::Live)) => "forgot_attempts_live",
            Self::Forgotten(Forgotten::Attempts(Env::Sandbox)) => "forgot_attempts_sandbox",
            Self::Forgotten(Forgotten::AuditLog) => "forgot_audit_log",
        }
    }
}

/// Number, sum and digest of some rows. Rows are added in any order: the digest is the sum of their
/// own digests, modulo 2^256. That is enough where each row is genuine by its own keyed hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// How many.
    pub rows: i64,
    /// What they did to the credits that can be spent.
    pub credits: i64,
    /// The sum of their digests, the highest byte first.
    pub digest: [u8; 32],
}

impl Tally {
    /// One more row.
    pub fn add(&mut self, credits: i64, digest: &[u8; 32]) {
        self.join(&Self { rows: 1, credits, digest: *digest });
    }

    /// Some more rows.
    pub fn join(&mut self, other: &Self) {
        self.rows += other.rows;
        self.credits = self.credits.wrapping_add(other.credits);
        let mut carry = 0_u16;
        for (byte, more) in self.digest.iter_mut().zip(&other.digest).rev() {
            let sum = u16::from(*byte) + u16::from(*more) + carry;
            carry = sum >> 8;
            *byte = u8::try_from(sum & 0xff).unwrap_or(0);
        }
    }

    pub(super) fn add_transfer(&mut self, account: &str, transfer: &Transfer) {
        self.add(transfer.effect(), &transfer.digest(account));
    }
}

/// One link of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Its place, from 1, without gaps.
    pub number: i64,
    /// [`Kind::as_str`].
    pub kind: String,
    /// The account, or [`NOBODY`].
    pub account: String,
    /// The stretch of ids begins behind this one,
    pub after: String,
    /// and ends with this one.
    pub until: String,
    /// The rows in it.
    pub tally: Tally,
    /// [`terms::Terms`] as JSON, in seals of that kind.
    pub detail: String,
    /// When.
    pub sealed_at: Millis,
    /// The hash of the seal before; zeros in the first one.
    pub last_hash: [u8; 32],
    /// SHA-256 of all the above.
    pub hash: [u8; 32],
    /// Keyed hash of `hash`.
    pub mac: Vec<u8>,
}

impl Seal {
    /// Number and hash.
    #[must_use]
    pub fn head(&self) -> SealHead {
        SealHead { number: self.number, hash: self.hash }
    }

    /// Whether the service made it, and just so.
    #[must_use]
    pub fn is_genuine(&self, vault: &Vault) -> bool {
        self.hash == self.digest() && self.mac == keyed(vault, &self.hash)
    }

    fn digest(&self) -> [u8; 32] {
        let number = |number: i64| number.to_be_bytes();
        sha256_of(&[
            &number(self.number),
            self.kind.as_bytes(),
            self.account.as_bytes(),
            self.after.as_bytes(),
            self.until.as_bytes(),
            &number(self.tally.rows),
            &number(self.tally.credits),
            &self.tally.digest,
            self.detail.as_bytes(),
            &number(self.sealed_at.0),
            &self.last_hash,
        ])
    }
}

fn keyed(vault: &Vault, hash: &[u8; 32]) -> [u8; 32] {
    vault.proof_mac(&["seal", &hex(hash)])
}

/// A seal before it has its place in the chain.
#[derive(Clone, Debug)]
struct Draft<'a> {
    kind: Kind,
    account: &'a str,
    /// The newest seal of this kind and account that it goes on from; 0 = none.
    follows: i64,
    after: &'a str,
    until: &'a str,
    tally: Tally,
    detail: String,
    /// Late transfers that it covers.
    late: &'a [String],
}

impl<'a> Draft<'a> {
    fn new(kind: Kind, account: &'a str, last: Option<&'a Seal>, until: &'a str) -> Self {
        Self {
            kind,
            account,
            follows: last.map_or(0, |last| last.number),
            after: last.map_or("", |last| last.until.as_str()),
            until,
            tally: Tally::default(),
            detail: String::new(),
            late: &[],
        }
    }

    fn link(&self, app: &App, last: Option<&Seal>) -> Seal {
        let mut seal = Seal {
            number: last.map_or(0, |last| last.number) + 1,
            kind: self.kind.as_str().to_owned(),
            account: self.account.to_owned(),
            after: self.after.to_owned(),
            until: self.until.to_owned(),
            tally: self.tally,
            detail: self.detail.clone(),
            sealed_at: app.now(),
            last_hash: last.map_or([0; 32], |last| last.hash),
            hash: [0; 32],
            mac: Vec::new(),
        };
        seal.hash = seal.digest();
        seal.mac = keyed(&app.vault, &seal.hash).to_vec();
        seal
    }
}

/// Whether there is nothing that a seal could be missed for.
///
/// # Errors
/// [`Error::Db`].
pub async fn is_bare(app: &App) -> Result<bool, Error> {
    Ok(newest(&app.db).await?.is_none() && Accounts::default().next(app).await?.is_none())
}

/// Begins the chain of a new database: from then on there is always a seal, or somebody removed it.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn begin(app: &App) -> Result<(), Error> {
    let fence = TransferId::bound(Millis(app.now().0 - FENCE_DELAY_MS));
    let draft = Draft::new(Kind::Fence, NOBODY, None, fence.as_str());
    match append(app, &draft).await {
        // Another node began it.
        Ok(_) | Err(Error::Commit(CommitError::Rejected(OVERTAKEN))) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Adds a seal to the end of the chain.
async fn append(app: &App, draft: &Draft<'_>) -> Result<Seal, Error> {
    for _ in 0..TRIES {
        let last = newest(&app.db).await?;
        let seal = draft.link(app, last.as_ref());
        let mut set = WriteSet::of("seals");
        let newer = args![draft.account, draft.kind.as_str(), draft.follows];
        set.absent(sql::NEWER, newer, OVERTAKEN);
        insert(&mut set, &seal);
        for id in draft.late {
            set.guard(sql::LATE_SEALED, args![seal.number, draft.account, id], OVERTAKEN);
        }
        match app.db.commit(set).await {
            Ok(_) => {
                app.sealing.saw(seal.head());
                return Ok(seal);
            }
            Err(CommitError::Rejected(TAKEN)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Commit(CommitError::Rejected(TAKEN)))
}

fn insert(set: &mut WriteSet, seal: &Seal) {
    let args = args![
        seal.number,
        &seal.kind,
        &seal.account,
        &seal.after,
        &seal.until,
        seal.tally.rows,
        seal.tally.credits,
        seal.tally.digest,
        &seal.detail,
        seal.sealed_at,
        seal.last_hash,
        seal.hash,
        seal.mac.clone(),
    ];
    set.guard(sql::INSERT, args, TAKEN);
}

/// The end of the chain, if it can be read.
///
/// # Errors
/// When the database cannot be read.
pub async fn newest(db: &Db) -> Result<Option<Seal>, DbError> {
    let found: Option<Found<Seal>> = db.row(sql::NEWEST, args![0_i64]).await?;
    Ok(found.and_then(|found| found.row))
}

/// The newest seal of one kind, if it can be read and is the service's own. One that is neither is
/// for the audit to find, and nothing is sealed behind it: the guard of [`append`] refuses.
///
/// # Errors
/// [`Error::Db`].
pub async fn newest_of(app: &App, account: &str, kind: Kind) -> Result<Option<Seal>, Error> {
    let args = args![account, kind.as_str()];
    let found: Option<Found<Seal>> = app.db.row(sql::NEWEST_OF, args).await?;
    Ok(found.and_then(|found| found.row).filter(|seal| seal.is_genuine(&app.vault)))
}

/// All that is older than this is sealed: a fence is published when what lies before the last one
/// is.
///
/// # Errors
/// [`Error::Db`].
pub async fn sealed_until(app: &App) -> Result<Millis, Error> {
    let fence = newest_of(app, NOBODY, Kind::Fence).await?;
    let before = fence.map(|fence| fence.after).filter(|after| !after.is_empty());
    Ok(before.map_or(Millis(0), |before| TransferId::stored(before).time()))
}

/// Reads where the fence is, and remembers the newest seal; every process does so now and then.
///
/// # Errors
/// [`Error::Db`].
pub async fn refresh(app: &App) -> Result<(), Error> {
    if let Some(fence) = newest_of(app, NOBODY, Kind::Fence).await? {
        app.sealing.raise_fence(fence_of(&fence));
    }
    if let Some(seal) = newest(&app.db).await?.filter(|seal| seal.is_genuine(&app.vault)) {
        app.sealing.saw(seal.head());
    }
    Ok(())
}

/// A head as people keep it: its number, a hyphen, 64 hexadecimal digits.
#[must_use]
pub fn head_text(head: &SealHead) -> String {
    format!("{}-{}", head.number, hex(&head.hash))
}

/// Reads what [`head_text`] wrote.
#[must_use]
pub fn head_of(text: &str) -> Option<SealHead> {
    let (number, hash) = text.trim().split_once('-')?;
    Some(SealHead { number: number.parse().ok().filter(|it| *it > 0)?, hash: unhex(hash)? })
}

/// The seal of this number, as far as it can be read.
pub(super) async fn at(app: &App, number: i64) -> Result<Option<Seal>, Error> {
    let args = args![number.saturating_sub(1), 1_i64];
    let found: Option<Found<Seal>> = app.db.row(sql::CHAIN, args).await?;
    Ok(found.and_then(|found| found.row).filter(|seal| seal.number == number))
}

fn fence_of(seal: &Seal) -> Millis {
    TransferId::stored(seal.until.clone()).time()
}

/// Says that retention is about to delete what is older than `until`. Whoever deletes without this
/// is a forger.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn forgotten(app: &App, what: Forgotten, until: Millis) -> Result<(), Error> {
    let kind = Kind::Forgotten(what);
    let bound = match what {
        Forgotten::Attempts(_) => String::from(AttemptId::bound(until)),
        Forgotten::AuditLog => AuditId::bound(until).into(),
    };
    loop {
        let last = newest_of(app, NOBODY, kind).await?;
        if last.as_ref().is_some_and(|last| last.until >= bound) {
            return Ok(());
        }
        match append(app, &Draft::new(kind, NOBODY, last.as_ref(), &bound)).await {
            Ok(_) => return Ok(()),
            // Another node said something of the kind at this moment.
            Err(Error::Commit(CommitError::Rejected(OVERTAKEN))) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn a_tally_does_not_depend_on_the_order_and_sees_every_row() {
        let rows = [(3, [0xff; 32]), (-3, [0x80; 32]), (7, [1; 32])];
        let tally = |order: &[usize]| {
            let mut tally = Tally::default();
            for at in order {
                tally.add(rows[*at].0, &rows[*at].1);
            }
            tally
        };
        assert_eq!(tally(&[0, 1, 2]), tally(&[2, 0, 1]));
        assert_eq!((tally(&[0, 1, 2]).rows, tally(&[0, 1, 2]).credits), (3, 7));
        assert_ne!(tally(&[0, 1]), tally(&[0, 2]));
        let mut carried = [0; 32];
        carried[30] = 1;
        let mut low = Tally::default();
        let mut byte = [0; 32];
        byte[31] = 0x80;
        low.add(0, &byte);
        low.add(0, &byte);
        assert_eq!(low.digest, carried, "0x80 + 0x80 carries");
    }
}
