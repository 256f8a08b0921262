//! A database URL: where the server is, who connects, and whether the connection is encrypted.
//! What is asked for in the URL is either done or refused; nothing is silently weaker.

use std::error::Error as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use store::Error;

const NAME: &str = "estafette";
/// A peer that vanished without a word is noticed after about this long, even when idle.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Where to connect and how.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: tokio_postgres::Config,
    /// `None`: not encrypted.
    pub(super) tls: Option<MakeRustlsConnect>,
}

impl Address {
    /// Reads `postgres://USER:PASSWORD@HOST:PORT/NAME?sslmode=…&sslrootcert=FILE`; all other
    /// parameters are those of the client library.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let (mut config, asked) = read(url).map_err(|why| wrong(&why))?;
        if config.get_application_name().is_none() {
            config.application_name(NAME);
        }
        config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE).keepalives_retries(2);
        let encrypted = asked.encrypted(&config).map_err(|why| wrong(&why))?;
        config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
        let tls = if encrypted { Some(connector(asked.roots.as_deref())?) } else { None };
        Ok(Self { config, tls })
    }
}

/// Whether a URL can be understood, without a look at the files that it names.
///
/// # Errors
/// What is wrong with it, without the URL: that holds a password.
pub(super) fn check(url: &str) -> Result<(), String> {
    let (config, asked) = read(url)?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err("must name a host: postgres://USER@HOST/DATABASE".to_owned());
    }
    asked.encrypted(&config).map(drop)
}

fn read(url: &str) -> Result<(tokio_postgres::Config, Asked), String> {
    let (plain, asked) = Asked::split(url)?;
    let config = plain.parse().map_err(|error: tokio_postgres::Error| {
        // The library names the parameter, which is a piece of the password where an @ in that
        // was not written as %40.
        let is_clear = url.matches('@').count() < 2;
        let named = error.source().filter(|_| is_clear).map(ToString::to_string);
        named.map_or_else(
            || "is not of the form postgres://USER:PASSWORD@HOST:PORT/DATABASE".to_owned(),
            |named| named.replace('`', "\""),
        )
    })?;
    Ok((config, asked))
}

/// What the URL says of encryption.
#[derive(Default)]
struct Asked {
    mode: Option<String>,
    roots: Option<String>,
}

impl Asked {
    /// Takes our parameters out of the URL: the client library knows fewer modes than there are.
    fn split(url: &str) -> Result<(String, Self), String> {
        let Some((base, query)) = url.split_once('?') else {
            return Ok((url.to_owned(), Self::default()));
        };
        let (mut asked, mut others) = (Self::default(), Vec::new());
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| "has a parameter that is not UTF-8".to_owned())?;
            match name {
                "sslmode" => asked.mode = Some(value.into_owned()),
                "sslrootcert" => asked.roots = Some(value.into_owned()),
                _ => others.push(pair),
            }
        }
        let others = others.join("&");
        let plain = if others.is_empty() { base.to_owned() } else { format!("{base}?{others}") };
        Ok((plain, asked))
    }

    fn encrypted(&self, config: &tokio_postgres::Config) -> Result<bool, String> {
        let is_encrypted = self.wants_encryption(config)?;
        if is_encrypted && config.get_hosts().is_empty() {
            return Err("names a hostaddr and no host: encryption needs the name in the \
                        certificate"
                .to_owned());
        }
        Ok(is_encrypted)
    }

    fn wants_encryption(&self, config: &tokio_postgres::Config) -> Result<bool, String> {
        match self.mode.as_deref() {
            Some("disable") => Ok(false),
            // Encryption to somebody unknown keeps no secret, so all three check who it is.
            Some("require" | "verify-ca" | "verify-full") => Ok(true),
            // Whoever names an authority wants to know who the server is.
            None => Ok(self.roots.is_some() || !is_all_near(config)),
            Some("allow" | "prefer") => Err("has sslmode=prefer or allow, which fall back to no \
                                             encryption: say verify-full, or disable"
                .to_owned()),
            Some(_) => Err("has an unknown sslmode: say verify-full, or disable".to_owned()),
        }
    }
}

