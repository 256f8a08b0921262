//! Phone numbers in international form, checked against the world's numbering plans.

use std::fmt;

use numbering::{Number, NumberType};

/// Digits of the shortest text that is looked at: country code and all.
const SHORTEST: usize = 6;

/// A valid phone number. `Debug` and `Display` hide its middle.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Msisdn {
    e164: String,
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
    pub region: &'static str,
    /// Type in the words of libphonenumber, such as `Mobile`.
    pub kind: NumberType,
}

/// Asks the numbering plans of `+` and digits. `None` when that cannot be read as a number at all.
#[must_use]
pub fn look_up(text: &str) -> Option<Numbering> {
    // What is valid as it stands is taken as it stands: `Number::read` takes the 8 off Belarus'
    // premium numbers +375 8 10…, and leaves none, or another.
    let stands = Number::as_it_stands(text).map(|number| (number, number.judge()));
    let read = || Number::read(text).map(|number| (number, number.judge()));
    let (number, verdict) = stands.filter(|(_, verdict)| verdict.is_valid()).or_else(read)?;
    Some(Numbering {
        e164: number.e164(),
        valid: verdict.is_valid(),
        region: verdict.region.unwrap_or_default(),
        kind: verdict.kind,
    })
}

/// The digits of a number without its country code, as dialled within the country but for the zero
/// that many put in front. `None` when the text is no number.
#[must_use]
pub fn national(e164: &str) -> Option<String> {
    Number::read(e164).map(|number| number.national().to_owned())
}

/// The digits of a number as its own country writes them, with what is dialled in front there: `0`,
/// `8` or `06`, where anything is. `None` when the text is no number.
#[must_use]
pub fn as_at_home(e164: &str) -> Option<String> {
    Number::read(e164).map(|number| number.at_home())
}

/// Whether this is the code of a country that has phone numbers (ISO 3166, `GB` and never `UK`).
#[must_use]
pub fn is_country(code: &str) -> bool {
    numbering::code_of(code).is_some()
}

impl Msisdn {
    /// Whether it may be a number of this country (ISO 3166): countries share codes, and lists
    /// disagree on which of them a number is from.
    #[must_use]
    pub fn may_be_of(&self, country: &str) -> bool {
        let code = numbering::code_of(&country.to_ascii_uppercase());
        code.is_some() && code == Number::read(self.e164()).map(|number| number.code())
    }

    /// Reads a number in international form. Spaces, dots, dashes and brackets are dropped; the
    /// plus may be missing or be `00`.
    ///
    /// # Errors
    /// [`Invalid`], which never repeats the text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Ok(Self::stored(valid(text)?.e164))
    }

    /// The same of a number that is to get a passcode.
    ///
    /// # Errors
    /// [`Invalid`], which never repeats the text.
    pub fn parse_for_passcode(text: &str) -> Result<Self, Invalid> {
        let verdict = valid(text)?;
        match verdict.kind {
            NumberType::PremiumRate
            | NumberType::SharedCost
            | NumberType::TollFree
            | NumberType::Pager
            | NumberType::Uan => Err(Invalid::NotAPerson),
            _ => Ok(Self::stored(verdict.e164)),
        }
    }

    /// Reads a number that may have been valid once: numbering plans change, and what was kept
    /// under an old one must still be found.
    ///
    /// # Errors
    /// [`Invalid`], which never repeats the text.
    pub fn once_valid(text: &str) -> Result<Self, Invalid> {
        Self::parse(text).or_else(|why| {
            // No country code begins with 0 (E.164 §6.2.1): that is a number as dialled at home.
            let is_abroad = |e164: &String| e164.len() <= 16 && !e164.starts_with("+0");
            let e164 = plain(text).filter(is_abroad).ok_or(why)?;
            Ok(Self::stored(e164))
        })
    }

    /// One that comes from our own database.
    #[must_use]
    pub fn stored(e164: String) -> Self {
        Self { e164 }
    }

    /// `+` and digits.
    #[must_use]
    pub fn e164(&self) -> &str {
        &self.e164
    }

    /// ISO 3166 code of its country, `001` for non-geographic numbers.
    #[must_use]
    pub fn country(&self) -> &'static str {
        let judged = Number::as_it_stands(&self.e164).and_then(|number| number.judge().region);
        judged.or_else(|| look_up(&self.e164).map(|verdict| verdict.region)).unwrap_or_default()
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
    use super::{Invalid, Msisdn};

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for text in ["+33612345678", "33612345678", "0033 6 12 34 56 78", "+33 (6) 12-34.56 78"] {
            assert_eq!(Msisdn::parse(text).unwrap().e164(), "+33612345678", "{text}");
        }
        assert_eq!(Msisdn::parse("+22890112345").unwrap().country(), "TG");
        assert_eq!(Msisdn::stored("+22890112345".to_owned()).country(), "TG");
    }

    #[test]
    fn a_number_that_is_valid_as_it_stands_stays_as_it_stands() {
        for text in ["+3758105910562", "+81003768112000000"] {
            assert_eq!(Msisdn::parse(text).unwrap().e164(), text);
            assert_eq!(Msisdn::parse_for_passcode(text), Err(Invalid::NotAPerson), "{text}");
        }
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
            let why =
                if text.starts_with('+') { Invalid::NotANumber } else { Invalid::NoCountryCode };
            assert_eq!(Msisdn::once_valid(text), Err(why), "{text}");
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
