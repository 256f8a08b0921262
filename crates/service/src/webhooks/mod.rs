//! Rank 6: webhooks. An account names targets; events are pushed to them, signed, at least once,
//! and no slow target delays another.
//!
//! The database is the queue. An event is a row that is due (`events`); `fan` turns it into one
//! delivery for each target that asked for its kind, in one write set. A target is a **lane**: one
//! node at a time has it, by a lease with an epoch, so its deliveries need no leases of their own,
//! and the bounds of a target hold over all nodes. `lane` carries what is due, and writes down what
//! came of it; a write by somebody who lost the lease is refused. `engine` finds events and lanes
//! with work: at once when this process left it, else within a quarter of a second.
//!
//! An event that was committed a moment ago by this process is **in hand**: it need not be read.
//! Where one target wants it, which this node has and which works, its delivery is lent to the lane
//! (`loans`), tried at once and written down with what came of it.
//!
//! Whatever ends a process ends its leases a little later, and the next node goes on where the
//! database says. See `docs/decisions/0012-webhook-lanes.md`.

pub mod api;
mod bodies;
pub mod deliveries;
mod due;
mod engine;
mod fan;
mod held;
mod lane;
mod loans;
pub mod log;
pub mod outcome;
pub mod pattern;
mod permits;
mod recovery;
mod retention;
pub mod secret;
mod settle;
mod store;
mod tries;

use ::store::{CommitError, WriteSet, args};
use clock::Millis;
use uuid::Uuid;

pub use deliveries::{Attempt, Delivery};
pub use engine::{free, run};
pub use pattern::Patterns;
pub use retention::{erase, forget_deliveries, forget_events};

use crate::access::idempotency::Claim;
use crate::access::limits::{self, Limited};
use crate::access::{By, Entry, Who, record};
use crate::app::{App, Env};
use crate::events;
use crate::kit::id::{AccountId, DeliveryId, EventId, WebhookId};
use crate::kit::outgoing;
use crate::kit::page::Page;
use crate::kit::secret::Secret;
use outcome::Health;
use secret::Secrets;
use store as sql;

/// Targets of one account.
pub const MOST: i64 = 50;
/// Times that secrets are rotated anew because another was faster.
const TRIES: u32 = 20;
/// How long a name is looked up when a target is named, milliseconds. One that is not resolved by
/// then is looked at when it is called.
const LOOK_UP_MS: u64 = 2_000;
/// For how long events may be delivered to those targets that were active before, milliseconds.
const STILL_FANNED_MS: i64 = clock::MINUTE;

/// A webhook target as stored.
#[derive(Clone, Debug)]
pub struct Target {
    /// Whose it is.
    pub account: AccountId,
    /// Its id.
    pub id: WebhookId,
    /// Where it is.
    pub url: String,
    /// What it gets.
    pub patterns: Patterns,
    /// Its signing secrets, sealed.
    sealed: Vec<u8>,
    /// Whether events are pushed to it.
    pub active: bool,
    /// Why it is not: `manual`, `gone` or `failing`.
    pub disabled_reason: Option<String>,
    /// Since when it is not.
    pub disabled_at: Option<Millis>,
    /// When it was named.
    pub created_at: Millis,
    /// How it fares.
    health: Health,
    event_count: i64,
    recover_after: Option<String>,
    recover_until: Option<String>,
    work: i64,
    holder: Option<i64>,
    epoch: i64,
    env: Env,
}

impl Target {
    /// Since when all tries failed.
    #[must_use]
    pub fn failing_since(&self) -> Option<Millis> {
        self.health.failing_since
    }

    /// As it is with a change.
    fn take(&mut self, change: &Change, now: Millis) {
        if let Some(url) = &change.url {
            self.url.clone_from(url);
        }
        if let Some(patterns) = &change.patterns {
            self.patterns = patterns.clone();
        }
        match change.active {
            Some(false) if self.active => {
                self.active = false;
                self.disabled_reason = Some("manual".to_owned());
                self.disabled_at = Some(now);
            }
            Some(true) => {
                (self.active, self.disabled_reason, self.disabled_at) = (true, None, None);
            }
            _ => {}
        }
    }

