//! What a tenant's URL may look like, before anything is resolved: https, an ordinary port, no
//! credentials, no fragment. Hosts are read as browsers read them (WHATWG URL), so `0x7f.1`,
//! `2130706433` and `127.0.0.1` are one address here and everywhere after.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::http::uri::PathAndQuery;
use url::{Host, Url};

use super::address::{Verdict, judge};

/// Longest URL, characters.
pub const LONGEST: usize = 2_048;

/// Names that clouds give their metadata services; below each of them is no better.
const METADATA: &[&str] = &[
    "metadata",
    "metadata.internal",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.azure.com",
    "metadata.tencentyun.com",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "rancher-metadata",
    "rancher-metadata.rancher.internal",
    "instance-data",
    "instance-data.ec2.internal",
    "instance-data.internal",
];

/// How http:// is opened, which the operator does for tests.
const HTTP_HERE: &str = "must begin with https://; for http:// on this machine the operator sets \
                         webhooks.allow_http = true and webhooks.allow_networks = \
                         [\"127.0.0.0/8\", \"::1/128\"]";
const HTTP_ELSEWHERE: &str = "must begin with https://; for http:// the operator sets \
                              webhooks.allow_http, and for a host that is not public \
                              webhooks.allow_networks as well";

/// Why a URL is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is longer than [`LONGEST`].
    TooLong,
    /// It is no absolute URL with a host.
    Malformed,
    /// It is one, but of a kind that is not called. The words finish "the URL …".
    NotAllowed(&'static str),
}

/// Where a request goes, as far as the URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub(super) is_tls: bool,
    pub(super) host: Host<String>,
    pub(super) port: u16,
    pub(super) path: PathAndQuery,
    pub(super) authority: String,
}

/// Whether a host is the machine itself, by its name or address.
fn is_this_machine<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => is_localhost(name.as_ref()),
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

