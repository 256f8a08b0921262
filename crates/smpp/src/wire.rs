//! Reading and writing the two kinds of fields that SMPP has (SMPP 3.4 §3.1): integers and octet
//! strings. Reading is lenient and never leaves its PDU; writing is strict.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// A C-octet string without its NUL (SMPP 3.4 §3.1). Whatever octets came; shown as Latin-1.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct COctets(Bytes);

impl COctets {
    /// The octets.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for COctets {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for COctets {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&[u8]> for COctets {
    fn from(octets: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(octets))
    }
}

impl From<Bytes> for COctets {
    fn from(octets: Bytes) -> Self {
        Self(octets)
    }
}

impl fmt::Display for COctets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{}", char::from(*octet)))
    }
}

impl fmt::Debug for COctets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// What a PDU cannot be written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A field is longer than it may be.
    #[error("{field} is longer than {most} octets")]
    TooLong {
        /// The field's name in the specification.
        field: &'static str,
        /// Octets that it may have.
        most: usize,
    },
    /// A C-octet string with a NUL inside.
    #[error("{field} contains a NUL")]
    Nul {
        /// The field's name in the specification.
        field: &'static str,
    },
}

/// Reads the body of one PDU.
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) const fn new(body: Bytes) -> Self {
        Self(body)
    }

    /// The next octet; `None` at the end.
    pub(crate) fn octet(&mut self) -> Option<u8> {
        self.0.try_get_u8().ok()
    }

    /// Up to the NUL, which some leave out at the end of a PDU.
    pub(crate) fn c_octets(&mut self) -> COctets {
        let end = self.0.iter().position(|octet| *octet == 0);
        let value = self.0.split_to(end.unwrap_or(self.0.len()));
        if end.is_some() {
            self.0.advance(1);
        }
        COctets(value)
    }

    /// This many octets, or what there is.
    pub(crate) fn octets(&mut self, count: usize) -> Bytes {
        self.0.split_to(count.min(self.0.len()))
    }

    pub(crate) fn rest(self) -> Bytes {
        self.0
    }
}

/// Appends a C-octet string of at most `most` octets and its NUL.
pub(crate) fn put_c_octets(
    out: &mut BytesMut,
    field: &'static str,
    value: &COctets,
    most: usize,
) -> Result<(), EncodeError> {
    if value.0.len() > most {
        return Err(EncodeError::TooLong { field, most });
    }
    if value.0.contains(&0) {
        return Err(EncodeError::Nul { field });
    }
    out.put_slice(&value.0);
    out.put_u8(0);
    Ok(())
}
