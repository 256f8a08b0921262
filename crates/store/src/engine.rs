//! The door of every engine, and [`Db`], the handle that the service holds.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clock::Millis;
use futures_util::future::BoxFuture;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tracing::Instrument;

use crate::set::Handover;
use crate::{Args, Bell, Error, FromRow, Groups, Migration, Parcel, Reject, Row, Sql, WriteSet};

/// Parcels that wait for one listener, and of one shard. What is beyond is left to be found in the
/// database.
const MOST_PARCELS: usize = 8_192;
const MOST_OF_SHARD: usize = 2_048;
/// Both engines keep their migrations in a table of this name.
const NEWEST_MIGRATION: Sql =
    Sql("SELECT version FROM schema_migrations ORDER BY version DESC LIMIT 1");

/// Why a commit did not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// A guard of this set refused; nothing of it happened.
    #[error("refused by the guard {0:?}")]
    Rejected(Reject),
    /// The queue is full; nothing happened, try again soon.
    #[error("the write queue is full")]
    Overloaded,
    /// The database failed; nothing of this set happened. The text is for the operator's log.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// The database was lost while it made this set durable, and did not come back in time to be
    /// asked: the set happened or it did not. Only a server that is elsewhere can answer this.
    #[error("whether this happened is not known: {0}")]
    Unknown(String),
}

/// A read of what is to be committed failed.
impl From<Error> for CommitError {
    fn from(error: Error) -> Self {
        Self::Unavailable(error.into_why())
    }
}

/// A commit failed where nobody asks whether it was refused.
impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        Self::Unavailable(match error {
            CommitError::Unavailable(why) => why,
            other => other.to_string(),
        })
    }
}

/// The rows of a set's `RETURNING` statements, in the order of those statements.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// One list for each returning statement.
    pub rows: Vec<Vec<Row>>,
}

impl Done {
    /// The single row of the first returning statement.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when there is none: the caller asked a set that returns nothing.
    pub fn only<T: FromRow>(self) -> Result<T, Error> {
        let row = self.rows.into_iter().flatten().next().ok_or(Error::Corrupt { column: 0 })?;
        T::from_row(row)
    }
}

/// What an engine says of a statement without running it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// How many parameters it takes.
    pub parameters: usize,
    /// Steps of the query plan that read a whole table or sort, as the engine words them.
    pub scans: Vec<String>,
}

/// What an engine is, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name and version.
    pub version: String,
    /// Settings of it by which a crash may take what it said was durable; empty = none.
    pub careless: String,
}

