//! Rank 9: one master key takes another's place, beside running nodes. The database says which key
//! writes; a node that has it in its file follows within seconds. So a new key goes three ways:
//! `next` (every node learns of it), `current` (what is written carries it), and its predecessor
//! becomes `former` (what was written may still carry that).
//!
//! What is sealed for longer than a day is sealed anew here: a room that adds such a place adds it
//! to [`PLACES`]. Codes, fingerprints, shown-once copies and messages on handsets live for a day at
//! most, so they age out before the former key may go. Hashes that stand for ever are not keyed by
//! the master key itself (`kit/seal`).

mod node;
mod store;

use std::time::Duration;

use ::store::{CommitError, Db, Error as DbError, Sql, WriteSet, args};
use clock::{HOUR, MINUTE, Millis};
use serde::Serialize;

use self::store::{self as sql, Known, MOVED, Node};
use crate::access::{self, By, Entry};
use crate::app::App;
use crate::chores;
use crate::credits::seals;
use crate::kit::seal::{KeyError, KeyRow, KeyState, Vault};

pub use node::run;

/// What is sealed for less is not sealed anew: a day, and an hour for clocks that differ.
const AGE_OUT: i64 = 25 * HOUR;
/// A node that was silent for so long is gone, milliseconds.
const SILENT: i64 = 3 * MINUTE;
/// Rows of small secrets that are read in one step.
const CHUNK: i64 = 200;
/// The same of emails, which may be 10 MB each.
const LARGE_CHUNK: i64 = 4;
/// How often nodes are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// A table with secrets that outlive a rotation. `page` takes the two parts of the last key and a
/// number of rows, and answers the parts and the secret; `change` takes the new secret, the parts
/// and the old secret.
struct Place {
    table: &'static str,
    chunk: i64,
    page: Sql,
    change: Sql,
}

const PLACES: &[Place] = &[
    Place::of("webhooks", sql::SECRETS, sql::RESEAL_SECRETS),
    Place::of("email_domains", sql::DOMAINS, sql::RESEAL_DOMAINS),
    Place { chunk: LARGE_CHUNK, ..Place::of("email_contents", sql::EMAILS, sql::RESEAL_EMAILS) },
    Place::of("sms_messages", sql::TEXTS, sql::RESEAL_TEXTS),
    Place::of("chatapp_links", sql::LINKS, sql::RESEAL_LINKS),
    Place::of("chatapp_callbacks", sql::CALLBACKS, sql::RESEAL_CALLBACKS),
];

impl Place {
    /// One of small secrets.
    const fn of(table: &'static str, page: Sql, change: Sql) -> Self {
        Self { table, chunk: CHUNK, page, change }
    }
}

/// Why a rotation did not come to its end. Doing it again goes on where it stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key is missing or malformed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is nothing to rotate to.
    #[error(
        "there is no new key beside {current}: put one in front of it (`openssl rand -hex 32`)"
    )]
    NoNewKey {
        /// The one that writes.
        current: String,
    },
    /// More than one key is new.
    #[error("{} keys are new; give one at a time", .0.len())]
    TooManyNewKeys(Vec<String>),
    /// Nodes that run do not know the key.
    #[error(
        "these processes serve, or did within the last three minutes, and do not have the new \
         key: {} (process ids, each of its machine); give it to them (one that has its key from \
         the environment has to be restarted; one that was killed is forgotten after three \
         minutes) and repeat",
        .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Unaware(Vec<i64>),
    /// Nodes that run write with the former key.
    #[error(
        "these processes still write with the former key, or did within the last three minutes: \
         {} (process ids, each of its machine); wait until they follow, or restart them; then \
         repeat",
        .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Behind(Vec<i64>),
    /// The former key may still be needed.
    #[error("data written with {key_id} may be needed until {until}; drop the key then")]
    TooEarly {
        /// The former key.
        key_id: String,
        /// From when on it may go.
        until: Millis,
    },
    /// By a clock that is not believed the former key could go.
    #[error(
        "the clock is {} h ahead of everything written, which is not believed: data written with \
         {key_id} may still be needed. Set {whose} clock right or, if it is, run `estafette clock \
         --confirm`; then repeat",
        ahead_ms / HOUR
    )]
    ClockAhead {
        /// The former key.
        key_id: String,
        /// How far it is ahead, milliseconds.
        ahead_ms: i64,
        /// Whose clock it is.
        whose: &'static str,
    },
    /// A secret that no key opens.
    #[error("{table}: a secret of {account} does not open with any key that is given")]
    Unopened {
        /// Where.
        table: &'static str,
        /// Whose.
        account: String,
    },
    /// Another rotation goes on.
    #[error("another command is rotating the key; repeat this when it is done")]
    Moved,
    /// A read failed.
    #[error(transparent)]
    Db(#[from] DbError),
    /// A write failed.
    #[error(transparent)]
    Commit(CommitError),
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        if let CommitError::Rejected(MOVED) = error { Self::Moved } else { Self::Commit(error) }
    }
}

