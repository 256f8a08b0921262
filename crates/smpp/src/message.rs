//! The message inside `submit_sm`, `deliver_sm` and `data_sm`: they differ in a few fields only
//! (SMPP 3.4 §4.4.1, §4.6.1, §4.7.1).

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::tlv::{Tlvs, tag};
use crate::wire::{COctets, EncodeError, Reader, put_c_octets};

/// Which PDU carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `submit_sm`: towards a handset.
    Submit,
    /// `deliver_sm`: from a handset, or a receipt.
    Deliver,
    /// `data_sm`: either way, the text in a TLV.
    Data,
}

/// An address with its type of number and numbering plan (SMPP 3.4 §5.2.5 to §5.2.9).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Address {
    /// Type of number (§5.2.5): 1 international, 3 network specific, 5 alphanumeric.
    pub ton: u8,
    /// Numbering plan (§5.2.6): 1 E.164, 0 unknown.
    pub npi: u8,
    /// Digits or letters.
    pub value: COctets,
}

impl Address {
    /// Octets that an address may have (§5.2.8, without the NUL; of `data_sm` more are allowed).
    pub const MOST: usize = 20;

    /// An international number, digits only.
    #[must_use]
    pub fn international(digits: &str) -> Self {
        Self { ton: 1, npi: 1, value: digits.into() }
    }

    /// A name as sender.
    #[must_use]
    pub fn alphanumeric(name: &str) -> Self {
        Self { ton: 5, npi: 0, value: name.into() }
    }

    fn read(from: &mut Reader) -> Option<Self> {
        Some(Self { ton: from.octet()?, npi: from.octet()?, value: from.c_octets() })
    }

    fn write(&self, out: &mut BytesMut, field: &'static str) -> Result<(), EncodeError> {
        out.put_slice(&[self.ton, self.npi]);
        put_c_octets(out, field, &self.value, Self::MOST)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the value: it is somebody's number.
        write!(f, "Address({}/{}, {} octets)", self.ton, self.npi, self.value.as_bytes().len())
    }
}

/// A message. Empty fields are the centre's defaults.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// §5.2.11.
    pub service_type: COctets,
    /// §5.2.8.
    pub source: Address,
    /// §5.2.9.
    pub destination: Address,
    /// Mode, type and features (§5.2.12).
    pub esm_class: EsmClass,
    /// §5.2.13.
    pub protocol_id: u8,
    /// §5.2.14.
    pub priority_flag: u8,
    /// §5.2.15.
    pub schedule_delivery_time: COctets,
    /// §5.2.16; made by [`crate::validity`].
    pub validity_period: COctets,
    /// Which receipts are wanted (§5.2.17): 1 all final, 2 failures, 0x10 also on the way.
    pub registered_delivery: u8,
    /// §5.2.18.
    pub replace_if_present_flag: u8,
    /// The alphabet (§5.2.19).
    pub data_coding: u8,
    /// §5.2.20.
    pub sm_default_msg_id: u8,
    /// The text, at most 254 octets (§5.2.22); a longer one goes into `message_payload`.
    pub short_message: Bytes,
    /// Optional parameters.
    pub tlvs: Tlvs,
}

impl Message {
    /// Octets of `short_message` (§5.2.21).
    pub const MOST_SHORT: usize = 254;

    /// The text with its header, wherever it is: `message_payload` (§5.3.2.32) or `short_message`.
    #[must_use]
    pub fn body(&self) -> Bytes {
        // Some centres add an empty one to each message.
        let payload = self.tlvs.get(tag::MESSAGE_PAYLOAD).filter(|payload| !payload.is_empty());
        payload.unwrap_or_else(|| self.short_message.clone())
    }

    /// The part that TLVs say this is (§5.3.2.22): reference, total, number.
    #[must_use]
    pub fn sar(&self) -> Option<Sar> {
        let octet = |tag| self.tlvs.get(tag)?.last().copied();
        let reference = self.tlvs.get(tag::SAR_MSG_REF_NUM)?;
        let reference = match *reference {
            [low] => u16::from(low),
            [high, low, ..] => u16::from_be_bytes([high, low]),
            [] => return None,
        };
        let total = octet(tag::SAR_TOTAL_SEGMENTS)?;
        let number = octet(tag::SAR_SEGMENT_SEQNUM)?;
        (1..=total).contains(&number).then_some(Sar { reference, total, number })
    }

