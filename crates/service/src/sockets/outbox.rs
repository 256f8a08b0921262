//! What one socket is still to write. While it catches up with what it missed, frames with a number
//! are not kept: it reads them itself. After that the queue is bounded.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{Frame, Listener, features};

/// Frames that may wait.
const MOST: usize = 64;

/// What comes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// A frame with its number, 0 for none.
    Frame(i64, Utf8Bytes),
    /// The session is to be looked at before anything more is written.
    Doubt,
    /// Nothing now.
    Empty,
    /// The queue ran over: what was in it is lost, and the socket is to be ended.
    Overflow,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<(i64, Utf8Bytes)>,
    is_live: bool,
    has_overflowed: bool,
    is_doubted: bool,
    /// The highest number that came while it was not live.
    missed: i64,
    /// What it was last told of who is there: that is not said twice.
    presence: Option<Utf8Bytes>,
}

/// The queue of one socket.
#[derive(Debug)]
pub struct Outbox {
    pub(super) person: String,
    pub(super) is_staff: bool,
    features: u8,
    queue: Mutex<Queue>,
    bell: Notify,
}

impl Outbox {
    pub(super) fn of(listener: &Listener) -> Self {
        let Listener { person, is_staff, features, .. } = listener.clone();
        Self { person, is_staff, features, queue: Mutex::default(), bell: Notify::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame, if it is one for this socket.
    pub fn push(&self, frame: &Frame) {
        let text = if self.is_staff { &frame.staff } else { &frame.user };
        let Some(text) = text else { return };
        if frame.feature != 0 && frame.feature & self.features == 0 {
            return;
        }
        let mut queue = self.queue();
        if frame.seq > 0 && !queue.is_live {
            queue.missed = queue.missed.max(frame.seq);
            return;
        }
        if frame.feature == features::PRESENCE {
            if queue.presence.as_ref() == Some(text) {
                return;
            }
            queue.presence = Some(text.clone());
        }
        if queue.frames.len() >= MOST {
            queue.has_overflowed = true;
            queue.frames = VecDeque::new();
        } else if !queue.has_overflowed {
            queue.frames.push_back((frame.seq, text.clone()));
        }
        drop(queue);
        self.bell.notify_one();
    }

    /// What comes out next is [`Out::Doubt`], before what is in it already.
    pub(super) fn doubt(&self) {
        self.queue().is_doubted = true;
        self.bell.notify_one();
    }

    /// Whether there was a doubt; whoever asks settles it.
    #[must_use]
    pub fn take_doubt(&self) -> bool {
        std::mem::take(&mut self.queue().is_doubted)
    }

    /// Whether the socket asked for a feature.
    #[must_use]
    pub fn wants(&self, feature: u8) -> bool {
        self.features & feature != 0
    }

    /// From now on frames with a number are kept, if nothing after `cursor` was missed meanwhile;
    /// false: read on first.
    #[must_use]
    pub fn go_live(&self, cursor: i64) -> bool {
        let mut queue = self.queue();
        queue.is_live = queue.missed <= cursor;
        queue.is_live
    }

    /// The next frame.
    #[must_use]
    pub fn pop(&self) -> Out {
        let mut queue = self.queue();
        if std::mem::take(&mut queue.is_doubted) {
            return Out::Doubt;
        }
        if queue.has_overflowed {
            return Out::Overflow;
        }
        if let Some((seq, text)) = queue.frames.pop_front() {
            return Out::Frame(seq, text);
        }
        // What a burst took is given back: most sockets idle.
        queue.frames = VecDeque::new();
        Out::Empty
    }

    /// Returns when something may be in it.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }
}
