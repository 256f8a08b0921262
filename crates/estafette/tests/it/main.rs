//! The black-box suite: stories by domain over HTTP, on every storage engine, and the rules about
//! the code itself. The contract decides; where a story differs from it, the story is wrong.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a story that cannot go on has failed"
)]
#![expect(unreachable_pub, reason = "a test binary has no outside; pub means for all stories")]

mod access;
mod admin;
mod between;
mod canary;
mod chatapp;
mod circles;
mod conventions;
mod costs;
mod credits;
mod description;
mod dispatch;
mod doctor;
mod due;
mod edge;
mod emails;
mod erasure;
mod figures;
mod handsets;
mod idempotency;
mod inbound;
mod isolation;
mod lanes;
mod locked;
mod nodes;
mod numbers;
mod otp;
mod outputs;
mod parameters;
mod people;
mod postgres;
mod process;
mod proof;
mod repeats;
mod retention;
mod rotation;
mod signals;
mod smpp;
mod sms;
mod statements;
mod support;
mod tidy;
#[cfg(feature = "otlp")]
mod traces;
mod webhooks;
mod world;
