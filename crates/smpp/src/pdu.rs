//! One PDU: its header (SMPP 3.4 §3.2.1) and its body (§4).

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::message::{Message, Operation};
use crate::status::Status;
use crate::tlv::{Tlvs, tag};
use crate::wire::{COctets, EncodeError, Reader, put_c_octets};

/// Octets of a header.
pub(crate) const HEADER: usize = 16;

/// Set in the id of a response (SMPP 3.4 §5.1.2.1).
const RESPONSE: u32 = 0x8000_0000;

/// Which way messages go on a session (SMPP 3.4 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindKind {
    /// Only towards handsets.
    Transmitter,
    /// Only from handsets, and receipts.
    Receiver,
    /// Both.
    Transceiver,
}

impl BindKind {
    /// Whether the ESME may submit.
    #[must_use]
    pub const fn sends(self) -> bool {
        !matches!(self, Self::Receiver)
    }

    /// Whether the centre may deliver.
    #[must_use]
    pub const fn receives(self) -> bool {
        !matches!(self, Self::Transmitter)
    }
}

/// The body of the three bind requests (SMPP 3.4 §4.1.1).
#[derive(Clone, PartialEq, Eq)]
pub struct Bind {
    /// The login. The specification allows 15 octets (§5.2.1); carriers issue longer ones.
    pub system_id: COctets,
    /// The password. The specification allows 8 octets (§5.2.2); carriers issue longer ones.
    pub password: COctets,
    /// §5.2.3.
    pub system_type: COctets,
    /// §5.2.4: 0x34 is 3.4.
    pub interface_version: u8,
    /// §5.2.5.
    pub addr_ton: u8,
    /// §5.2.6.
    pub addr_npi: u8,
    /// §5.2.7.
    pub address_range: COctets,
}

impl Bind {
    /// Octets of a login or a password that are written.
    const MOST_LOGIN: usize = 64;

    /// With the defaults of 3.4.
    #[must_use]
    pub fn new(system_id: &str, password: &str) -> Self {
        Self {
            system_id: system_id.into(),
            password: password.into(),
            system_type: COctets::default(),
            interface_version: 0x34,
            addr_ton: 0,
            addr_npi: 0,
            address_range: COctets::default(),
        }
    }

    fn read(body: Bytes) -> Self {
        let mut from = Reader::new(body);
        Self {
            system_id: from.c_octets(),
            password: from.c_octets(),
            system_type: from.c_octets(),
            interface_version: from.octet().unwrap_or(0),
            addr_ton: from.octet().unwrap_or(0),
            addr_npi: from.octet().unwrap_or(0),
            address_range: from.c_octets(),
        }
    }

    fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_c_octets(out, "system_id", &self.system_id, Self::MOST_LOGIN)?;
        put_c_octets(out, "password", &self.password, Self::MOST_LOGIN)?;
        put_c_octets(out, "system_type", &self.system_type, 12)?;
        out.put_slice(&[self.interface_version, self.addr_ton, self.addr_npi]);
        put_c_octets(out, "address_range", &self.address_range, 40)
    }
}

impl fmt::Debug for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the password.
        f.debug_struct("Bind").field("system_id", &self.system_id).finish_non_exhaustive()
    }
}

/// The body of a bind response (SMPP 3.4 §4.1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindResp {
    /// What the centre calls itself, of any length.
    pub system_id: COctets,
    /// Optional parameters.
    pub tlvs: Tlvs,
}

impl BindResp {
    /// `sc_interface_version` (§5.3.2.25), where the centre tells it.
    #[must_use]
    pub fn version(&self) -> Option<u8> {
        self.tlvs.get(tag::SC_INTERFACE_VERSION)?.first().copied()
    }
}

/// The body of the responses to messages (SMPP 3.4 §4.4.2, §4.6.2, §4.7.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageResp {
    /// The centre's id of the message (§5.2.23); empty in `deliver_sm_resp` and in refusals.
    pub message_id: COctets,
    /// Optional parameters.
    pub tlvs: Tlvs,
}

impl MessageResp {
    /// Octets of an id that are written (§5.2.23, without the NUL); any number is read.
    const MOST_ID: usize = 64;
}

/// What a PDU says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// `bind_transmitter`, `bind_receiver`, `bind_transceiver` (§4.1).
    Bind(BindKind, Bind),
    /// Their responses.
    BindResp(BindKind, BindResp),
    /// `submit_sm` (§4.4), `deliver_sm` (§4.6), `data_sm` (§4.7).
    Message(Operation, Message),
    /// Their responses.
    MessageResp(Operation, MessageResp),
    /// `unbind` (§4.2).
    Unbind,
    /// `unbind_resp`.
    UnbindResp,
    /// `enquire_link` (§4.11).
    EnquireLink,
    /// `enquire_link_resp`.
    EnquireLinkResp,
    /// `generic_nack` (§4.3).
    GenericNack,
    /// `alert_notification` (§4.12), which has no response. Its body is not looked at.
    AlertNotification,
    /// Any other command, by its id.
    Unknown(u32),
}

impl Body {
    /// `command_id` (SMPP 3.4 §5.1.2.1).
    #[must_use]
    pub const fn command_id(&self) -> u32 {
        match self {
            Self::Bind(kind, _) => bind_id(*kind),
            Self::BindResp(kind, _) => RESPONSE | bind_id(*kind),
            Self::Message(operation, _) => message_id(*operation),
            Self::MessageResp(operation, _) => RESPONSE | message_id(*operation),
            Self::Unbind => 0x06,
            Self::UnbindResp => RESPONSE | 0x06,
            Self::EnquireLink => 0x15,
            Self::EnquireLinkResp => RESPONSE | 0x15,
            Self::GenericNack => RESPONSE,
            Self::AlertNotification => 0x102,
            Self::Unknown(id) => *id,
        }
    }

