//! The chat-app's Cloud API as data: what templates may be, and what goes over the wire. Pure; who
//! connects is elsewhere.

pub mod answer;
pub mod business;
pub mod callback;
pub mod contents;
mod envelope;
pub mod judge;
pub mod message;
mod salvage;
pub mod template;
