//! Who shows that an email reaches them: proof of the address, and a new password in the place of
//! one that is forgotten.

pub mod api;
