//! Phone numbers in international form, checked against the world's numbering plans.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumber, PhoneNumberFormat, PhoneNumberType};

/// Digits of the shortest text that is looked at: country code and all.
const SHORTEST: usize = 6;
/// Most digits without the country code, as the library bounds them.
const LONGEST_NATIONAL: usize = 17;

/// A valid phone number. `Debug` and `Display` hide its middle.
#[derive(Clone)]
pub struct Msisdn {
    e164: String,
    /// Looked up at the first question: it takes microseconds, and most readers never ask.
    country: OnceLock<String>,
}

impl PartialEq for Msisdn {
    fn eq(&self, other: &Self) -> bool {
        self.e164 == other.e164
    }
}

impl Eq for Msisdn {}

impl Hash for Msisdn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.e164.hash(state);
    }
}

/// Why a text is no recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is not a phone number of any country.
    #[error(
        "is not a valid phone number: check its country code and how many digits it has, as in \
         +33612345678"
    )]
    NotANumber,
    /// The same of one without `+`: it is as dialled at home, perhaps.
    #[error("is not a valid phone number: write + and the country code first, as in +33612345678")]
    NoCountryCode,
    /// It is a number that costs its caller: fraud pays itself with these.
    #[error(
        "is a premium-rate, shared-cost, toll-free, pager or universal access number, which gets \
         no passcode: send it to a person's own number"
    )]
    NotAPerson,
}

/// What the numbering plans say of a text, for the golden test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// `+` and digits.
    pub e164: String,
    /// Whether it is valid in its region.
    pub valid: bool,
    /// ISO 3166 code, or `001` for non-geographic numbers; empty if unknown.
    pub region: String,
    /// Type in the words of libphonenumber, such as `MOBILE`.
    pub kind: PhoneNumberType,
}

/// Asks the numbering plans. `None` when the text cannot be read as a number at all.
#[must_use]
pub fn look_up(text: &str) -> Option<Numbering> {
    // What is valid as it stands is taken as it stands: the library's search for extensions,
    // letters, punctuation and national prefixes takes four fifths of its time.
    let verdict = as_it_stands(text).map(|number| judge(&number));
    verdict.filter(|verdict| verdict.valid).or_else(|| read(text))
}

fn read(text: &str) -> Option<Numbering> {
    PHONE_NUMBER_UTIL.parse(text, None).ok().map(|number| judge(&number))
}

/// `+`, a country code and digits, and nothing else.
fn as_it_stands(text: &str) -> Option<PhoneNumber> {
    let digits = text.strip_prefix('+').filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()))?;
    // E.164 §6.2.1: one to three digits, none of which is the beginning of another.
    let (country_code, national) = (1..=3).find_map(|length| {
        let (code, national) = digits.split_at_checked(length)?;
        let code = code.parse().ok()?;
        PHONE_NUMBER_UTIL.get_region_for_country_code(code).map(|_| (code, national))
    })?;
    let zeros = national.bytes().take_while(|byte| *byte == b'0').count();
    if national.len() > LONGEST_NATIONAL || zeros == national.len() {
        return None;
    }
    Some(PhoneNumber {
        country_code,
        national_number: national.parse().ok()?,
        italian_leading_zero: (zeros > 0).then_some(true),
        number_of_leading_zeros: i32::try_from(zeros).ok().filter(|zeros| *zeros > 1),
        ..PhoneNumber::default()
    })
}

fn judge(number: &PhoneNumber) -> Numbering {
    let region = PHONE_NUMBER_UTIL.get_region_for_number(number);
    let kind = PHONE_NUMBER_UTIL.get_number_type(number);
    Numbering {
        e164: PHONE_NUMBER_UTIL.format(number, PhoneNumberFormat::E164).into_owned(),
        // What the library's own check of validity comes to, without matching once more.
        valid: region.is_some() && kind != PhoneNumberType::Unknown,
        region: region.map(|code| code.as_region_str().as_str().to_owned()).unwrap_or_default(),
        kind,
    }
}

/// The region of a number. What kind of number it is, which takes longest, is asked only where the
/// region is not clear without.
fn region_of(e164: &str) -> String {
    let plain = as_it_stands(e164);
    match plain.and_then(|number| PHONE_NUMBER_UTIL.get_region_for_number(&number)) {
        Some(region) => region.as_region_str().as_str().to_owned(),
        None => look_up(e164).map(|verdict| verdict.region).unwrap_or_default(),
    }
}

