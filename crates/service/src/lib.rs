//! One-time passcodes and messages over chat-app, SMS and email, all billed in credits.
//! ARCHITECTURE.md in the root of the project is the map.

#![cfg_attr(
    not(feature = "describe"),
    allow(
        unused_imports,
        reason = "what a handler is described by is read only where that is made"
    )
)]

pub mod access;
pub mod app;
pub mod carriers;
pub mod chatapp;
pub mod chores;
pub mod cli;
pub mod config;
pub mod credits;
pub mod dispatch;
pub mod emails;
pub mod events;
pub mod inbound;
pub mod kit;
pub mod metrics;
pub mod notices;
pub mod operator;
pub mod otp;
pub mod profile;
pub mod retention;
pub mod rotation;
pub mod sandbox;
pub mod schema;
pub mod senders;
pub mod sms;
pub mod sockets;
pub mod support;
pub mod telemetry;
pub mod webhooks;
pub mod wiring;
