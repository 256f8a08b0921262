//! The table, read where it lies. All numbers in it are little-endian:
//!
//! | part | each entry |
//! |---|---|
//! | head | `PLAN`, how many entries each of the five parts below has, the root: `u16` each |
//! | regions | ISO 3166 code or `001`, filled up to 4 bytes; the main one of a country code first |
//! | codes | country code, first region, how many: `u16`; lengths: `u32`; three states: `u16` |
//! | verdicts | which of the code's regions, from 1 (0: none); type, and [`VIABLE`] |
//! | rewritings | 4 bytes of digits in front, 4 of digits put between, three places, a zero |
//! | states | what is said where the number ends, then the state that each digit leads to: `u16` |
//!
//! From the root the digits of a country code lead to its place, from 1. From the three states of a
//! code national digits lead to a verdict, to the rewriting that takes the national prefix off, and
//! to the one that puts it in front; rewriting 0 is none. A file that is damaged gives wrong
//! answers, and nothing worse.

use crate::digits::Digits;
use crate::{Number, NumberType, Verdict};

/// Most bytes of a text, as the library bounds them.
const LONGEST_TEXT: usize = 250;
/// Fewest digits without the country code.
const SHORTEST: usize = 2;
/// Most digits of a country code (E.164 §6.2.1).
const LONGEST_CODE: usize = 3;
/// The main region of the country code has such numbers, as far as its general description says.
const VIABLE: u8 = 0x80;
/// What stands for the country of a number that has none.
const NO_COUNTRY: &str = "001";

const HEAD: usize = 16;
const REGION: usize = 4;
const CODE: usize = 16;
const VERDICT: usize = 2;
const REWRITING: usize = 12;
/// Most digits that are put in front, or between.
const TEXT: usize = 4;
/// In cells of two bytes: what it says, and ten digits.
const STATE: usize = 11;

/// The parts of the file.
#[derive(Debug)]
pub(crate) struct Plans<'a> {
    regions: &'a [u8],
    codes: &'a [u8],
    verdicts: &'a [u8],
    rewritings: &'a [u8],
    /// In cells, [`STATE`] of them each.
    states: &'a [[u8; 2]],
    root: u16,
}

impl Plans<'static> {
    /// The table of this version.
    pub(crate) const fn built_in() -> Self {
        const NONE: Plans<'static> = Plans {
            regions: &[],
            codes: &[],
            verdicts: &[],
            rewritings: &[],
            states: &[],
            root: 0,
        };
        match Plans::of(include_bytes!("plans.bin")) {
            Some(plans) => plans,
            None => NONE,
        }
    }
}

impl<'a> Plans<'a> {
    /// The parts of a file. `None` when it is of another form, or not as long as it says.
    pub(crate) const fn of(file: &'a [u8]) -> Option<Self> {
        let Some((head, rest)) = file.split_first_chunk::<HEAD>() else { return None };
        let ([[b'P', b'L'], [b'A', b'N'], counts @ .., root], []) = head.as_chunks::<2>() else {
            return None;
        };
        let [regions, codes, verdicts, rewritings, states] = counts else { return None };
        let Some((regions, rest)) = entries(rest, *regions, REGION) else { return None };
        let Some((codes, rest)) = entries(rest, *codes, CODE) else { return None };
        let Some((verdicts, rest)) = entries(rest, *verdicts, VERDICT) else { return None };
        let Some((rewritings, rest)) = entries(rest, *rewritings, REWRITING) else { return None };
        let Some((states, [])) = entries(rest, *states, 2 * STATE) else { return None };
        let (states, _) = states.as_chunks();
        let root = u16::from_le_bytes(*root);
        Some(Self { regions, codes, verdicts, rewritings, states, root })
    }

    /// [`Number::read`]: `parse` of the library.
    pub(crate) fn read(&self, text: &str) -> Option<Number> {
        let (place, national) = self.split(text)?;
        let code = self.code(place)?;
        let stands = Digits::of(&[national]);
        let national = match self.rewritten(code.prefix, national) {
            Some(parts) => {
                let without = Digits::of(&parts);
                let is_worse = self.is_viable(&code, stands) && !self.is_viable(&code, without);
                let length = without.map_or(usize::MAX, |digits| digits.len());
                if is_worse || !code.allows(length) { stands } else { without }
            }
            None => stands,
        };
        let national = national.filter(|digits| digits.len() >= SHORTEST)?;
        Some(Number { place, national })
    }

    /// [`Number::as_it_stands`].
    pub(crate) fn as_it_stands(&self, text: &str) -> Option<Number> {
        let (place, national) = self.split(text)?;
        Some(Number { place, national: Digits::of(&[national])? })
    }

