//! Rank 2: open sockets, by what they listen to (a topic). A frame is made once and handed to all
//! of a topic's sockets; each has a bounded queue, and one that does not empty it is ended. Nothing
//! here knows what the frames say, or the database: what was missed is read there.

mod outbox;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Utf8Bytes;

pub use outbox::{Out, Outbox};

/// Kinds of frames beside messages, which a socket gets only when it asks for them.
pub mod features {
    /// What became of a message that this socket sent.
    pub const ACK: u8 = 1;
    /// Somebody types.
    pub const TYPING: u8 = 2;
    /// How far a side has read.
    pub const READ: u8 = 4;
    /// Which sides are there.
    pub const PRESENCE: u8 = 8;
    /// The status changed.
    pub const STATUS: u8 = 16;
    /// What was wrong with a frame that this socket sent.
    pub const ERROR: u8 = 32;
    /// There is more to read than is replayed.
    pub const RESYNC: u8 = 64;

    /// The words in `features=`, and their bits.
    pub const WORDS: [(&str, u8); 7] = [
        ("ack", ACK),
        ("typing", TYPING),
        ("read", READ),
        ("presence", PRESENCE),
        ("status", STATUS),
        ("error", ERROR),
        ("resync", RESYNC),
    ];
}

/// A frame for all sockets of a topic.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its number in the topic; 0 for what has none and may be lost.
    pub seq: i64,
    /// The feature that a socket must have asked for; 0 = none.
    pub feature: u8,
    /// As a user sees it; none: no user does.
    pub user: Option<Utf8Bytes>,
    /// As staff see it.
    pub staff: Option<Utf8Bytes>,
}

/// Who listens.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The person, for the bound of sockets.
    pub person: String,
    /// Whether it is staff.
    pub is_staff: bool,
    /// The features that were asked for.
    pub features: u8,
    /// What [`Hub::doubts`] said before their token was looked at.
    pub doubts: u64,
}

/// Which sides listen to a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// The user's.
    pub user: bool,
    /// The staff's.
    pub staff: bool,
}

/// A topic with news.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The topic.
    pub topic: String,
    /// Whose it is.
    pub account: String,
    /// The number up to which frames were pushed.
    pub pushed: i64,
    /// What [`Hub::push`] was told to remember.
    pub note: String,
    /// Who listens here.
    pub here: Present,
    /// Who listened here when other nodes were told of it.
    pub told: Present,
    /// Whether a socket asked for who is there.
    pub wants_presence: bool,
}

#[derive(Default)]
struct Inner {
    topics: HashMap<String, Topic>,
    dirty: BTreeSet<String>,
    persons: HashMap<String, usize>,
    left: Vec<(String, String)>,
    next: u64,
    doubts: u64,
}

struct Topic {
    account: String,
    /// `None` until somebody has read where it stands.
    pushed: Option<i64>,
    note: String,
    /// Who listens at other nodes.
    elsewhere: Present,
    /// Who listens here, as far as other nodes were told.
    told: Present,
    outboxes: BTreeMap<u64, Arc<Outbox>>,
}

impl Topic {
    fn here(&self) -> Present {
        let is_there = |staff: bool| self.outboxes.values().any(|outbox| outbox.is_staff == staff);
        Present { user: is_there(false), staff: is_there(true) }
    }

    fn present(&self) -> Present {
        let Present { user, staff } = self.here();
        Present { user: user || self.elsewhere.user, staff: staff || self.elsewhere.staff }
    }

    fn wants(&self, feature: u8) -> bool {
        self.outboxes.values().any(|outbox| outbox.wants(feature))
    }
}

/// All open sockets of this process. Clones share it.
#[derive(Clone, Default)]
pub struct Hub {
    inner: Arc<Mutex<Inner>>,
    bell: Arc<Notify>,
}

/// A socket's place; given back when dropped.
pub struct Seat {
    hub: Hub,
    id: u64,
    topic: String,
    /// What is to be written.
    pub outbox: Arc<Outbox>,
}

