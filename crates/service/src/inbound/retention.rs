//! What is forgotten of people's messages: the rows after `retention.inbound_d`, that they were
//! taken in once no carrier brings them any more. Opt-outs stay; they name nobody.

use std::collections::{BTreeSet, HashSet};

use ::store::{Error, WriteSet, args};
use clock::DAY;

use super::parts::erase_parts;
use super::{Fault, nobody, store as sql};
use crate::access::retention::{Accounts, erase_idempotency_keys, sweep};
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::kit::id::{AccountId, InboundId};
use crate::kit::msisdn::Msisdn;

pub use super::parts::settle_parts;

/// Carriers bring a message again for a week at most; twice that, to be sure.
const BROUGHT_AGAIN_MS: i64 = 14 * DAY;

/// Deletes old messages of all accounts and of nobody, and what is known of them. On the sandbox,
/// where they cost nobody anything, also what is more than an account may keep.
///
/// # Errors
/// See [`Fault`].
pub async fn forget(app: &App, turn: &Turn) -> Result<u64, Fault> {
    let chunk = app.config.retention.chunk;
    let aged = InboundId::bound(turn.now() - app.config.retention.inbound_d * DAY);
    let mut deleted = 0;
    let mut accounts = Accounts::default();
    let mut next = Some((nobody(), Env::Live));
    while let Some((account, env)) = next {
        if !turn.breathe().await {
            return Ok(deleted);
        }
        let kept = if env == Env::Sandbox { oldest_kept(app, &account).await? } else { None };
        let kept = kept.filter(|id| id.as_str() > aged.as_str());
        let before = kept.unwrap_or_else(|| aged.clone());
        let old: Option<(InboundId,)> = app.db.row(sql::OLD, args![&account, &before]).await?;
        if old.is_some() {
            let args = args![&account, &before, chunk];
            deleted += sweep(app, turn, "inbound", sql::FORGET, &args).await?;
        }
        next = accounts.next_with_env(app).await?;
    }
    let args = args![turn.now() - BROUGHT_AGAIN_MS, chunk];
    deleted += sweep(app, turn, "inbound_seen", sql::FORGET_SEEN, &args).await?;
    deleted += sweep(app, turn, "opt_outs", sql::FORGET_LIFTED, &args).await?;
    Ok(deleted)
}

/// The oldest message of as many as an account of the sandbox may keep.
async fn oldest_kept(app: &App, account: &AccountId) -> Result<Option<InboundId>, Error> {
    let args = args![account, app.config.sandbox.inbound_messages - 1];
    Ok(app.db.row::<(InboundId,)>(sql::NTH, args).await?.map(|(id,)| id))
}

/// The messages that a person sent to an account: what else may show them is erased before them.
///
/// # Errors
/// When the database cannot be read.
pub async fn of_person(
    app: &App,
    account: &AccountId,
    person: &Msisdn,
) -> Result<BTreeSet<String>, Error> {
    let rows = kept(app, account, person, i64::MAX).await?;
    Ok(rows.into_iter().map(|(id, _)| String::from(id)).collect())
}

/// What an erasure found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Messages that the person sent.
    pub messages: u64,
    /// `Idempotency-Key`s that stood for them.
    pub idempotency_keys: u64,
}

impl Erased {
    /// Counts another account's.
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.idempotency_keys += other.idempotency_keys;
    }
}

/// Deletes what a person sent to an account, and `Idempotency-Key`s that stand for it. What was
/// deleted is added to `objects`: what shows it is to go as well.
///
/// # Errors
/// See [`Fault`]. What was not reached yet is found by doing it again.
pub async fn erase(
    app: &App,
    account: &AccountId,
    person: &Msisdn,
    objects: &mut BTreeSet<String>,
) -> Result<Erased, Fault> {
    let mut erased = Erased::default();
    loop {
        let rows = kept(app, account, person, app.config.retention.chunk).await?;
        if rows.is_empty() {
            return Ok(erased);
        }
        let digits = person.e164().trim_start_matches('+');
        let sent: HashSet<&str> = rows.iter().map(|(_, upstream)| upstream.as_str()).collect();
        // Keys go first: without the messages nothing would lead to them any more.
        let is_meant = |key: &str, object: &str| sent.contains(object) || key.contains(digits);
        let keys = erase_idempotency_keys::<Fault>(app, account, is_meant).await?;
        let mut set = WriteSet::of(account.as_str());
        for (id, _) in &rows {
            set.push(sql::DELETE, args![account, id]);
        }
        app.db.commit(set).await?;
        objects.extend(rows.iter().map(|(id, _)| id.as_str().to_owned()));
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        app.metrics.deleted("inbound", count);
        erased.add(Erased { messages: count, idempotency_keys: keys });
    }
}

/// Deletes what came so far of a message that a person is sending to an account.
///
/// # Errors
/// See [`Fault`].
pub async fn erase_unfinished(
    app: &App,
    account: &AccountId,
    person: &Msisdn,
) -> Result<(), Fault> {
    erase_parts(app, person, Some(account)).await
}

/// The same of messages that were for nobody, and of what came so far of all others.
///
/// # Errors
/// See [`Fault`].
pub async fn erase_parked(app: &App, person: &Msisdn) -> Result<Erased, Fault> {
    erase_parts(app, person, None).await?;
    erase(app, &nobody(), person, &mut BTreeSet::new()).await
}

/// A number that the numbering plans do not know (any more) is kept as the carrier wrote it.
async fn kept(
    app: &App,
    account: &AccountId,
    person: &Msisdn,
    limit: i64,
) -> Result<Vec<(InboundId, String)>, Error> {
    let number = person.e164();
    let args = args![number, number.trim_start_matches('+'), account, limit];
    app.db.rows(sql::OF_SENDER, args).await
}