    /// [`Number::judge`].
    pub(crate) fn judge(&self, number: &Number) -> Verdict<'a> {
        let nothing = Verdict { region: None, kind: NumberType::Unknown };
        let Some(code) = self.code(number.place) else { return nothing };
        let [region, kind] = self.verdict(&code, number.national);
        let place = u16::from(region).checked_sub(1);
        let region = place.and_then(|place| self.region(code.first_region.checked_add(place)?));
        Verdict { region, kind: NumberType::of(kind & !VIABLE) }
    }

    /// [`Number::code`].
    pub(crate) fn code_of(&self, number: &Number) -> u16 {
        self.code(number.place).map_or(0, |code| code.number)
    }

    /// [`Number::at_home`].
    pub(crate) fn at_home(&self, number: &Number) -> String {
        let national = number.national.as_bytes();
        let parts = self.code(number.place).and_then(|code| self.rewritten(code.home, national));
        let digits = parts.map_or_else(|| national.to_vec(), |parts| parts.concat());
        String::from_utf8(digits).unwrap_or_default()
    }

    /// [`crate::code_of`].
    pub(crate) fn code_of_country(&self, country: &str) -> Option<u16> {
        let places = 0..u16::try_from(self.regions.len() / REGION).unwrap_or(0);
        let is_it = |place: &u16| self.region(*place) == Some(country) && country != NO_COUNTRY;
        let place = places.into_iter().find(is_it)?;
        let codes = 0..u16::try_from(self.codes.len() / CODE).unwrap_or(0);
        let mut codes = codes.filter_map(|of| self.code(of));
        codes.find(|code| code.has(place)).map(|code| code.number)
    }

    /// The place of a country code, and the digits after it.
    fn split<'t>(&self, text: &'t str) -> Option<(u16, &'t [u8])> {
        let digits = text.strip_prefix('+')?.as_bytes();
        if text.len() > LONGEST_TEXT || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        (1..=LONGEST_CODE).find_map(|length| {
            let (code, national) = digits.split_at_checked(length)?;
            let place = self.walk(self.root, code).checked_sub(1)?;
            Some((place, national)).filter(|_| national.len() >= SHORTEST)
        })
    }

    /// What the state says to which these digits lead.
    fn walk(&self, start: u16, digits: &[u8]) -> u16 {
        let mut state = start;
        for digit in digits {
            let next = self.cell(state, 1 + usize::from(digit.wrapping_sub(b'0')));
            // No other digit leads away, either: there are no loops but those of one state.
            if next == state {
                break;
            }
            state = next;
        }
        self.cell(state, 0)
    }

    fn cell(&self, state: u16, column: usize) -> u16 {
        let cell = self.states.get(STATE * usize::from(state) + column);
        cell.map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    /// The region's place within those of its code, from 1, and the type's number.
    fn verdict(&self, code: &Code, national: Digits) -> [u8; VERDICT] {
        let place = self.walk(code.judge, national.as_bytes());
        entry(self.verdicts, place).copied().unwrap_or_default()
    }

    fn is_viable(&self, code: &Code, national: Option<Digits>) -> bool {
        national.is_some_and(|national| self.verdict(code, national)[1] & VIABLE != 0)
    }

    /// What the rewriting makes of these digits to which they lead. `None`: it leaves them alone.
    fn rewritten<'t>(&self, start: u16, digits: &'t [u8]) -> Option<[&'t [u8]; 4]>
    where
        'a: 't,
    {
        let place = Some(self.walk(start, digits)).filter(|place| *place != 0)?;
        let rewriting: &[u8; REWRITING] = entry(self.rewritings, place)?;
        let (front, between) = rewriting.split_at(TEXT);
        let [.., from, to, rest, _] = rewriting;
        let part = digits.get(usize::from(*from)..usize::from(*to)).unwrap_or_default();
        let rest = digits.get(usize::from(*rest)..).unwrap_or_default();
        Some([filled(front), part, filled(between), rest])
    }

    fn code(&self, place: u16) -> Option<Code> {
        let fields: &[u8; CODE] = entry(self.codes, place)?;
        let ([number, first_region, regions, low, high, judge, prefix, home], []) =
            fields.as_chunks::<2>()
        else {
            return None;
        };
        Some(Code {
            number: u16::from_le_bytes(*number),
            first_region: u16::from_le_bytes(*first_region),
            regions: u16::from_le_bytes(*regions),
            lengths: u32::from_le_bytes([low[0], low[1], high[0], high[1]]),
            judge: u16::from_le_bytes(*judge),
            prefix: u16::from_le_bytes(*prefix),
            home: u16::from_le_bytes(*home),
        })
    }

    fn region(&self, place: u16) -> Option<&'a str> {
        let region: &[u8; REGION] = entry(self.regions, place)?;
        std::str::from_utf8(filled(region)).ok()
    }
}

/// What belongs to a country code.
#[derive(Debug)]
struct Code {
    number: u16,
    first_region: u16,
    regions: u16,
    /// As bits: how long a number may be that lost what is in front of it.
    lengths: u32,
    judge: u16,
    prefix: u16,
    home: u16,
}

impl Code {
    /// Whether a number that lost what is in front of it may be so long. One that is too long may:
    /// it is refused for that.
    fn allows(&self, length: usize) -> bool {
        let lengths =
            u32::try_from(length).ok().and_then(|length| self.lengths.checked_shr(length));
        lengths.is_none_or(|lengths| lengths & 1 == 1)
    }

    /// Whether it has the region of that place.
    fn has(&self, region: u16) -> bool {
        region.checked_sub(self.first_region).is_some_and(|place| place < self.regions)
    }
}

/// So many entries, and what follows them.
const fn entries(file: &[u8], count: [u8; 2], size: usize) -> Option<(&[u8], &[u8])> {
    file.split_at_checked(u16::from_le_bytes(count) as usize * size)
}

/// One of the entries.
fn entry<const SIZE: usize>(entries: &[u8], place: u16) -> Option<&[u8; SIZE]> {
    entries.get(SIZE * usize::from(place)..)?.first_chunk()
}

/// What is filled up with zeros.
fn filled(text: &[u8]) -> &[u8] {
    let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.get(..length).unwrap_or_default()
}

#[cfg(test)]
mod tests;
