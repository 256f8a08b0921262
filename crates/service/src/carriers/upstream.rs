//! A request that an upstream makes to us, for the carrier that it is for.

use std::net::IpAddr;

/// A callback. No `Debug`: it holds what people wrote.
#[derive(Clone)]
pub struct Called {
    /// What is behind the question mark of its URL.
    pub query: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// The address that it comes from.
    pub from: Option<IpAddr>,
}

/// What became of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is stored; this is the answer that the upstream wants.
    Stored(String),
    /// It is to come again.
    NotNow,
    /// It is not the gateway's.
    Forged,
}
