//! UCS-2 as handsets really write it: UTF-16, high octet first, with surrogate pairs.

/// Appends a text.
pub fn encode_into(text: &str, octets: &mut Vec<u8>) {
    octets.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
}

/// The text of octets: without a byte order mark, which may turn the order round. Half a pair
/// becomes U+FFFD, half a unit at the end is left out. Join the parts of a message before decoding
/// them: some senders cut pairs.
#[must_use]
pub fn decode(octets: &[u8]) -> String {
    let (octets, is_turned) = match octets {
        [0xFE, 0xFF, rest @ ..] => (rest, false),
        [0xFF, 0xFE, rest @ ..] => (rest, true),
        _ => (octets, false),
    };
    let (units, _half) = octets.as_chunks::<2>();
    let letters = char::decode_utf16(units.iter().map(|octets| {
        let unit = u16::from_be_bytes(*octets);
        if is_turned { unit.swap_bytes() } else { unit }
    }));
    letters.map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn pairs_halves_and_marks_are_read() {
        assert_eq!(decode(&[0x04, 0x2F, 0xD8, 0x3D, 0xDE, 0x00]), "Я😀");
        assert_eq!(decode(&[0xD8, 0x3D, 0x00, b'a']), "\u{fffd}a");
        assert_eq!(decode(&[0x00, b'a', 0x00]), "a");
        assert_eq!(decode(&[0xFE, 0xFF, 0x00, b'a']), "a");
        assert_eq!(decode(&[0xFF, 0xFE, b'a', 0x00]), "a");
        assert_eq!(decode(&[]), "");
    }
}
