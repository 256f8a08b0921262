//! Simulated upstreams as real servers on this machine, so that a whole deployment can be tried
//! without anyone's account. So far: the webhook sink. Further ones come with their carriers.

mod webhook_sink;

pub use webhook_sink::{MAX_BODY_BYTES, Received, WebhookSink};
