//! The sending side of SMTP (RFC 5321): one transaction for one recipient, on a connection that is
//! used again. An outcome says what is certain: the server took the message, or it did not, or
//! nobody knows, which is so from the final dot until its answer.

mod client;
mod reply;

pub use client::{Client, Envelope, Error, Extensions, Sent, Stage};
pub use reply::Reply;