    /// When a try last succeeded.
    #[must_use]
    pub fn last_success_at(&self) -> Option<Millis> {
        self.health.last_success_at
    }
}

/// What goes wrong in this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL leads to where no webhook may be.
    #[error("{0}")]
    NotAllowed(String),
    /// The account has [`MOST`] targets.
    #[error("the account has {MOST} webhooks already; delete one first")]
    Full,
    /// No such target or delivery of this account.
    #[error("there is no such webhook or delivery")]
    Unknown,
    /// What the delivery tells of is older than what is kept.
    #[error("the delivery's event is no longer kept")]
    Forgotten,
    /// The secrets cannot be opened: they were sealed with another master key.
    #[error("the webhook's secrets cannot be decrypted")]
    Sealed,
    /// A read failed.
    #[error(transparent)]
    Db(#[from] ::store::Error),
    /// A write failed.
    #[error(transparent)]
    Commit(CommitError),
}

impl From<events::Fault> for Error {
    fn from(fault: events::Fault) -> Self {
        match fault {
            events::Fault::Db(error) => Self::Db(error),
            events::Fault::Commit(error) => Self::Commit(error),
        }
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Rejected(sql::FULL) => Self::Full,
            CommitError::Rejected(sql::CHANGED) => Self::Unknown,
            other => Self::Commit(other),
        }
    }
}

/// A target to be.
#[derive(Debug)]
pub struct NewTarget {
    /// Where it is.
    pub url: String,
    /// What it gets.
    pub patterns: Patterns,
    /// What signs for it.
    pub secret: Secret,
}

/// A change of a target; what is `None` stays.
#[derive(Debug, Default)]
pub struct Change {
    /// Where it is.
    pub url: Option<String>,
    /// What it gets.
    pub patterns: Option<Patterns>,
    /// Whether events are pushed to it.
    pub active: Option<bool>,
}

/// Whether a URL that is well formed may be called: what its name leads to is looked at now, and
/// again at every try.
///
/// # Errors
/// [`Error::NotAllowed`], which does not tell what the name leads to: whoever may name targets must
/// not be able to ask what names mean in the operator's network. A name that is not resolved is no
/// reason: it may be there tomorrow.
pub async fn vet(app: &App, place: &outgoing::Destination) -> Result<(), Error> {
    let patience = std::time::Duration::from_millis(LOOK_UP_MS);
    match tokio::time::timeout(patience, app.outgoing.of(app.env).vet(place)).await {
        Ok(Err(outgoing::NoAnswer::NotAllowed(_))) => {
            Err(Error::NotAllowed(format!("the host is not public; {}", place.way_out())))
        }
        _ => Ok(()),
    }
}

/// Names a target.
///
/// # Errors
/// [`Error::Full`], [`Error::Commit`].
pub async fn create(
    app: &App,
    account: &AccountId,
    new: NewTarget,
    by: By<'_>,
    claim: &Claim,
) -> Result<Target, Error> {
    let id = WebhookId::new(&app.clock);
    let sealed = seal(app, account, &id, &Secrets::of(&new.secret));
    let patterns = new.patterns.to_stored();
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, id.as_str(), claim.seal(app, id.as_str(), &new.secret), app.now());
    limits::one_by_one(&mut set, account, Limited::Webhooks);
    set.absent(sql::LAST_OF_ALL, args![account, MOST - 1], sql::FULL);
    let (at, env) = (id.time(), app.env.as_str());
    set.push(sql::INSERT, args![account, &id, &new.url, &patterns, sealed, at, env]);
    events::listen(&mut set, account);
    let detail = serde_json::json!({ "events": new.patterns.words() });
    record(app, &mut set, &entry(account, &id, by, "webhook.create", detail));
    app.db.commit(set).await?;
    // Nothing that fails behind the commit hides that it is there, with its only secret.
    Ok(find(app, account, &id).await.unwrap_or_else(|_| Target {
        account: account.clone(),
        created_at: at,
        id,
        url: new.url,
        patterns: new.patterns,
        sealed: Vec::new(),
        active: true,
        disabled_reason: None,
        disabled_at: None,
        health: Health::default(),
        event_count: 0,
        recover_after: None,
        recover_until: None,
        work: 0,
        holder: None,
        epoch: 0,
        env: app.env,
    }))
}

