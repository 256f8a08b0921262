//! The address of a mail relay: `email.relay_url`, read once for all who need it, so that what the
//! check of the settings passes is what mail can be sent to.

use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use url::{ParseError, Url};

use crate::kit::secret::Secret;

/// The port of TLS from the first byte (RFC 8314 §3.3), and that of submission (RFC 6409 §3.1).
const TLS_PORT: u16 = 465;
const SUBMISSION_PORT: u16 = 587;

/// Why a text is no address of a relay. None of them repeats the text, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRelay {
    /// Another scheme, or no URL at all.
    #[error("must be smtp://host:port or smtps://host:port, credentials in the URL")]
    Form,
    /// No host, or one that no certificate can have.
    #[error("the host must be a name such as mail.example.com, or an IP address")]
    Host,
    /// 0, or above 65535.
    #[error("the port must be 1 to 65535")]
    Port,
    /// Something stands behind the port.
    #[error("must end after host and port: SMTP knows no path and no query")]
    Tail,
    /// A login that reads two ways, or that lacks the user.
    #[error(
        "user and password must be percent-encoded (%20 for a space, %40 for @, %25 for %), and a \
         password needs a user"
    )]
    Login,
}

/// Where a relay is, and how it is spoken to.
#[derive(Clone)]
pub struct RelayUrl {
    /// A name, or an IP address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What its certificate must be valid for.
    pub server: ServerName<'static>,
    /// TLS from the first byte on (`smtps`).
    pub is_implicit: bool,
    /// User and password, decoded.
    pub login: Option<(String, Secret)>,
}

impl RelayUrl {
    /// From `smtp[s]://[user:password@]host[:port]`.
    ///
    /// # Errors
    /// [`BadRelay`].
    pub fn read(text: &str) -> Result<Self, BadRelay> {
        let is_implicit = match text.split_once("://") {
            Some(("smtp", _)) => false,
            Some(("smtps", _)) => true,
            _ => return Err(BadRelay::Form),
        };
        // Otherwise the parser drops or encodes them without a word.
        if text.contains(|each: char| each.is_whitespace() || each.is_control()) {
            return Err(BadRelay::Login);
        }
        let url = Url::parse(text).map_err(|error| match error {
            ParseError::InvalidPort => BadRelay::Port,
            _ => BadRelay::Host,
        })?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(BadRelay::Tail);
        }
        let host = url.host_str().ok_or(BadRelay::Host)?.trim_matches(['[', ']']).to_owned();
        let server = ServerName::try_from(host.clone()).map_err(|_| BadRelay::Host)?;
        let port = url.port().unwrap_or(if is_implicit { TLS_PORT } else { SUBMISSION_PORT });
        if port == 0 {
            return Err(BadRelay::Port);
        }
        let login = login(&url).ok_or(BadRelay::Login)?;
        Ok(Self { host, port, server, is_implicit, login })
    }

    /// Whether the relay is on this machine, where nobody listens in between.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// `None` = there is one that cannot be read; `Some(None)` = there is none.
#[expect(clippy::option_option, reason = "a login may be absent, and may be unreadable")]
fn login(url: &Url) -> Option<Option<(String, Secret)>> {
    match (url.username(), url.password()) {
        ("", None) => Some(None),
        ("", Some(_)) => None,
        (user, password) => {
            let password = decoded(password.unwrap_or_default())?;
            Some(Some((decoded(user)?, Secret::new(password))))
        }
    }
}

/// A text whose every `%` begins the code of a byte, as UTF-8.
fn decoded(text: &str) -> Option<String> {
    let is_code = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let is_encoded = text.split('%').skip(1).all(is_code);
    is_encoded.then(|| percent_decode_str(text).decode_utf8().ok()).flatten().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::{BadRelay, RelayUrl};

    #[test]
    fn a_url_says_host_port_and_login() {
        let relay = RelayUrl::read("smtps://a%40b:p%3Aw%20@mail.example.com").unwrap();
        let (user, password) = relay.login.as_ref().unwrap();
        assert_eq!((user.as_str(), password.expose()), ("a@b", "p:w "));
        assert_eq!((relay.port, relay.is_implicit, relay.is_here()), (465, true, false));
        let relay = RelayUrl::read("smtp://127.0.0.1:2525").unwrap();
        assert_eq!((relay.port, relay.is_implicit, relay.is_here()), (2525, false, true));
        assert!(relay.login.is_none());
        let relay = RelayUrl::read("smtp://[::1]").unwrap();
        assert_eq!((relay.host.as_str(), relay.port, relay.is_here()), ("::1", 587, true));
    }

    #[test]
    fn what_no_mail_can_be_sent_to_is_refused_with_its_reason() {
        for (bad, why) in [
            ("", BadRelay::Form),
            ("mail.example.com", BadRelay::Form),
            ("http://mail.example.com", BadRelay::Form),
            ("smtp://", BadRelay::Host),
            ("smtp://:25", BadRelay::Host),
            ("smtp://user:password@", BadRelay::Host),
            ("smtp://h..example.com", BadRelay::Host),
            ("smtp://h:99999", BadRelay::Port),
            ("smtp://h:0", BadRelay::Port),
            ("smtp://h:25/path", BadRelay::Tail),
            ("smtp://h:25?x=1", BadRelay::Tail),
            ("smtp://h:25#x", BadRelay::Tail),
            ("smtp://user:pass word@h", BadRelay::Login),
            ("smtp://user:%zz@h", BadRelay::Login),
            ("smtp://user:%ff@h", BadRelay::Login),
            ("smtp://user:5%@h", BadRelay::Login),
            ("smtp://:password@h", BadRelay::Login),
        ] {
            assert_eq!(RelayUrl::read(bad).err(), Some(why), "{bad}");
        }
    }
}
