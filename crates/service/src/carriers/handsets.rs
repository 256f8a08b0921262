//! Virtual handsets: what simulated phones received. They hold codes: in memory in the clear,
//! anywhere else only sealed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use clock::Millis;
use futures_util::future::BoxFuture;

/// Handsets that a process keeps.
const HANDSETS: usize = 20_000;
/// Those of one account; the one that received first is forgotten first.
const HANDSETS_OF_ONE: usize = 2_000;
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
    /// What each of them sends back, where it is more than its text.
    pub payloads: Vec<String>,
    /// When.
    pub received_at: Millis,
}

impl Received {
    /// What it takes in memory, roughly.
    fn bytes(&self) -> usize {
        let texts = [&self.id, &self.sender, &self.text].into_iter();
        let more = texts.chain(&self.code).chain(&self.buttons).chain(&self.payloads);
        more.map(String::len).sum::<usize>() + size_of::<Self>()
    }
}

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

    /// Empties a handset of what this account sent.
    fn forget<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
    ) -> BoxFuture<'a, Result<(), store::Error>>;
}

/// Handsets in the memory of this process, for a service of one node.
#[derive(Default)]
pub struct MemoryShelf {
    limits: Limits,
    inner: Mutex<Phones>,
}

/// Bytes of the messages of all, and of those of one account.
struct Limits {
    bytes: usize,
    of_one: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 256 << 20, of_one: 16 << 20 }
    }
}

/// The handsets of all accounts.
#[derive(Default)]
struct Phones {
    by_account: HashMap<String, PhonesOfOne>,
    /// Handsets of all.
    count: usize,
    /// Bytes of all.
    bytes: usize,
}

/// The handsets of one account, and the order in which they were made.
#[derive(Default)]
struct PhonesOfOne {
    by_phone: HashMap<String, VecDeque<Received>>,
    order: VecDeque<String>,
    bytes: usize,
}

impl PhonesOfOne {
    fn put(&mut self, phone: &str, message: Received, most: usize) {
        if !self.by_phone.contains_key(phone) {
            self.order.push_back(phone.to_owned());
        }
        self.bytes += message.bytes();
        let messages = self.by_phone.entry(phone.to_owned()).or_default();
        messages.push_front(message);
        if messages.len() > MESSAGES {
            self.bytes -= messages.pop_back().as_ref().map_or(0, Received::bytes);
        }
        while self.bytes > most && self.order.len() > 1 {
            self.forget_first_but(phone);
        }
    }

    /// Not the one that has just received something.
    fn forget_first_but(&mut self, phone: &str) {
        if self.order.front().is_some_and(|first| first == phone) {
            self.order.rotate_left(1);
        }
        self.forget_first();
    }

    fn forget_first(&mut self) {
        if let Some(first) = self.order.pop_front() {
            self.drop_messages(&first);
        }
    }

    fn forget(&mut self, phone: &str) {
        self.order.retain(|other| other != phone);
        self.drop_messages(phone);
    }

    fn drop_messages(&mut self, phone: &str) {
        let gone = self.by_phone.remove(phone).unwrap_or_default();
        self.bytes -= gone.iter().map(Received::bytes).sum::<usize>();
    }
}

impl Phones {
    /// Changes what an account has, and counts what all have together anew.
    fn change(&mut self, account_id: &str, act: impl FnOnce(&mut PhonesOfOne)) {
        let own = self.by_account.entry(account_id.to_owned()).or_default();
        let (count, bytes) = (own.order.len(), own.bytes);
        act(own);
        self.count = self.count + own.order.len() - count;
        self.bytes = self.bytes + own.bytes - bytes;
        if own.order.is_empty() {
            self.by_account.remove(account_id);
        }
    }

    /// Makes room for one more handset of an account: among its own when it has its share, else
    /// among those of whoever has most.
    fn make_room(&mut self, account_id: &str) {
        let own = self.by_account.get(account_id).map_or(0, |own| own.order.len());
        if own >= HANDSETS_OF_ONE {
            self.change(account_id, PhonesOfOne::forget_first);
        } else if self.count >= HANDSETS {
            self.forget_of_most(|own| own.order.len(), PhonesOfOne::forget_first);
        }
    }

    fn forget_of_most(
        &mut self,
        share: fn(&PhonesOfOne) -> usize,
        forget: impl FnOnce(&mut PhonesOfOne),
    ) {
        let most = self.by_account.iter().max_by_key(|(_, own)| share(own));
        if let Some(account_id) = most.map(|(account_id, _)| account_id.clone()) {
            self.change(&account_id, forget);
        }
    }
}

