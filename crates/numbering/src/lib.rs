//! The numbering plans of the world, as a table: which country a number is of, which type, and how
//! it is written at home. They are those of libphonenumber (The Libphonenumber Authors, Apache-2.0)
//! in the version of `VERSION.json`; `scripts/numbering` makes the table of its metadata.
//!
//! ```
//! use numbering::{Number, NumberType};
//!
//! let number = Number::read("+4402079460018").unwrap();
//! assert_eq!((number.national(), number.at_home().as_str()), ("2079460018", "02079460018"));
//! let verdict = number.judge();
//! assert_eq!((verdict.region, verdict.kind), (Some("GB"), NumberType::FixedLine));
//! ```

mod digits;
mod plans;

use digits::Digits;
use plans::Plans;

static PLANS: Plans<'static> = Plans::built_in();

/// What kind of number it is, in the words of libphonenumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// None that is known: the number is not valid.
    Unknown,
    /// Costs its caller more than usual.
    PremiumRate,
    /// Costs its caller nothing.
    TollFree,
    /// Paid for by both sides.
    SharedCost,
    /// Internet telephony.
    Voip,
    /// Follows a person to other numbers.
    PersonalNumber,
    /// A pager.
    Pager,
    /// Universal access number, of a company.
    Uan,
    /// A mailbox.
    Voicemail,
    /// A fixed line.
    FixedLine,
    /// A mobile phone.
    Mobile,
    /// One of these two: the plan has the same numbers for both.
    FixedLineOrMobile,
}

impl NumberType {
    /// The type of this number in the table.
    fn of(number: u8) -> Self {
        match number {
            1 => Self::PremiumRate,
            2 => Self::TollFree,
            3 => Self::SharedCost,
            4 => Self::Voip,
            5 => Self::PersonalNumber,
            6 => Self::Pager,
            7 => Self::Uan,
            8 => Self::Voicemail,
            9 => Self::FixedLine,
            10 => Self::Mobile,
            11 => Self::FixedLineOrMobile,
            _ => Self::Unknown,
        }
    }
}

/// What the plans say of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// ISO 3166 code of its country, `001` for non-geographic numbers. A number that is not valid
    /// has one, too, where its first digits tell.
    pub region: Option<&'a str>,
    /// Its type.
    pub kind: NumberType,
}

impl Verdict<'_> {
    /// Whether the plan of its region has such a number.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.region.is_some() && self.kind != NumberType::Unknown
    }
}

/// A country code that exists, and digits after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Which of the table's country codes.
    place: u16,
    national: Digits,
}

impl Number {
    /// Reads `+` and digits, as the library does: what is dialled in front at home is taken off, as
    /// in `+44 020 7946 0018`, unless the plan has the number only with it. `None` where no country
    /// has the code, and where fewer than 2 or more than 17 digits follow it.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        PLANS.read(text)
    }

    /// The same of a number that has nothing in front of it.
    #[must_use]
    pub fn as_it_stands(text: &str) -> Option<Self> {
        PLANS.as_it_stands(text)
    }

    /// Which country and type it is of.
    #[must_use]
    pub fn judge(&self) -> Verdict<'static> {
        PLANS.judge(self)
    }

    /// The country code.
    #[must_use]
    pub fn code(&self) -> u16 {
        PLANS.code_of(self)
    }

    /// The digits without the country code.
    #[must_use]
    pub fn national(&self) -> &str {
        self.national.as_str()
    }

    /// The digits as the country itself writes them, with what is dialled in front there.
    #[must_use]
    pub fn at_home(&self) -> String {
        PLANS.at_home(self)
    }

    /// `+` and all digits.
    #[must_use]
    pub fn e164(&self) -> String {
        format!("+{}{}", self.code(), self.national())
    }
}

/// The country code of a country (ISO 3166, in capitals). `None` where it has no phone numbers of
/// its own.
#[must_use]
pub fn code_of(country: &str) -> Option<u16> {
    PLANS.code_of_country(country)
}
