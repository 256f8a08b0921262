//! The API keys of an account as staff sees and ends them; making one is for its owner.

pub mod api;
