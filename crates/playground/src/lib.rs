//! Simulated upstreams as real servers on this machine, so that a whole deployment can be tried
//! without anyone's account. So far: receivers of webhooks, good ones and bad ones, a name server
//! that says what it is told to, a message centre, and a Cloud API. Further ones come with their
//! carriers.

pub mod cloud_api;
mod name_server;
mod receiver_zoo;
pub mod smsc;
mod webhook_sink;

pub use name_server::{NameServer, Record};
pub use receiver_zoo::{ReceiverZoo, Visit};
pub use webhook_sink::{MAX_BODY_BYTES, Received, Signature, WebhookSink};