    /// Reads the body of a PDU; `None` if it ends before the text.
    pub(crate) fn read(operation: Operation, body: Bytes) -> Option<Self> {
        let mut from = Reader::new(body);
        let mut message = Self {
            service_type: from.c_octets(),
            source: Address::read(&mut from)?,
            destination: Address::read(&mut from)?,
            esm_class: EsmClass(from.octet()?),
            ..Self::default()
        };
        if operation == Operation::Data {
            message.registered_delivery = from.octet()?;
            message.data_coding = from.octet()?;
        } else {
            message.protocol_id = from.octet()?;
            message.priority_flag = from.octet()?;
            message.schedule_delivery_time = from.c_octets();
            message.validity_period = from.c_octets();
            message.registered_delivery = from.octet()?;
            message.replace_if_present_flag = from.octet()?;
            message.data_coding = from.octet()?;
            message.sm_default_msg_id = from.octet()?;
            let length = from.octet().unwrap_or(0);
            message.short_message = from.octets(usize::from(length));
        }
        message.tlvs = Tlvs::of(from.rest());
        Some(message)
    }

    /// Writes the body of a PDU. `data_sm` has no fields for times and text; they are left out.
    pub(crate) fn write(
        &self,
        operation: Operation,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        put_c_octets(out, "service_type", &self.service_type, 5)?;
        self.source.write(out, "source_addr")?;
        self.destination.write(out, "destination_addr")?;
        out.put_u8(self.esm_class.0);
        if operation == Operation::Data {
            out.put_slice(&[self.registered_delivery, self.data_coding]);
        } else {
            out.put_slice(&[self.protocol_id, self.priority_flag]);
            put_c_octets(out, "schedule_delivery_time", &self.schedule_delivery_time, 16)?;
            put_c_octets(out, "validity_period", &self.validity_period, 16)?;
            out.put_slice(&[
                self.registered_delivery,
                self.replace_if_present_flag,
                self.data_coding,
                self.sm_default_msg_id,
            ]);
            let too_long = EncodeError::TooLong { field: "short_message", most: Self::MOST_SHORT };
            let length = u8::try_from(self.short_message.len()).map_err(|_| too_long)?;
            if usize::from(length) > Self::MOST_SHORT {
                return Err(too_long);
            }
            out.put_u8(length);
            out.put_slice(&self.short_message);
        }
        out.put_slice(self.tlvs.raw());
        Ok(())
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the text nor the numbers.
        f.debug_struct("Message")
            .field("source", &self.source)
            .field("destination", &self.destination)
            .field("esm_class", &self.esm_class)
            .field("data_coding", &self.data_coding)
            .field("octets", &self.short_message.len())
            .field("tlvs", &self.tlvs)
            .finish_non_exhaustive()
    }
}

/// Which part of which message, by TLVs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sar {
    /// Shared by all parts.
    pub reference: u16,
    /// How many there are.
    pub total: u8,
    /// Which one this is, from 1.
    pub number: u8,
}

/// `esm_class` (SMPP 3.4 §5.2.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EsmClass(pub u8);

impl EsmClass {
    /// The text begins with a user data header.
    pub const UDHI: u8 = 0x40;
    /// Bits 5 to 2: what kind of message it is.
    const TYPE: u8 = 0x3C;

    /// Whether the text begins with a user data header.
    #[must_use]
    pub const fn has_header(self) -> bool {
        self.0 & Self::UDHI != 0
    }

    /// Whether it is a receipt about a final state.
    #[must_use]
    pub const fn is_receipt(self) -> bool {
        self.0 & Self::TYPE == 0x04
    }

    /// Whether it is a notification on the way.
    #[must_use]
    pub const fn is_intermediate(self) -> bool {
        self.0 & Self::TYPE == 0x20
    }
}
