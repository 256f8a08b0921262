//! Email as it is written: addresses, messages, signatures (DKIM), return paths that nobody can
//! forge, and reports of what became of a message. Pure: no network, no clock, no
//! chance of its own.

mod address;
pub mod compose;
pub mod dkim;
pub mod keys;
mod parsed;
mod parts;
pub mod read;
pub mod report;
pub mod status;
pub mod verp;

pub use address::{Address, AddressError, Mailbox, domain_in_unicode, domain_of};
pub use compose::{Attachment, Draft};
