//! The scale-out engine: PostgreSQL, by any number of nodes at once. A few batchers commit sets in
//! groups, each in one burst; a few shared connections answer reads. Nothing is kept in a session,
//! and a lost connection is replaced: see `batcher` for outages, `group` for the transactions,
//! `writer` for a COMMIT that was not answered.

mod address;
mod answers;
mod backup;
mod batcher;
mod bulk;
mod connection;
mod failure;
mod gather;
mod group;
mod nudge;
mod opening;
mod pipeline;
mod plan;
mod pool;
mod queue;
mod readers;
mod request;
mod schema;
mod steps;
mod stream;
mod text;
mod texts;
mod value;
mod writer;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use clock::Millis;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

use address::Address;
use batcher::{Batcher, Told};
use connection::Connection;
use nudge::Nudges;
use opening::Opening;
use queue::{Job, Queue, Room, closed};
use readers::Readers;
use store::{
    About, Args, CommitError, Done, Engine, Error, Fault, FromRow, GroupCounter, Groups, Migration,
    Plan, PostgresOptions, Row, Sql, WriteSet,
};

/// What batchers and readers share.
struct Settings {
    address: Address,
    named: bool,
    patience: Duration,
    group: usize,
    unknown_limit: Duration,
    opening: Opening,
    fault: Option<Fault>,
    trusts_silence: bool,
    /// What the log was told of an outage.
    told: Mutex<Told>,
    /// What all batchers have committed.
    groups: GroupCounter,
}

impl Settings {
    fn of(mut address: Address, options: &PostgresOptions) -> Self {
        let patience_ms = options.patience_ms.max(1);
        let patience = Duration::from_millis(patience_ms);
        if address.config.get_tcp_user_timeout().is_none() {
            // A connection that leads nowhere any more ends, however alive the server is.
            address.config.tcp_user_timeout(patience);
        }
        Self {
            address,
            named: options.prepared_statements,
            patience,
            group: options.group.max(1),
            unknown_limit: Duration::from_millis(options.unknown_ms),
            opening: Opening::of(patience_ms),
            fault: options.fault.clone(),
            trusts_silence: options.trusts_silence,
            told: Mutex::default(),
            groups: GroupCounter::default(),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// PostgreSQL. Dropping it lets the batchers finish in the background; [`Engine::close`] waits for
/// them.
pub struct Pg {
    settings: Arc<Settings>,
    room: Arc<Room>,
    queues: Vec<Arc<Queue>>,
    batchers: Mutex<Vec<JoinHandle<()>>>,
    readers: Readers,
    /// Connected when somebody first tells or waits.
    nudges: OnceLock<Nudges>,
}

impl Pg {
    /// Reads the URL and begins to connect, in the background: a server that is away is waited
    /// for. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the URL cannot be used.
    pub fn open(url: &str, options: &PostgresOptions) -> Result<Self, Error> {
        let runtime = tokio::runtime::Handle::try_current();
        let runtime = runtime.map_err(|error| Error::Unavailable(error.to_string()))?;
        let settings = Arc::new(Settings::of(Address::parse(url)?, options));
        let room = Arc::new(Room::new(options.queue));
        let queue = |_| Arc::new(Queue::new(Arc::clone(&room), settings.patience));
        let queues: Vec<_> = (0..options.batchers.max(1)).map(queue).collect();
        let batcher = |queue: &Arc<Queue>| {
            runtime.spawn(keep_running(Arc::clone(&settings), Arc::clone(queue)))
        };
        let batchers = Mutex::new(queues.iter().map(batcher).collect());
        let readers = Readers::start(&settings, options.readers);
        Ok(Self { settings, room, queues, batchers, readers, nudges: OnceLock::new() })
    }

    /// Whether a URL can be understood. Neither the server nor a file is looked at.
    ///
    /// # Errors
    /// What is wrong with it, to be put behind the name of the setting; never the URL itself.
    pub fn check_url(url: &str) -> Result<(), String> {
        address::check(url)
    }

    fn nudges(&self) -> &Nudges {
        self.nudges.get_or_init(|| Nudges::start(Arc::clone(&self.settings)))
    }

    fn submit(
        &self,
        set: WriteSet,
    ) -> Result<tokio::sync::oneshot::Receiver<queue::Outcome>, CommitError> {
        let mut hasher = DefaultHasher::new();
        set.shard().hash(&mut hasher);
        let turn = hasher.finish() % self.queues.len().max(1) as u64;
        let queue = usize::try_from(turn).ok().and_then(|turn| self.queues.get(turn));
        let queue = queue.ok_or_else(closed)?;
        let (job, answered) = Job::new(set);
        queue.push(job).map(|()| answered)
    }

    async fn carry(&self, set: WriteSet) -> Result<Done, CommitError> {
        let unheard = || CommitError::Unknown("the batcher ended".to_owned());
        self.submit(set)?.await.unwrap_or_else(|_| Err(unheard()))
    }

    /// A connection of its own, for what is rare and may take long.
    async fn dial(&self) -> Result<Connection, Error> {
        let Settings { address, named, patience, .. } = &*self.settings;
        Ok(Connection::dial(address, *named, *patience).await?)
    }
}

/// A batcher that panics is a fault of the program; the sets that wait get another one.
async fn keep_running(settings: Arc<Settings>, queue: Arc<Queue>) {
    loop {
        let batcher = Batcher::new(Arc::clone(&settings), Arc::clone(&queue));
        if AssertUnwindSafe(batcher.run()).catch_unwind().await.is_ok() {
            return;
        }
        tracing::error!("a batcher panicked; what it was at is not known");
    }
}

impl Engine for Pg {
    fn commit(&self, mut set: WriteSet) -> BoxFuture<'_, Result<Done, CommitError>> {
        Box::pin(async move {
            set.retain(|stmt| text::is_ours(stmt.sql.0));
            if set.is_empty() {
                return Ok(Done::default());
            }
            self.carry(set).await
        })
    }

    fn rows(&self, sql: Sql, args: Args) -> BoxFuture<'_, Result<Vec<Row>, Error>> {
        Box::pin(self.readers.rows(sql, args))
    }

    fn has_tables(&self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move { schema::has_tables(&self.dial().await?).await })
    }

