//! Connections that wait for their next request. A key holds the vetted address, so a connection
//! is used again only where a new one would be allowed at that moment.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::connect::Connection;

/// Idle connections to one destination.
const PER_PLACE: usize = 16;
/// Idle connections to all places together.
const IN_ALL: usize = 256;
/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(30);

/// Where a connection leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) is_tls: bool,
    pub(super) name: String,
    pub(super) address: SocketAddr,
}

#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    places: HashMap<Key, Vec<(Connection, Instant)>>,
    count: usize,
}

impl Idle {
    fn forget(&mut self) {
        self.places.retain(|_, destination| {
            destination.retain(|(connection, since)| {
                !connection.sender.is_closed() && since.elapsed() < IDLE
            });
            !destination.is_empty()
        });
        self.count = self.places.values().map(Vec::len).sum();
    }
}

impl Pool {
    /// The connection that was used last, if one is alive.
    pub(super) fn take(&self, key: &Key) -> Option<Connection> {
        let mut idle = self.lock();
        let found = idle.places.get_mut(key)?;
        let mut dropped = 0;
        let mut usable = None;
        while let Some((connection, since)) = found.pop() {
            dropped += 1;
            if !connection.sender.is_closed() && since.elapsed() < IDLE {
                usable = Some(connection);
                break;
            }
        }
        if found.is_empty() {
            idle.places.remove(key);
        }
        idle.count -= dropped;
        usable
    }

    /// Keeps a connection for later, or closes it when there are enough.
    pub(super) fn put(&self, key: Key, connection: Connection) {
        let mut idle = self.lock();
        if idle.count >= IN_ALL {
            // Perhaps with what led to addresses that nobody asks for any more.
            idle.forget();
        }
        if idle.count >= IN_ALL || connection.sender.is_closed() {
            return;
        }
        let destination = idle.places.entry(key).or_default();
        if destination.len() < PER_PLACE {
            destination.push((connection, Instant::now()));
            idle.count += 1;
        }
    }

    /// Closes what was idle for too long.
    pub(super) fn forget_idle(&self) {
        self.lock().forget();
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
