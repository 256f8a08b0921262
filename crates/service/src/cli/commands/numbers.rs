//! Whole numbers as arguments, and what is said of what is none.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// The most of a list at once.
const MOST_LISTED: i64 = 100_000;

/// A whole number.
pub(super) fn whole<N: FromStr<Err = ParseIntError>>(text: &str) -> Result<N, String> {
    text.trim().parse().map_err(|error: ParseIntError| {
        let says = match error.kind() {
            IntErrorKind::PosOverflow => "is too large",
            IntErrorKind::NegOverflow => "is too small",
            // Of the numbers that cannot be negative.
            _ if text.trim().parse::<i64>().is_ok() => "must not be negative",
            _ => "must be a whole number",
        };
        says.to_owned()
    })
}

/// How much of a list is wanted.
pub(super) fn of_list(text: &str) -> Result<i64, String> {
    let number = whole(text)?;
    let is_within = (1..=MOST_LISTED).contains(&number);
    if is_within { Ok(number) } else { Err(format!("must be 1 to {MOST_LISTED}")) }
}

#[cfg(test)]
mod tests {
    use super::{of_list, whole};

    #[test]
    fn what_is_no_whole_number_is_told_in_words() {
        assert_eq!(whole::<i64>("-200"), Ok(-200));
        for text in ["", "x", "1.5", "0x10"] {
            assert_eq!(whole::<i64>(text).unwrap_err(), "must be a whole number", "{text}");
        }
        assert_eq!(whole::<u64>("-1").unwrap_err(), "must not be negative");
        assert_eq!(whole::<i64>("9223372036854775808").unwrap_err(), "is too large");
        assert_eq!(of_list("100000"), Ok(100_000));
        assert_eq!(of_list("0").unwrap_err(), "must be 1 to 100000");
    }
}
