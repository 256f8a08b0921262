//! The GSM 7-bit default alphabet with its extension table (3GPP TS 23.038 §6.2.1), unpacked (one
//! septet in an octet, as SMPP carries it) and packed (as it goes over the air).

/// The septet before one of the extension table.
pub const ESCAPE: u8 = 0x1B;

/// 3GPP TS 23.038 §6.2.1. At the place of the escape stands what a receiver shows that does not
/// know the escape: a space.
const BASIC: [char; 128] = [
    '@', '£', '$', '¥', 'è', 'é', 'ù', 'ì', 'ò', 'Ç', '\n', 'Ø', 'ø', '\r', 'Å', 'å', //
    'Δ', '_', 'Φ', 'Γ', 'Λ', 'Ω', 'Π', 'Ψ', 'Σ', 'Θ', 'Ξ', ' ', 'Æ', 'æ', 'ß', 'É', //
    ' ', '!', '"', '#', '¤', '%', '&', '\'', '(', ')', '*', '+', ',', '-', '.', '/', //
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ':', ';', '<', '=', '>', '?', //
    '¡', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', //
    'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W', 'X', 'Y', 'Z', 'Ä', 'Ö', 'Ñ', 'Ü', '§', //
    '¿', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', //
    'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', 'ä', 'ö', 'ñ', 'ü', 'à',
];

/// 3GPP TS 23.038 §6.2.1.1.
const EXTENSION: [(u8, char); 10] = [
    (0x0A, '\u{c}'),
    (0x14, '^'),
    (0x28, '{'),
    (0x29, '}'),
    (0x2F, '\\'),
    (0x3C, '['),
    (0x3D, '~'),
    (0x3E, ']'),
    (0x40, '|'),
    (0x65, '€'),
];

/// Marks a septet of the extension table in [`BELOW_256`].
const EXTENDED: u8 = 0x80;
/// Marks a character that is in neither table.
const ABSENT: u8 = 0xFF;

/// The septets of the characters below U+0100, which are nearly all of a text.
const BELOW_256: [u8; 256] = {
    let mut septets = [ABSENT; 256];
    let mut at = 0_u8;
    while at < 128 {
        let letter = BASIC[at as usize];
        if (letter as u32) < 256 && at != ESCAPE {
            septets[letter as usize] = at;
        }
        at += 1;
    }
    let mut row = 0;
    while row < EXTENSION.len() {
        let (septet, letter) = EXTENSION[row];
        if (letter as u32) < 256 {
            septets[letter as usize] = EXTENDED | septet;
        }
        row += 1;
    }
    septets
};

/// What [`weight`] gives for a character that the alphabet does not have: more than the septets of
/// any text that fits.
pub(crate) const FOREIGN: usize = 1 << 16;

/// [`weight`] of the characters below U+0100: most texts are weighed by nothing else.
const WEIGHTS: [usize; 256] = {
    let mut weights = [FOREIGN; 256];
    let mut at = 0;
    while at < 256 {
        if BELOW_256[at] != ABSENT {
            weights[at] = if BELOW_256[at] & EXTENDED == 0 { 1 } else { 2 };
        }
        at += 1;
    }
    weights
};

/// How many septets a character takes, or [`FOREIGN`].
pub(crate) fn weight(letter: char) -> usize {
    match u8::try_from(letter) {
        Ok(low) => WEIGHTS[usize::from(low)],
        Err(_) => match high(letter) {
            ABSENT => FOREIGN,
            code => 1 + usize::from(code & EXTENDED != 0),
        },
    }
}

/// How a character is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// As one septet.
    Basic(u8),
    /// As [`ESCAPE`] and this septet.
    Extended(u8),
}

/// How a character is written; `None` when the alphabet does not have it.
pub(crate) fn written(letter: char) -> Option<Written> {
    let code = match u8::try_from(letter) {
        Ok(low) => BELOW_256[usize::from(low)],
        Err(_) => high(letter),
    };
    match code {
        ABSENT => None,
        code if code & EXTENDED != 0 => Some(Written::Extended(code & !EXTENDED)),
        code => Some(Written::Basic(code)),
    }
}

fn high(letter: char) -> u8 {
    match letter {
        'Δ' => 0x10,
        'Φ' => 0x12,
        'Γ' => 0x13,
        'Λ' => 0x14,
        'Ω' => 0x15,
        'Π' => 0x16,
        'Ψ' => 0x17,
        'Σ' => 0x18,
        'Θ' => 0x19,
        'Ξ' => 0x1A,
        '€' => EXTENDED | 0x65,
        _ => ABSENT,
    }
}

/// Whether the alphabet has this character.
#[must_use]
pub fn has(letter: char) -> bool {
    written(letter).is_some()
}

/// Appends a text, one septet in an octet; what the alphabet does not have becomes `?`.
pub fn encode_into(text: &str, septets: &mut Vec<u8>) {
    septets.reserve(text.len());
    for letter in text.chars() {
        match written(letter).unwrap_or(Written::Basic(b'?')) {
            Written::Basic(septet) => septets.push(septet),
            Written::Extended(septet) => septets.extend([ESCAPE, septet]),
        }
    }
}

