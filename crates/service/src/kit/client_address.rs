//! Who is at the other end, as far as an IP address can tell: the peer of the connection, or what a
//! trusted proxy says of its own peer in `X-Forwarded-For`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// The client behind a peer that is a trusted proxy.
    ///
    /// Every proxy adds the address of its own peer at the right. So whatever stands left of the
    /// first untrusted address, read from the right, was written by that client and proves nothing.
    /// A list that is broken off counts as far as it can be read; without any it is the peer.
    #[must_use]
    pub fn behind(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> Self {
        let mut known = peer;
        let lines = headers.get_all(FORWARDED_FOR).iter().rev();
        for hop in lines.flat_map(|line| line.to_str().unwrap_or("?").rsplit(',')) {
            let Some(address) = address_of(hop.trim()) else { break };
            known = address;
            if !is_within(address, trusted) {
                break;
            }
        }
        Self(known)
    }

    /// What counts as one client: an IPv4 address, or the 64-bit prefix that one IPv6 customer has
    /// at the least.
    #[must_use]
    pub fn unit(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(_) => self.0,
            IpAddr::V6(ip) => IpAddr::V6(cut(ip, 64)),
        }
    }
}

/// Shows the network only, /24 or /48: enough to recognise trouble, not a person.
impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(ip) => {
                let [a, b, c, _] = ip.octets();
                write!(f, "{}/24", Ipv4Addr::new(a, b, c, 0))
            }
            IpAddr::V6(ip) => write!(f, "{}/48", cut(ip, 48)),
        }
    }
}

/// Whether an address is in one of these networks.
#[must_use]
pub fn is_within(address: IpAddr, networks: &[IpNet]) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// An address as proxies write it: bare, or with a port, or in brackets. IPv4 in the disguise of
/// IPv6 is IPv4.
fn address_of(text: &str) -> Option<IpAddr> {
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => match text.split_once(':') {
            Some((ip, port)) if !port.contains(':') => ip,
            _ => text,
        },
    };
    bare.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}

fn cut(ip: Ipv6Addr, bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << (128 - bits)))
}

#[cfg(test)]
mod tests {
    use super::{ClientAddress, address_of};
    use axum::http::{HeaderMap, HeaderValue};
    use ipnet::IpNet;
    use std::net::IpAddr;

    fn client(lines: &[&str]) -> String {
        let trusted: Vec<IpNet> =
            ["10.0.0.0/8", "fd00::/8"].iter().map(|text| text.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("x-forwarded-for", HeaderValue::from_str(line).unwrap());
        }
        let peer: IpAddr = "10.0.0.1".parse().unwrap();
        ClientAddress::behind(peer, &headers, &trusted).0.to_string()
    }

    #[test]
    fn the_rightmost_address_that_is_no_proxy_is_the_client() {
        assert_eq!(client(&["203.0.113.7"]), "203.0.113.7");
        assert_eq!(client(&["1.1.1.1, 203.0.113.7"]), "203.0.113.7");
        assert_eq!(client(&["203.0.113.7, 10.9.9.9,fd00::1"]), "203.0.113.7");
        assert_eq!(client(&["1.1.1.1", "203.0.113.7, 10.9.9.9"]), "203.0.113.7");
        assert_eq!(client(&["1.1.1.1, 203.0.113.7", "10.9.9.9"]), "203.0.113.7");
    }

    #[test]
    fn what_cannot_be_read_ends_the_list() {
        assert_eq!(client(&[]), "10.0.0.1");
        assert_eq!(client(&["unknown"]), "10.0.0.1");
        assert_eq!(client(&["1.1.1.1, unknown, 10.9.9.9"]), "10.9.9.9");
        assert_eq!(client(&["10.8.8.8, 10.9.9.9"]), "10.8.8.8");
        assert_eq!(client(&["1.1.1.1,"]), "10.0.0.1");
    }

    #[test]
    fn addresses_are_read_in_every_usual_form() {
        for (text, ip) in [
            ("203.0.113.7", Some("203.0.113.7")),
            ("203.0.113.7:4711", Some("203.0.113.7")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:4711", Some("2001:db8::1")),
            ("::ffff:203.0.113.7", Some("203.0.113.7")),
            ("203.0.113", None),
            ("[2001:db8::1", None),
            ("_hidden", None),
            ("", None),
        ] {
            assert_eq!(address_of(text).map(|ip| ip.to_string()).as_deref(), ip, "{text}");
        }
    }

    #[test]
    fn one_client_is_an_address_or_a_customers_prefix_and_shows_as_a_network() {
        let of = |text: &str| ClientAddress(text.parse().unwrap());
        assert_eq!(of("203.0.113.7").unit().to_string(), "203.0.113.7");
        assert_eq!(of("2001:db8:1:2:3::4").unit().to_string(), "2001:db8:1:2::");
        assert_eq!(of("203.0.113.7").to_string(), "203.0.113.0/24");
        assert_eq!(of("2001:db8:1:2:3::4").to_string(), "2001:db8:1::/48");
    }
}