/// What became of a rotation.
#[derive(Clone, Debug, Serialize)]
pub struct Rotated {
    /// The id of the key that writes now.
    pub key_id: String,
    /// Those that may be needed still.
    pub former: Vec<Former>,
    /// Secrets that were sealed anew.
    pub resealed: u64,
}

/// A key that writes no more.
#[derive(Clone, Debug, Serialize)]
pub struct Former {
    /// Its id.
    pub key_id: String,
    /// From when on it may be dropped.
    pub until: String,
}

/// Gives a new database, or one from before there were seals, the key that writes.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn begin(app: &App) -> Result<(), Error> {
    if keys(&app.db).await?.is_empty() {
        add(app, &app.vault.writes_with(), KeyState::Current).await?;
    }
    Ok(())
}

/// Follows what the database says of its keys. Answers what an operator should know of rows that
/// the service did not write.
///
/// # Errors
/// [`Error::Key`] when it was made with one that is not given.
pub async fn follow(app: &App) -> Result<Option<String>, Error> {
    let mut rows = known(&app.db, &app.vault).await?;
    if rows.is_empty() {
        begin(app).await?;
        rows = keys(&app.db).await?;
    }
    let made_up = app.vault.follow(&rows)?;
    prove(app, &rows).await?;
    Ok((!made_up.is_empty()).then(|| {
        format!(
            "rows of master_keys that this service did not write, or whose proof was taken, are \
             passed over. Find out who wrote them; then delete those with the key_id {made_up:?}"
        )
    }))
}

/// Gives the rows of keys that are there their proof, if they lack it.
async fn prove(app: &App, rows: &[KeyRow]) -> Result<(), CommitError> {
    let known = app.vault.key_ids();
    let mut set = WriteSet::of("master_keys");
    for row in rows.iter().filter(|row| known.contains(&row.key_id)) {
        let proof = app.vault.key_proof(&row.key_id);
        if row.proof.as_deref() != Some(&proof[..]) {
            set.push(sql::PROVE, args![proof, row.key_id.as_str()]);
        }
    }
    if set.is_empty() { Ok(()) } else { app.db.commit(set).await.map(drop) }
}

/// Whether the database knows the keys that are given. Changes nothing but what the vault knows.
///
/// # Errors
/// As [`follow`].
pub async fn is_known(db: &Db, vault: &Vault) -> Result<(), Error> {
    vault.follow(&known(db, vault).await?)?;
    Ok(())
}

/// The keys of a database. One that has none any more is judged by its seals, or whoever empties
/// the table would have it take any key.
async fn known(db: &Db, vault: &Vault) -> Result<Vec<KeyRow>, Error> {
    let rows = keys(db).await?;
    if !rows.is_empty() {
        return Ok(rows);
    }
    let is_own = match seals::newest(db).await? {
        Some(seal) => seal.is_genuine(vault),
        None => db.row::<(String,)>(sql::ACCOUNT, args![""]).await?.is_none(),
    };
    if is_own { Ok(rows) } else { Err(KeyError::Forgotten(vault.key_ids()).into()) }
}

