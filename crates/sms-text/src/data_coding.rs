//! Which alphabet a `data_coding` octet names (3GPP TS 23.038 §4, SMPP 3.4 §5.2.19), and Latin-1.

use crate::{gsm7, ucs2};

/// How the octets of a message are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// The centre's default alphabet: nearly always unpacked GSM-7.
    Default,
    /// IA5 or ISO 8859-1.
    Latin1,
    /// UTF-16, high octet first.
    Ucs2,
    /// No text, or an alphabet that is not supported.
    Binary,
}

impl Alphabet {
    /// What a `data_coding` names.
    #[must_use]
    pub const fn of(data_coding: u8) -> Self {
        match data_coding {
            // SMPP 3.4 §5.2.19: IA5 (which Latin-1 contains) and ISO 8859-1.
            0x01 | 0x03 => Self::Latin1,
            // 3GPP TS 23.038 §4: general data coding, bits 3-2 are the alphabet.
            0x10..=0x1F | 0x40..=0x5F => match data_coding & 0x0C {
                0x00 => Self::Default,
                0x08 => Self::Ucs2,
                _ => Self::Binary,
            },
            // The default, and message waiting.
            0x00 | 0xC0..=0xDF => Self::Default,
            // UCS-2, and message waiting in it.
            0x08 | 0xE0..=0xEF => Self::Ucs2,
            // Data coding and message class: bit 2 is 8-bit data.
            0xF0..=0xFF if data_coding & 0x04 == 0 => Self::Default,
            _ => Self::Binary,
        }
    }

    /// The text of octets; `None` when they are no text.
    #[must_use]
    pub fn decode(self, octets: &[u8]) -> Option<String> {
        match self {
            Self::Default => Some(gsm7::decode(octets)),
            Self::Latin1 => Some(latin1(octets)),
            Self::Ucs2 => Some(ucs2::decode(octets)),
            Self::Binary => None,
        }
    }
}

/// The text of ISO 8859-1.
#[must_use]
pub fn latin1(octets: &[u8]) -> String {
    octets.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::Alphabet;

    #[test]
    fn data_codings_of_the_field_name_their_alphabet() {
        for default in [0x00, 0x10, 0x11, 0xC0, 0xD0, 0xF0, 0xF1, 0xF3] {
            assert_eq!(Alphabet::of(default), Alphabet::Default, "{default:#04x}");
        }
        for ucs2 in [0x08, 0x18, 0x19, 0xE0] {
            assert_eq!(Alphabet::of(ucs2), Alphabet::Ucs2, "{ucs2:#04x}");
        }
        for binary in [0x02, 0x04, 0x14, 0xF4, 0xF5, 0x0A, 0x80] {
            assert_eq!(Alphabet::of(binary), Alphabet::Binary, "{binary:#04x}");
        }
        assert_eq!(Alphabet::of(0x03).decode(&[0xE9]).as_deref(), Some("é"));
        assert_eq!(Alphabet::of(0x04).decode(&[0xE9]), None);
    }
}