/// Whether no server is reached over a network. An address that is given beside a name is the one
/// that is gone to.
fn is_all_near(config: &tokio_postgres::Config) -> bool {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let is_any = !(hosts.is_empty() && addresses.is_empty());
    is_any && hosts.iter().all(is_near) && addresses.iter().all(std::net::IpAddr::is_loopback)
}

/// A server that is reached without a network.
fn is_near(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1" | "[::1]"),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Trusts the public authorities, or only those in a PEM file.
fn connector(roots: Option<&str>) -> Result<MakeRustlsConnect, Error> {
    let mut trusted = RootCertStore::empty();
    match roots {
        None => trusted.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let unusable = |why: String| wrong(&format!("names sslrootcert={file}: {why}"));
            let read = CertificateDer::pem_file_iter(Path::new(file))
                .and_then(Iterator::collect::<Result<Vec<_>, _>>);
            for root in read.map_err(|error| unusable(error.to_string()))? {
                trusted.add(root).map_err(|error| unusable(error.to_string()))?;
            }
            if trusted.is_empty() {
                return Err(unusable("there is no certificate in it".to_owned()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error.to_string()))?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Never with the URL in it: that holds a password.
fn wrong(why: &str) -> Error {
    Error::Unavailable(format!("the database URL {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypted(url: &str) -> bool {
        Address::parse(url).unwrap().tls.is_some()
    }

    #[test]
    fn a_far_server_is_encrypted_to_and_a_near_one_need_not_be() {
        assert!(encrypted("postgres://u:p@db.example.com/x"));
        assert!(encrypted("postgres://u:p@10.0.0.1,127.0.0.1/x"));
        assert!(Address::parse("postgres://u:p@/x?hostaddr=203.0.113.5").is_err(), "which name?");
        assert!(encrypted("postgres://u:p@localhost/x?hostaddr=203.0.113.5"));
        assert!(!encrypted("postgres://u:p@localhost/x?hostaddr=127.0.0.1"));
        assert!(!encrypted("postgres://u:p@localhost/x"));
        assert!(!encrypted("postgres://u:p@127.0.0.1:5433/x"));
        assert!(!encrypted("postgres://u@%2Frun%2Fpostgresql/x"));
        assert!(!encrypted("postgres:///x?host=/run/postgresql&user=u"));
    }

    #[test]
    fn the_mode_decides_when_it_is_given() {
        assert!(!encrypted("postgres://u@db.example.com/x?sslmode=disable"));
        for mode in ["require", "verify-ca", "verify-full"] {
            assert!(encrypted(&format!("postgres://u@localhost/x?sslmode={mode}")), "{mode}");
        }
        for mode in ["prefer", "allow", "yes"] {
            assert!(Address::parse(&format!("postgres://u@h/x?sslmode={mode}")).is_err(), "{mode}");
        }
    }

    #[test]
    fn other_parameters_reach_the_client_library() {
        let url = "postgres://u@h/x?connect_timeout=3&sslmode=disable&application_name=y";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.config.get_application_name(), Some("y"));
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert!(Address::parse("postgres://u@h/x?no_such_thing=1").is_err());
    }

    #[test]
    fn a_file_of_authorities_must_have_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roots.pem");
        let url = format!("postgres://u@h/x?sslrootcert={}", file.display());
        assert!(Address::parse(&url).is_err(), "no file");
        std::fs::write(&file, "nothing").unwrap();
        assert!(Address::parse(&url).is_err(), "no certificate");
    }

    #[test]
    fn an_error_does_not_show_the_password() {
        for url in [
            "postgres://u:hush@h:port/x",
            "postgres://u:hush@h/x?sslmode=maybe",
            "postgres://u:p@h?hush=1@h/x",
        ] {
            let Err(error) = Address::parse(url) else { panic!("{url}") };
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_parameter_is_said() {
        for (url, told) in [
            ("postgres://u@h/x?no_such_thing=1", "unknown option \"no_such_thing\""),
            ("postgres://u@h/x?connect_timeout=soon", "\"connect_timeout\""),
            ("postgres://u@h/x?sslmode=maybe", "unknown sslmode"),
            ("postgres:///x", "must name a host"),
        ] {
            let why = check(url).unwrap_err();
            assert!(why.contains(told), "{url}: {why}");
        }
        assert_eq!(check("postgres://u@h/x?sslrootcert=/nowhere"), Ok(()), "files come later");
    }
}
