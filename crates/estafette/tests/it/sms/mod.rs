//! Stories of SMS messages.

mod carriers;
mod endings;
mod fields;
mod forgetting;
mod listing;
mod money;
mod told;