/// One target.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Db`].
pub async fn find(app: &App, account: &AccountId, id: &WebhookId) -> Result<Target, Error> {
    app.db.row(sql::BY_ID, args![account, id]).await?.ok_or(Error::Unknown)
}

/// One page of an account's targets, newest first, and one more if there is one.
///
/// # Errors
/// [`Error::Db`].
pub async fn list(app: &App, account: &AccountId, page: &Page) -> Result<Vec<Target>, Error> {
    Ok(app.db.rows(sql::LIST, args![account, page.after.as_str(), page.limit + 1]).await?)
}

/// Changes a target.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Commit`].
pub async fn change(
    app: &App,
    account: &AccountId,
    id: &WebhookId,
    change: &Change,
    by: By<'_>,
) -> Result<Target, Error> {
    let (mut after, now) = (find(app, account, id).await?, app.now());
    after.take(change, now);
    let patterns = change.patterns.as_ref().map(Patterns::to_stored);
    let mut set = WriteSet::of(account.as_str());
    let row = args![change.url.clone(), patterns, now, account, id];
    set.guard(sql::CHANGE, row, sql::CHANGED);
    match change.active {
        Some(true) => {
            // Whoever asked for what was missed meanwhile asked for all of it.
            let until = EventId::bound(now + STILL_FANNED_MS);
            set.push(sql::ENABLE, args![&until, now, account, id]);
        }
        Some(false) => {
            let anywhere: Option<String> = None;
            set.push(sql::DISABLE, args!["manual", now, account, id, anywhere]);
        }
        None => {}
    }
    let detail = serde_json::json!({
        "url": change.url.is_some(),
        "events": change.patterns.as_ref().map(Patterns::words),
        "active": change.active,
    });
    record(app, &mut set, &entry(account, id, by, "webhook.change", detail));
    set.ring(events::BELL).ring(engine::CHANGED);
    app.db.commit(set).await?;
    // Nothing that fails behind the commit hides it.
    Ok(find(app, account, id).await.unwrap_or(after))
}

/// Ends a target and what is on its way to it. Ending it again is [`Error::Unknown`].
///
/// # Errors
/// [`Error::Unknown`], [`Error::Commit`].
pub async fn delete(
    app: &App,
    account: &AccountId,
    id: &WebhookId,
    by: By<'_>,
) -> Result<(), Error> {
    let mut set = WriteSet::of(account.as_str());
    set.guard(sql::DELETE, args![Vec::<u8>::new(), account, id], sql::CHANGED);
    let detail = serde_json::json!({});
    record(app, &mut set, &entry(account, id, by, "webhook.delete", detail));
    set.ring(engine::CHANGED);
    app.db.commit(set).await?;
    Ok(())
}

/// A request that changes a target: who asks, and its claim to be taken once.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Who asks.
    pub by: By<'a>,
    /// The claim of its `Idempotency-Key`.
    pub claim: &'a Claim,
}

