//! The embedded engine: SQLite with one writer thread that commits sets in groups, a few
//! read-only connections that are used in place, and checkpoints of its own.

pub(crate) mod backup;
mod checkpoint;
mod kept;
mod lock;
mod plan;
mod readers;
mod room;
mod schema;
mod scrub;
pub(crate) mod session;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::backup::private;
use checkpoint::Checkpoints;
use lock::Lock;
use readers::Readers;
use session::{Role, Session};
use store::{
    About, Args, CommitError, Done, Engine, Error, GroupCounter, Groups, Migration, Plan, Row, Sql,
    SqliteOptions, WriteSet,
};
use writer::{Job, Writer};

/// Older SQLite versions can lose a WAL that is reset while two connections write.
const OLDEST_SQLITE: i32 = 3_051_003;

/// SQLite in one file. Dropping it lets the writer finish in the background; [`Engine::close`]
/// waits for it.
pub struct Lite {
    path: PathBuf,
    options: SqliteOptions,
    queue: RwLock<Option<mpsc::Sender<Job>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: Readers,
    groups: Arc<GroupCounter>,
    lock: Mutex<Option<Lock>>,
}

impl Lite {
    /// Opens the database, or creates it (readable by its owner only) with its folder.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the file cannot be used or SQLite is too old, and
    /// [`Error::Foreign`].
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, Error> {
        let found = rusqlite::version_number();
        if found < OLDEST_SQLITE {
            return Err(Error::Unavailable(format!(
                "SQLite {found} is too old, at least {OLDEST_SQLITE} is needed"
            )));
        }
        create(path).map_err(|error| Error::Unavailable(format!("opening the file: {error}")))?;
        let path = path.canonicalize().map_err(|error| Error::Unavailable(error.to_string()))?;
        schema::refuse_foreign(&path)?;
        let session = Session::open(&path, Role::Writer, &options)?;
        let readers = Readers::open(&path, &options)?;
        let checkpoints = Checkpoints::start(&path, &options)?;
        let (queue, jobs) = mpsc::channel(options.queue.max(1));
        let groups = Arc::new(GroupCounter::default());
        let counter = Arc::clone(&groups);
        let by_writer = options.clone();
        let write = move || {
            Writer::new(&session.conn, jobs, checkpoints, counter, &by_writer).run();
        };
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(write)
            .map_err(|error| Error::Unavailable(format!("starting the writer: {error}")))?;
        Ok(Self {
            path,
            options,
            queue: RwLock::new(Some(queue)),
            writer: Mutex::new(Some(writer)),
            readers,
            groups,
            lock: Mutex::default(),
        })
    }

    fn submit(&self, set: WriteSet) -> Result<oneshot::Receiver<writer::Outcome>, CommitError> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        let queue = queue.as_ref().ok_or_else(closed)?;
        match queue.try_send(Job { set, answer }) {
            Ok(()) => Ok(answered),
            Err(TrySendError::Full(_)) => Err(CommitError::Overloaded),
            Err(TrySendError::Closed(_)) => Err(closed()),
        }
    }
}

