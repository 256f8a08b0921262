//! Rank 5: events. Whatever happens to an object is written down in the write set that makes it
//! happen, so there is no change without its event and no event without its change. Whoever listens
//! is told by `webhooks`; everybody can read them, newest first, at `GET /v1/events`.
//!
//! A row is small, because it is written on the way of every send: it holds what was so at that
//! moment (`state`), and its room can make the whole object of it later ([`render`]), the same
//! bytes each time. What has to be pushed again is kept, so that an upgrade does not change it.
//!
//! A room whose change is certain when the set is built calls [`emit`], or [`note_shown`] where it
//! has the object at hand: then nobody reads it again to push the event. A room that knows only in
//! SQL whether something changed inserts into `events` itself, from its own table, with
//! [`address`] for the columns that are ours:
//!
//! ```sql
//! INSERT INTO events (account_id, event_id, kind, object_id, sequence, state, body, node, due)
//! SELECT account_id, $1, 'otp.status', challenge_id, event_count, status || …, NULL, $2,
//!     (SELECT CAST($3 AS BIGINT) FROM listeners WHERE account_id = $4)
//! FROM challenges WHERE …
//! ```

pub mod api;
pub mod catalogue;
mod render;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;

use ::store::{Bell, CommitError, Error, Reject, WriteSet, args};
use clock::Millis;

pub use catalogue::Kind;
pub use render::{MOST_BYTES, render};

use crate::access::retention::{Accounts, sweep};
use crate::app::{App, Env};
use crate::chores::Turn;
use crate::kit::id::{AccountId, EventId};

/// Rings for whoever delivers events.
pub const BELL: Bell = Bell("events");
/// How long an event is left to the node that wrote it, milliseconds.
const HEAD_START_MS: i64 = 2_000;
/// Events that one node takes over from another at a time.
const TAKEN_OVER: i64 = 256;
/// Set in the number of a node where an event was handed over: who looks for events that are due
/// does not find it, until it is taken over like that of another node.
const IN_HAND_BIT: i64 = 1 << 62;
/// Another node took the event over, or somebody was erased from it.
pub const TAKEN: Reject = Reject("event_taken");

/// Something that happened, to be written down.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// Whose it is.
    pub account: &'a AccountId,
    /// Its id, whose time is the event's time.
    pub id: &'a EventId,
    /// What kind of thing.
    pub kind: Kind,
    /// To which object.
    pub object_id: &'a str,
    /// Rises with every event of the object.
    pub sequence: i64,
    /// The event's data. No code, token or secret.
    pub data: serde_json::Value,
}

/// An event as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Whose it is.
    pub account: AccountId,
    /// Its id.
    pub id: EventId,
    /// What kind of thing, as in the catalogue.
    pub kind: String,
    /// To which object.
    pub object_id: String,
    /// Rises with every event of the object.
    pub sequence: i64,
    /// The data as JSON, or what the object's room makes it from.
    pub state: String,
    /// The JSON that was pushed, if it was, or that is to be.
    pub body: Option<String>,
    /// Whether it was handed over in memory, with its JSON.
    pub is_in_hand: bool,
}

/// The columns of a new row that say who makes its deliveries, and when others may.
#[must_use]
pub fn address(app: &App) -> (i64, Millis) {
    (app.node, app.now() + HEAD_START_MS)
}

/// Writes an event down in the set that makes it happen.
pub fn emit(app: &App, set: &mut WriteSet, event: &Event<'_>) {
    let Event { account, id, kind, object_id, sequence, ref data } = *event;
    let data = data.to_string();
    let row = NewRow { account, id, kind, object_id, sequence, state: &data };
    put(app, set, &row, || Some(data.clone()));
}

/// Something that happened to an object that its room can show at any later time, and that does not
/// change but for being forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Note<'a> {
    /// Whose it is.
    pub account: &'a AccountId,
    /// What kind of thing.
    pub kind: Kind,
    /// To which object.
    pub object_id: &'a str,
    /// Rises with every event of the object.
    pub sequence: i64,
    /// What the object's room adds to the object in this event, in its own words. No JSON.
    pub state: &'a str,
}

/// Writes an event down in the set that makes it happen; its room shows the object when somebody
/// reads it.
pub fn note(app: &App, set: &mut WriteSet, note: Note<'_>) {
    note_shown(app, set, note, || None);
}

/// The same of an object that is at hand as well: `shown` says what its room would make of `state`
/// later.
pub fn note_shown(
    app: &App,
    set: &mut WriteSet,
    note: Note<'_>,
    shown: impl FnOnce() -> Option<String>,
) {
    let Note { account, kind, object_id, sequence, state } = note;
    let id = &EventId::new(&app.clock);
    put(app, set, &NewRow { account, id, kind, object_id, sequence, state }, shown);
}