async fn keys(db: &Db) -> Result<Vec<KeyRow>, DbError> {
    let rows: Vec<Known> = db.rows(sql::KEYS, args![""]).await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

async fn add(app: &App, key_id: &str, state: KeyState) -> Result<(), CommitError> {
    let Some(kept) = app.vault.kept_under(key_id) else { return Ok(()) };
    let mut set = WriteSet::of("master_keys");
    let proof = app.vault.key_proof(key_id);
    set.push(sql::ADD, args![key_id, state.as_str(), kept, app.now(), proof]);
    app.db.commit(set).await.map(drop)
}

fn in_state(rows: &[KeyRow], state: KeyState) -> impl Iterator<Item = &KeyRow> {
    rows.iter().filter(move |row| row.state == state)
}

/// Whether a rotation is over but for what may still need the former key.
///
/// # Errors
/// When the database cannot be read.
pub async fn has_former(app: &App) -> Result<bool, Error> {
    let rows = keys(&app.db).await?;
    Ok(in_state(&rows, KeyState::Former).next().is_some())
}

/// The new key that is given in front of the one that writes, or the one that a rotation began
/// with. One behind it may be a key that was dropped and is still in the text.
///
/// # Errors
/// [`Error::NoNewKey`], [`Error::TooManyNewKeys`].
pub async fn new_key(app: &App) -> Result<String, Error> {
    let rows = keys(&app.db).await?;
    let current = app.vault.writes_with();
    let mut new = app.vault.given();
    if let Some(next) = in_state(&rows, KeyState::Next).next() {
        if new.contains(&next.key_id) {
            return Ok(next.key_id.clone());
        }
        // Somebody began with a key that is not given any more; nothing was written with it.
        let mut set = WriteSet::of("master_keys");
        set.push(sql::DROP, args![next.key_id.as_str()]);
        app.db.commit(set).await?;
    }
    new.truncate(new.iter().position(|id| *id == current).unwrap_or(new.len()));
    new.retain(|id| rows.iter().all(|row| row.key_id != *id));
    match new.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Error::NoNewKey { current }),
        _ => Err(Error::TooManyNewKeys(new)),
    }
}

/// Lets `key_id` take the place of the key that writes: waits until every node knows it, at most
/// `patience`, then until every node writes with it. `told` hears how it goes.
///
/// # Errors
/// See [`Error`]. Nothing is lost, and doing it again goes on.
pub async fn turn_to(
    app: &App,
    key_id: &str,
    patience: Duration,
    by: By<'_>,
    told: &(impl Fn(&str) + Sync),
) -> Result<(), Error> {
    add(app, key_id, KeyState::Next).await?;
    told("waiting until every node knows the new key");
    all_nodes(app, patience, |node| node.key_ids.split(' ').any(|known| known == key_id)).await?;
    let rows = keys(&app.db).await?;
    let current = in_state(&rows, KeyState::Current).next().ok_or(Error::Moved)?;
    let mut set = WriteSet::of("master_keys");
    let (former, next) = (KeyState::Former.as_str(), KeyState::Next.as_str());
    let now = app.now();
    let old = current.key_id.as_str();
    set.guard(sql::MOVE, args![former, now, old, KeyState::Current.as_str()], MOVED);
    set.guard(sql::MOVE, args![KeyState::Current.as_str(), now, key_id, next], MOVED);
    note(app, &mut set, by, "master_key.rotate", key_id);
    app.db.commit(set).await?;
    follow(app).await?;
    told("waiting until every node writes with the new key");
    all_nodes(app, patience, |node| node.writes == key_id).await
}

