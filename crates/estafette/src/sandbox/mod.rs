//! Rank 8: virtual handsets over HTTP, so that a developer sees what a phone would. Only the
//! sandbox has these routes.

pub mod api;
mod replies;
mod shelf;
mod store;

pub use shelf::{StoredShelf, forget_old};
