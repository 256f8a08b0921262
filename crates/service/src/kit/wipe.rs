//! Takes a person out of a text. A phone number goes however it is written: as from abroad or as
//! dialled at home, with blanks, dots, dashes, slashes, brackets or marks that nobody sees between
//! its digits, in the digits of any script. An email address goes in any case, its domain in either
//! spelling, also as links encode it, where it is not part of a longer one.

use std::ops::Range;

use super::digits::digit;
use super::msisdn;

/// What stands for a person who was erased.
const ERASED: &str = "[erased]";
/// The sign between name and domain, as it is and as links encode it.
const AT: [&str; 2] = ["@", "%40"];

/// What names a person in a text.
pub(crate) enum Trace {
    Number(Number),
    Address(Spellings),
}

impl Trace {
    /// Whether a text has it.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        match self {
            Self::Number(number) => number.removed_from(text).is_some(),
            Self::Address(address) => address.is_in(text),
        }
    }

    /// Whether it is in a text that has nothing between its letters, such as an id of a client.
    pub(crate) fn is_in_key(&self, text: &str) -> bool {
        match self {
            Self::Number(number) => text.contains(number.digits()),
            Self::Address(address) => text.to_ascii_lowercase().contains(&address.ascii),
        }
    }

    /// The text without it; `None` when it does not have it.
    pub(crate) fn removed_from(&self, text: &str) -> Option<String> {
        match self {
            Self::Number(number) => number.removed_from(text),
            Self::Address(address) => address.removed_from(text),
        }
    }
}

/// An email address in the ways its domain is spelled, in lower case.
pub(crate) struct Spellings {
    ascii: String,
    name: String,
    domains: [String; 2],
}

impl Spellings {
    pub(crate) fn of(address: &email::Address) -> Self {
        let unicode = email::domain_in_unicode(address.domain()).to_lowercase();
        let domains = [address.domain().to_owned(), unicode];
        Self { ascii: address.key(), name: address.local().to_ascii_lowercase(), domains }
    }

    /// Whether a text has it.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.next_in(text, 0).is_some()
    }

    /// The text without it; `None` when it does not have it.
    fn removed_from(&self, text: &str) -> Option<String> {
        let (mut clean, mut rest) = (String::new(), 0);
        while let Some(place) = self.next_in(text, rest) {
            clean.push_str(text.get(rest..place.start)?);
            clean.push_str(ERASED);
            rest = place.end;
        }
        clean.push_str(text.get(rest..)?);
        (rest > 0).then_some(clean)
    }

    /// Where it is next, from a place on.
    fn next_in(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let mut after = from;
        loop {
            let rest = text.get(after..)?;
            let at = after + rest.find(['@', '%'])?;
            after = at + 1;
            let behind = text.get(at..)?;
            let Some(domain) = AT.iter().find_map(|at| behind.strip_prefix(at)) else { continue };
            let Some(start) = at.checked_sub(self.name.len()).filter(|start| *start >= from) else {
                continue;
            };
            let is_name = |found: &str| found.eq_ignore_ascii_case(&self.name);
            let longest = self.domains.iter().filter_map(|one| length_in_any_case(domain, one));
            let (Some(length), Some(front)) = (longest.max(), text.get(..start)) else { continue };
            let end = text.len() - domain.len() + length;
            if text.get(start..at).is_some_and(is_name)
                && !is_longer_before(front)
                && !is_longer_behind(text.get(end..)?)
            {
                return Some(start..end);
            }
        }
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

/// Whether what stands before an address makes its local part another one: what else may stand in
/// one by the letter of the law (RFC 5322 §3.2.3) stands around addresses in links and logs.
fn is_longer_before(front: &str) -> bool {
    let front = front.trim_end_matches(['.', '_', '+', '-']);
    let code = front.len().checked_sub(3).and_then(|at| front.get(at..));
    let is_code = code.and_then(|code| code.strip_prefix('%'));
    !is_code.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
        && front.chars().next_back().is_some_and(char::is_alphanumeric)
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
pub(crate) struct Number {
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
    pub(crate) fn of(e164: &str) -> Self {
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
            ("+5491123456789", "011 15-2345-6789"),
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
            ("?to=ada%40example.com&x", "?to=[erased]&x"),
            ("mailto%3Aada%40Example.com%3E", "mailto%3A[erased]%3E"),
            ("100 % of ada@example.com", "100 % of [erased]"),
        ] {
            assert_eq!(ada.removed_from(text).as_deref(), Some(clean), "{text}");
        }
        for text in [
            "",
            "nada@example.com",
            "l.ada@example.com",
            "x+ada@example.com",
            "x-ada@example.com",
            "x__ada@example.com",
            "nada%40example.com",
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
