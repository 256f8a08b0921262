//! Addresses: `local@domain`, and `Name <local@domain>`. A domain may be internationalised; it is
//! kept in its ASCII form. A local part is plain ASCII, because relays rarely offer SMTPUTF8.

use std::fmt;

/// Longest local part, bytes (RFC 5321 §4.5.3.1.1).
const LONGEST_LOCAL: usize = 64;
/// Longest domain, bytes (RFC 5321 §4.5.3.1.2, less what DNS needs).
const LONGEST_DOMAIN: usize = 253;
/// Longest name in front of an address, characters.
const LONGEST_NAME: usize = 200;

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// There is no `@` with something on both sides.
    #[error("must be an address such as ada@example.com")]
    Form,
    /// The part before the `@`.
    #[error(
        "has a part before the @ that mail servers do not take: up to 64 letters, digits and \
             .!#$%&'*+-/=?^_`{{|}}~"
    )]
    Local,
    /// The part behind it.
    #[error("has no valid domain behind the @")]
    Domain,
    /// The name.
    #[error("has a name that is too long, not quoted as it should be, or holds control characters")]
    Name,
    /// Another address in the place of a name.
    #[error("holds more than one address: give each one by itself, and quote a name that has an @")]
    Several,
}

/// An address: a local part and a domain in lower-case ASCII.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    text: String,
    at: usize,
}

impl Address {
    /// Reads `local@domain`.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (local, domain) = text.rsplit_once('@').ok_or(AddressError::Form)?;
        if local.is_empty() || domain.is_empty() {
            return Err(AddressError::Form);
        }
        if !is_local(local) {
            return Err(AddressError::Local);
        }
        let domain = domain_of(domain).ok_or(AddressError::Domain)?;
        Ok(Self { text: format!("{local}@{domain}"), at: local.len() })
    }

    /// As it goes into an envelope.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part before the `@`, as it was written.
    #[must_use]
    pub fn local(&self) -> &str {
        self.text.get(..self.at).unwrap_or_default()
    }

    /// The part behind the `@`.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.text.get(self.at + 1..).unwrap_or_default()
    }

    /// Under what the same mailbox is known again: no server in use tells `Ada` from `ada`.
    #[must_use]
    pub fn key(&self) -> String {
        self.text.to_ascii_lowercase()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// RFC 5322 §3.2.3: a dot-atom. Quoted local parts are valid too, and nobody has one.
fn is_local(local: &str) -> bool {
    let is_atext = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b);
    local.len() <= LONGEST_LOCAL
        && local.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_atext))
}

/// A domain in ASCII: at least two labels, none of which is a number alone at the end.
#[must_use]
pub fn domain_of(text: &str) -> Option<String> {
    let ascii = idna::domain_to_ascii_strict(text).ok()?.to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let last = ascii.rsplit('.').next().unwrap_or_default();
    let is_good = ascii.len() <= LONGEST_DOMAIN
        && ascii.contains('.')
        && ascii.split('.').all(is_label)
        && !last.bytes().all(|b| b.is_ascii_digit());
    is_good.then_some(ascii)
}

/// A domain as people write it: the other spelling of what [`domain_of`] answers.
#[must_use]
pub fn domain_in_unicode(ascii: &str) -> String {
    idna::domain_to_unicode(ascii).0
}

/// An address, and the name of who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    /// The name that readers see.
    pub name: Option<String>,
    /// Where it is.
    pub address: Address,
}

impl Mailbox {
    /// Reads `local@domain`, `<local@domain>` or `Name <local@domain>`, the name quoted or not.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim_matches(' ');
        if text.contains(char::is_control) {
            return Err(AddressError::Name);
        }
        let Some(inner) = text.strip_suffix('>') else {
            return Ok(Self { name: None, address: Address::parse(text)? });
        };
        let (name, address) = inner.rsplit_once('<').ok_or(AddressError::Form)?;
        let address = Address::parse(address.trim_matches(' '))?;
        Ok(Self { name: name_of(name.trim_matches(' '))?, address })
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            None => write!(f, "{}", self.address),
            Some(name) if name.chars().all(|c| c.is_alphanumeric() || c == ' ') => {
                write!(f, "{name} <{}>", self.address)
            }
            Some(name) => {
                let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "\"{quoted}\" <{}>", self.address)
            }
        }
    }
}

