//! SMTP (RFC 5321). The sending side: one transaction for one recipient, on a connection that is
//! used again. An outcome says what is certain: the server took the message, or it did not, or
//! nobody knows, which is so from the final dot until its answer. And a receiving side, within
//! bounds, for reports that come back ([`server`]).

mod client;
mod reply;
pub mod server;
mod transcript;

pub use client::{Client, Envelope, Error, Extensions, Sent, Stage};
pub use reply::Reply;
pub use transcript::Transcript;