/// The text of unpacked septets. An unknown extension is shown as the basic table has it, an escape
/// without a successor as a space (3GPP TS 23.038 §6.2.1.1). Octets above 0x7F are no septets: they
/// come from centres that take Latin-1 for their default alphabet, and are read as such.
#[must_use]
pub fn decode(septets: &[u8]) -> String {
    let mut text = String::with_capacity(septets.len());
    let mut septets = septets.iter().copied();
    while let Some(septet) = septets.next() {
        let letter = match septet {
            ESCAPE => septets.next().map_or(' ', extended),
            _ => basic(septet),
        };
        text.push(letter);
    }
    text
}

fn basic(septet: u8) -> char {
    BASIC.get(usize::from(septet)).copied().unwrap_or(char::from(septet))
}

fn extended(septet: u8) -> char {
    let known = EXTENSION.iter().find(|(code, _)| *code == septet);
    known.map_or_else(|| basic(septet), |(_, letter)| *letter)
}

/// Packs septets into octets, lowest bit first, behind `fill_bits` zero bits (3GPP TS 23.038
/// §6.1.2.1.1). The fill bits are those of [`UserDataHeader::fill_bits`].
///
/// [`UserDataHeader::fill_bits`]: crate::UserDataHeader::fill_bits
#[must_use]
pub fn pack(septets: &[u8], fill_bits: u8) -> Vec<u8> {
    let fill_bits = fill_bits % 7;
    let mut octets = Vec::with_capacity(septets.len() * 7 / 8 + 2);
    let (mut pending, mut held) = (0_u16, u32::from(fill_bits));
    for septet in septets {
        pending |= u16::from(septet & 0x7F) << held;
        held += 7;
        while held >= 8 {
            octets.push(pending.to_le_bytes()[0]);
            pending >>= 8;
            held -= 8;
        }
    }
    if held > 0 {
        octets.push(pending.to_le_bytes()[0]);
    }
    octets
}

/// Unpacks what [`pack`] made. `septets` is how many there are, as a TPDU says; SMPP does not say
/// it, and without it a last septet that may be seven bits of padding is taken for padding.
#[must_use]
pub fn unpack(octets: &[u8], fill_bits: u8, septets: Option<usize>) -> Vec<u8> {
    let fill_bits = usize::from(fill_bits % 7);
    let bits = (octets.len() * 8).saturating_sub(fill_bits);
    let whole = bits / 7;
    let septet = |number: usize| {
        let bit = fill_bits + number * 7;
        let octet = |at: usize| octets.get(at).copied().map_or(0, u16::from);
        let pair = octet(bit / 8) | (octet(bit / 8 + 1) << 8);
        (pair >> (bit % 8)).to_le_bytes()[0] & 0x7F
    };
    let ends_with_padding = || bits % 7 == 0 && whole > 0 && septet(whole - 1) == 0;
    let count = match septets {
        Some(count) => count.min(whole),
        None if ends_with_padding() => whole - 1,
        None => whole,
    };
    (0..count).map(septet).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_of_both_tables_comes_back() {
        for (septet, letter) in (0_u8..).zip(BASIC).filter(|(septet, _)| *septet != ESCAPE) {
            assert_eq!(written(letter), Some(Written::Basic(septet)), "{letter:?}");
            assert_eq!(weight(letter), 1);
            assert_eq!(decode(&[septet]), letter.to_string());
        }
        for (septet, letter) in EXTENSION {
            assert_eq!(written(letter), Some(Written::Extended(septet)), "{letter:?}");
            assert_eq!(weight(letter), 2);
            assert_eq!(decode(&[ESCAPE, septet]), letter.to_string());
        }
        let all = (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|c| has(*c));
        assert_eq!(all.count(), 127 + 10);
    }

    #[test]
    fn characters_that_are_often_mistaken_are_right() {
        assert_eq!(written('§'), Some(Written::Basic(0x5F)));
        assert_eq!(written('Ç'), Some(Written::Basic(0x09)));
        for absent in ['`', 'ç', 'ê', 'î', 'ô', 'û', 'ë', 'ï', 'â', '\t', '\u{1b}', '\0', '’']
        {
            assert_eq!((written(absent), weight(absent)), (None, FOREIGN), "{absent:?}");
        }
    }

    #[test]
    fn stray_escapes_and_octets_that_are_no_septets_are_shown_as_something() {
        assert_eq!(decode(&[b'a', ESCAPE]), "a ");
        assert_eq!(decode(&[ESCAPE, b'a', b'b']), "ab");
        assert_eq!(decode(&[ESCAPE, ESCAPE, b'b']), " b");
        assert_eq!(decode(&[0xE9, b'a']), "éa");
    }

    #[test]
    fn the_published_example_of_packing_holds() {
        // `hellohello`, as every description of the format has it.
        let packed = [0xE8, 0x32, 0x9B, 0xFD, 0x46, 0x97, 0xD9, 0xEC, 0x37];
        assert_eq!(pack(b"hellohello", 0), packed);
        assert_eq!(unpack(&packed, 0, None), b"hellohello");
        assert_eq!(unpack(&packed, 0, Some(5)), b"hello");
    }

    #[test]
    fn seven_spare_bits_are_padding_unless_the_number_of_septets_says_otherwise() {
        let seven = pack(b"1234567", 0);
        assert_eq!(seven.len(), 7);
        assert_eq!(unpack(&seven, 0, None), b"1234567");
        assert_eq!(unpack(&seven, 0, Some(8)), b"1234567\0");
    }
}