    /// Whether it answers something.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        self.command_id() & RESPONSE != 0
    }

    /// `None`: a message that ends before its text.
    fn read(command_id: u32, body: Bytes) -> Option<Self> {
        let kind = match command_id & !RESPONSE {
            0x01 => Some(BindKind::Receiver),
            0x02 => Some(BindKind::Transmitter),
            0x09 => Some(BindKind::Transceiver),
            _ => None,
        };
        let operation = match command_id & !RESPONSE {
            0x04 => Some(Operation::Submit),
            0x05 => Some(Operation::Deliver),
            0x103 => Some(Operation::Data),
            _ => None,
        };
        let is_response = command_id & RESPONSE != 0;
        Some(match (kind, operation, command_id) {
            (Some(kind), _, _) if is_response => Self::BindResp(kind, {
                let mut from = Reader::new(body);
                BindResp { system_id: from.c_octets(), tlvs: Tlvs::of(from.rest()) }
            }),
            (Some(kind), ..) => Self::Bind(kind, Bind::read(body)),
            (_, Some(operation), _) if is_response => Self::MessageResp(operation, {
                let mut from = Reader::new(body);
                MessageResp { message_id: from.c_octets(), tlvs: Tlvs::of(from.rest()) }
            }),
            (_, Some(operation), _) => Self::Message(operation, Message::read(operation, body)?),
            (.., 0x06) => Self::Unbind,
            (.., 0x8000_0006) => Self::UnbindResp,
            (.., 0x15) => Self::EnquireLink,
            (.., 0x8000_0015) => Self::EnquireLinkResp,
            (.., RESPONSE) => Self::GenericNack,
            (.., 0x102) => Self::AlertNotification,
            (.., id) => Self::Unknown(id),
        })
    }

    fn write(&self, status: Status, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self {
            Self::Bind(_, bind) => bind.write(out),
            // SMPP 3.4 §4.1.2, §4.4.2: no body if the request was refused. `deliver_sm_resp` keeps
            // its empty id: centres have been seen that read it in any case.
            Self::BindResp(..) | Self::MessageResp(Operation::Submit | Operation::Data, _)
                if !status.is_ok() =>
            {
                Ok(())
            }
            Self::BindResp(_, resp) => {
                put_c_octets(out, "system_id", &resp.system_id, Bind::MOST_LOGIN)?;
                out.put_slice(resp.tlvs.raw());
                Ok(())
            }
            Self::Message(operation, message) => message.write(*operation, out),
            Self::MessageResp(_, resp) => {
                put_c_octets(out, "message_id", &resp.message_id, MessageResp::MOST_ID)?;
                out.put_slice(resp.tlvs.raw());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

const fn bind_id(kind: BindKind) -> u32 {
    match kind {
        BindKind::Receiver => 0x01,
        BindKind::Transmitter => 0x02,
        BindKind::Transceiver => 0x09,
    }
}

const fn message_id(operation: Operation) -> u32 {
    match operation {
        Operation::Submit => 0x04,
        Operation::Deliver => 0x05,
        Operation::Data => 0x103,
    }
}

/// A PDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    /// `command_status` (§5.1.3); 0 in requests.
    pub status: Status,
    /// `sequence_number` (§5.1.4): 1 to 0x7FFFFFFF.
    pub sequence: u32,
    /// The command and what belongs to it.
    pub body: Body,
}

/// A request whose body ends too early to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body of a {operation:?} ends too early")]
pub struct Malformed {
    /// Which request.
    pub operation: Operation,
    /// Its number, for the answer.
    pub sequence: u32,
}

impl Pdu {
    /// A request.
    #[must_use]
    pub const fn request(sequence: u32, body: Body) -> Self {
        Self { status: Status::ROK, sequence, body }
    }

    /// Reads one whole PDU. Fields of any length and content are taken, missing ones at the end
    /// are empty, spare octets are ignored.
    ///
    /// # Errors
    /// [`Malformed`]: a message whose fields before the text are not all there.
    pub fn decode(mut frame: Bytes) -> Result<Self, Malformed> {
        let header = frame.split_to(HEADER.min(frame.len()));
        let field = |at: usize| header.get(at..).and_then(|mut rest| rest.try_get_u32().ok());
        let (command_id, status) = (field(4).unwrap_or(0), field(8).unwrap_or(0));
        let sequence = field(12).unwrap_or(0);
        match Body::read(command_id, frame) {
            Some(body) => Ok(Self { status: Status(status), sequence, body }),
            None => Err(Malformed { operation: operation_of(command_id), sequence }),
        }
    }

    /// Appends it, or nothing.
    ///
    /// # Errors
    /// A field that is too long or contains a NUL.
    pub fn encode_into(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let start = out.len();
        out.put_u32(0);
        out.put_u32(self.body.command_id());
        out.put_u32(self.status.0);
        out.put_u32(self.sequence);
        let written = self.body.write(self.status, out);
        let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
        if written.is_err() {
            out.truncate(start);
        } else if let Some(field) = out.get_mut(start..start + 4) {
            field.copy_from_slice(&length.to_be_bytes());
        }
        written
    }
}

const fn operation_of(command_id: u32) -> Operation {
    match command_id {
        0x05 => Operation::Deliver,
        0x103 => Operation::Data,
        _ => Operation::Submit,
    }
}
