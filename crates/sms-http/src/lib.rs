//! SMS gateways over HTTP: one description says how a message is requested, what the answers mean,
//! what callbacks bring and how they are verified. Six gateways are described here; another one is
//! a file of its own. Nothing here does I/O.
//!
//! ```
//! use sms_http::{Gateway, Message, Meaning};
//!
//! let gateway = Gateway::preset("twilio").unwrap();
//! let settings = [("username", "AC1"), ("password", "secret")];
//! let message = Message { to: "+33612345678", from: "ACME", text: "hi", ..Message::default() };
//! let request = gateway.request(&settings, &message).unwrap();
//! assert!(request.url.ends_with("/Accounts/AC1/Messages.json"));
//! let answer = gateway.read(201, br#"{"sid": "SM1", "status": "queued"}"#);
//! assert_eq!(answer.meaning, Meaning::Accepted);
//! assert_eq!(answer.ids, ["SM1"]);
//! ```

mod answer;
mod callback;
mod describe;
mod template;
mod verify;

pub use answer::{Answer, Meaning};
pub use callback::{Brought, Fate, Incoming, Part, Report, Written};
pub use describe::{Fault, Gateway};
pub use template::{Message, Request};
pub use verify::{Forged, Secrets};

/// The gateways that are described here.
pub const PRESETS: [&str; 6] =
    ["africastalking", "infobip", "jasmin", "kannel", "twilio", "vonage"];
