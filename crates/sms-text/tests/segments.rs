//! What a text costs and where it is cut: known counts, and what holds for every text.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use sms_text::{
    Alphabet, Concatenation, Encoding, MAX_SEGMENTS, Part, Reference, Segments, TooLong,
    UserDataHeader, gsm7, transliterate, ucs2,
};

const BOTH: [Reference; 2] = [Reference::Octet, Reference::Word];

fn count(text: &str) -> Option<usize> {
    Segments::of(text, Reference::Octet).ok().map(|segments| segments.count())
}

fn part_texts(text: &str) -> Vec<&str> {
    Segments::of(text, Reference::Octet).unwrap().parts().map(|part| part.text).collect()
}

#[test]
fn known_texts_have_the_segments_that_carriers_bill() {
    let texts = [
        ("", 0, 1),
        ("a", 160, 1),
        ("a", 161, 2),
        ("a", 306, 2),
        ("a", 307, 3),
        ("a", 459, 3),
        ("a", 460, 4),
        ("a", 1_530, 10),
        ("€", 80, 1),
        ("€", 81, 2),
        // A part has room for 76 pairs of septets and one that stays empty.
        ("€", 152, 2),
        ("€", 153, 3),
        ("я", 70, 1),
        ("я", 71, 2),
        ("я", 134, 2),
        ("я", 135, 3),
        ("я", 670, 10),
        ("😀", 35, 1),
        ("😀", 36, 2),
    ];
    for (letter, times, segments) in texts {
        assert_eq!(count(&letter.repeat(times)), Some(segments), "{times} times {letter}");
    }
}

#[test]
fn more_than_ten_segments_are_refused_whatever_the_length() {
    for text in ["a".repeat(1_531), "я".repeat(671), "€".repeat(761), "€".repeat(5_000_000)] {
        assert_eq!(Segments::of(&text, Reference::Octet), Err(TooLong));
    }
    // One character that needs UCS-2, far behind.
    let mixed = "a".repeat(671) + "я";
    assert_eq!(Segments::of(&mixed, Reference::Octet), Err(TooLong));
}

#[test]
fn a_wide_reference_leaves_less_room() {
    let count = |text: &str| Segments::of(text, Reference::Word).unwrap().count();
    assert_eq!((count(&"a".repeat(304)), count(&"a".repeat(305))), (2, 3));
    assert_eq!((count(&"я".repeat(132)), count(&"я".repeat(133))), (2, 3));
}

#[test]
fn an_escape_stays_with_its_character() {
    let text = "a".repeat(152) + "€" + &"b".repeat(10);
    let parts = part_texts(&text);
    assert_eq!(parts, ["a".repeat(152), "€".to_owned() + &"b".repeat(10)]);
}

#[test]
fn a_surrogate_pair_is_not_cut() {
    let text = "a".repeat(66) + &"😀".repeat(10);
    assert_eq!(part_texts(&text), ["a".repeat(66), "😀".repeat(10)]);
}

#[test]
fn a_family_stays_together_unless_that_costs_a_segment() {
    let family = "👨‍👩‍👧‍👦";
    let text = "я".repeat(60) + family + &"я".repeat(20);
    assert_eq!(part_texts(&text), ["я".repeat(60), family.to_owned() + &"я".repeat(20)]);
    // Two full segments: to keep it together would need a third.
    let full = "я".repeat(61) + family + &"я".repeat(134 - 61 - 11);
    let units: Vec<usize> =
        part_texts(&full).iter().map(|part| part.encode_utf16().count()).collect();
    assert_eq!(units, [67, 67]);
    // A cluster that no part can hold is cut between characters.
    let tower = "я".to_owned() + &"\u{301}".repeat(200);
    assert_eq!(count(&tower), Some(3));
}

#[test]
fn a_text_is_not_shown_by_debug() {
    let segments = Segments::of("secret 1234", Reference::Octet).unwrap();
    let shown = format!("{segments:?} {:?}", segments.parts().collect::<Vec<_>>());
    assert!(!shown.contains("1234") && !shown.contains("secret"), "{shown}");
}

