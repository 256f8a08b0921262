//! Virtual handsets: what simulated phones received. They hold codes: in memory in the clear,
//! anywhere else only sealed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use clock::Millis;
use futures_util::future::BoxFuture;

/// Handsets that a process keeps; the one that received first is forgotten first.
const HANDSETS: usize = 20_000;
/// Messages that a handset keeps.
pub const MESSAGES: usize = 50;

/// What a handset received. No `Debug`: it holds a code.
#[derive(Clone)]
pub struct Received {
    /// Its id.
    pub id: String,
    /// `chatapp` or `sms`.
    pub channel: &'static str,
    /// Who it says it is from.
    pub sender: String,
    /// What it says.
    pub text: String,
    /// The passcode in it, if it is one.
    pub code: Option<String>,
    /// Quick-reply buttons under it.
    pub buttons: Vec<String>,
    /// When.
    pub received_at: Millis,
}

/// Whose message, and which phone.
type Key = (String, String);

/// Where handsets keep their messages.
pub trait Shelf: Send + Sync + 'static {
    /// Puts a message on the handset of `phone` (E.164), for the account that sent it.
    fn deliver<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
        message: Received,
    ) -> BoxFuture<'a, Result<(), store::Error>>;

    /// What a handset received from this account, newest first.
    fn messages<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Received>, store::Error>>;
}

/// Handsets in the memory of this process, for a service of one node.
#[derive(Default)]
pub struct MemoryShelf {
    inner: Mutex<Phones>,
}

#[derive(Default)]
struct Phones {
    by_phone: HashMap<Key, VecDeque<Received>>,
    order: VecDeque<Key>,
}

impl MemoryShelf {
    fn put(&self, key: Key, message: Received) {
        let mut phones = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if !phones.by_phone.contains_key(&key) {
            if phones.order.len() >= HANDSETS
                && let Some(oldest) = phones.order.pop_front()
            {
                phones.by_phone.remove(&oldest);
            }
            phones.order.push_back(key.clone());
        }
        let messages = phones.by_phone.entry(key).or_default();
        messages.push_front(message);
        messages.truncate(MESSAGES);
    }

    fn of(&self, key: &Key) -> Vec<Received> {
        let phones = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        phones.by_phone.get(key).map(|all| all.iter().cloned().collect()).unwrap_or_default()
    }
}

impl Shelf for MemoryShelf {
    fn deliver<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
        message: Received,
    ) -> BoxFuture<'a, Result<(), store::Error>> {
        self.put((account_id.to_owned(), phone.to_owned()), message);
        Box::pin(std::future::ready(Ok(())))
    }

    fn messages<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Received>, store::Error>> {
        let found = self.of(&(account_id.to_owned(), phone.to_owned()));
        Box::pin(std::future::ready(Ok(found)))
    }
}

/// All virtual handsets. Clones share them.
#[derive(Clone)]
pub struct Handsets {
    shelf: Arc<dyn Shelf>,
}

impl Handsets {
    /// Handsets that keep their messages on this shelf.
    #[must_use]
    pub fn on(shelf: Arc<dyn Shelf>) -> Self {
        Self { shelf }
    }
}

impl std::ops::Deref for Handsets {
    type Target = dyn Shelf;
    fn deref(&self) -> &Self::Target {
        &*self.shelf
    }
}

#[cfg(test)]
mod tests {
    use super::{HANDSETS, MESSAGES, MemoryShelf, Received};
    use clock::Millis;

    fn message(text: &str) -> Received {
        Received {
            id: "hms_1".into(),
            channel: "sms",
            sender: "estafette".into(),
            text: text.into(),
            code: None,
            buttons: vec![],
            received_at: Millis(0),
        }
    }

    #[test]
    fn memory_is_bounded_and_the_newest_message_comes_first() {
        let shelf = MemoryShelf::default();
        let key = |phone: &str| ("acc".to_owned(), phone.to_owned());
        for number in 0..=HANDSETS {
            shelf.put(key(&number.to_string()), message("one"));
        }
        assert!(shelf.of(&key("0")).is_empty());
        for number in 0..=MESSAGES {
            shelf.put(key("7"), message(&number.to_string()));
        }
        let kept = shelf.of(&key("7"));
        assert_eq!((kept.len(), kept[0].text.as_str()), (MESSAGES, "50"));
        assert!(shelf.of(&("other".to_owned(), "7".to_owned())).is_empty());
    }
}
