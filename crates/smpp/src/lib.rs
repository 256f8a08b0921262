//! SMPP 3.4, both sides: the codec, a session as a state machine, and a link that an ESME keeps up.
//!
//! Centres deviate from the specification, each in its own way. So what is read is bounded by
//! `command_length` and by nothing else: no field's length or content ends a session. What is
//! written keeps to the specification.
//!
//! - [`Pdu`]: one PDU to octets and back.
//! - [`Session`]: bind, window, `enquire_link`, `unbind`, without I/O.
//! - [`Connection`]: a session on a stream. The playground's centre is made of these.
//! - [`Link`]: what carries messages: connects, binds, submits at a pace, connects again.
//! - [`Receipt`], [`message_id`], [`validity`]: what is inside the fields.
//!
//! Nothing here knows accounts, prices or storage, and nothing is acknowledged to a centre before
//! the caller says so.

mod backoff;
mod connection;
mod frame;
mod link;
mod message;
pub mod message_id;
mod pace;
mod pdu;
mod receipt;
mod session;
mod status;
pub mod tlv;
pub mod validity;
mod window;
mod wire;

pub use backoff::Backoff;
pub use connection::{Connection, Stream};
pub use frame::{Frame, Framer, FramingLost, MOST_OCTETS};
pub use link::{
    Delivery, Lane, Link, LinkSettings, News, NotSent, Outcome, Phase, Place, Probe, Runner,
    Submission, Tls, probe, reach,
};
pub use message::{Address, EsmClass, Message, Operation, Sar};
pub use pace::Pace;
pub use pdu::{Bind, BindKind, BindResp, Body, Malformed, MessageResp, Pdu};
pub use receipt::{MessageState, NetworkError, Receipt};
pub use session::{Answer, Ended, Event, NotSendable, Session, SessionSettings, Ticket, TlsFault};
pub use status::{Status, StatusClass};
pub use tlv::Tlvs;
pub use wire::{COctets, EncodeError};
