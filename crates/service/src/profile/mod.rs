//! Rank 6: what users see of themselves, and how they come to be. It stands above `access` and
//! `credits`, because a new user gets play money and the profile shows what is left of it.

pub mod api;
pub mod recovery;
