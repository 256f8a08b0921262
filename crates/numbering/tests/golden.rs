//! What the table says, against what the library said of the same numbers (`scripts/numbering`).

use numbering::Number;
use proptest::prelude::*;

const GOLDEN: &str = include_str!("golden.tsv");

/// A row as the crate would write it.
fn row(text: &str) -> String {
    let Some(number) = Number::read(text) else { return format!("{text}\tERR") };
    let verdict = number.judge();
    format!(
        "{text}\t{}\t{}\t{}\t{:?}\t{}\t{}",
        number.e164(),
        u8::from(verdict.is_valid()),
        verdict.region.unwrap_or_default(),
        verdict.kind,
        number.national(),
        number.at_home(),
    )
}

#[test]
fn the_table_says_what_the_library_says() {
    let rows: Vec<&str> = GOLDEN.lines().collect();
    assert!(rows.len() > 3_000, "{} rows", rows.len());
    for line in rows {
        let text = line.split('\t').next().unwrap_or_default();
        assert_eq!(row(text), line);
    }
}

#[test]
fn what_is_dialled_at_home_is_taken_off_and_put_on() {
    for (text, e164, home) in [
        ("+4402079460018", "+442079460018", "02079460018"),
        ("+390236618300", "+390236618300", "0236618300"),
        ("+54111523456789", "+5491123456789", "0111523456789"),
        ("+3606201234567", "+36201234567", "06201234567"),
        ("+789123456789", "+79123456789", "89123456789"),
        ("+12015550123", "+12015550123", "2015550123"),
    ] {
        let number = Number::read(text).unwrap();
        assert_eq!((number.e164().as_str(), number.at_home().as_str()), (e164, home), "{text}");
    }
}

#[test]
fn a_text_with_more_than_digits_is_not_read() {
    for text in ["", "+", "33612345678", "+33 612345678", "+33612345678x", "++33612345678", "+٣٣"]
    {
        assert_eq!(Number::read(text), None, "{text}");
        assert_eq!(Number::as_it_stands(text), None, "{text}");
    }
}

#[test]
fn a_country_has_one_code() {
    let codes = ["US", "CA", "GG", "XK", "001", "us", "UK", ""].map(numbering::code_of);
    assert_eq!(codes, [Some(1), Some(1), Some(44), Some(383), None, None, None, None]);
}

proptest! {
    #[test]
    fn any_digits_are_read_or_not(text in "\\+?[0-9]{0,20}") {
        let read = Number::read(&text);
        let stands = Number::as_it_stands(&text);
        prop_assert!(read.is_none() || stands.is_some() || text.len() > 18, "{text}");
        for number in [read, stands].into_iter().flatten() {
            prop_assert!((2..=17).contains(&number.national().len()));
            prop_assert!(number.at_home().len() <= 25);
            prop_assert!(number.e164().starts_with('+'));
            prop_assert!(number.judge().region.is_none_or(|region| region.len() < 4));
        }
    }

    /// All but those two, of which the library takes off what belongs to them.
    #[test]
    fn a_valid_number_is_read_as_it_was_written(row in 0_usize..3_000, last in "[0-9]{4}") {
        let text = GOLDEN.lines().nth(row).and_then(|line| line.split('\t').nth(1));
        let text = text.unwrap_or_default();
        let text = format!("{}{last}", &text[..text.len().saturating_sub(4)]);
        let stands = Number::as_it_stands(&text);
        let is_other = ["+375810", "+81003768"].iter().any(|other| text.starts_with(other));
        if !is_other && stands.is_some_and(|number| number.judge().is_valid()) {
            prop_assert_eq!(Number::read(&text), stands, "{}", text);
        }
    }
}

/// Long texts are bounded before they are looked at.
#[test]
fn a_number_of_more_than_seventeen_digits_is_none() {
    for length in 18..300 {
        assert_eq!(Number::read(&format!("+49{}", "1".repeat(length))), None, "{length}");
    }
}
