//! Takes a person out of a text. A phone number goes however it is written: as from abroad or as
//! dialled at home, with blanks, dots, dashes, slashes or brackets between its digits, in the
//! digits of any script. An email address goes in any case, where it is not part of a longer one.

use crate::kit::digits::digit;
use crate::kit::msisdn;

/// What stands for a person who was erased.
const ERASED: &str = "[erased]";

/// What names a person in a text.
pub(super) enum Trace {
    Number(Number),
    /// In lower case.
    Address(String),
}

impl Trace {
    /// Whether a text has it.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.removed_from(text).is_some()
    }

    /// Whether it is in a text that has nothing between its letters, such as an id of a client.
    pub(super) fn is_in_key(&self, text: &str) -> bool {
        match self {
            Self::Number(number) => text.contains(number.digits()),
            Self::Address(address) => text.to_ascii_lowercase().contains(address),
        }
    }

    /// The text without it; `None` when it does not have it.
    pub(super) fn removed_from(&self, text: &str) -> Option<String> {
        match self {
            Self::Number(number) => number.removed_from(text),
            Self::Address(address) => without_address(text, address),
        }
    }
}

fn without_address(text: &str, address: &str) -> Option<String> {
    // ASCII only, so that places are the same in both.
    let lower = text.to_ascii_lowercase();
    let (mut clean, mut rest) = (String::new(), 0);
    for (at, _) in lower.match_indices(address) {
        let (front, back) = lower.split_at(at);
        let back = back.get(address.len()..).unwrap_or_default();
        if !is_longer_before(front) && !is_longer_behind(back) {
            clean.push_str(text.get(rest..at)?);
            clean.push_str(ERASED);
            rest = at + address.len();
        }
    }
    clean.push_str(text.get(rest..)?);
    (rest > 0).then_some(clean)
}

/// Whether what stands before an address makes its local part another one.
fn is_longer_before(front: &str) -> bool {
    front.chars().next_back().is_some_and(|c| c.is_alphanumeric() || "._+-%&=!#$*/?^~|".contains(c))
}

/// Whether what stands behind an address makes its domain another one; a full stop ends sentences.
fn is_longer_behind(back: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut letters = back.chars();
    match letters.next() {
        Some('.') => letters.next().is_some_and(is_part),
        letter => letter.is_some_and(is_part),
    }
}

/// A number in the ways it is written.
pub(super) struct Number {
    /// Country code and all: it goes wherever it stands, even within other digits.
    abroad: String,
    /// The same with the zero of home, as in `+33 (0)6 …`.
    both: Option<String>,
    /// As dialled at home, with and without that zero: it goes where it stands alone.
    home: Vec<String>,
}

impl Number {
    /// Of `+` and digits.
    pub(super) fn of(e164: &str) -> Self {
        let abroad = e164.trim_start_matches('+').to_owned();
        let national = msisdn::national(e164).filter(|national| national.len() >= 6);
        let code = national.as_ref().and_then(|national| abroad.strip_suffix(national.as_str()));
        let (mut both, mut home) = (None, Vec::new());
        if let (Some(national), Some(code)) = (&national, code) {
            both = Some(format!("{code}0{national}"));
            home = vec![format!("0{national}"), national.clone()];
        }
        Self { abroad, both, home }
    }

    /// The digits, for texts that have nothing between them.
    fn digits(&self) -> &str {
        &self.abroad
    }

    /// The text without it; `None` when it does not have it.
    fn removed_from(&self, text: &str) -> Option<String> {
        if self.abroad.is_empty() {
            return None;
        }
        let mut clean = String::with_capacity(text.len());
        let (mut rest, mut found, mut is_within) = (text, false, false);
        while let Some(letter) = rest.chars().next() {
            if let Some(length) = self.length_at(rest, is_within) {
                found = true;
                let kept = clean.trim_end_matches('+').len();
                clean.truncate(kept);
                clean.push_str(ERASED);
                rest = rest.get(length..).unwrap_or_default();
                is_within = false;
            } else {
                is_within = digit(letter).is_some();
                clean.push(letter);
                rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            }
        }
        found.then_some(clean)
    }

    /// How many bytes at the start of a text are the number; `is_within`: a digit stands before it.
    fn length_at(&self, text: &str, is_within: bool) -> Option<usize> {
        let anywhere = [Some(&self.abroad), self.both.as_ref()];
        let found = anywhere.into_iter().flatten().find_map(|form| length_of(text, form));
        if found.is_some() || is_within {
            return found;
        }
        let is_alone = |length: &usize| {
            let next = text.get(*length..).and_then(|rest| rest.chars().next());
            next.and_then(digit).is_none()
        };
        self.home.iter().find_map(|form| length_of(text, form).filter(is_alone))
    }
}

/// How many bytes at the start of a text are these digits, with nothing but separators between.
fn length_of(text: &str, digits: &str) -> Option<usize> {
    let mut wanted = digits.chars().peekable();
    for (at, letter) in text.char_indices() {
        if wanted.peek().copied() == digit(letter) {
            wanted.next();
            if wanted.peek().is_none() {
                return Some(at + letter.len_utf8());
            }
        } else if at == 0 || !is_between(letter) {
            return None;
        }
    }
    None
}

const fn is_between(letter: char) -> bool {
    matches!(letter, ' ' | '\u{a0}' | '\u{202f}' | '.' | '-' | '/' | '(' | ')')
}

#[cfg(test)]
mod tests {
    use super::{Number, without_address};

    fn without(text: &str) -> Option<String> {
        Number::of("+33612345678").removed_from(text)
    }

    #[test]
    fn a_number_goes_however_it_is_written() {
        for written in [
            "+33612345678",
            "33612345678",
            "+33 6 12 34 56 78",
            "+33 (6) 12.34-56/78",
            "+33 (0)6 12 34 56 78",
            "0612345678",
            "06 12 34 56 78",
            "612345678",
            "\u{ff10}\u{ff16}12345678",
        ] {
            let text = format!("call {written} now");
            assert_eq!(without(&text).as_deref(), Some("call [erased] now"), "{written}");
        }
        let twice = "+33612345678+33612345678";
        assert_eq!(without(twice).as_deref(), Some("[erased][erased]"));
        assert_eq!(without("9933612345678").as_deref(), Some("99[erased]"));
    }

    #[test]
    fn other_numbers_stay() {
        for text in [
            "",
            "+33612345679",
            "33 a 6123456789",
            "3361234567",
            "order 90612345678",
            "06123456789",
            "é 3361234567é",
        ] {
            assert_eq!(without(text), None, "{text}");
        }
        assert!(Number::of("+33612345678").removed_from("é 33612345678é").is_some());
    }

    #[test]
    fn an_address_goes_in_any_case_and_others_stay() {
        let without = |text: &str| without_address(text, "ada@example.com");
        for (text, clean) in [
            ("ada@example.com", "[erased]"),
            ("É <Ada@Example.COM>.", "É <[erased]>."),
            ("ADA@example.com,ada@example.com. And", "[erased],[erased]. And"),
            ("mailto:ada@example.com?x", "mailto:[erased]?x"),
        ] {
            assert_eq!(without(text).as_deref(), Some(clean), "{text}");
        }
        for text in [
            "",
            "nada@example.com",
            "l.ada@example.com",
            "x+ada@example.com",
            "ada@example.com.au",
            "ada@example.community",
            "éada@example.com",
            "ada at example.com",
        ] {
            assert_eq!(without(text), None, "{text}");
        }
    }
}