/// Octets of a part over the air, its header among them.
fn octets_on_air(part: Part<'_>, header: &[u8]) -> usize {
    let mut carried = vec![];
    part.encode_into(&mut carried);
    match part.encoding {
        Encoding::Ucs2 => header.len() + carried.len(),
        Encoding::Gsm7 => {
            let fill_bits = UserDataHeader::parse(header).map_or(0, UserDataHeader::fill_bits);
            let packed = gsm7::pack(&carried, fill_bits);
            assert_eq!(gsm7::unpack(&packed, fill_bits, Some(carried.len())), carried);
            header.len() + packed.len()
        }
    }
}

/// What a handset shows of the parts.
fn read_again(segments: &Segments<'_>) -> String {
    let mut octets = vec![];
    segments.parts().for_each(|part| part.encode_into(&mut octets));
    match segments.encoding() {
        Encoding::Gsm7 => gsm7::decode(&octets),
        Encoding::Ucs2 => ucs2::decode(&octets),
    }
}

fn fits_and_comes_back(text: &str, reference: Reference) -> Result<(), TestCaseError> {
    let Ok(segments) = Segments::of(text, reference) else {
        // At least one character of each unit or septet that was refused.
        prop_assert!(text.chars().count() > 300);
        return Ok(());
    };
    prop_assert!((1..=MAX_SEGMENTS).contains(&segments.count()));
    let texts: String = segments.parts().map(|part| part.text).collect();
    prop_assert_eq!(&texts, text);
    prop_assert_eq!(read_again(&segments), text);
    let is_gsm7 = text.chars().all(gsm7::has);
    prop_assert_eq!(segments.encoding() == Encoding::Gsm7, is_gsm7);
    let mut header = vec![];
    if segments.count() > 1 {
        let part = Concatenation { kind: reference, reference: 7, total: 10, number: 1 };
        part.encode_into(&mut header);
    }
    for part in segments.parts() {
        prop_assert!(octets_on_air(part, &header) <= 140);
        prop_assert!(segments.count() == 1 || !part.text.is_empty());
    }
    Ok(())
}

fn any_text() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        6 => prop::char::range(' ', '~'),
        1 => prop::sample::select(vec!['€', 'é', 'Ω', '{', '\n', '\u{c}', '|']),
    ];
    let wide = prop_oneof![
        letter.clone(),
        prop::sample::select(vec!['😀', 'я', '\u{301}', '\u{200d}', '👩', '🇫', '\u{1b}']),
        any::<char>(),
    ];
    let gsm7 = prop::collection::vec(letter, 0..1_700).prop_map(String::from_iter);
    let ucs2 = prop::collection::vec(wide, 0..700).prop_map(String::from_iter);
    // A byte order mark at the start is no text.
    let ucs2 = ucs2.prop_map(|text: String| text.trim_start_matches('\u{feff}').to_owned());
    prop_oneof![gsm7, ucs2]
}

proptest! {
    #[test]
    fn parts_fit_the_air_cut_no_character_and_make_the_text_again(text in any_text()) {
        for reference in BOTH {
            fits_and_comes_back(&text, reference)?;
        }
    }

    #[test]
    fn a_transliterated_text_is_gsm7_or_unchanged(text in any_text()) {
        let plain = transliterate(&text);
        prop_assert!(plain == text || plain.chars().all(gsm7::has));
    }

    #[test]
    fn hostile_octets_are_read_without_a_panic(
        octets in prop::collection::vec(any::<u8>(), 0..300),
        (fill_bits, septets) in (any::<u8>(), prop::option::of(any::<usize>())),
    ) {
        for data_coding in 0..=u8::MAX {
            if let Some(text) = Alphabet::of(data_coding).decode(&octets) {
                prop_assert!(text.chars().count() <= octets.len());
            }
        }
        if let Some(header) = UserDataHeader::parse(&octets) {
            prop_assert!(header.octets <= octets.len());
            prop_assert!(header.fill_bits() < 7);
        }
        let unpacked = gsm7::unpack(&octets, fill_bits, septets);
        prop_assert!(unpacked.len() <= octets.len() * 8 / 7);
        prop_assert!(gsm7::pack(&octets, fill_bits).len() <= octets.len() + 1);
    }
}