/// One storage engine. The conformance suite in `tests/` says what each must do.
pub trait Engine: Send + Sync + 'static {
    /// Makes a set durable. `Ok` only once it would survive a power cut.
    fn commit(&self, set: WriteSet) -> BoxFuture<'_, Result<Done, CommitError>>;
    /// Reads committed rows.
    fn rows(&self, sql: Sql, args: Args) -> BoxFuture<'_, Result<Vec<Row>, Error>>;
    /// Whether any migration was ever applied: `false` for what is no database of ours yet. Another
    /// program's is [`Error::Foreign`].
    fn has_tables(&self) -> BoxFuture<'_, Result<bool, Error>>;
    /// Asks it what it is. It need not have any tables.
    fn about(&self) -> BoxFuture<'_, Result<About, Error>>;
    /// What its clock says; `None` = it has none of its own.
    fn clock(&self) -> BoxFuture<'_, Result<Option<Millis>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }
    /// Finds out whether writes work: commits a set without statements, and looks for room where
    /// that writes nothing.
    fn probe(&self) -> BoxFuture<'_, Result<(), CommitError>>;
    /// Makes this process the only one that serves from the database, until it closes it or ends,
    /// however it ends. An engine that any number of processes may serve from does nothing.
    fn reserve(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Applies the migrations that are missing, once, however many processes try.
    fn migrate<'a>(&'a self, migrations: &'a [Migration]) -> BoxFuture<'a, Result<u32, Error>>;
    /// Does what a start does, a change of the schema included, and takes it back: whether one
    /// would succeed, without a trace.
    fn rehearse<'a>(&'a self, migrations: &'a [Migration]) -> BoxFuture<'a, Result<(), Error>>;
    /// Takes all migrations back: drops their tables, with everything in them. An engine that keeps
    /// them in a file of its own does not: whoever made the file removes it.
    fn unmake<'a>(&'a self, _migrations: &'a [Migration]) -> BoxFuture<'a, Result<(), Error>> {
        let why = "the tables are a file's, which can be removed";
        Box::pin(std::future::ready(Err(Error::Unavailable(why.to_owned()))))
    }
    /// The process that has reserved the database; `None` = none, or it cannot be known.
    fn reserved_by(&self) -> Option<u32> {
        None
    }
    /// Copies the database to a file while it is in use.
    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<(), Error>>;
    /// Prepares a statement and says what it would do.
    fn plan(&self, sql: Sql) -> BoxFuture<'_, Result<Plan, Error>>;
    /// Hints to the other processes on the database that there is something to look for. Nothing
    /// waits for it, and it may be lost. An engine of one process does nothing.
    fn nudge(&self) {}
    /// Returns when another process hinted since the last time. For one listener. An engine of one
    /// process never returns.
    fn nudged(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
    /// Sets waiting in the queue now.
    fn queued(&self) -> usize;
    /// How sets were grouped so far.
    fn groups(&self) -> Groups;
    /// Makes what was deleted until now leave the engine's own files, as far as that is quick. An
    /// engine whose files belong to a server does nothing.
    fn scrub(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Writes all files anew, without anything that was deleted.
    fn compact(&self) -> BoxFuture<'_, Result<(), Error>> {
        let why = "its files are the server's, which compacts them itself (VACUUM FULL)";
        Box::pin(std::future::ready(Err(Error::Unavailable(why.to_owned()))))
    }
    /// Whether these bytes are anywhere in the engine's files; `None` = it cannot see them.
    fn holds(&self, _bytes: &[u8]) -> BoxFuture<'_, Result<Option<bool>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }
    /// Finishes what is queued and closes; later commits are `Unavailable`.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The handle to the storage; clones share it.
#[derive(Clone)]
pub struct Db {
    engine: Arc<dyn Engine>,
    bells: Arc<Mutex<BTreeMap<Bell, Arc<Notify>>>>,
    parcels: Arc<Mutex<BTreeMap<Bell, Parcels>>>,
}

/// What waits for one listener.
#[derive(Default)]
struct Parcels {
    all: Vec<Parcel>,
    of_shard: HashMap<Box<str>, usize>,
}

impl Parcels {
    fn add(&mut self, shard: Box<str>, parcel: Parcel) {
        let of_shard = self.of_shard.entry(shard).or_default();
        if self.all.len() < MOST_PARCELS && *of_shard < MOST_OF_SHARD {
            *of_shard += 1;
            self.all.push(parcel);
        }
    }
}

impl Db {
    /// Wraps an engine.
    pub fn new(engine: impl Engine) -> Self {
        Self { engine: Arc::new(engine), bells: Arc::default(), parcels: Arc::default() }
    }

    /// The same with another engine around this one's, such as one that fails on purpose.
    #[must_use]
    pub fn through(self, around: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>) -> Self {
        Self { engine: around(self.engine), ..self }
    }

    /// See [`Engine::commit`].
    ///
    /// # Errors
    /// See [`CommitError`].
    pub async fn commit(&self, mut set: WriteSet) -> Result<Done, CommitError> {
        // In the trace of a request; work that nobody waits for makes no trace of its own.
        let span = if tracing::Span::current().is_none() {
            tracing::Span::none()
        } else {
            tracing::trace_span!(target: "otel", "commit", statements = set.stmts().len())
        };
        let bells: SmallVec<[Bell; 1]> = set.bells().into();
        let handovers = set.take_handovers();
        let done = self.engine.commit(set).instrument(span).await;
        if done.is_ok() {
            for handover in handovers {
                self.keep(handover);
            }
            bells.into_iter().for_each(|bell| self.bell(bell).notify_one());
        }
        done
    }

    /// Hands something of a shard over without a write set: what was taken and cannot be worked on
    /// here.
    pub fn hand(&self, bell: Bell, shard: &str, parcel: Parcel) {
        self.keep(Handover { bell, shard: shard.into(), parcel });
        self.bell(bell).notify_one();
    }

    /// What was handed over ([`WriteSet::hand`]) since the last time, oldest first.
    #[must_use]
    pub fn handed(&self, bell: Bell) -> Vec<Parcel> {
        let mut parcels = self.parcels.lock().unwrap_or_else(PoisonError::into_inner);
        parcels.remove(&bell).unwrap_or_default().all
    }

    fn keep(&self, Handover { bell, shard, parcel }: Handover) {
        let mut parcels = self.parcels.lock().unwrap_or_else(PoisonError::into_inner);
        parcels.entry(bell).or_default().add(shard, parcel);
    }

    /// Returns when a set that rings ([`WriteSet::ring`]) became durable, in this process and since
    /// the last time. For one listener to each bell.
    pub async fn rung(&self, bell: Bell) {
        self.bell(bell).notified().await;
    }

    fn bell(&self, bell: Bell) -> Arc<Notify> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bells.entry(bell).or_default())
    }

    /// All rows of a SELECT.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn rows<T: FromRow>(&self, sql: Sql, args: Args) -> Result<Vec<T>, Error> {
        // A loop, which is less to compile for each of many kinds of rows than what collects.
        let found = self.engine.rows(sql, args).await?;
        let mut rows = Vec::with_capacity(found.len());
        for row in found {
            rows.push(T::from_row(row)?);
        }
        Ok(rows)
    }

    /// The first row of a SELECT, if there is one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn row<T: FromRow>(&self, sql: Sql, args: Args) -> Result<Option<T>, Error> {
        self.engine.rows(sql, args).await?.into_iter().next().map(T::from_row).transpose()
    }

    /// The newest migration that was applied; 0 = none.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn version(&self) -> Result<u32, Error> {
        if !self.has_tables().await? {
            return Ok(0);
        }
        let newest: Option<(i64,)> = self.row(NEWEST_MIGRATION, Args::new()).await?;
        let version = newest.map_or(0, |(version,)| version);
        u32::try_from(version).map_err(|_| Error::Corrupt { column: 0 })
    }

    /// See [`Engine::has_tables`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn has_tables(&self) -> Result<bool, Error> {
        self.engine.has_tables().await
    }

    /// See [`Engine::about`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn about(&self) -> Result<About, Error> {
        self.engine.about().await
    }

    /// See [`Engine::clock`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn clock(&self) -> Result<Option<Millis>, Error> {
        self.engine.clock().await
    }

    /// See [`Engine::probe`].
    ///
    /// # Errors
    /// See [`CommitError`].
    pub async fn probe(&self) -> Result<(), CommitError> {
        self.engine.probe().await
    }

    /// See [`Engine::reserve`].
    ///
    /// # Errors
    /// [`Error::Reserved`], or [`Error::Unavailable`] when the lock cannot be made.
    pub async fn reserve(&self) -> Result<(), Error> {
        self.engine.reserve().await
    }

    /// See [`Engine::migrate`]. Answers the version that the database has now.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn migrate(&self, migrations: &[Migration]) -> Result<u32, Error> {
        self.engine.migrate(migrations).await
    }

    /// See [`Engine::rehearse`].
    ///
    /// # Errors
    /// What a start would end with.
    pub async fn rehearse(&self, migrations: &[Migration]) -> Result<(), Error> {
        self.engine.rehearse(migrations).await
    }

    /// See [`Engine::unmake`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn unmake(&self, migrations: &[Migration]) -> Result<(), Error> {
        self.engine.unmake(migrations).await
    }

    /// See [`Engine::reserved_by`].
    #[must_use]
    pub fn reserved_by(&self) -> Option<u32> {
        self.engine.reserved_by()
    }

    /// See [`Engine::backup`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn backup(&self, to: &Path) -> Result<(), Error> {
        self.engine.backup(to).await
    }

    /// See [`Engine::plan`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn plan(&self, sql: Sql) -> Result<Plan, Error> {
        self.engine.plan(sql).await
    }

    /// See [`Engine::nudge`].
    pub fn nudge(&self) {
        self.engine.nudge();
    }

    /// See [`Engine::nudged`].
    pub async fn nudged(&self) {
        self.engine.nudged().await;
    }

    /// See [`Engine::queued`].
    #[must_use]
    pub fn queued(&self) -> usize {
        self.engine.queued()
    }

    /// See [`Engine::groups`].
    #[must_use]
    pub fn groups(&self) -> Groups {
        self.engine.groups()
    }

    /// See [`Engine::scrub`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn scrub(&self) -> Result<(), Error> {
        self.engine.scrub().await
    }

    /// See [`Engine::compact`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn compact(&self) -> Result<(), Error> {
        self.engine.compact().await
    }

    /// See [`Engine::holds`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn holds(&self, bytes: &[u8]) -> Result<Option<bool>, Error> {
        self.engine.holds(bytes).await
    }

    /// See [`Engine::close`].
    pub async fn close(&self) {
        self.engine.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::{CommitError, Error};

    #[test]
    fn an_error_within_another_says_once_what_it_is() {
        let told = "storage is unavailable: the disk is full";
        let error = Error::Unavailable("the disk is full".to_owned());
        let commit = CommitError::from(error);
        assert_eq!(commit.to_string(), told);
        assert_eq!(Error::from(commit).to_string(), told);
        let overloaded = Error::from(CommitError::Overloaded).to_string();
        assert_eq!(overloaded, "storage is unavailable: the write queue is full");
    }
}
