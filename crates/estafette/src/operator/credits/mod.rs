//! Credits as staff gives, takes and looks at them; the rules are those of the credits room.

pub mod api;
