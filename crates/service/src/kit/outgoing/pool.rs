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

    /// Closes the one that has waited longest. So those who are called often keep theirs, however
    /// many others somebody has called once.
    fn close_longest(&mut self) {
        // The first of a place is its oldest.
        let oldest = self.places.iter().filter_map(|(key, place)| Some((place.first()?.1, key)));
        let longest = oldest.min_by_key(|(since, _)| *since).map(|(_, key)| key.clone());
        let Some(key) = longest else { return };
        if let Some(place) = self.places.get_mut(&key) {
            place.remove(0);
            self.count -= 1;
            if place.is_empty() {
                self.places.remove(&key);
            }
        }
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

    /// Keeps a connection for later, unless its place has enough. Where there are enough in all, it
    /// takes the turn of the one that has waited longest.
    pub(super) fn put(&self, key: Key, connection: Connection) {
        let mut idle = self.lock();
        let at_place = idle.places.get(&key).map_or(0, Vec::len);
        if at_place >= PER_PLACE || connection.sender.is_closed() {
            return;
        }
        if idle.count >= IN_ALL {
            // Perhaps with what led to addresses that nobody asks for any more.
            idle.forget();
        }
        if idle.count >= IN_ALL {
            idle.close_longest();
        }
        idle.places.entry(key).or_default().push((connection, Instant::now()));
        idle.count += 1;
    }

    /// Closes what was idle for too long.
    pub(super) fn forget_idle(&self) {
        self.lock().forget();
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};
    use tokio::time::advance;

    use super::*;
    use crate::kit::outgoing::connect::speak;

    fn key(number: usize) -> Key {
        let address = SocketAddr::from(([127, 0, 0, 1], 443));
        Key { is_tls: true, name: format!("host-{number}"), address }
    }

    /// Puts one connection in, a millisecond after the one before; answers its far side.
    async fn put(pool: &Pool, number: usize) -> DuplexStream {
        advance(Duration::from_millis(1)).await;
        let (near, far) = duplex(64);
        let connection = speak(near).await.map_err(|_| "no connection").unwrap();
        pool.put(key(number), connection);
        far
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_takes_the_turn_of_the_one_that_waited_longest() {
        let pool = Pool::default();
        let mut far = Vec::new();
        for number in 0..IN_ALL {
            far.push(put(&pool, number).await);
        }
        // Somebody calls the first host again, so it has not waited long.
        let first = pool.take(&key(0)).unwrap();
        advance(Duration::from_millis(1)).await;
        pool.put(key(0), first);
        far.push(put(&pool, IN_ALL).await);
        assert!(pool.take(&key(1)).is_none(), "the longest idle one is closed");
        for number in [0, 2, IN_ALL] {
            assert!(pool.take(&key(number)).is_some(), "host-{number}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_place_keeps_so_many_and_closes_nobody_elses() {
        let pool = Pool::default();
        let mut far = vec![put(&pool, 1).await];
        for _ in 0..PER_PLACE + 5 {
            far.push(put(&pool, 2).await);
        }
        let kept = std::iter::from_fn(|| pool.take(&key(2))).count();
        assert_eq!((kept, pool.take(&key(1)).is_some()), (PER_PLACE, true));
    }
}
