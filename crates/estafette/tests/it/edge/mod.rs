//! The edge: no client can hold it up, whatever it sends or does not send, and each is told apart
//! from the others. These stories speak to it byte by byte.

mod drain;
mod files;
mod greedy;
mod heads;
mod http2;
mod limits;
mod proxies;
mod slow;
mod tls;
mod wire;