impl Hub {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a socket listen; `None` when its person has `most` of them.
    #[must_use]
    pub fn join(
        &self,
        topic: &str,
        account: &str,
        listener: &Listener,
        most: usize,
    ) -> Option<Seat> {
        let mut inner = self.inner();
        let count = inner.persons.entry(listener.person.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        inner.next += 1;
        let id = inner.next;
        let outbox = Arc::new(Outbox::of(listener));
        if inner.doubts != listener.doubts {
            // A login ended while the token was looked at, maybe this one.
            outbox.doubt();
        }
        let room = inner.topics.entry(topic.to_owned()).or_insert_with(|| Topic {
            account: account.to_owned(),
            pushed: None,
            note: String::new(),
            elsewhere: Present::default(),
            told: Present::default(),
            outboxes: BTreeMap::new(),
        });
        let before = room.here();
        room.outboxes.insert(id, Arc::clone(&outbox));
        // Those who were there already are told; the newcomer is greeted.
        if room.outboxes.len() > 1 && room.here() != before {
            inner.dirty.insert(topic.to_owned());
            self.bell.notify_one();
        }
        Some(Seat { hub: self.clone(), id, topic: topic.to_owned(), outbox })
    }

    /// How often [`Hub::doubt`] was called: to be asked before a token is looked at.
    #[must_use]
    pub fn doubts(&self) -> u64 {
        self.inner().doubts
    }

    /// A login of this person may have ended: each of their sockets looks at its own again before
    /// it writes anything more.
    pub fn doubt(&self, person: &str) {
        let mut inner = self.inner();
        inner.doubts += 1;
        if !inner.persons.contains_key(person) {
            return;
        }
        let all = inner.topics.values().flat_map(|topic| topic.outboxes.values());
        all.filter(|outbox| outbox.person == person).for_each(|outbox| outbox.doubt());
    }

    /// From now on frames after this number are pushed, and changes since this note, unless that
    /// was said before. Answers the number that counts.
    #[must_use]
    pub fn begin(&self, topic: &str, pushed: i64, note: String) -> i64 {
        let mut inner = self.inner();
        let Some(room) = inner.topics.get_mut(topic) else { return pushed };
        if let Some(begun) = room.pushed {
            return begun;
        }
        room.pushed = Some(pushed);
        room.note = note;
        if inner.dirty.contains(topic) {
            self.bell.notify_one();
        }
        pushed
    }

    /// Hands one socket a frame that is made of who is there.
    pub fn greet(&self, seat: &Seat, frame: impl FnOnce(Present) -> Frame) {
        let inner = self.inner();
        if let Some(room) = inner.topics.get(&seat.topic) {
            seat.outbox.push(&frame(room.present()));
        }
    }

    /// Something may have happened in a topic. Nobody listens: nothing is done.
    pub fn news(&self, topic: &str) {
        let mut inner = self.inner();
        if inner.topics.contains_key(topic) && inner.dirty.insert(topic.to_owned()) {
            drop(inner);
            self.bell.notify_one();
        }
    }

    /// The same for all topics where a socket asked for a feature.
    pub fn news_for(&self, feature: u8) {
        let mut inner = self.inner();
        let Inner { topics, dirty, .. } = &mut *inner;
        let wanted = topics.iter().filter(|(_, topic)| topic.wants(feature));
        dirty.extend(wanted.map(|(name, _)| name.clone()));
        drop(inner);
        self.bell.notify_one();
    }

    /// Returns when there is news. For one listener.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    /// The topics with news, each once.
    #[must_use]
    pub fn take_news(&self) -> Vec<Update> {
        let mut inner = self.inner();
        let Inner { topics, dirty, .. } = &mut *inner;
        let mut news = Vec::new();
        dirty.retain(|topic| {
            let Some(room) = topics.get(topic) else { return false };
            // Nobody knows yet what was pushed there: its turn comes when that is known.
            let Some(pushed) = room.pushed else { return true };
            news.push(Update {
                topic: topic.clone(),
                account: room.account.clone(),
                pushed,
                note: room.note.clone(),
                here: room.here(),
                told: room.told,
                wants_presence: room.wants(features::PRESENCE),
            });
            false
        });
        news
    }

    /// Hands frames to all sockets of a topic, in their order.
    pub fn push(&self, topic: &str, frames: &[Frame], note: Option<String>) {
        let mut inner = self.inner();
        let Some(room) = inner.topics.get_mut(topic) else { return };
        if let Some(note) = note {
            room.note = note;
        }
        for frame in frames {
            if frame.seq > 0 {
                room.pushed = room.pushed.max(Some(frame.seq));
            }
            for outbox in room.outboxes.values() {
                outbox.push(frame);
            }
        }
    }

    /// Who listens to a topic at this node.
    #[must_use]
    pub fn here(&self, topic: &str) -> Present {
        self.inner().topics.get(topic).map(Topic::here).unwrap_or_default()
    }

    /// Who listens to a topic, at other nodes as far as this one was told.
    #[must_use]
    pub fn present(&self, topic: &str) -> Present {
        self.inner().topics.get(topic).map(Topic::present).unwrap_or_default()
    }

    /// Notes who listens at other nodes.
    pub fn set_elsewhere(&self, topic: &str, elsewhere: Present) {
        if let Some(room) = self.inner().topics.get_mut(topic) {
            room.elsewhere = elsewhere;
        }
    }

    /// Notes what other nodes were told of who listens here.
    pub fn set_told(&self, topic: &str, told: Present) {
        if let Some(room) = self.inner().topics.get_mut(topic) {
            room.told = told;
        }
    }

    /// Notes that other nodes were told of one more who listens here.
    pub fn note_told(&self, topic: &str, come: Present) {
        if let Some(room) = self.inner().topics.get_mut(topic) {
            let Present { user, staff } = room.told;
            room.told = Present { user: user || come.user, staff: staff || come.staff };
        }
    }

    /// Whether anybody listens to a topic.
    #[must_use]
    pub fn has(&self, topic: &str) -> bool {
        self.inner().topics.contains_key(topic)
    }

    /// All topics that somebody listens to.
    #[must_use]
    pub fn topics(&self) -> Vec<(String, String)> {
        let inner = self.inner();
        inner.topics.iter().map(|(topic, room)| (topic.clone(), room.account.clone())).collect()
    }

    /// Topics that were left by all, and whose they are. Somebody may have come to one since.
    #[must_use]
    pub fn take_left(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.inner().left)
    }

    /// Whether anybody listens to anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner().topics.is_empty()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = self.hub.inner();
        let person = &self.outbox.person;
        let left = inner.persons.get(person).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            inner.persons.remove(person);
        } else {
            inner.persons.insert(person.clone(), left);
        }
        let Some(room) = inner.topics.get_mut(&self.topic) else { return };
        let before = room.here();
        room.outboxes.remove(&self.id);
        if room.outboxes.is_empty() {
            let account = room.account.clone();
            inner.topics.remove(&self.topic);
            inner.left.push((self.topic.clone(), account));
            self.hub.bell.notify_one();
        } else if room.here() != before {
            inner.dirty.insert(self.topic.clone());
            self.hub.bell.notify_one();
        }
    }
}