impl MemoryShelf {
    fn put(&self, account_id: &str, phone: &str, message: Received) {
        let mut phones = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let own = phones.by_account.get(account_id);
        if own.is_none_or(|own| !own.by_phone.contains_key(phone)) {
            phones.make_room(account_id);
        }
        let Limits { bytes, of_one } = self.limits;
        phones.change(account_id, |own| own.put(phone, message, of_one));
        // Of one that has a single handset, nothing but that is left to forget.
        while phones.bytes > bytes && phones.count > phones.by_account.len() {
            let share = |own: &PhonesOfOne| if own.order.len() > 1 { own.bytes } else { 0 };
            phones.forget_of_most(share, |own| own.forget_first_but(phone));
        }
    }

    fn of(&self, account_id: &str, phone: &str) -> Vec<Received> {
        let phones = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = phones.by_account.get(account_id).and_then(|own| own.by_phone.get(phone));
        messages.map(|all| all.iter().cloned().collect()).unwrap_or_default()
    }
}

impl Shelf for MemoryShelf {
    fn deliver<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
        message: Received,
    ) -> BoxFuture<'a, Result<(), store::Error>> {
        self.put(account_id, phone, message);
        Box::pin(std::future::ready(Ok(())))
    }

    fn messages<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Received>, store::Error>> {
        Box::pin(std::future::ready(Ok(self.of(account_id, phone))))
    }

    fn forget<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
    ) -> BoxFuture<'a, Result<(), store::Error>> {
        let mut phones = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        phones.change(account_id, |own| own.forget(phone));
        Box::pin(std::future::ready(Ok(())))
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
    use super::{HANDSETS, HANDSETS_OF_ONE, Limits, MESSAGES, MemoryShelf, Received};
    use clock::Millis;

    fn message(text: &str) -> Received {
        Received {
            id: "hms_1".into(),
            channel: "sms",
            sender: "estafette".into(),
            text: text.into(),
            code: None,
            buttons: vec![],
            payloads: vec![],
            received_at: Millis(0),
        }
    }

    #[test]
    fn an_account_that_fills_its_shelf_loses_its_own_oldest_handsets() {
        let shelf = MemoryShelf::default();
        shelf.put("other", "7", message("kept"));
        for number in 0..=HANDSETS_OF_ONE {
            shelf.put("acc", &number.to_string(), message("one"));
        }
        assert!(shelf.of("acc", "0").is_empty());
        assert_eq!(shelf.of("acc", "1").len(), 1);
        assert_eq!(shelf.of("other", "7").len(), 1);
    }

    #[test]
    fn a_full_shelf_takes_from_whoever_has_most() {
        let shelf = MemoryShelf::default();
        shelf.put("small", "7", message("kept"));
        for number in 0..HANDSETS + 500 {
            let account = format!("acc{}", number / (HANDSETS_OF_ONE - 100));
            shelf.put(&account, &number.to_string(), message("one"));
        }
        let phones = shelf.inner.lock().unwrap();
        assert_eq!(phones.count, HANDSETS);
        assert_eq!(phones.by_account.values().map(|own| own.order.len()).sum::<usize>(), HANDSETS);
        drop(phones);
        assert_eq!(shelf.of("small", "7").len(), 1);
    }

    #[test]
    fn long_texts_take_no_more_than_their_account_may() {
        let limits = Limits { bytes: 400_000, of_one: 100_000 };
        let shelf = MemoryShelf { limits, ..MemoryShelf::default() };
        let long = "x".repeat(16_000);
        shelf.put("small", "7", message("kept"));
        for phone in 0..10 {
            shelf.put("acc", &phone.to_string(), message(&long));
        }
        assert!(shelf.of("acc", "3").is_empty(), "ten texts are more than it may have");
        assert_eq!(shelf.of("acc", "4").len(), 1);
        for number in 0..60 {
            shelf.put(&format!("acc{}", number / 6), &number.to_string(), message(&long));
            assert_eq!(shelf.of(&format!("acc{}", number / 6), &number.to_string()).len(), 1);
        }
        let phones = shelf.inner.lock().unwrap();
        let counted: usize = phones.by_account.values().map(|own| own.bytes).sum();
        let handsets: usize = phones.by_account.values().map(|own| own.order.len()).sum();
        assert_eq!((phones.bytes, phones.count), (counted, handsets));
        assert!(counted <= 400_000 && handsets < 60, "{counted} {handsets}");
        drop(phones);
        assert_eq!(shelf.of("small", "7").len(), 1);
    }

    #[test]
    fn a_handset_keeps_its_newest_messages_and_shows_them_first() {
        let shelf = MemoryShelf::default();
        for number in 0..=MESSAGES {
            shelf.put("acc", "7", message(&number.to_string()));
        }
        let kept = shelf.of("acc", "7");
        assert_eq!((kept.len(), kept[0].text.as_str()), (MESSAGES, "50"));
    }
}