/// Returns once all nodes that run are as they should be.
async fn all_nodes(
    app: &App,
    patience: Duration,
    is_there: impl Fn(&Node) -> bool,
) -> Result<(), Error> {
    let until = tokio::time::Instant::now() + patience;
    loop {
        let late = late_nodes(app, &is_there).await?;
        if late.is_empty() {
            return Ok(());
        }
        if tokio::time::Instant::now() >= until {
            return Err(Error::Unaware(late));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The process ids of nodes that run and are not as they should be.
async fn late_nodes(app: &App, is_there: impl Fn(&Node) -> bool) -> Result<Vec<i64>, DbError> {
    let nodes: Vec<Node> = app.db.rows(sql::NODES, args![0]).await?;
    let now = app.now();
    let late = nodes.iter().filter(|node| now - node.seen_at <= SILENT && !is_there(node));
    Ok(late.map(|node| node.process_id).collect())
}

/// Seals anew what is sealed with another key than the one that writes, a chunk at a time, until
/// nothing is left.
///
/// # Errors
/// See [`Error`]. Doing it again goes on.
pub async fn reseal(app: &App, told: &(impl Fn(&str) + Sync)) -> Result<u64, Error> {
    let mut resealed = 0;
    for place in PLACES {
        // Who read a secret before its key changed may have written it back since.
        while let changed @ 1.. = walk(app, place, told).await? {
            resealed += changed;
        }
    }
    Ok(resealed)
}

async fn walk(app: &App, place: &Place, told: &(impl Fn(&str) + Sync)) -> Result<u64, Error> {
    let pause = Duration::from_millis(app.config.retention.pause_ms);
    let (mut last, mut seen, mut changed) = ((String::new(), String::new()), 0_u64, 0_u64);
    let mut unpaused = 0;
    loop {
        let args = args![&last.0, &last.1, place.chunk];
        let page: Vec<(String, String, Vec<u8>)> = app.db.rows(place.page, args).await?;
        let Some((account, id, _)) = page.last() else { return Ok(changed) };
        last = (account.clone(), id.clone());
        seen += u64::try_from(page.len()).unwrap_or(0);
        for (account, id, sealed) in page.iter().filter(|(.., sealed)| !sealed.is_empty()) {
            let bound = [place.table, account, id];
            if let Some(renewed) = app.vault.reseal(&bound, sealed) {
                let mut set = WriteSet::of(account);
                set.push(place.change, args![renewed, account, id, sealed.clone()]);
                app.db.commit(set).await?;
                changed += 1;
            } else if app.vault.open(&bound, sealed).is_none() {
                let (table, account) = (place.table, account.clone());
                return Err(Error::Unopened { table, account });
            }
        }
        let read = i64::try_from(page.len()).unwrap_or(CHUNK);
        unpaused += read;
        if unpaused >= CHUNK || read < place.chunk {
            unpaused = 0;
            told(&format!("{}: {seen} looked at, {changed} sealed anew", place.table));
            tokio::time::sleep(pause).await;
        }
    }
}

/// How the keys stand.
///
/// # Errors
/// When the database cannot be read.
pub async fn standing(app: &App, resealed: u64) -> Result<Rotated, Error> {
    let rows = keys(&app.db).await?;
    let former = in_state(&rows, KeyState::Former).map(|row| Former {
        key_id: row.key_id.clone(),
        until: (row.changed_at + AGE_OUT).to_string(),
    });
    Ok(Rotated { key_id: app.vault.writes_with(), former: former.collect(), resealed })
}

/// Forgets former keys, once nothing can need them any more. Answers their ids.
///
/// # Errors
/// [`Error::Behind`], [`Error::TooEarly`], [`Error::ClockAhead`]; see [`Error`].
pub async fn drop_former(app: &App, by: By<'_>) -> Result<Vec<String>, Error> {
    let rows = keys(&app.db).await?;
    let current = in_state(&rows, KeyState::Current).next().ok_or(Error::Moved)?;
    // One that was cut off during the rotation, and came back, may write with the former key.
    let behind = late_nodes(app, |node| node.writes == current.key_id).await?;
    if !behind.is_empty() {
        return Err(Error::Behind(behind));
    }
    reseal(app, &|_| ()).await?;
    // What is dropped is gone, so the clock is not asked alone, as with all that goes for its age.
    let judged = chores::judge(&app.db, &app.clock).await?;
    let mut dropped = Vec::new();
    for row in in_state(&rows, KeyState::Former) {
        let (key_id, until) = (row.key_id.clone(), row.changed_at + AGE_OUT);
        if judged.clock < until {
            return Err(Error::TooEarly { key_id, until });
        }
        if judged.is_refused() {
            let whose = app.config.database.whose_clock();
            return Err(Error::ClockAhead { key_id, ahead_ms: judged.ahead_ms(), whose });
        }
        let mut set = WriteSet::of("master_keys");
        set.push(sql::DROP, args![row.key_id.as_str()]);
        note(app, &mut set, by, "master_key.drop", &row.key_id);
        app.db.commit(set).await?;
        dropped.push(row.key_id.clone());
    }
    Ok(dropped)
}

/// The keys that are given behind the one that writes and that nothing is written with any more:
/// they were dropped.
///
/// # Errors
/// When the database cannot be read.
pub async fn unused(app: &App) -> Result<Vec<String>, Error> {
    let rows = keys(&app.db).await?;
    let (mut given, current) = (app.vault.given(), app.vault.writes_with());
    let behind = given.iter().position(|id| *id == current).map_or(given.len(), |at| at + 1);
    let mut old = given.split_off(behind);
    old.retain(|id| rows.iter().all(|row| row.key_id != *id));
    Ok(old)
}

fn note(app: &App, set: &mut WriteSet, by: By<'_>, action: &'static str, key_id: &str) {
    let entry = Entry {
        actor: by.who,
        action,
        object_id: key_id,
        account: None,
        request_id: by.request_id,
        detail: serde_json::json!({}),
    };
    access::record(app, set, &entry);
}
