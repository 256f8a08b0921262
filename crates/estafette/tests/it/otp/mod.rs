//! Stories of one-time passcodes.

mod address;
mod endings;
mod faults;
mod fields;
mod fraud;
mod guess;
mod limits;
mod listing;
mod money;
mod queued;
mod resend;
mod send;
mod told;
mod watchdog;