impl Destination {
    /// What to do where it may not be called.
    #[must_use]
    pub fn way_out(&self) -> Cow<'static, str> {
        // What a name leads to is not told.
        let ip = match self.host {
            Host::Domain(_) => None,
            Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
        };
        match ip {
            Some(ip) if matches!(judge(ip, &[]), Verdict::Never(_)) => {
                "use one that has public addresses only: no setting opens this one".into()
            }
            _ if is_this_machine(&self.host) => {
                "use one that has public addresses only, or let the operator set \
                 webhooks.allow_networks = [\"127.0.0.0/8\", \"::1/128\"]"
                    .into()
            }
            Some(ip) => {
                let bits = if ip.is_ipv4() { 32 } else { 128 };
                format!(
                    "use one that has public addresses only, or let the operator set \
                     webhooks.allow_networks = [\"{ip}/{bits}\"], or the network that it is in"
                )
                .into()
            }
            None => "use one that has public addresses only, or let the operator name its network \
                     in webhooks.allow_networks"
                .into(),
        }
    }

    /// Reads a URL. `allow_http` (development) takes plain http, too.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn parse(text: &str, allow_http: bool) -> Result<Self, Fault> {
        if text.chars().count() > LONGEST {
            return Err(Fault::TooLong);
        }
        let place = Self::parse_long(text, allow_http)?;
        let is_usual = place.port == if place.is_tls { 443 } else { 80 };
        if !is_usual && place.port < 1024 {
            return Err(Fault::NotAllowed("must use port 443 or one from 1024 to 65535"));
        }
        Ok(place)
    }

    /// The same of any length and with any port, for gateways that the operator names: texts of
    /// messages are in some of their URLs.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn parse_long(text: &str, allow_http: bool) -> Result<Self, Fault> {
        // The URL standard drops or turns these; what is stored must be what is called.
        if text.chars().any(|letter| letter.is_control() || letter.is_whitespace())
            || text.contains('\\')
        {
            return Err(Fault::Malformed);
        }
        let url = Url::parse(text).map_err(|_| Fault::Malformed)?;
        let is_tls = match url.scheme() {
            "https" => true,
            "http" if allow_http => false,
            "http" => {
                let is_here = url.host().is_some_and(|host| is_this_machine(&host));
                return Err(Fault::NotAllowed(if is_here { HTTP_HERE } else { HTTP_ELSEWHERE }));
            }
            _ => return Err(Fault::NotAllowed("must begin with https://")),
        };
        // The parser takes `https:host` and `https:///host` for `https://host`.
        let is_bare = |(scheme, rest): (&str, &str)| scheme.contains(':') || rest.starts_with('/');
        if text.split_once("://").is_none_or(is_bare) {
            return Err(Fault::Malformed);
        }
        if !url.username().is_empty() || url.password().is_some() || has_userinfo(text) {
            return Err(Fault::NotAllowed("must not contain a user name or password"));
        }
        if url.fragment().is_some() {
            return Err(Fault::NotAllowed("must not contain a fragment (#…)"));
        }
        let port = url.port_or_known_default().ok_or(Fault::Malformed)?;
        let host = url.host().ok_or(Fault::Malformed)?.to_owned();
        if matches!(&host, Host::Domain(name) if !is_name(name)) {
            return Err(Fault::Malformed);
        }
        let path = url.query().map_or_else(
            || PathAndQuery::try_from(url.path()),
            |query| PathAndQuery::try_from(format!("{}?{query}", url.path())),
        );
        let path = path.map_err(|_| Fault::Malformed)?;
        let authority =
            url.port().map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
        Ok(Self { is_tls, host, port, path, authority })
    }

    /// The address, if the URL has one instead of a name.
    pub(super) fn literal(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Ipv4(ip) => Some(IpAddr::V4(*ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(*ip)),
            Host::Domain(_) => None,
        }
    }

    /// Whether the URL has a name that no public address can have: `.local` (RFC 6762), `.internal`
    /// (set aside by ICANN in 2024), `home.arpa` (RFC 8375), and names without a dot (RFC 7085).
    pub(super) fn is_local_name(&self) -> bool {
        let Host::Domain(name) = &self.host else { return false };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let is_below = |top: &str| {
            name.strip_suffix(top).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        !name.contains('.') || ["local", "internal", "home.arpa"].into_iter().any(is_below)
    }

    /// Whether the URL has the name of a cloud's metadata service, which nobody opens.
    pub(super) fn is_metadata_name(&self) -> bool {
        let Host::Domain(name) = &self.host else { return false };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        METADATA.iter().any(|known| {
            name.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }

    /// The name or address without brackets and without the dot at a name's end: what a
    /// certificate is checked against.
    pub(super) fn server_name(&self) -> String {
        match &self.host {
            Host::Domain(name) => name.trim_end_matches('.').to_owned(),
            Host::Ipv4(ip) => ip.to_string(),
            Host::Ipv6(ip) => ip.to_string(),
        }
    }
}

/// `https://@host` has empty credentials, which the parser does not tell from none.
fn has_userinfo(text: &str) -> bool {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or("").contains('@')
}

/// A name that DNS can hold (RFC 1035 §2.3.4): labels of 1 to 63 of `a-z 0-9 - _`.
fn is_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::{Destination, Fault, LONGEST};

    fn read(url: &str) -> Result<Destination, Fault> {
        Destination::parse(url, false)
    }

    #[test]
    fn ordinary_urls_are_taken_apart() {
        let destination = read("https://Hooks.Example.com:8443/a/b?c=d%20e").unwrap();
        assert_eq!(destination.server_name(), "hooks.example.com");
        assert_eq!(
            (destination.port, destination.authority.as_str()),
            (8443, "hooks.example.com:8443")
        );
        assert_eq!(destination.path.as_str(), "/a/b?c=d%20e");
        let destination = read("https://example.com").unwrap();
        assert_eq!((destination.port, destination.authority.as_str()), (443, "example.com"));
        assert_eq!(destination.path.as_str(), "/");
        let destination = read("https://[2606:4700::1]:443/x").unwrap();
        assert_eq!(destination.authority, "[2606:4700::1]");
        assert_eq!(destination.server_name(), "2606:4700::1");
        assert_eq!(read("https://bücher.example/").unwrap().server_name(), "xn--bcher-kva.example");
        assert_eq!(read("https://example.com./").unwrap().server_name(), "example.com");
    }

    #[test]
    fn names_that_are_never_public_are_known() {
        for host in ["backend", "Printer.LOCAL", "metadata.google.internal.", "nas.home.arpa"] {
            assert!(read(&format!("https://{host}/")).unwrap().is_local_name(), "{host}");
        }
        for host in ["example.com", "local.example.com", "notlocal.dev", "arpa.net", "1.1.1.1"] {
            assert!(!read(&format!("https://{host}/")).unwrap().is_local_name(), "{host}");
        }
    }

    #[test]
    fn names_of_metadata_services_are_known() {
        for host in
            ["metadata.google.internal", "Metadata.Google.Internal.", "instance-data", "a.metadata"]
        {
            assert!(read(&format!("https://{host}/")).unwrap().is_metadata_name(), "{host}");
        }
        for host in ["metadata.example.com", "mymetadata.goog.example", "xmetadata.goog", "1.1.1.1"]
        {
            assert!(!read(&format!("https://{host}/")).unwrap().is_metadata_name(), "{host}");
        }
    }

    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        for host in ["127.0.0.1", "2130706433", "0x7f000001", "017700000001", "127.1", "0x7f.1"] {
            let destination = read(&format!("https://{host}/")).unwrap();
            assert_eq!(destination.literal(), Some("127.0.0.1".parse().unwrap()), "{host}");
        }
    }

    #[test]
    fn urls_that_are_not_called_are_told_from_texts_that_are_no_urls() {
        for url in [
            "http://example.com/",
            "ftp://example.com/",
            "https://user@example.com/",
            "https://user:secret@example.com/",
            "https://@example.com/",
            "https://example.com/#top",
            "https://example.com:22/",
            "https://example.com:80/",
            "https://example.com:1023/",
            "https://example.com:0/",
            "javascript:alert(1)",
        ] {
            assert!(matches!(read(url), Err(Fault::NotAllowed(_))), "{url}: {:?}", read(url));
        }
        for url in [
            "",
            "example.com",
            "/hook",
            "https://",
            "https:///",
            "https://exa mple.com/",
            "https://example.com/\n",
            " https://example.com/",
            "https:\\\\example.com\\",
            "https://example.com:65536/",
            "https://exa$mple.com/",
            "https://a..b/",
            "https:example.com/",
            "https:/example.com/",
            "https:///example.com/",
            "https:/example.com/x://y",
            "https://[::1/",
            "https://256.1.1.1/",
            "https://1.2.3.4.5/",
        ] {
            assert_eq!(read(url), Err(Fault::Malformed), "{url}");
        }
        let long = format!("https://example.com/{}", "x".repeat(LONGEST));
        assert_eq!(read(&long), Err(Fault::TooLong));
    }

    #[test]
    fn the_operators_gateway_may_have_any_port() {
        assert_eq!(Destination::parse_long("https://sms.example:444/", true).unwrap().port, 444);
        assert!(Destination::parse("https://sms.example:444/", true).is_err());
    }

    #[test]
    fn plain_http_needs_the_switch() {
        assert!(Destination::parse("http://127.0.0.1:9999/x", true).is_ok());
        assert_eq!(Destination::parse("http://example.com/", true).unwrap().port, 80);
        assert!(Destination::parse("http://example.com:443/", true).is_err());
    }
}
