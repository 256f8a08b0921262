//! Virtual handsets: what simulated phones received, kept in memory. They hold codes in the clear,
//! which is why nothing of them is ever written to the database.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use clock::Millis;

/// Handsets that a process keeps; the one that received first is forgotten first.
const HANDSETS: usize = 20_000;
/// Messages that a handset keeps.
const MESSAGES: usize = 50;

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

/// All virtual handsets. Clones share them.
#[derive(Clone, Default)]
pub struct Handsets {
    inner: Arc<Mutex<Shelf>>,
}

#[derive(Default)]
struct Shelf {
    by_phone: HashMap<Key, VecDeque<Received>>,
    order: VecDeque<Key>,
}

impl Handsets {
    /// Puts a message on the handset of `phone` (E.164), for the account that sent it.
    pub fn deliver(&self, account_id: &str, phone: &str, message: Received) {
        let mut shelf = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (account_id.to_owned(), phone.to_owned());
        if !shelf.by_phone.contains_key(&key) {
            if shelf.order.len() >= HANDSETS
                && let Some(oldest) = shelf.order.pop_front()
            {
                shelf.by_phone.remove(&oldest);
            }
            shelf.order.push_back(key.clone());
        }
        let messages = shelf.by_phone.entry(key).or_default();
        messages.push_front(message);
        messages.truncate(MESSAGES);
    }

    /// What a handset received from this account, newest first.
    #[must_use]
    pub fn messages(&self, account_id: &str, phone: &str) -> Vec<Received> {
        let shelf = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (account_id.to_owned(), phone.to_owned());
        shelf.by_phone.get(&key).map(|all| all.iter().cloned().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{HANDSETS, Handsets, MESSAGES, Received};
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
        let handsets = Handsets::default();
        for number in 0..=HANDSETS {
            handsets.deliver("acc", &number.to_string(), message("one"));
        }
        assert!(handsets.messages("acc", "0").is_empty());
        for number in 0..=MESSAGES {
            handsets.deliver("acc", "7", message(&number.to_string()));
        }
        let kept = handsets.messages("acc", "7");
        assert_eq!((kept.len(), kept[0].text.as_str()), (MESSAGES, "50"));
        assert!(handsets.messages("other", "7").is_empty());
    }
}
