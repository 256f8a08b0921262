//! How many connections there may be: in all, so that files and memory suffice, and from one
//! address, so that no one takes them all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Server;
use crate::kit::client_address::{ClientAddress, is_within};

/// Most connections where the setting leaves it to the limit of open files.
const MOST: usize = 20_000;

/// Guards the listeners that share it.
#[derive(Clone)]
pub(super) struct Gate {
    all: Arc<Semaphore>,
    each: Arc<Each>,
}

struct Each {
    most: usize,
    limit: Limit,
    trusted: Vec<IpNet>,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// Who says how many connections an address may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The setting; trusted proxies are not counted.
    Setting,
    /// The listener itself, for everybody.
    Listener,
}

/// A place among all connections, free again when dropped.
pub(super) struct Admission(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// A share of those from one address, given back when dropped.
pub(super) struct Share {
    /// `None` for a trusted proxy: it is not counted.
    of: Option<IpAddr>,
    each: Arc<Each>,
}

impl Gate {
    /// By the settings.
    pub(super) fn new(server: &Server) -> Self {
        let all = match server.max_connections {
            0 => (open_files() / 4 * 3).clamp(16, MOST),
            set => set,
        };
        tracing::debug!(connections = all, "most connections at a time");
        let (most, trusted) = (server.max_connections_per_address, server.trusted_proxies.clone());
        Self::of(all, Each { most, limit: Limit::Setting, trusted, open: Mutex::default() })
    }

    /// With this many places, and no others' addresses to mind.
    pub(super) fn with_places(all: usize) -> Self {
        Self::with_shares(all, all)
    }

    /// With this many places, and so many of them for one address.
    pub(super) fn with_shares(all: usize, most: usize) -> Self {
        let (limit, trusted) = (Limit::Listener, Vec::new());
        Self::of(all, Each { most, limit, trusted, open: Mutex::default() })
    }

    fn of(all: usize, each: Each) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), each: Arc::new(each) }
    }

    /// Who says how many connections an address may have.
    pub(super) fn limit(&self) -> Limit {
        self.each.limit
    }

    /// Lets a client in, unless its address has its share already.
    pub(super) fn admit(&self, peer: IpAddr) -> Option<Share> {
        let each = Arc::clone(&self.each);
        if is_within(peer, &each.trusted) {
            return Some(Share { of: None, each });
        }
        let address = ClientAddress(peer).unit();
        let mut open = each.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= each.most {
            return None;
        }
        *count += 1;
        drop(open);
        Some(Share { of: Some(address), each })
    }

    /// Waits until there is a place for one more connection.
    pub(super) async fn place(&self) -> Admission {
        match Arc::clone(&self.all).acquire_owned().await {
            Ok(permit) => Admission(permit),
            // Nobody closes it.
            Err(_closed) => std::future::pending().await,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(address) = self.of else { return };
        let mut open = self.each.open.lock().unwrap_or_else(PoisonError::into_inner);
        let left = open.get(&address).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            open.remove(&address);
        } else {
            open.insert(address, left);
        }
    }
}

/// How many files this process may open, after asking for as many as it is allowed to ask for: the
/// usual first answer is 1024, for the sake of programs that cannot count further.
#[cfg(unix)]
fn open_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current =
        if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    // No limit at all is none.
    current.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

#[cfg(not(unix))]
fn open_files() -> usize {
    MOST
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::{Each, Gate, Limit};

    #[test]
    fn an_address_has_its_share_and_a_proxy_as_much_as_there_is() {
        let trusted = vec!["10.0.0.0/8".parse().unwrap()];
        let limit = Limit::Setting;
        let gate = Gate::of(10, Each { most: 2, limit, trusted, open: Mutex::default() });
        let enter = |peer: &str| gate.admit(peer.parse().unwrap());
        let (first, second) = (enter("203.0.113.7"), enter("203.0.113.7"));
        assert!(first.is_some() && second.is_some());
        assert!(enter("203.0.113.7").is_none());
        assert!(enter("203.0.113.8").is_some());
        drop(first);
        assert!(enter("203.0.113.7").is_some());
        drop(second);
        assert!(gate.each.open.lock().unwrap().is_empty(), "nothing is kept of who left");

        let two = [enter("2001:db8::1"), enter("2001:db8::2")];
        assert!(enter("2001:db8::3").is_none(), "one /64 counts as one");
        assert!(enter("2001:db8:0:1::1").is_some());
        drop(two);
        let proxied: Vec<_> = (0..50).map(|_| enter("10.1.2.3")).collect();
        assert!(proxied.iter().all(Option::is_some));
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_it_is_given_back() {
        let gate = Gate::with_places(2);
        let first = gate.place().await;
        let _second = gate.place().await;
        assert_eq!(gate.all.available_permits(), 0);
        drop(first);
        gate.place().await;
        assert_eq!(gate.all.available_permits(), 1);
    }
}
