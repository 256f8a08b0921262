//! UCS-2 as handsets really write it: UTF-16, high octet first, with surrogate pairs.

/// Appends a text.
pub fn encode_into(text: &str, octets: &mut Vec<u8>) {
    octets.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
}

/// The text of octets: without a byte order mark, which may turn the order round. Half a pair
/// becomes U+FFFD, half a unit at the end is left out. Of a part of a message use [`decode_part`]:
/// some senders cut pairs.
#[must_use]
pub fn decode(octets: &[u8]) -> String {
    letters(octets, |_| None)
}

/// Half a pair is kept as a letter of this private plane, in which nobody writes, until the other
/// half is there.
const HALVES: u32 = 0x10_0000;

/// The text of a part of a message; what comes of all of them goes to [`join`].
#[must_use]
pub fn decode_part(octets: &[u8]) -> String {
    letters(octets, |half| char::from_u32(HALVES + u32::from(half)))
}

fn letters(octets: &[u8], stand_in: impl Fn(u16) -> Option<char>) -> String {
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
    let letter = |found: Result<char, std::char::DecodeUtf16Error>| {
        let read = found.or_else(|lone| stand_in(lone.unpaired_surrogate()).ok_or(lone));
        read.unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    letters.map(letter).collect()
}

/// Puts the halves of pairs together that parts were cut between; one without the other becomes
/// U+FFFD.
#[must_use]
pub fn join(parts: &str) -> String {
    let unit = |letter: char| {
        let unit = u32::from(letter).checked_sub(HALVES).and_then(|unit| u16::try_from(unit).ok());
        unit.filter(|unit| (0xD800..=0xDFFF).contains(unit))
    };
    if !parts.chars().any(|letter| unit(letter).is_some()) {
        return parts.to_owned();
    }
    let units = parts.chars().flat_map(|letter| {
        let mut pair = [0; 2];
        match unit(letter) {
            Some(half) => vec![half],
            None => letter.encode_utf16(&mut pair).to_vec(),
        }
    });
    let letters = char::decode_utf16(units.collect::<Vec<_>>());
    letters.map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::{decode, decode_part, join};

    #[test]
    fn a_pair_that_was_cut_is_whole_again() {
        let (first, second) = ([0x00, b'a', 0xD8, 0x3D], [0xDE, 0x00, 0x00, b'b']);
        assert_eq!(join(&(decode_part(&first) + &decode_part(&second))), "a😀b");
        assert_eq!(join(&(decode_part(&second) + &decode_part(&first))), "\u{fffd}ba\u{fffd}");
        assert_eq!(join("a\u{10ffff}"), "a\u{10ffff}");
    }

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