fn name_of(text: &str) -> Result<Option<String>, AddressError> {
    let name = match text.strip_prefix('"') {
        // RFC 5322 §3.2.3: it stands in no name that is not quoted.
        None if text.contains('@') => return Err(AddressError::Several),
        None => text.to_owned(),
        Some(rest) => unquoted(rest).ok_or(AddressError::Name)?,
    };
    if name.chars().count() > LONGEST_NAME {
        return Err(AddressError::Name);
    }
    Ok(Some(name).filter(|name| !name.is_empty()))
}

fn unquoted(rest: &str) -> Option<String> {
    let inner = rest.strip_suffix('"')?;
    let mut name = String::with_capacity(inner.len());
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => name.push(letters.next()?),
            '"' => return None,
            letter => name.push(letter),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::{Address, AddressError, Mailbox};

    #[test]
    fn addresses_are_kept_as_relays_take_them() {
        let read = |text| Address::parse(text).map(|found| found.as_str().to_owned());
        assert_eq!(read("Ada.L+x@Example.COM"), Ok("Ada.L+x@example.com".to_owned()));
        assert_eq!(read("ada@bücher.example"), Ok("ada@xn--bcher-kva.example".to_owned()));
        assert_eq!(read("ada@例え.テスト"), Ok("ada@xn--r8jz45g.xn--zckzah".to_owned()));
        assert_eq!(Address::parse("Ada@example.com").unwrap().key(), "ada@example.com");
    }

    #[test]
    fn another_address_is_no_name() {
        for text in [
            "Ann <ann@example.com>, Bob <bob@example.com>",
            "ann@example.com <bob@example.com>",
            "ann@example.com, Bob <bob@example.com>",
        ] {
            assert_eq!(Mailbox::parse(text), Err(AddressError::Several), "{text}");
        }
        let quoted = Mailbox::parse("\"Ann @ Home\" <ann@example.com>").unwrap();
        assert_eq!(quoted.name.as_deref(), Some("Ann @ Home"));
        let bare = Mailbox::parse("Acme, Inc. <ann@example.com>").unwrap();
        assert_eq!(bare.to_string(), "\"Acme, Inc.\" <ann@example.com>");
    }

    #[test]
    fn what_no_relay_takes_is_no_address() {
        for (text, error) in [
            ("", AddressError::Form),
            ("ada", AddressError::Form),
            ("@example.com", AddressError::Form),
            ("ada@", AddressError::Form),
            ("a b@example.com", AddressError::Local),
            ("a..b@example.com", AddressError::Local),
            (".a@example.com", AddressError::Local),
            ("ädä@example.com", AddressError::Local),
            ("a\r\nBcc: x@example.com", AddressError::Local),
            ("a@b@example.com", AddressError::Local),
            ("ada@localhost", AddressError::Domain),
            ("ada@[127.0.0.1]", AddressError::Domain),
            ("ada@127.0.0.1", AddressError::Domain),
            ("ada@exa mple.com", AddressError::Domain),
            ("ada@-x.com", AddressError::Domain),
            ("ada@example.com\r\nX: y", AddressError::Domain),
        ] {
            assert_eq!(Address::parse(text), Err(error), "{text:?}");
        }
        assert!(Address::parse(&format!("{}@example.com", "x".repeat(65))).is_err());
        assert!(Address::parse(&format!("a@{}.com", "x".repeat(64))).is_err());
    }

    #[test]
    fn a_name_stands_in_front_quoted_or_not() {
        for (text, name) in [
            ("ada@example.com", None),
            ("<ada@example.com>", None),
            ("Ada <ada@example.com>", Some("Ada")),
            ("\"Lovelace, Ada\" <ada@example.com>", Some("Lovelace, Ada")),
            (r#""say \"hi\"" <ada@example.com>"#, Some("say \"hi\"")),
            ("Ádá Ŀ <ada@example.com>", Some("Ádá Ŀ")),
            ("Ada <x> <ada@example.com>", Some("Ada <x>")),
        ] {
            let found = Mailbox::parse(text).unwrap();
            assert_eq!(found.name.as_deref(), name, "{text}");
            assert_eq!(Mailbox::parse(&found.to_string()).unwrap(), found, "{text}");
        }
        for bad in ["Ada <ada@example.com", "Ada\r\nX: y <ada@example.com>", "\"A <a@b.c>", "A <>"]
        {
            assert!(Mailbox::parse(bad).is_err(), "{bad:?}");
        }
    }
}