    fn about(&self) -> BoxFuture<'_, Result<About, Error>> {
        Box::pin(async move { schema::about(&self.dial().await?).await })
    }

    fn clock(&self) -> BoxFuture<'_, Result<Option<Millis>, Error>> {
        Box::pin(async move {
            let row = self.readers.rows(schema::CLOCK, Args::new()).await?.into_iter().next();
            let (now,) = <(Millis,)>::from_row(row.ok_or(Error::Corrupt { column: 0 })?)?;
            Ok(Some(now))
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        // A group leaves its mark in the database, whatever is in it.
        Box::pin(async move { self.carry(WriteSet::of("probe")).await.map(drop) })
    }

    fn migrate<'a>(&'a self, migrations: &'a [Migration]) -> BoxFuture<'a, Result<u32, Error>> {
        Box::pin(async move { schema::migrate(&self.dial().await?, migrations).await })
    }

    fn rehearse<'a>(&'a self, migrations: &'a [Migration]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { schema::rehearse(&self.dial().await?, migrations).await })
    }

    fn unmake<'a>(&'a self, migrations: &'a [Migration]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { schema::unmake(&self.dial().await?, migrations).await })
    }

    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { backup::copy(&self.dial().await?, to).await })
    }

    fn plan(&self, sql: Sql) -> BoxFuture<'_, Result<Plan, Error>> {
        Box::pin(async move { plan::of(&self.dial().await?, sql).await })
    }

    fn nudge(&self) {
        self.nudges().tell();
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.nudges().heard())
    }

    fn queued(&self) -> usize {
        self.room.waiting()
    }

    fn groups(&self) -> Groups {
        self.settings.groups.read()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.queues.iter().for_each(|queue| queue.close());
            let batchers =
                std::mem::take(&mut *self.batchers.lock().unwrap_or_else(PoisonError::into_inner));
            for batcher in batchers {
                if batcher.await.is_err() {
                    tracing::warn!("a batcher of the store did not end well");
                }
            }
            self.readers.stop();
            if let Some(nudges) = self.nudges.get() {
                nudges.stop();
            }
        })
    }
}

impl Drop for Pg {
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.close());
    }
}
