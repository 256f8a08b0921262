//! The digits of a number, where they are needed: on the stack.

use std::fmt;

/// Most digits without the country code.
pub(crate) const LONGEST: usize = 17;

/// At most [`LONGEST`] ASCII digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digits {
    bytes: [u8; LONGEST],
    length: u8,
}

impl Digits {
    /// These parts, one after the other. `None` when they are too many.
    pub(crate) fn of(parts: &[&[u8]]) -> Option<Self> {
        let (mut bytes, mut length) = ([0; LONGEST], 0_usize);
        for part in parts {
            let end = length + part.len();
            bytes.get_mut(length..end)?.copy_from_slice(part);
            length = end;
        }
        Some(Self { bytes, length: u8::try_from(length).ok()? })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.length)
    }
}

impl fmt::Debug for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} digits", self.length)
    }
}
