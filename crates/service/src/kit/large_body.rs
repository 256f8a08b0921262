//! Bodies of emails, which may be large: they are read only after it is known who sends, and an
//! account holds only its share of the memory that is there for them.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::{Mutex, PoisonError};

use axum::body::{Body, Bytes};
use futures_util::StreamExt;

use super::id::AccountId;
use super::problem::Problem;
use super::problem_code::Code;
use super::upload::Cut;

/// Largest body, bytes.
pub const LARGEST: usize = 10 * 1024 * 1024;
/// Bodies up to this size, bytes, are everybody's right, as at every other endpoint.
const SMALL: usize = 256 * 1024;
/// Bytes beyond that of all bodies of one room together.
const ALL: usize = 96 * 1024 * 1024;
/// And of those of one account.
const OF_ONE: usize = 32 * 1024 * 1024;

/// What is held of the bodies that share their memory, by account.
#[derive(Debug)]
pub struct Room(Mutex<Option<HashMap<String, usize>>>);

impl Room {
    /// An empty one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is made in a static only")]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }
}

/// The memory of one body, until it is dropped.
struct Share {
    room: &'static Room,
    account: String,
    bytes: usize,
}

impl Share {
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let mut held = self.room.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.get_or_insert_default();
        let all: usize = held.values().sum();
        let own = held.entry(self.account.clone()).or_default();
        if all + bytes > ALL || *own + bytes > OF_ONE {
            let detail = "Too many large emails are coming in. Send some of them, then the rest.";
            return Err(Problem::new(Code::Overloaded).detail(detail));
        }
        *own += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.room.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.get_or_insert_default();
        if let Some(own) = held.get_mut(&self.account) {
            *own -= self.bytes.min(*own);
            if *own == 0 {
                held.remove(&self.account);
            }
        }
    }
}

/// A body, and the memory that it takes.
pub struct Large {
    /// All of it.
    pub bytes: Bytes,
    _share: Share,
}

/// Reads a body, into the memory of a room.
///
/// # Errors
/// 413 `payload_too_large`, 408 `request_timeout`, 400 for one that breaks off, 503 `overloaded`.
pub async fn read(room: &'static Room, account: &AccountId, body: Body) -> Result<Large, Problem> {
    let mut share = Share { room, account: account.as_str().to_owned(), bytes: 0 };
    let mut frames = body.into_data_stream();
    let mut all = Vec::new();
    while let Some(frame) = frames.next().await {
        let frame = frame.map_err(|error| cut(&error))?;
        if all.len() + frame.len() > LARGEST {
            return Err(cut_off(too_large()));
        }
        // What a body takes in memory is at most twice its length, while it grows.
        if all.len() + frame.len() > SMALL {
            share.grow(frame.len()).map_err(cut_off)?;
        }
        all.extend_from_slice(&frame);
    }
    Ok(Large { bytes: all.into(), _share: share })
}

fn too_large() -> Problem {
    Problem::new(Code::PayloadTooLarge)
        .detail("The body of an email request may have 10 MiB. Send less.")
}

fn cut(error: &axum::Error) -> Problem {
    let mut cause = error.source();
    while let Some(inner) = cause {
        match inner.downcast_ref::<Cut>() {
            Some(Cut::TooLarge) => return cut_off(too_large()),
            Some(cut) => return Problem::from(*cut),
            None => cause = inner.source(),
        }
    }
    Problem::from(Cut::Broken)
}

/// What is left of the body is not read.
fn cut_off(problem: Problem) -> Problem {
    problem.header("connection", axum::http::HeaderValue::from_static("close"))
}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE: Room = Room::new();
    static OTHER: Room = Room::new();

    #[test]
    fn what_one_room_holds_takes_nothing_from_another() {
        let share = |room, number: usize| Share { room, account: number.to_string(), bytes: 0 };
        let mut full: Vec<Share> = (0..ALL / OF_ONE).map(|number| share(&ONE, number)).collect();
        assert!(full.iter_mut().all(|share| share.grow(OF_ONE).is_ok()));
        assert!(share(&ONE, 9).grow(1).is_err(), "all of it is held");
        assert!(share(&OTHER, 0).grow(OF_ONE).is_ok());
        full.pop();
        assert!(share(&ONE, 9).grow(1).is_ok());
    }
}
