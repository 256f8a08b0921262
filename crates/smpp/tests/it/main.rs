//! Tests of the codec, of sessions and of links.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod codec;
mod links;
mod odd;
mod sessions;
mod throttling;
mod waits;
