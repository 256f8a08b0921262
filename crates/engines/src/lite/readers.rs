//! The read-only connections. A read runs in place: it takes microseconds, less than a hop to
//! another thread.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::session::{Role, Session};
use store::{Args, Error, Row, Sql, SqliteOptions};

/// A few connections, each for one caller at a time. Whoever comes takes the first that is free:
/// its pages and statements are in memory, and in the processor's cache.
pub(super) struct Readers {
    first: Mutex<Session>,
    others: Vec<Mutex<Session>>,
    turn: AtomicUsize,
}

impl Readers {
    pub(super) fn open(path: &Path, options: &SqliteOptions) -> Result<Self, Error> {
        let open = || Session::open(path, Role::Reader, options).map(Mutex::new);
        let others = (1..options.readers).map(|_| open()).collect::<Result<_, _>>()?;
        Ok(Self { first: open()?, others, turn: AtomicUsize::new(0) })
    }

    /// Reads committed rows.
    pub(super) fn rows(&self, sql: Sql, args: &Args) -> Result<Vec<Row>, Error> {
        self.with(|session| {
            session.query(sql, args).map_err(|failure| {
                tracing::warn!(error = %failure.error, "a read failed");
                Error::from(failure)
            })
        })
    }

    /// Lends a connection. The closure cannot await, so no lock is held across one.
    pub(super) fn with<T>(&self, read: impl FnOnce(&mut Session) -> T) -> T {
        read(&mut self.free())
    }

    fn free(&self) -> MutexGuard<'_, Session> {
        for reader in std::iter::once(&self.first).chain(&self.others) {
            match reader.try_lock() {
                Ok(session) => return session,
                // A panic in a read leaves the connection usable: its statement was reset.
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        // All are busy: those that wait share them.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % (self.others.len() + 1);
        let busy = self.others.get(turn).unwrap_or(&self.first);
        busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
