//! Stories of one-time passcodes.

mod address;
mod endings;
mod fields;
mod guess;
mod money;
mod send;
mod told;
mod watchdog;
