//! The black-box suite: stories by domain over HTTP, on every storage engine, and the rules about
//! the code itself. The contract decides; where a story differs from it, the story is wrong.

mod access;
mod admin;
mod canary;
mod conventions;
mod credits;
mod idempotency;
mod isolation;
mod locked;
mod numbers;
mod otp;
mod statements;
mod tidy;
mod world;
