//! What can be wrong with one field: the words in `code` of the items of `errors`, in one list. It
//! is the contract's; a test compares the two, and another reads the sources for words that are in
//! neither.

use endpoints::ToSchema;
use serde::Serialize;

macro_rules! item_codes {
    ($($(#[doc = $doc:literal])* $name:ident $word:literal;)*) => {
        /// A stable word for what is wrong with a field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ItemCode { $($(#[doc = $doc])* $name,)* }

        impl ItemCode {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word in `code`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

item_codes! {
    /// It is missing.
    Required "required";
    /// It is of another type or form, or there where nothing may be.
    InvalidType "invalid_type";
    /// It is no phone number that can be sent to.
    InvalidPhoneNumber "invalid_phone_number";
    /// It is no passcode.
    InvalidCode "invalid_code";
    /// It is none of the values that there are.
    InvalidEnum "invalid_enum";
    /// It is no URL.
    InvalidUrl "invalid_url";
    /// It is no email address, or one that is taken.
    InvalidEmail "invalid_email";
    /// It has too few characters, bytes or elements.
    TooShort "too_short";
    /// It has too many.
    TooLong "too_long";
    /// It is of the right type, and not allowed here.
    OutOfRange "out_of_range";
    /// Nobody asked for it.
    UnknownField "unknown_field";
    /// The parameters do not fit the template.
    InvalidTemplateParams "invalid_template_params";
    /// One of the two must be there.
    TextOrTemplateRequired "text_or_template_required";
}

/// From the word. One that is in no list is a fault of the program, and told as the most general.
impl From<&'static str> for ItemCode {
    fn from(word: &'static str) -> Self {
        let found = Self::ALL.iter().copied().find(|code| code.as_str() == word);
        debug_assert!(found.is_some(), "{word} is no code of an item");
        found.unwrap_or(Self::InvalidType)
    }
}