impl Engine for Lite {
    fn commit(&self, set: WriteSet) -> BoxFuture<'_, Result<Done, CommitError>> {
        Box::pin(async move {
            let answered = self.submit(set)?;
            answered.await.unwrap_or_else(|_| Err(closed()))
        })
    }

    fn rows(&self, sql: Sql, args: Args) -> BoxFuture<'_, Result<Vec<Row>, Error>> {
        Box::pin(async move { self.readers.rows(sql, &args) })
    }

    fn has_tables(&self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move { self.readers.with(|session| schema::has_tables(session)) })
    }

    fn about(&self) -> BoxFuture<'_, Result<About, Error>> {
        let version = format!("SQLite {}", rusqlite::version());
        let about = About { version, careless: String::new() };
        Box::pin(std::future::ready(Ok(about)))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        let path = self.path.clone();
        Box::pin(async move {
            self.commit(WriteSet::of("probe")).await?;
            let look = move || room::find(&path).map_err(|error| no_room(&error));
            Ok(blocking(look).await?)
        })
    }

    fn reserve(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let lock = Lock::take(&self.path)?;
            *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
            Ok(())
        })
    }

    fn migrate<'a>(&'a self, migrations: &'a [Migration]) -> BoxFuture<'a, Result<u32, Error>> {
        let (path, options) = (self.path.clone(), self.options.clone());
        let migrations = migrations.to_vec();
        Box::pin(blocking(move || schema::migrate(&path, &options, &migrations)))
    }

    fn rehearse<'a>(&'a self, migrations: &'a [Migration]) -> BoxFuture<'a, Result<(), Error>> {
        let (path, options) = (self.path.clone(), self.options.clone());
        let migrations = migrations.to_vec();
        Box::pin(blocking(move || {
            lock::can_note(&path)?;
            schema::rehearse(&path, &options, &migrations)?;
            match room::find(&path) {
                // Whoever asks may not make files there; the service may.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                found => found.map_err(|error| no_room(&error)),
            }
        }))
    }

    fn reserved_by(&self) -> Option<u32> {
        lock::holder_of(&self.path)
    }

    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<(), Error>> {
        let (path, options, to) = (self.path.clone(), self.options.clone(), to.to_owned());
        Box::pin(blocking(move || backup::copy(&path, &options, &to)))
    }

    fn plan(&self, sql: Sql) -> BoxFuture<'_, Result<Plan, Error>> {
        Box::pin(async move { self.readers.with(|session| plan::of(session, sql)) })
    }

    fn queued(&self) -> usize {
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        queue.as_ref().map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    fn groups(&self) -> Groups {
        self.groups.read()
    }

    fn scrub(&self) -> BoxFuture<'_, Result<(), Error>> {
        let (path, options) = (self.path.clone(), self.options.clone());
        Box::pin(blocking(move || scrub::scrub(&path, &options)))
    }

    fn compact(&self) -> BoxFuture<'_, Result<(), Error>> {
        let (path, options) = (self.path.clone(), self.options.clone());
        Box::pin(blocking(move || scrub::compact(&path, &options)))
    }

    fn holds(&self, bytes: &[u8]) -> BoxFuture<'_, Result<Option<bool>, Error>> {
        let (path, bytes) = (self.path.clone(), bytes.to_vec());
        Box::pin(blocking(move || scrub::holds(&path, &bytes).map(Some)))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Without a sender the writer ends as soon as it has emptied the queue.
            self.queue.write().unwrap_or_else(PoisonError::into_inner).take();
            let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(writer) = writer {
                let joined = tokio::task::spawn_blocking(move || writer.join()).await;
                if !matches!(joined, Ok(Ok(()))) {
                    tracing::warn!("the writer of the store did not end well");
                }
            }
            self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        })
    }
}

fn closed() -> CommitError {
    CommitError::Unavailable("the store is closed".to_owned())
}

fn no_room(error: &io::Error) -> Error {
    Error::Unavailable(format!("no room: {error}"))
}

/// Work that waits for the disk or for another process, away from the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::Unavailable(error.to_string())))
}

/// SQLite gives its log the mode of the database, so this is the one place that sets it.
fn create(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    private().create(true).truncate(false).open(path)?;
    has_one_name(path)
}

/// SQLite finds the log of a database by its name: under two names there would be two logs, and
/// what one of them says would be lost (sqlite.org/howtocorrupt.html §2.3).
#[cfg(unix)]
fn has_one_name(path: &Path) -> std::io::Result<()> {
    let names = std::os::unix::fs::MetadataExt::nlink(&std::fs::metadata(path)?);
    if names < 2 {
        return Ok(());
    }
    let why = format!("the file has {names} names (hard links); remove all but one");
    Err(std::io::Error::other(why))
}

#[cfg(not(unix))]
fn has_one_name(_: &Path) -> std::io::Result<()> {
    Ok(())
}
