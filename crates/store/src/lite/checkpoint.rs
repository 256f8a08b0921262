//! Checkpoints: a thread copies the log into the database without disturbing anyone, and the
//! writer starts the log anew when it is too long. Alone, the thread would never get to do so
//! under constant load.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::LiteOptions;
use super::session::{Role, Session};
use crate::Error;

const EVERY: Duration = Duration::from_millis(250);
/// How long the writer lets readers finish before it gives up on a new log for now.
const READERS: Duration = Duration::from_millis(5);
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
    not_before: Option<Instant>,
    pause: Duration,
    /// Dropping it ends the thread.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Checkpoints {
    /// Starts the thread, with a connection of its own.
    pub(super) fn start(path: &Path, options: &LiteOptions) -> Result<Self, Error> {
        let mut log = OsString::from(path);
        log.push("-wal");
        let log = PathBuf::from(log);
        let session = Session::open(path, Role::Side, options)?;
        let turn = Arc::new(Mutex::new(()));
        let (stop, stopped) = channel();
        let (watched, shared) = (log.clone(), Arc::clone(&turn));
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || in_background(&session, &watched, &shared, &stopped))
            .map_err(|error| Error::Unavailable(format!("starting checkpoints: {error}")))?;
        let busy_timeout = Duration::from_millis(options.busy_timeout_ms);
        let limit = options.wal_limit_bytes;
        let (not_before, pause) = (None, SHORTEST_PAUSE);
        Ok(Self { log, limit, busy_timeout, turn, not_before, pause, stop, thread })
    }

    /// Starts the log anew when it is over the limit and nobody needs the old one.
    pub(super) fn between_groups(&mut self, session: &Session) {
        let length = size(&self.log);
        if length <= self.limit || self.not_before.is_some_and(|moment| Instant::now() < moment) {
            return;
        }
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The thread is at it: soon there is less to do, unless the log runs away meanwhile.
            Err(TryLockError::WouldBlock) if length <= self.limit.saturating_mul(2) => return,
            Err(TryLockError::WouldBlock) => {
                self.turn.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        let done = self.patient(session, READERS, "PRAGMA wal_checkpoint(RESTART)");
        if done {
            (self.not_before, self.pause) = (None, SHORTEST_PAUSE);
        } else {
            // A reader that was merely interrupted is gone soon, a backup is not.
            self.not_before = Some(Instant::now() + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Ends the thread and empties the log.
    pub(super) fn finish(self, session: &Session) {
        let Self { stop, thread, turn, .. } = self;
        drop(stop);
        if thread.join().is_err() {
            tracing::warn!("the checkpoint thread did not end well");
        }
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if session.conn.busy_timeout(LAST).is_ok() {
            checkpoint(session, "PRAGMA wal_checkpoint(TRUNCATE)");
        }
    }

    fn patient(&self, session: &Session, patience: Duration, pragma: &str) -> bool {
        let done = session.conn.busy_timeout(patience).is_ok() && checkpoint(session, pragma);
        if let Err(error) = session.conn.busy_timeout(self.busy_timeout) {
            tracing::warn!(%error, "the busy timeout could not be set");
        }
        done
    }
}

fn in_background(session: &Session, log: &Path, turn: &Mutex<()>, stopped: &Receiver<()>) {
    let mut seen = None;
    while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        // The length alone does not tell: a log that was started anew keeps its length.
        let found = stamp(log);
        if found != seen {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            checkpoint(session, "PRAGMA wal_checkpoint(PASSIVE)");
            seen = found;
        }
    }
}

/// Whether the checkpoint came to its end.
fn checkpoint(session: &Session, pragma: &str) -> bool {
    match session.conn.query_row(pragma, [], |row| row.get::<_, i64>(0)) {
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
