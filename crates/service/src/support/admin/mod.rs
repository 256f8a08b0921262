//! The side of staff: all tickets of all accounts, notes, and what else staff do with them.

pub mod api;
