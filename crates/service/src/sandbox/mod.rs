//! Rank 8: virtual handsets and mailboxes over HTTP, so that a developer sees what a person would.
//! Only the sandbox has these routes.

pub mod api;
mod mailboxes;
mod replies;
mod shelf;
mod store;

pub use mailboxes::{StoredRack, forget_mail_of, forget_old_mail};
pub use shelf::{StoredShelf, forget_old};
