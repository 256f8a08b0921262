//! Memory that clients fill, and may be slow to let go: bodies that are half there, answers that
//! were not taken yet. It is bounded for all of them together, and for each.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::kit::client_address::ClientAddress;

/// Bytes of all clients.
const MOST: usize = 64 * 1024 * 1024;
/// The same of one client.
const MOST_OF_ONE: usize = MOST / 4;

/// Bytes by client.
#[derive(Default)]
pub(super) struct Shares(Mutex<Book>);

#[derive(Default)]
struct Book {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// Bytes of one request or answer, given back when it is dropped.
pub(super) struct Share {
    client: IpAddr,
    bytes: usize,
    shares: &'static Shares,
}

impl Shares {
    /// A share of this client without a byte yet. Every connection has an address; without one all
    /// count as one client.
    pub(super) fn of(&'static self, client: Option<ClientAddress>) -> Share {
        let client = client.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), ClientAddress::unit);
        Share { client, bytes: 0, shares: self }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// So many bytes more, and whether they are within the bounds.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let mut book = self.shares.lock();
        book.all += bytes;
        let of_client = book.by_client.entry(self.client).or_default();
        *of_client += bytes;
        *of_client <= MOST_OF_ONE && book.all <= MOST
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut book = self.shares.lock();
        book.all -= self.bytes;
        if let Some(of_client) = book.by_client.get_mut(&self.client) {
            *of_client -= self.bytes;
            if *of_client == 0 {
                book.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{IpAddr, MOST, MOST_OF_ONE, Share, Shares};

    fn take(shares: &'static Shares, last: u8, bytes: usize) -> (Share, bool) {
        let client = IpAddr::from([203, 0, 113, last]);
        let mut share = Share { client, bytes: 0, shares };
        let fits = share.take(bytes);
        (share, fits)
    }

    #[test]
    fn one_client_has_a_quarter_and_all_have_the_whole() {
        let shares: &'static Shares = Box::leak(Box::default());
        let quarters: Vec<_> = (0..4).map(|last| take(shares, last, MOST_OF_ONE)).collect();
        assert!(quarters.iter().all(|(_, fits)| *fits));
        assert!(!take(shares, 1, 1).1, "its quarter is taken");
        assert!(!take(shares, 9, 1).1, "everything is taken");
        drop(quarters);
        assert!(take(shares, 1, MOST_OF_ONE).1);
        assert!(!take(shares, 1, MOST).1);
        let book = shares.lock();
        assert_eq!((book.all, book.by_client.len()), (0, 0), "nothing is kept of who left");
    }
}
