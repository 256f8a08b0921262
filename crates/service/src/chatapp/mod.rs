//! Rank 7: the chat-app. Messages and templates, and the sessions in which a person lets an account
//! write freely for a day.
//!
//! `otp` builds on this room: a passcode that was delivered may be followed by a prompt
//! ([`sessions::want`]). What people answer comes in through `inbound`, which asks [`hear`] what is
//! to be written beside it.

pub mod links;
pub mod messages;
pub mod retention;
pub mod sessions;
pub mod templates;
pub mod upstream;

pub use messages::{Chatapp, sent_to, show as show_message, template_language};
pub use sessions::Wanted;
pub use sessions::{Prompt, hear, oldest_due, run, run_due, show as show_session, want};

/// The provider of every message, in the neutral word of the API.
const PROVIDER: &str = "svc";
/// By so much the upstream's clock may be behind ours, milliseconds.
const CLOCKS_DIFFER_MS: i64 = clock::MINUTE;

/// What goes wrong when something is forgotten.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A read failed.
    #[error(transparent)]
    Db(#[from] ::store::Error),
    /// A write failed.
    #[error(transparent)]
    Commit(#[from] ::store::CommitError),
}
