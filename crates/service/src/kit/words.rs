//! Enums whose members are words: as they are stored, shown and counted.

use std::str::FromStr;

/// A text that is none of the words of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of the known words")]
pub struct UnknownWord;

/// An enum of words, for what reads one of them.
pub trait Word: Copy + FromStr + 'static {
    /// The words, in the order of definition.
    fn words() -> Vec<&'static str>;
}

/// What is wrong with a word that is none of them.
#[must_use]
pub fn must_be_one_of<T: Word>() -> String {
    one_of(&T::words())
}

/// The same of a list of words.
#[must_use]
pub fn one_of(words: &[&str]) -> String {
    match words {
        [only] => format!("must be {only}"),
        words => format!("must be one of {}", words.join(", ")),
    }
}

/// Defines an enum of words, with `ALL` (in the order of definition), `as_str` and `FromStr`; rows
/// of the database can be read as one.
macro_rules! words {
    ($(
        $(#[$doc:meta])*
        $vis:vis enum $name:ident { $($(#[$of:meta])* $member:ident = $word:literal,)+ }
    )+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $($(#[$of])* $member,)+ }

        impl $name {
            /// All of them, in the order of definition.
            $vis const ALL: &'static [Self] = &[$(Self::$member),+];

            /// As stored and shown.
            #[must_use]
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$member => $word,)+ }
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::kit::words::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.iter().find(|one| one.as_str() == word);
                found.copied().ok_or($crate::kit::words::UnknownWord)
            }
        }

        impl $crate::kit::words::Word for $name {
            fn words() -> Vec<&'static str> {
                Self::ALL.iter().map(|one| one.as_str()).collect()
            }
        }

        impl ::store::FromVal for $name {
            fn from_val(value: ::store::Val) -> Option<Self> {
                value.text()?.parse().ok()
            }
        }
    )+ };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    use super::UnknownWord;

    words! {
        /// For the test.
        enum Size {
            /// One.
            Small = "small",
            /// Another.
            VeryLarge = "very_large",
        }
    }

    #[test]
    fn every_word_is_read_as_it_is_written_and_nothing_else_is() {
        for size in Size::ALL {
            assert_eq!(size.as_str().parse(), Ok(*size));
        }
        for other in ["", "Small", "small ", "very-large"] {
            assert_eq!(other.parse::<Size>(), Err(UnknownWord), "{other}");
        }
    }
}