/// The digits of a number without its country code, as dialled within the country but for the zero
/// that many put in front. `None` when the text is no number.
#[must_use]
pub fn national(e164: &str) -> Option<String> {
    let number = PHONE_NUMBER_UTIL.parse(e164, None).ok()?;
    Some(number.get_national_significant_number())
}

/// The digits of a number as its own country writes them, with what is dialled in front there: `0`,
/// `8` or `06`, where anything is. `None` when the text is no number.
#[must_use]
pub fn as_at_home(e164: &str) -> Option<String> {
    let number = PHONE_NUMBER_UTIL.parse(e164, None).ok()?;
    let written = PHONE_NUMBER_UTIL.format(&number, PhoneNumberFormat::National);
    Some(written.chars().filter(char::is_ascii_digit).collect())
}

/// Whether this is the code of a country that has phone numbers (ISO 3166, `GB` and never `UK`).
#[must_use]
pub fn is_country(code: &str) -> bool {
    let mut regions = PHONE_NUMBER_UTIL.get_supported_regions();
    regions.any(|region| region.as_region_str().as_str() == code)
}

impl Msisdn {
    /// Whether it may be a number of this country (ISO 3166): countries share codes, and lists
    /// disagree on which of them a number is from.
    #[must_use]
    pub fn may_be_of(&self, country: &str) -> bool {
        let code =
            PHONE_NUMBER_UTIL.parse(self.e164(), None).ok().map(|number| number.country_code);
        let mut regions = PHONE_NUMBER_UTIL.get_supported_regions();
        regions.any(|region| {
            region.as_region_str().as_str().eq_ignore_ascii_case(country)
                && PHONE_NUMBER_UTIL.get_country_code_for_region(region) == code
        })
    }

    /// Reads a number in international form. Spaces, dots, dashes and brackets are dropped; the
    /// plus may be missing or be `00`.
    ///
    /// # Errors
    /// [`Invalid`], which never repeats the text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Ok(Self::of(valid(text)?))
    }

    /// The same of a number that is to get a passcode.
    ///
    /// # Errors
    /// [`Invalid`], which never repeats the text.
    pub fn parse_for_passcode(text: &str) -> Result<Self, Invalid> {
        let verdict = valid(text)?;
        match verdict.kind {
            PhoneNumberType::PremiumRate
            | PhoneNumberType::SharedCost
            | PhoneNumberType::TollFree
            | PhoneNumberType::Pager
            | PhoneNumberType::UAN => Err(Invalid::NotAPerson),
            _ => Ok(Self::of(verdict)),
        }
    }

    fn of(verdict: Numbering) -> Self {
        Self { e164: verdict.e164, country: OnceLock::from(verdict.region) }
    }

    /// Reads a number that may have been valid once: numbering plans change, and what was kept
    /// under an old one must still be found.
    ///
    /// # Errors
    /// [`Invalid::NotANumber`], which never repeats the text.
    pub fn once_valid(text: &str) -> Result<Self, Invalid> {
        Self::parse(text).or_else(|_| {
            // No country code begins with 0 (E.164 §6.2.1): that is a number as dialled at home.
            let is_abroad = |e164: &String| e164.len() <= 16 && !e164.starts_with("+0");
            let e164 = plain(text).filter(is_abroad).ok_or(Invalid::NotANumber)?;
            Ok(Self::stored(e164))
        })
    }

    /// One that comes from our own database.
    #[must_use]
    pub fn stored(e164: String) -> Self {
        Self { e164, country: OnceLock::new() }
    }

    /// `+` and digits.
    #[must_use]
    pub fn e164(&self) -> &str {
        &self.e164
    }

    /// ISO 3166 code of its country, `001` for non-geographic numbers.
    #[must_use]
    pub fn country(&self) -> &str {
        self.country.get_or_init(|| region_of(&self.e164))
    }

    /// Its last four digits: what scripts a sandbox ending.
    #[must_use]
    pub fn ending(&self) -> &str {
        self.e164.get(self.e164.len().saturating_sub(4)..).unwrap_or("")
    }
}

