//! Takes a person out of a text. A phone number goes however it is written: as from abroad or as
//! dialled at home, with blanks, dots, dashes, slashes, brackets or marks that nobody sees between
//! its digits, in the digits of any script. An email address goes in any case, its domain in either
//! spelling, where it is not part of a longer one.

use crate::kit::digits::digit;
use crate::kit::msisdn;

/// What stands for a person who was erased.
const ERASED: &str = "[erased]";

/// What names a person in a text.
pub(super) enum Trace {
    Number(Number),
    Address(Spellings),
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
            Self::Address(address) => text.to_ascii_lowercase().contains(&address.ascii),
        }
    }

    /// The text without it; `None` when it does not have it.
    pub(super) fn removed_from(&self, text: &str) -> Option<String> {
        match self {
            Self::Number(number) => number.removed_from(text),
            Self::Address(address) => address.removed_from(text),
        }
    }
}

/// An email address in the ways its domain is spelled, in lower case.
pub(super) struct Spellings {
    ascii: String,
    unicode: String,
}

impl Spellings {
    pub(super) fn of(address: &email::Address) -> Self {
        let ascii = address.key().to_ascii_lowercase();
        let domain = email::domain_in_unicode(address.domain());
        let name = ascii.split_once('@').map_or("", |(name, _)| name);
        Self { unicode: format!("{name}@{domain}").to_lowercase(), ascii }
    }

    /// The text without it; `None` when it does not have it.
    fn removed_from(&self, text: &str) -> Option<String> {
        let (mut clean, mut rest) = (String::new(), text);
        let (mut found, mut before) = (false, [None; 2]);
        while let Some(letter) = rest.chars().next() {
            let length = [&self.ascii, &self.unicode].into_iter().find_map(|spelling| {
                let length = length_in_any_case(rest, spelling)?;
                let behind = rest.get(length..).unwrap_or_default();
                (!is_longer_before(before) && !is_longer_behind(behind)).then_some(length)
            });
            if length.is_some() {
                found = true;
                clean.push_str(ERASED);
                before = [None; 2];
            } else {
                clean.push(letter);
                before = [before[1], Some(letter)];
            }
            rest = rest.get(length.unwrap_or(letter.len_utf8())..).unwrap_or_default();
        }
        found.then_some(clean)
    }
}

/// How many bytes at the start of a text are these letters, which are in lower case.
fn length_in_any_case(text: &str, lower: &str) -> Option<usize> {
    let mut wanted = lower.chars().peekable();
    for (at, letter) in text.char_indices() {
        if wanted.peek().is_none() {
            return Some(at);
        }
        if !letter.to_lowercase().all(|small| wanted.next() == Some(small)) {
            return None;
        }
    }
    wanted.peek().is_none().then_some(text.len())
}

/// Whether the two letters before an address make its local part another one: what else may stand
/// in one by the letter of the law (RFC 5322 §3.2.3) stands around addresses in links and logs.
fn is_longer_before(before: [Option<char>; 2]) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let [first, last] = before;
    is_letter(last) || (last.is_some_and(|c| "._+-".contains(c)) && is_letter(first))
}

/// Whether what stands behind an address makes its domain another one; a full stop ends sentences.
fn is_longer_behind(back: &str) -> bool {
    let mut letters = back.chars();
    match letters.next() {
        Some('.' | '-' | '_') => letters.next().is_some_and(char::is_alphanumeric),
        letter => letter.is_some_and(char::is_alphanumeric),
    }
}

/// A number in the ways it is written.
pub(super) struct Number {
    /// Country code and all: it goes wherever it stands, even within other digits.
    abroad: String,
    /// The same with the zero of home, as in `+33 (0)6 …`.
    both: Option<String>,
    /// As dialled at home, with a zero, with nothing, or with what is put in front there: it goes
    /// where it stands alone.
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
            home.extend(msisdn::as_at_home(e164));
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

/// Blanks, dashes, and the marks of browsers and contact lists that say in which direction digits
/// run and where lines may break.
fn is_between(letter: char) -> bool {
    letter.is_whitespace()
        || matches!(letter, '.' | '-' | '/' | '(' | ')' | '\u{ad}' | '\u{2212}' | '\u{feff}')
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2010}'..='\u{2015}')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{Number, Spellings};

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
            "+33 6\u{2011}12\u{2013}34\u{2009}56\t78",
            "+33\u{202c}612\u{200b}345678",
        ] {
            let text = format!("call {written} now");
            assert_eq!(without(&text).as_deref(), Some("call [erased] now"), "{written}");
        }
        let twice = "+33612345678+33612345678";
        assert_eq!(without(twice).as_deref(), Some("[erased][erased]"));
        assert_eq!(without("9933612345678").as_deref(), Some("99[erased]"));
    }

    #[test]
    fn a_number_goes_as_it_is_dialled_at_home() {
        for (number, dialled) in [
            ("+79123456789", "8 912 345-67-89"),
            ("+36201234567", "06 20 123 4567"),
            ("+375291234567", "8 029 123-45-67"),
            ("+14155552671", "1-415-555-2671"),
        ] {
            let clean = Number::of(number).removed_from(dialled);
            assert_eq!(clean.as_deref(), Some("[erased]"), "{dialled}");
        }
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
        let ada = Spellings::of(&email::Address::parse("ada@example.com").unwrap());
        for (text, clean) in [
            ("ada@example.com", "[erased]"),
            ("É <Ada@Example.COM>.", "É <[erased]>."),
            ("ADA@example.com,ada@example.com. And", "[erased],[erased]. And"),
            ("mailto:ada@example.com?x", "mailto:[erased]?x"),
            ("to=ada@example.com&x=1", "to=[erased]&x=1"),
            ("https://crm.example/u/ada@example.com", "https://crm.example/u/[erased]"),
            ("**ada@example.com**", "**[erased]**"),
            ("_ada@example.com_ -ada@example.com-", "_[erased]_ -[erased]-"),
        ] {
            assert_eq!(ada.removed_from(text).as_deref(), Some(clean), "{text}");
        }
        for text in [
            "",
            "nada@example.com",
            "l.ada@example.com",
            "x+ada@example.com",
            "x-ada@example.com",
            "ada@example.com.au",
            "ada@example.com-x.org",
            "ada@example.community",
            "éada@example.com",
            "ada at example.com",
        ] {
            assert_eq!(ada.removed_from(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_goes_in_either_spelling_of_its_domain() {
        let ada = Spellings::of(&email::Address::parse("ada@bücher.example").unwrap());
        for text in ["ada@bücher.example", "Ada@BÜCHER.example", "ada@xn--bcher-kva.example"] {
            assert_eq!(ada.removed_from(text).as_deref(), Some("[erased]"), "{text}");
        }
    }
}