/// Gives a target another secret; the one before still signs for a day.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Sealed`], [`Error::Commit`].
pub async fn rotate(
    app: &App,
    account: &AccountId,
    id: &WebhookId,
    secret: &Secret,
    asked: Asked<'_>,
) -> Result<Target, Error> {
    for _ in 0..TRIES {
        let target = find(app, account, id).await?;
        let secrets = open(app, &target)?.rotated(secret, app.now());
        let sealed = seal(app, account, id, &secrets);
        let mut set = WriteSet::of(account.as_str());
        let shown = asked.claim.seal(app, id.as_str(), secret);
        asked.claim.add_to(&mut set, id.as_str(), shown, app.now());
        set.guard(sql::ROTATE, args![sealed, account, id, target.sealed.clone()], sql::CHANGED);
        let detail = serde_json::json!({});
        let by = asked.by;
        record(app, &mut set, &entry(account, id, by, "webhook.rotate_secret", detail));
        set.ring(engine::CHANGED);
        match app.db.commit(set).await {
            // Somebody else rotated at the same moment: theirs signs as well.
            Err(CommitError::Rejected(sql::CHANGED)) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(target),
        }
    }
    Err(Error::Commit(CommitError::Overloaded))
}

/// Looks through the account's events from an instant on, and delivers what was not.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Commit`].
pub async fn recover(
    app: &App,
    account: &AccountId,
    id: &WebhookId,
    since: Millis,
    asked: Asked<'_>,
) -> Result<(), Error> {
    let now = app.now();
    let (after, until) = (EventId::bound(since), EventId::bound(now + 1));
    let mut set = WriteSet::of(account.as_str());
    asked.claim.add_to(&mut set, id.as_str(), None, now);
    set.guard(sql::RECOVER, args![&after, &until, now, account, id], sql::CHANGED);
    let detail = serde_json::json!({ "since": since.to_string() });
    record(app, &mut set, &entry(account, id, asked.by, "webhook.recover", detail));
    set.ring(events::BELL).ring(engine::CHANGED);
    app.db.commit(set).await?;
    Ok(())
}

/// When the target was due that waits longest for a node, if one is due.
///
/// # Errors
/// When the database cannot be read.
pub async fn oldest_due(app: &App) -> Result<Option<Millis>, ::store::Error> {
    let oldest: Option<(Millis,)> = app.db.row(sql::OLDEST_DUE, args![app.now()]).await?;
    Ok(oldest.map(|(at,)| at))
}

/// The id of an event's delivery to a target follows from both, so there is one and no second. It
/// has the event's time, which keeps a target's deliveries in the order of its events.
#[must_use]
fn delivery_id(event: &EventId, webhook: &WebhookId) -> DeliveryId {
    let both = [event.uuid().into_bytes(), webhook.uuid().into_bytes()].concat();
    let mut random = [0_u8; 10];
    random.copy_from_slice(crate::kit::seal::sha256(&both).get(..10).unwrap_or(&[0; 10]));
    let unix_ms = u64::try_from(event.time().0).unwrap_or(0);
    let uuid: Uuid = uuid::Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid();
    DeliveryId::of(uuid)
}

fn place_of<'a>(account: &'a AccountId, id: &'a WebhookId) -> [&'a str; 3] {
    ["webhooks", account.as_str(), id.as_str()]
}

fn seal(app: &App, account: &AccountId, id: &WebhookId, secrets: &Secrets) -> Vec<u8> {
    app.vault.seal(&place_of(account, id), &secrets.write())
}

fn open(app: &App, target: &Target) -> Result<Secrets, Error> {
    let opened = app.vault.open(&place_of(&target.account, &target.id), &target.sealed);
    opened.and_then(|bytes| Secrets::read(&bytes)).ok_or(Error::Sealed)
}

/// A line of the audit log about a target.
fn entry<'a>(
    account: &'a AccountId,
    id: &'a WebhookId,
    by: By<'a>,
    action: &'static str,
    detail: serde_json::Value,
) -> Entry<'a> {
    Entry::of_account(account, id.as_str(), by, action, detail)
}

/// What the service itself does, in the audit log.
const ITSELF: By<'static> = By { who: &Who::Service, request_id: "" };
