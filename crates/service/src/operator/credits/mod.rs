//! Credits as staff grant, correct and view them; the rules are those of the credits room.

pub mod api;
