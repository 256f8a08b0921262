//! What an API key may do.

use crate::kit::body::Fields;
use crate::kit::described::described;

/// Names in one request; there are far fewer.
const MOST_WORDS: usize = 50;

/// One thing that an API key may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Send passcodes.
    OtpSend,
    /// Check passcodes.
    OtpVerify,
    /// Send SMS.
    SmsSend,
    /// Send chat-app messages.
    ChatappSend,
    /// Read what recipients answered.
    ChatappReceive,
    /// Send email.
    EmailSend,
    /// Read the account.
    AccountRead,
}

impl Scope {
    /// All of them, in the order in which they are shown.
    pub const ALL: &'static [Self] = &[
        Self::OtpSend,
        Self::OtpVerify,
        Self::SmsSend,
        Self::ChatappSend,
        Self::ChatappReceive,
        Self::EmailSend,
        Self::AccountRead,
    ];

    /// As written and stored.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OtpSend => "otp:send",
            Self::OtpVerify => "otp:verify",
            Self::SmsSend => "sms:send",
            Self::ChatappSend => "chatapp:send",
            Self::ChatappReceive => "chatapp:receive",
            Self::EmailSend => "email:send",
            Self::AccountRead => "account:read",
        }
    }

    /// From what is written.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.word() == word)
    }

    /// Its place in a bit set.
    #[must_use]
    pub const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// The bit set of a list.
    #[must_use]
    pub fn set(scopes: &[Self]) -> u16 {
        scopes.iter().fold(0, |set, scope| set | scope.bit())
    }

    /// The words of a bit set, in the order of [`Scope::ALL`].
    #[must_use]
    pub fn words(set: u16) -> Vec<&'static str> {
        let chosen = Self::ALL.iter().filter(|scope| set & scope.bit() != 0);
        chosen.map(|scope| scope.word()).collect()
    }

    /// The bit set of words separated by spaces, as stored; unknown words open nothing.
    #[must_use]
    pub fn stored(words: &str) -> u16 {
        words.split(' ').filter_map(Self::of).fold(0, |set, scope| set | scope.bit())
    }

    /// The bit set in the field `scopes` of a request, its faults noted; left out = all. It is to
    /// be the first field that is read.
    pub fn read(fields: &mut Fields) -> u16 {
        let Some(words) = fields.texts("scopes", MOST_WORDS) else { return Self::set(Self::ALL) };
        // A list of things that are no texts is at fault already, not empty.
        if words.is_empty() && !fields.has_faults() {
            fields.fault("scopes", "too_short", "must have at least one scope");
        }
        let mut set = 0;
        for (index, word) in words.iter().enumerate() {
            if let Some(scope) = Self::of(word) {
                set |= scope.bit();
            } else {
                let all = Self::words(Self::set(Self::ALL)).join(", ");
                let detail = format!("must be one of {all}");
                fields.fault(&format!("scopes/{index}"), "invalid_enum", detail);
            }
        }
        set
    }
}

described!(
    Scope as "Scope": "One thing that an API key may be allowed to do.",
    Self::ALL.iter().map(|scope| scope.word())
);

#[cfg(test)]
mod tests {
    use super::{Fields, Scope};

    fn faults(body: &str) -> Vec<(String, &'static str)> {
        let mut fields = Fields::read(body.as_bytes()).unwrap();
        Scope::read(&mut fields);
        let Err(problem) = fields.finish(true) else { return Vec::new() };
        problem.items().iter().map(|item| (item.pointer.clone(), item.code)).collect()
    }

    #[test]
    fn unknown_scopes_are_named_by_their_place() {
        let found = faults(r#"{"scopes": ["otp:send", "otp:sent", "otp:send"]}"#);
        assert_eq!(found, [("/scopes/1".to_owned(), "invalid_enum")]);
    }

    #[test]
    fn an_empty_list_of_scopes_is_too_short_and_none_means_all() {
        assert_eq!(faults(r#"{"scopes": []}"#), [("/scopes".to_owned(), "too_short")]);
        let mut fields = Fields::read(b"{}").unwrap();
        assert_eq!(Scope::read(&mut fields), Scope::set(Scope::ALL));
    }

    #[test]
    fn every_scope_survives_being_stored() {
        for scope in Scope::ALL {
            assert_eq!(Scope::of(scope.word()), Some(*scope));
            assert_eq!(Scope::stored(scope.word()), scope.bit());
        }
        let all = Scope::set(Scope::ALL);
        assert_eq!(all.count_ones(), 7);
        assert_eq!(Scope::stored(&Scope::words(all).join(" ")), all);
    }

    #[test]
    fn unknown_words_open_nothing() {
        assert_eq!(Scope::stored("otp:sendx  account"), 0);
        assert_eq!(Scope::of(""), None);
    }
}