/// An event that is about to be written down.
struct NewRow<'a> {
    account: &'a AccountId,
    id: &'a EventId,
    kind: Kind,
    object_id: &'a str,
    sequence: i64,
    state: &'a str,
}

impl NewRow<'_> {
    fn to_stored(&self) -> Stored {
        Stored {
            account: self.account.clone(),
            id: self.id.clone(),
            kind: self.kind.as_str().to_owned(),
            object_id: self.object_id.to_owned(),
            sequence: self.sequence,
            state: self.state.to_owned(),
            body: None,
            is_in_hand: false,
        }
    }

    /// What is handed over of it, where somebody listens and its object can be shown.
    fn in_hand(&self, app: &App, shown: impl FnOnce() -> Option<String>) -> Option<Stored> {
        if !app.memo.listeners.contains_key(self.account) {
            return None;
        }
        let stored = Stored { is_in_hand: true, ..self.to_stored() };
        let body = Some(render::ready(&stored, &shown()?));
        Some(Stored { body, ..stored })
    }
}

/// Writes an event down, and hands it over as well where that can be, so that neither it nor its
/// object is read again.
fn put(app: &App, set: &mut WriteSet, row: &NewRow<'_>, shown: impl FnOnce() -> Option<String>) {
    let (own, due) = address(app);
    let in_hand = row.in_hand(app, shown);
    let node = if in_hand.is_some() { own | IN_HAND_BIT } else { own };
    let NewRow { account, id, kind, object_id, sequence, state } = *row;
    let kind = kind.as_str();
    set.push(store::EMIT, args![account, id, kind, object_id, sequence, state, node, due]);
    match in_hand {
        Some(event) => set.hand(in_hand_bell(app.env), Arc::new(event)),
        None => set.ring(BELL),
    };
}

/// Writes an event down that only one listener is told of, by whoever calls this.
pub fn emit_to_one(set: &mut WriteSet, event: &Event<'_>) {
    let Event { account, id, kind, object_id, sequence, ref data } = *event;
    let data = data.to_string();
    let stored = NewRow { account, id, kind, object_id, sequence, state: &data }.to_stored();
    let body = render::ready(&stored, &stored.state);
    let Stored { account, id, kind, object_id, sequence, state, .. } = stored;
    set.push(store::EMIT_TO_ONE, args![&account, &id, kind, object_id, sequence, state, body]);
}

/// From now on somebody listens to this account's events.
pub fn listen(set: &mut WriteSet, account: &AccountId) {
    set.push(store::LISTEN, args![account]);
}

/// Events of this node that nobody made deliveries of yet, by account. `after` is the account after
/// which to begin, so that one with many events does not keep the others waiting.
///
/// # Errors
/// When the database cannot be read.
pub async fn due(app: &App, after: &str, limit: i64) -> Result<Vec<Stored>, Error> {
    app.db.rows(store::DUE, args![after, app.node, limit]).await
}

/// Rings when events of an environment were handed over.
#[must_use]
pub const fn in_hand_bell(env: Env) -> Bell {
    match env {
        Env::Live => Bell("live events in hand"),
        Env::Sandbox => Bell("sandbox events in hand"),
    }
}

/// Events of an environment that were handed over since the last time, by account.
#[must_use]
pub fn in_hand(app: &App, env: Env) -> Vec<Stored> {
    let parcels = app.db.handed(in_hand_bell(env)).into_iter();
    let stored = parcels.filter_map(|parcel| parcel.downcast::<Stored>().ok());
    let mut events: Vec<Stored> = stored.map(Arc::unwrap_or_clone).collect();
    events.sort_by(|one, other| {
        (one.account.as_str(), one.id.as_str()).cmp(&(other.account.as_str(), other.id.as_str()))
    });
    events
}

/// Hands an event over once more, because it cannot be worked on where it came to.
pub fn hand_back(app: &App, env: Env, event: Stored) {
    let account = event.account.clone();
    app.db.hand(in_hand_bell(env), account.as_str(), Arc::new(event));
}

/// This account's events are listened to: those that follow soon are handed over.
pub fn heard(app: &App, account: &AccountId) {
    app.memo.listeners.insert(account.clone(), ());
}

/// Whether other nodes left anything lying.
///
/// # Errors
/// When the database cannot be read.
pub async fn is_overdue(app: &App) -> Result<bool, Error> {
    let any: Option<(EventId,)> = app.db.row(store::OVERDUE, args![app.now(), app.node]).await?;
    Ok(any.is_some())
}

