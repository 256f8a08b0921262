//! The addresses that people log in with. A domain has a Unicode and an ASCII spelling, and both
//! lead to the same mailbox: it is stored in ASCII, as the emails of accounts are addressed.

use email::{Address, domain_in_unicode};
use store::{Sql, args};

use super::store::Person;
use crate::app::App;

/// Most characters of an email address.
const LONGEST_EMAIL: usize = 254;

/// An email address as it is stored: trimmed, in lower case, its domain in ASCII; `None` when it is
/// none.
#[must_use]
pub fn email(typed: &str) -> Option<String> {
    let text = plain(typed);
    let (name, domain) = text.split_once('@')?;
    let is_good = !name.is_empty()
        && !domain.contains('@')
        && domain.contains('.')
        && !domain.split('.').any(str::is_empty)
        && text.chars().count() <= LONGEST_EMAIL
        && !text.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    // One that no letter reaches could neither be confirmed nor get a new password.
    let address = Address::parse(&text).ok().filter(|_| is_good)?;
    Some(address.as_str().to_owned()).filter(|email| email.len() <= LONGEST_EMAIL)
}

/// How an address may be stored, the likeliest first. Rows from before domains were stored in
/// ASCII have what was typed then: whoever has one of them goes on logging in with it, in either
/// spelling. Where both spellings are rows of their own, each is found by its own.
#[must_use]
pub fn spellings(typed: &str) -> Option<[String; 3]> {
    let email = email(typed)?;
    let in_unicode = in_unicode(&email);
    Some([plain(typed), email, in_unicode])
}

/// Whoever has the address that somebody typed, by a statement that takes its spellings.
pub(super) async fn find(
    app: &App,
    by_email: Sql,
    typed: &str,
) -> Result<Option<Person>, store::Error> {
    let Some(all) = spellings(typed) else { return Ok(None) };
    let [first, second, third] = &all;
    let args = args![first.as_str(), second.as_str(), third.as_str()];
    let found: Vec<Person> = app.db.rows(by_email, args).await?;
    Ok(found.into_iter().min_by_key(|person| all.iter().position(|one| *one == person.email)))
}

/// The other spelling of a stored address: the same where its domain is plain.
pub(super) fn in_unicode(email: &str) -> String {
    let spelled = |(name, domain)| format!("{name}@{}", domain_in_unicode(domain));
    email.split_once('@').map(spelled).unwrap_or_default()
}

/// Without what no spelling of an address differs by.
pub(super) fn plain(typed: &str) -> String {
    typed.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{email, spellings};

    #[test]
    fn emails_are_trimmed_lower_cased_and_checked() {
        assert_eq!(email(" Ana.B@Example.COM "), Some("ana.b@example.com".to_owned()));
        let long = format!("{}@example.com", "x".repeat(243));
        let bad = [
            "",
            "a",
            "a@",
            "@b.c",
            "a@b",
            "a@@b.c",
            "a@b@c.d",
            "a b@c.d",
            "a@b..c",
            "a@.c",
            "a@b.",
            "a\u{0}@b.c",
            "é@x.example",
            "a@[127.0.0.1]",
            &long,
        ];
        for text in bad {
            assert_eq!(email(text), None, "{text}");
        }
    }

    #[test]
    fn a_domain_has_one_form_however_it_is_spelled() {
        let stored = Some("ana@xn--mnchen-3ya.example".to_owned());
        let typed =
            ["Ana@MÜNCHEN.example", "ana@mu\u{308}nchen.example", "ana@XN--MNCHEN-3YA.example"];
        for typed in typed {
            assert_eq!(email(typed), stored, "{typed}");
            let spelled = spellings(typed).unwrap();
            assert!(spelled.contains(&"ana@münchen.example".to_owned()), "{spelled:?}");
            assert!(spelled.contains(stored.as_ref().unwrap()), "{spelled:?}");
        }
    }
}
