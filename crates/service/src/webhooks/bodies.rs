//! The JSON of events that a lane has just made, for the account's other lanes: they have the same
//! to send, at nearly the same time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use hyper::body::Bytes;

use crate::events::Stored;
use crate::kit::id::EventId;

/// What is kept at most, bytes, and the longest JSON of which that is worth it.
const MOST_BYTES: usize = 2 << 20;
const LONGEST: usize = 4 << 10;

/// The latest JSON of this node's lanes.
#[derive(Default)]
pub(super) struct Bodies(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_event: HashMap<EventId, Body>,
    /// In the order in which they were made.
    order: VecDeque<EventId>,
    bytes: usize,
}

/// JSON, and what the event said when it was made: an event that a person was erased from says
/// something else.
struct Body {
    state: String,
    json: Bytes,
}

impl Bodies {
    /// The JSON of an event, if it was made a moment ago of what the event says.
    pub(super) fn of(&self, event: &Stored) -> Option<Bytes> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let body = kept.by_event.get(&event.id)?;
        (body.state == event.state).then(|| body.json.clone())
    }

    /// Keeps what was made of an event.
    pub(super) fn keep(&self, event: &Stored, json: &Bytes) {
        if json.len() > LONGEST {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let body = Body { state: event.state.clone(), json: json.clone() };
        kept.bytes += json.len();
        match kept.by_event.insert(event.id.clone(), body) {
            Some(before) => kept.bytes -= before.json.len(),
            None => kept.order.push_back(event.id.clone()),
        }
        while kept.bytes > MOST_BYTES
            && let Some(oldest) = kept.order.pop_front()
        {
            let gone = kept.by_event.remove(&oldest);
            kept.bytes -= gone.map_or(0, |body| body.json.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::body::Bytes;
    use uuid::Uuid;

    use super::{Bodies, LONGEST, MOST_BYTES};
    use crate::events::Stored;
    use crate::kit::id::{AccountId, EventId};

    fn event(number: usize, state: &str) -> Stored {
        let uuid = Uuid::from_u128(number as u128);
        Stored {
            account: AccountId::of(uuid),
            id: EventId::of(uuid),
            kind: "otp.status".to_owned(),
            object_id: "otp_1".to_owned(),
            sequence: 1,
            state: state.to_owned(),
            body: None,
            is_in_hand: false,
        }
    }

    #[test]
    fn an_event_that_says_something_else_is_made_anew() {
        let bodies = Bodies::default();
        let json = Bytes::from_static(b"{}");
        bodies.keep(&event(1, "sent"), &json);
        assert_eq!(bodies.of(&event(1, "sent")), Some(json.clone()));
        assert_eq!(bodies.of(&event(1, " ")), None, "somebody was erased from it");
        bodies.keep(&event(1, " "), &json);
        assert_eq!(bodies.of(&event(1, "sent")), None);
    }

    #[test]
    fn the_oldest_go_and_what_is_long_is_not_kept() {
        let bodies = Bodies::default();
        bodies.keep(&event(0, ""), &Bytes::from(vec![b' '; LONGEST + 1]));
        assert_eq!(bodies.of(&event(0, "")), None);
        let long = Bytes::from(vec![b' '; LONGEST]);
        let fitting = MOST_BYTES / LONGEST;
        for number in 1..=fitting + 1 {
            bodies.keep(&event(number, ""), &long);
        }
        assert_eq!(bodies.of(&event(1, "")), None);
        assert_eq!(bodies.of(&event(2, "")), Some(long.clone()));
        assert_eq!(bodies.of(&event(fitting + 1, "")), Some(long));
        assert_eq!(bodies.0.lock().unwrap().bytes, MOST_BYTES);
    }
}