/// Takes over what other nodes left lying, some of it. Answers how many events.
///
/// # Errors
/// See [`CommitError`].
pub async fn take_over(app: &App) -> Result<usize, CommitError> {
    let (node, due) = address(app);
    let mut set = WriteSet::of("events");
    set.returning_rows(store::TAKE_OVER, args![node, due, app.now(), node, TAKEN_OVER]);
    Ok(app.db.commit(set).await?.rows.iter().map(Vec::len).sum())
}

/// Leaves what this process has not done to any node at once: it stops.
///
/// # Errors
/// See [`CommitError`].
pub async fn leave(app: &App) -> Result<(), CommitError> {
    let mut set = WriteSet::of("events");
    for node in [app.node, app.node | IN_HAND_BIT] {
        set.push(store::LEAVE, args![app.now(), node]);
    }
    app.db.commit(set).await.map(drop)
}

/// The deliveries of an event are made in this set, which is refused ([`TAKEN`]) if another node
/// took the event over, or if it says something else by now.
pub fn done(app: &App, set: &mut WriteSet, event: &Stored) {
    let node = if event.is_in_hand { app.node | IN_HAND_BIT } else { app.node };
    set.guard(store::DONE, args![&event.account, &event.id, node, &event.state], TAKEN);
}

/// From now on the event's JSON is this one, unless it has one.
pub fn keep_body(set: &mut WriteSet, event: &Stored, body: &str) {
    let Stored { account, id, state, .. } = event;
    set.push(store::KEEP_BODY, args![body, account, id, state]);
}

/// Some events of an account, oldest first, after one id and up to another.
///
/// # Errors
/// When the database cannot be read.
pub async fn between(
    app: &App,
    account: &AccountId,
    after: &str,
    until: &str,
    limit: i64,
) -> Result<Vec<Stored>, Error> {
    app.db.rows(store::BETWEEN, args![account, after, until, limit]).await
}

/// One event.
///
/// # Errors
/// When the database cannot be read.
pub async fn find(app: &App, account: &AccountId, id: &EventId) -> Result<Option<Stored>, Error> {
    app.db.row(store::BY_ID, args![account, id]).await
}

/// Deletes events older than their environment's limit; answers how many. Goes account by account
/// along the primary key: an index by age would have to be kept by every send.
///
/// # Errors
/// See [`Fault`].
pub async fn forget_before(
    app: &App,
    turn: &Turn,
    before: impl Fn(Env) -> Millis,
) -> Result<u64, Fault> {
    let mut deleted = 0;
    let mut accounts = Accounts::default();
    while turn.breathe().await
        && let Some((account, env)) = accounts.next_with_env(app).await?
    {
        let before = EventId::bound(before(env));
        let old: Option<(EventId,)> = app.db.row(store::OLD, args![&account, &before]).await?;
        if old.is_some() {
            let args = args![&account, &before, app.config.retention.chunk];
            deleted += sweep(app, turn, "events", store::FORGET, &args).await?;
        }
    }
    Ok(deleted)
}

/// Takes out of an account's events what names a recipient (`+` and digits) or shows one of
/// `objects`, which are about to forget who it was. They are made anew from the objects, where
/// somebody reads them. Answers which events.
///
/// # Errors
/// See [`Fault`].
pub async fn erase(
    app: &App,
    account: &AccountId,
    recipient: &str,
    objects: &BTreeSet<String>,
) -> Result<Vec<EventId>, Fault> {
    let digits = recipient.trim_start_matches('+');
    let mut erased = Vec::new();
    let mut after = String::new();
    loop {
        let args = args![account, &after, "~", app.config.retention.chunk];
        let rows: Vec<Stored> = app.db.rows(store::ALL_BETWEEN, args).await?;
        let Some(last) = rows.last() else { return Ok(erased) };
        last.id.as_str().clone_into(&mut after);
        let mut set = WriteSet::of(account.as_str());
        for row in rows {
            let names = |text: &str| text.contains(digits);
            if objects.contains(&row.object_id)
                || names(&row.state)
                || row.body.as_deref().is_some_and(names)
            {
                // How recipients stood names nobody, and the others still want to know.
                let is_kept = row.kind == Kind::EmailDelivery.as_str() && !names(&row.state);
                let text = if is_kept { store::REDRAW } else { store::ERASE };
                set.push(text, args![account, &row.id]);
                erased.push(row.id);
            }
        }
        if !set.is_empty() {
            app.db.commit(set).await?;
        }
    }
}

/// What goes wrong in this room.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A read failed.
    #[error(transparent)]
    Db(#[from] Error),
    /// A write failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}
