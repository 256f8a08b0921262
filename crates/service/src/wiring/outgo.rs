//! Answers on their way out. Until a client has taken its answer, the answer is in memory, and some
//! clients ask for much and take nothing. So the bytes of all answers together are bounded, and
//! those of one client.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use axum::body::{Bytes, HttpBody};
use axum::http::Method;
use axum::response::Response;

use crate::kit::client_address::ClientAddress;

/// Bytes of all answers that were not taken yet.
const MOST: usize = 64 * 1024 * 1024;
/// The same of one client.
const MOST_OF_ONE: usize = MOST / 4;
/// An answer of so many bytes costs no more than its request did; it is not counted.
const SMALL: usize = 2 * 1024;

/// All answers of this process.
static BOOK: LazyLock<Book> = LazyLock::new(Book::default);

/// Bytes of answers by client.
#[derive(Default)]
struct Book(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// A share of the bytes, given back when the answer is out or given up.
pub(super) struct Hold {
    client: IpAddr,
    bytes: usize,
    book: &'static Book,
}

/// Notes an answer, or answers `false` where it is one too many and may still be withheld. What
/// changed something is told in any case.
pub(super) fn note(
    method: &Method,
    client: Option<ClientAddress>,
    response: &mut Response,
) -> bool {
    let hint = response.body().size_hint();
    let bytes = usize::try_from(hint.upper().unwrap_or_else(|| hint.lower())).unwrap_or(usize::MAX);
    if bytes <= SMALL {
        return true;
    }
    // Every connection has an address; without one all share a page.
    let client = client.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), ClientAddress::unit);
    let (hold, fits) = BOOK.take(client, bytes);
    if !fits && method.is_safe() {
        return false;
    }
    response.extensions_mut().insert(Arc::new(hold));
    true
}

/// The bytes of an answer, with their share for as long as any of them are needed.
pub(super) fn held(bytes: Bytes, hold: Arc<Hold>) -> Bytes {
    struct Held(Bytes, #[expect(dead_code, reason = "held, not read")] Arc<Hold>);
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Held(bytes, hold))
}

impl Book {
    /// A share of so many bytes, and whether it is within the bounds.
    fn take(&'static self, client: IpAddr, bytes: usize) -> (Hold, bool) {
        let mut pages = self.lock();
        pages.all += bytes;
        let of_client = pages.by_client.entry(client).or_default();
        *of_client += bytes;
        let fits = *of_client <= MOST_OF_ONE && pages.all <= MOST;
        (Hold { client, bytes, book: self }, fits)
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut pages = self.book.lock();
        pages.all -= self.bytes;
        if let Some(of_client) = pages.by_client.get_mut(&self.client) {
            *of_client -= self.bytes;
            if *of_client == 0 {
                pages.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Book, IpAddr, MOST, MOST_OF_ONE};

    fn client(last: u8) -> IpAddr {
        IpAddr::from([203, 0, 113, last])
    }

    #[test]
    fn one_client_has_a_quarter_and_all_have_the_whole() {
        let book: &'static Book = Box::leak(Box::default());
        let quarters: Vec<_> = (0..4).map(|last| book.take(client(last), MOST_OF_ONE)).collect();
        assert!(quarters.iter().all(|(_, fits)| *fits));
        assert!(!book.take(client(1), 1).1, "its quarter is taken");
        assert!(!book.take(client(9), 1).1, "everything is taken");
        drop(quarters);
        assert!(book.take(client(1), MOST_OF_ONE).1);
        assert!(!book.take(client(1), MOST).1);
        let pages = book.lock();
        assert_eq!((pages.all, pages.by_client.len()), (0, 0), "nothing is kept of who left");
    }
}
