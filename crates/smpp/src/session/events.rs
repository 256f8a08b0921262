//! What goes into a session and comes out of it.

use std::fmt;
use std::io::ErrorKind;

use crate::message::{Message, Operation};
use crate::pdu::{Bind, BindKind, BindResp};
use crate::status::Status;
use crate::wire::{COctets, EncodeError};

/// Times and bounds of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// How many requests may wait for their responses.
    pub window: usize,
    /// How many received messages may wait for [`Session::answer`]. Further ones are sent back to
    /// come again later.
    pub inbound: usize,
    /// After this silence `enquire_link` is sent, milliseconds.
    pub enquire_ms: i64,
    /// How long a response may take, milliseconds.
    pub response_ms: i64,
    /// How long the other side's `unbind` waits for open requests, milliseconds.
    pub unbind_ms: i64,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { window: 10, inbound: 256, enquire_ms: 30_000, response_ms: 10_000, unbind_ms: 2_000 }
    }
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The centre refused the bind.
    BindRefused(Status),
    /// Nobody bound, or the bind was not answered, in time.
    BindTimeout,
    /// `enquire_link` was not answered twice.
    Silent,
    /// A `command_length` that no PDU has.
    FramingLost(u32),
    /// The centre answered a message with a status that blames the session: we unbound.
    Blamed(Status),
    /// We unbound.
    Unbound,
    /// The other side unbound.
    UnboundByPeer,
    /// The connection ended.
    Disconnected(ErrorKind),
    /// There is no connection by TLS.
    NoTls(TlsFault),
    /// The bind could not be written.
    Unwritable(EncodeError),
}

/// Why there is no TLS with a centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// What answers is not TLS.
    Plain,
    /// Nobody whom we trust signed the certificate.
    Issuer,
    /// The certificate is its own authority's, which no server may show (RFC 5280 §4.2.1.9).
    SelfSigned,
    /// It is another's.
    Name,
    /// It is over, or has not begun.
    Time,
    /// Anything else.
    Other,
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "what answers does not speak TLS; see port and tls",
            Self::Issuer => {
                "its certificate is signed by an authority that is not trusted; see ca_file"
            }
            Self::SelfSigned => "its certificate is an authority's own, not one that it has signed",
            Self::Name => "its certificate is for another name; see host",
            Self::Time => "its certificate has expired, or is not valid yet",
            Self::Other => "the handshake does not succeed",
        })
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BindRefused(status) => write!(f, "the carrier refuses the bind with {status}"),
            Self::Blamed(status) => {
                write!(f, "the carrier answers that the session is not in order: {status}")
            }
            Self::BindTimeout => f.write_str("the carrier does not answer the bind"),
            Self::Disconnected(kind) => match kind {
                ErrorKind::NotFound => f.write_str("the carrier's name cannot be looked up"),
                ErrorKind::UnexpectedEof => f.write_str("the carrier closed the connection"),
                kind => write!(f, "no connection: {kind}"),
            },
            Self::NoTls(fault) => write!(f, "TLS with the carrier failed: {fault}"),
            Self::FramingLost(_) => f.write_str("what answers does not speak SMPP"),
            Self::UnboundByPeer => f.write_str("the carrier ended the session"),
            Self::Silent => f.write_str("the carrier does not answer enquire_link"),
            Self::Unbound => f.write_str("the session was ended"),
            Self::Unwritable(error) => write!(f, "{error}"),
        }
    }
}

/// A received message that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) sequence: u32,
    pub(super) operation: Operation,
}

/// A response to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What [`Session::send`] was given.
    pub key: u64,
    /// What became of it.
    pub status: Status,
    /// The centre's id of it.
    pub message_id: COctets,
    /// How long the answer took, milliseconds.
    pub took_ms: i64,
}

/// What happened on a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Centre: answer with [`Session::accept_bind`] or [`Session::refuse_bind`].
    BindRequested(BindKind, Bind),
    /// ESME: the centre accepted the bind.
    Bound(BindResp),
    /// A message was answered.
    Answered(Answer),
    /// A message was answered after [`Event::Unanswered`].
    AnsweredLate(Answer),
    /// A message has no answer in time: nobody knows whether it was taken.
    Unanswered(u64),
    /// The other side owes an answer to an enquiry for too long; see [`Session::is_silent`].
    Silent,
    /// It was silent, and something came.
    Heard,
    /// A message came; answer with [`Session::answer`].
    Message(Ticket, Operation, Message),
    /// Nothing comes after this.
    Ended(Ended),
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSendable {
    /// There is no bind, it is ending, or it does not go this way.
    #[error("the session is not bound for this")]
    NotBound,
    /// [`SessionSettings::window`] requests wait.
    #[error("the window is full")]
    WindowFull,
    /// It cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::Ended;

    #[test]
    fn an_operator_reads_why_a_session_is_over() {
        for (why, told) in [
            (Ended::Disconnected(ErrorKind::NotFound), "the carrier's name cannot be looked up"),
            (
                Ended::Disconnected(ErrorKind::ConnectionRefused),
                "no connection: connection refused",
            ),
            (Ended::FramingLost(0x4854_5450), "what answers does not speak SMPP"),
        ] {
            assert_eq!(why.to_string(), told);
        }
    }
}
