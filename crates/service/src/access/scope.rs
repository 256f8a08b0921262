//! What an API key may do.

use crate::kit::body::{Element, Fields};
use crate::kit::described::described;
use crate::kit::words::{must_be_one_of, words};

/// Names in one request; there are far fewer.
const MOST_WORDS: usize = 50;

words! {
    /// One thing that an API key may be allowed to do.
    pub enum Scope {
        /// Send passcodes.
        OtpSend = "otp:send",
        /// Check passcodes.
        OtpVerify = "otp:verify",
        /// Send SMS.
        SmsSend = "sms:send",
        /// Send chat-app messages.
        ChatappSend = "chatapp:send",
        /// Read what recipients answered.
        ChatappReceive = "chatapp:receive",
        /// Send email.
        EmailSend = "email:send",
        /// Read the account.
        AccountRead = "account:read",
    }
}

impl Scope {
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
        chosen.map(|scope| scope.as_str()).collect()
    }

    /// The bit set of words separated by spaces, as stored; unknown words open nothing.
    #[must_use]
    pub fn stored(words: &str) -> u16 {
        words
            .split(' ')
            .filter_map(|word| word.parse::<Self>().ok())
            .fold(0, |set, scope| set | scope.bit())
    }

    /// The bit set in the field `scopes` of a request, its faults noted; left out = all.
    pub fn read(fields: &mut Fields) -> u16 {
        let Some(words) = fields.texts("scopes", MOST_WORDS) else { return Self::set(Self::ALL) };
        // A list of things that are no texts is at fault already, not empty.
        if words.is_empty() && !fields.has_faults_of(&["scopes"]) {
            fields.fault("scopes", "too_short", "must have at least one scope");
        }
        let mut set = 0;
        for Element { index, text } in &words {
            if let Ok(scope) = text.parse::<Self>() {
                set |= scope.bit();
            } else {
                let detail = must_be_one_of::<Self>();
                fields.fault(&format!("scopes/{index}"), "invalid_enum", detail);
            }
        }
        set
    }
}

described!(
    Scope as "Scope": "One thing that an API key may be allowed to do.",
    Self::ALL.iter().map(|scope| scope.as_str())
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
            assert_eq!(scope.as_str().parse(), Ok(*scope));
            assert_eq!(Scope::stored(scope.as_str()), scope.bit());
        }
        let all = Scope::set(Scope::ALL);
        assert_eq!(all.count_ones(), 7);
        assert_eq!(Scope::stored(&Scope::words(all).join(" ")), all);
    }

    #[test]
    fn unknown_words_open_nothing() {
        assert_eq!(Scope::stored("otp:sendx  account"), 0);
        assert!("".parse::<Scope>().is_err());
    }
}
