//! Which alphabet a `data_coding` octet names (3GPP TS 23.038 §4, SMPP 3.4 §5.2.19), and Latin-1.

use encoding_rs::{EUC_KR, Encoding, ISO_2022_JP, ISO_8859_5, ISO_8859_8, SHIFT_JIS};

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
    /// An alphabet of some countries.
    National(&'static Encoding),
    /// No text, or nobody knows in which alphabet.
    Binary,
}

impl Alphabet {
    /// What a `data_coding` names.
    #[must_use]
    pub fn of(data_coding: u8) -> Self {
        match data_coding {
            // SMPP 3.4 §5.2.19: IA5 (which Latin-1 contains) and ISO 8859-1.
            0x01 | 0x03 => Self::Latin1,
            0x05 => Self::National(SHIFT_JIS),
            0x06 => Self::National(ISO_8859_5),
            0x07 => Self::National(ISO_8859_8),
            0x0A => Self::National(ISO_2022_JP),
            0x0E => Self::National(EUC_KR),
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
            Self::National(encoding) => {
                Some(encoding.decode_without_bom_handling(octets).0.into_owned())
            }
            // Some phones and centres send plain words so.
            Self::Binary if !octets.is_empty() && octets.iter().copied().all(is_plain) => {
                Some(latin1(octets))
            }
            Self::Binary => None,
        }
    }
}

const fn is_plain(octet: u8) -> bool {
    matches!(octet, b' '..=b'~' | b'\n' | b'\r')
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
        for binary in [0x02, 0x04, 0x14, 0xF4, 0xF5, 0x09, 0x80] {
            assert_eq!(Alphabet::of(binary), Alphabet::Binary, "{binary:#04x}");
        }
        assert_eq!(Alphabet::of(0x03).decode(&[0xE9]).as_deref(), Some("é"));
        assert_eq!(Alphabet::of(0x04).decode(&[0xE9]), None);
        assert_eq!(Alphabet::of(0x04).decode(b"STOP").as_deref(), Some("STOP"));
    }

    #[test]
    fn national_alphabets_are_read() {
        for (data_coding, octets, text) in [
            (0x05, &b"\x83e\x83X\x83g"[..], "テスト"),
            (0x06, b"\xC2\xD5\xE1\xE2", "Тест"),
            (0x07, b"\xF9\xEC\xE5\xED", "שלום"),
            (0x0A, b"\x1B$B%F%9%H\x1B(B", "テスト"),
            (0x0E, b"\xBE\xC8\xB3\xE7", "안녕"),
        ] {
            let found = Alphabet::of(data_coding).decode(octets);
            assert_eq!(found.as_deref(), Some(text), "{data_coding:#04x}");
        }
    }
}
