//! The header in front of the text of a part that says which part of which message it is
//! (3GPP TS 23.040 §9.2.3.24).

/// Concatenated short messages, 8-bit reference (§9.2.3.24.1).
const IEI_OCTET: u8 = 0x00;
/// Concatenated short messages, 16-bit reference (§9.2.3.24.8).
const IEI_WORD: u8 = 0x08;

/// The size of the reference that the parts of a message share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reference {
    /// 8 bits: parts of 153 septets or 67 units.
    Octet,
    /// 16 bits: parts of 152 septets or 66 units.
    Word,
}

impl Reference {
    /// Octets of the whole header.
    #[must_use]
    pub const fn header_octets(self) -> usize {
        match self {
            Self::Octet => 6,
            Self::Word => 7,
        }
    }
}

/// Which part of which message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concatenation {
    /// The size of the reference.
    pub kind: Reference,
    /// The reference; of an 8-bit one the low octet counts.
    pub reference: u16,
    /// How many parts there are, 1 to 255.
    pub total: u8,
    /// Which one this is, 1 to `total`.
    pub number: u8,
}

impl Concatenation {
    /// Appends the header: its length, and this element.
    pub fn encode_into(self, octets: &mut Vec<u8>) {
        let [high, low] = self.reference.to_be_bytes();
        match self.kind {
            Reference::Octet => octets.extend([5, IEI_OCTET, 3, low, self.total, self.number]),
            Reference::Word => octets.extend([6, IEI_WORD, 4, high, low, self.total, self.number]),
        }
    }

    /// From the data of an element. A part that is none of its message is no part
    /// (§9.2.3.24.1: the receiver shall ignore the element).
    fn of(element: u8, data: &[u8]) -> Option<Self> {
        let found = match (element, data) {
            (IEI_OCTET, [low, total, number]) => {
                let reference = u16::from(*low);
                Self { kind: Reference::Octet, reference, total: *total, number: *number }
            }
            (IEI_WORD, [high, low, total, number]) => {
                let reference = u16::from_be_bytes([*high, *low]);
                Self { kind: Reference::Word, reference, total: *total, number: *number }
            }
            _ => return None,
        };
        (1..=found.total).contains(&found.number).then_some(found)
    }
}

/// A header that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserDataHeader {
    /// Which part of which message, where it says so.
    pub concatenation: Option<Concatenation>,
    /// Octets of the header, its length octet among them: the text begins behind them.
    pub octets: usize,
}

impl UserDataHeader {
    /// Reads the header at the start of a message. `None`: there is none that ends within the
    /// message. Of several concatenations the last counts (§9.2.3.24), unknown elements do not.
    #[must_use]
    pub fn parse(message: &[u8]) -> Option<Self> {
        let (length, rest) = message.split_first()?;
        let mut elements = rest.get(..usize::from(*length))?;
        let mut concatenation = None;
        while let [element, size, rest @ ..] = elements {
            let Some((data, rest)) = rest.split_at_checked(usize::from(*size)) else { break };
            concatenation = Concatenation::of(*element, data).or(concatenation);
            elements = rest;
        }
        Some(Self { concatenation, octets: usize::from(*length) + 1 })
    }

    /// Bits between the header and the first packed septet, 0 to 6.
    #[must_use]
    pub fn fill_bits(self) -> u8 {
        // 0 to 6.
        u8::try_from((7 - self.octets * 8 % 7) % 7).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_references_are_written_as_the_standard_has_them_and_read_again() {
        let cases: [(Reference, u16, &[u8], u8); 2] = [
            (Reference::Octet, 0xA7, &[5, 0, 3, 0xA7, 3, 2], 1),
            (Reference::Word, 0xB1A7, &[6, 8, 4, 0xB1, 0xA7, 3, 2], 0),
        ];
        for (kind, reference, written, fill_bits) in cases {
            let part = Concatenation { kind, reference, total: 3, number: 2 };
            let mut octets = vec![];
            part.encode_into(&mut octets);
            assert_eq!(octets, written);
            assert_eq!(octets.len(), kind.header_octets());
            octets.extend(b"text");
            let header = UserDataHeader::parse(&octets).unwrap();
            assert_eq!((header.concatenation, header.octets), (Some(part), written.len()));
            assert_eq!(header.fill_bits(), fill_bits);
        }
    }

    #[test]
    fn odd_headers_are_read_as_far_as_they_go() {
        let concatenation = |message: &[u8]| UserDataHeader::parse(message)?.concatenation;
        // Ports before the reference; an element that runs over; part 3 of 2; part 0.
        assert!(concatenation(&[11, 5, 4, 1, 2, 3, 4, 0, 3, 9, 2, 1]).is_some());
        assert!(concatenation(&[8, 0, 3, 9, 2, 1, 5, 200, 1]).is_some());
        assert_eq!(concatenation(&[5, 0, 3, 9, 2, 3]), None);
        assert_eq!(concatenation(&[5, 0, 3, 9, 2, 0]), None);
        // Longer than the message, and nothing at all.
        assert_eq!(UserDataHeader::parse(&[5, 0, 3, 9, 2]), None);
        assert_eq!(UserDataHeader::parse(&[]), None);
        assert_eq!(UserDataHeader::parse(&[0]).map(|header| header.octets), Some(1));
    }
}