fn valid(text: &str) -> Result<Numbering, Invalid> {
    let verdict = plain(text).and_then(|e164| look_up(&e164));
    let is_abroad = text.trim_start().starts_with('+');
    let why = if is_abroad { Invalid::NotANumber } else { Invalid::NoCountryCode };
    verdict.filter(|verdict| verdict.valid).ok_or(why)
}

/// `+` and digits, or `None` when there is anything that no phone number has.
fn plain(text: &str) -> Option<String> {
    if text.len() > 64 {
        return None;
    }
    let mut digits = String::with_capacity(17);
    for (position, letter) in text.trim().chars().enumerate() {
        match letter {
            '+' if position == 0 => {}
            '0'..='9' => digits.push(letter),
            ' ' | '-' | '.' | '(' | ')' | '/' | '\u{a0}' => {}
            _ => return None,
        }
    }
    let digits = digits.strip_prefix("00").unwrap_or(&digits);
    (digits.len() >= SHORTEST).then(|| format!("+{digits}"))
}

impl fmt::Debug for Msisdn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Msisdn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (head, tail) = (self.e164.get(..3), self.e164.get(self.e164.len().saturating_sub(2)..));
        write!(f, "{}*****{}", head.unwrap_or(""), tail.unwrap_or(""))
    }
}

#[cfg(test)]
mod tests {
    use rlibphonenumber::PHONE_NUMBER_UTIL;

    use super::{Invalid, Msisdn, as_it_stands, judge, look_up, read};

    /// Any digits after each country code of the world.
    #[test]
    fn what_is_valid_as_it_stands_is_what_the_library_reads() {
        let (mut seed, mut valid) = (7_u64, 0);
        for code in PHONE_NUMBER_UTIL.get_supported_calling_codes() {
            for round in 0..60_u64 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let digits = format!("{:020}", seed >> 1);
                let length = 6 + usize::try_from(round % 6).unwrap();
                let text = format!("+{code}{}", &digits[20 - length..]);
                assert_eq!(look_up(&text), read(&text), "{text}");
                let stands = as_it_stands(&text).map(|number| judge(&number));
                valid += usize::from(stands.is_some_and(|verdict| verdict.valid));
            }
        }
        assert!(valid > 300, "only {valid} valid numbers among them");
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for text in ["+33612345678", "33612345678", "0033 6 12 34 56 78", "+33 (6) 12-34.56 78"] {
            assert_eq!(Msisdn::parse(text).unwrap().e164(), "+33612345678", "{text}");
        }
        assert_eq!(Msisdn::parse("+22890112345").unwrap().country(), "TG");
        assert_eq!(Msisdn::stored("+22890112345".to_owned()).country(), "TG");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "+", "abc", "+3361234567x", "0612345678", "+33000000000", "+1201555012"] {
            let why =
                if text.starts_with('+') { Invalid::NotANumber } else { Invalid::NoCountryCode };
            assert_eq!(Msisdn::parse(text), Err(why), "{text}");
        }
        assert_eq!(Msisdn::parse_for_passcode("+33892123456"), Err(Invalid::NotAPerson));
        assert_eq!(Msisdn::parse("+33892123456").unwrap().country(), "FR");
    }

    #[test]
    fn a_number_of_an_old_plan_is_read_where_it_is_looked_for() {
        assert!(Msisdn::parse("+33000000000").is_err());
        assert_eq!(Msisdn::once_valid("+33 000000000").unwrap().e164(), "+33000000000");
        assert_eq!(Msisdn::once_valid("0033612345678").unwrap().e164(), "+33612345678");
        for text in ["", "+", "abc", "0612345678", "+3361234567x", "+33612345678901234"] {
            assert_eq!(Msisdn::once_valid(text), Err(Invalid::NotANumber), "{text}");
        }
    }

    #[test]
    fn a_number_may_be_of_any_country_that_shares_its_code() {
        let number = Msisdn::parse("+14155552671").unwrap();
        let may = ["US", "ca", "MX", "XX", ""].map(|country| number.may_be_of(country));
        assert_eq!(may, [true, true, false, false, false]);
    }

    #[test]
    fn a_number_is_never_shown_whole() {
        let number = Msisdn::parse("+33612345678").unwrap();
        assert_eq!(format!("{number} {number:?}"), "+33*****78 +33*****78");
    }
}
