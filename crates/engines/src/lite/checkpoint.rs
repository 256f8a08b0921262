//! Checkpoints: a thread copies the log into the database without disturbing anyone, and the
//! writer starts the log anew when it is too long. Alone, the thread would never get to do so
//! under constant load. The writer copies what is left of the log before that, and everybody waits
//! for it: so it has the thread copy first, and goes on meanwhile.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use tokio::time::Instant;

use super::session::{Role, Session};
use store::{Error, SqliteOptions};

const EVERY: Duration = Duration::from_millis(250);
/// How long the writer lets readers finish before it gives up on a new log for now.
pub(super) const READERS: Duration = Duration::from_millis(5);
/// How long the writer goes on with the old log before it tries again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How long closing waits for readers.
const LAST: Duration = Duration::from_secs(1);

/// The writer's side of it.
pub(super) struct Checkpoints {
    log: PathBuf,
    limit: u64,
    busy_timeout: Duration,
    /// SQLite refuses a second checkpoint at the same time instead of waiting.
    turn: Arc<Mutex<()>>,
    /// Whether the thread has copied since it was last asked to.
    has_copied: Arc<AtomicBool>,
    is_asked: bool,
    not_before: Option<Instant>,
    pause: Duration,
    /// Has the thread copy at once. Dropping it ends the thread.
    ask: Sender<()>,
    thread: JoinHandle<()>,
}

impl Checkpoints {
    /// Starts the thread, with a connection of its own.
    pub(super) fn start(path: &Path, options: &SqliteOptions) -> Result<Self, Error> {
        let mut log = OsString::from(path);
        log.push("-wal");
        let log = PathBuf::from(log);
        let session = Session::open(path, Role::Side, options)?;
        let turn = Arc::new(Mutex::new(()));
        let has_copied = Arc::new(AtomicBool::new(false));
        let (ask, asked) = channel();
        let copier = Copier {
            session,
            log: log.clone(),
            turn: Arc::clone(&turn),
            has_copied: Arc::clone(&has_copied),
            asked,
        };
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || copier.run())
            .map_err(|error| Error::Unavailable(format!("starting checkpoints: {error}")))?;
        let busy_timeout = Duration::from_millis(options.busy_timeout_ms);
        let limit = options.wal_limit_bytes;
        let (not_before, pause) = (None, SHORTEST_PAUSE);
        let is_asked = false;
        Ok(Self {
            log,
            limit,
            busy_timeout,
            turn,
            has_copied,
            is_asked,
            not_before,
            pause,
            ask,
            thread,
        })
    }

    /// Starts the log anew when it is over the limit and nobody needs the old one.
    pub(super) fn between_groups(&mut self, conn: &Connection) {
        let length = size(&self.log);
        if length <= self.limit || self.not_before.is_some_and(|moment| Instant::now() < moment) {
            return;
        }
        // Unless the log runs away meanwhile.
        if length <= self.limit.saturating_mul(2) && !self.is_copied() {
            return;
        }
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The thread is at it again: soon there is less to do.
            Err(TryLockError::WouldBlock) if length <= self.limit.saturating_mul(2) => return,
            Err(TryLockError::WouldBlock) => {
                self.turn.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        let done = self.patient(conn, READERS, "PRAGMA wal_checkpoint(RESTART)");
        self.is_asked = false;
        if done {
            (self.not_before, self.pause) = (None, SHORTEST_PAUSE);
        } else {
            // A reader that was merely interrupted is gone soon, a backup is not.
            self.not_before = Some(Instant::now() + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether the thread has just copied what there was, for which it is asked once.
    fn is_copied(&mut self) -> bool {
        if self.is_asked {
            return self.has_copied.load(Ordering::Acquire);
        }
        self.has_copied.store(false, Ordering::Release);
        // A thread that is gone copies nothing: then the limit is twice as high.
        self.is_asked = self.ask.send(()).is_ok();
        false
    }

    /// Ends the thread and empties the log.
    pub(super) fn finish(self, conn: &Connection) {
        let Self { ask, thread, turn, .. } = self;
        drop(ask);
        if thread.join().is_err() {
            tracing::warn!("the checkpoint thread did not end well");
        }
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if conn.busy_timeout(LAST).is_ok() {
            checkpoint(conn, "PRAGMA wal_checkpoint(TRUNCATE)");
        }
    }

    fn patient(&self, conn: &Connection, patience: Duration, pragma: &str) -> bool {
        let done = conn.busy_timeout(patience).is_ok() && checkpoint(conn, pragma);
        if let Err(error) = conn.busy_timeout(self.busy_timeout) {
            tracing::warn!(%error, "the busy timeout could not be set");
        }
        done
    }
}

/// The thread's side of it.
struct Copier {
    session: Session,
    log: PathBuf,
    turn: Arc<Mutex<()>>,
    has_copied: Arc<AtomicBool>,
    asked: Receiver<()>,
}

impl Copier {
    fn copy(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        checkpoint(&self.session.conn, "PRAGMA wal_checkpoint(PASSIVE)");
    }

    /// Copies what is new now and then, and when it is asked to.
    fn run(self) {
        let mut seen = None;
        loop {
            let is_asked = match self.asked.recv_timeout(EVERY) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // The length alone does not tell: a log that was started anew keeps its length.
            let found = stamp(&self.log);
            if found != seen {
                self.copy();
                seen = found;
            }
            if is_asked {
                // What came meanwhile is less, and what comes during this one less again.
                self.copy();
                self.has_copied.store(true, Ordering::Release);
            }
        }
    }
}

/// Whether the checkpoint came to its end.
fn checkpoint(conn: &Connection, pragma: &str) -> bool {
    match conn.query_row(pragma, [], |row| row.get::<_, i64>(0)) {
        Ok(busy) => busy == 0,
        Err(error) => {
            tracing::warn!(%error, "a checkpoint failed");
            false
        }
    }
}

fn size(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |found| found.len())
}

fn stamp(log: &Path) -> Option<(u64, SystemTime)> {
    let found = std::fs::metadata(log).ok()?;
    Some((found.len(), found.modified().ok()?))
}
