//! Which addresses a tenant's URL may lead to. Everything that the IANA special-purpose registries
//! (RFC 6890, <https://www.iana.org/assignments/iana-ipv4-special-registry>, `iana-ipv6-special-`
//! `registry`) do not call globally reachable is refused, in whatever form it is written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Why an address may not be connected to. The words are for the tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Everybody on the Internet can reach it, or the operator allows its network.
    Open,
    /// Not public; an operator may open it for development.
    Closed(&'static str),
    /// Cloud metadata, link-local, or no destination at all: never opened.
    Never(&'static str),
}

/// Judges one address. `allowed` are the operator's networks for development.
#[must_use]
pub(super) fn judge(ip: IpAddr, allowed: &[IpNet]) -> Verdict {
    let outer = match ip {
        IpAddr::V4(v4) => registry_4(v4),
        IpAddr::V6(v6) => registry_6(v6),
    };
    let outer = opened(outer, ip, allowed);
    let Some(inner) = embedded(ip) else { return outer };
    let inner = opened(registry_4(inner), IpAddr::V4(inner), allowed);
    // A mapped address is the IPv4 address to the kernel; the other forms stand on their own, too.
    if mapped(ip) { inner } else { worse(outer, inner) }
}

fn opened(verdict: Verdict, ip: IpAddr, allowed: &[IpNet]) -> Verdict {
    let is_allowed = allowed.iter().any(|network| network.contains(&ip));
    if is_allowed && matches!(verdict, Verdict::Closed(_)) { Verdict::Open } else { verdict }
}

fn worse(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Never(_), _) | (_, Verdict::Open) => one,
        (_, Verdict::Never(_)) | (Verdict::Open, _) => other,
        // Which of two reasons is told does not matter.
        (Verdict::Closed(_), Verdict::Closed(what)) => Verdict::Closed(what),
    }
}

/// IPv4: what is special, with the prefix length. The first that fits decides.
const SPECIAL_4: &[(Ipv4Addr, u8, Verdict)] = &[
    // Metadata services outside of link-local: Alibaba, Oracle, Azure.
    (Ipv4Addr::new(100, 100, 100, 200), 32, Verdict::Never("a metadata service")),
    (Ipv4Addr::new(192, 0, 0, 192), 32, Verdict::Never("a metadata service")),
    (Ipv4Addr::new(168, 63, 129, 16), 32, Verdict::Never("a metadata service")),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Verdict::Never("link-local (RFC 3927)")),
    (Ipv4Addr::UNSPECIFIED, 32, Verdict::Never("no destination (RFC 1122)")),
    (Ipv4Addr::BROADCAST, 32, Verdict::Never("broadcast (RFC 919)")),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Verdict::Never("multicast (RFC 5771)")),
    (Ipv4Addr::UNSPECIFIED, 8, Verdict::Closed("this network (RFC 791)")),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Verdict::Closed("private (RFC 1918)")),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Verdict::Closed("shared address space (RFC 6598)")),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Verdict::Closed("loopback (RFC 1122)")),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Verdict::Closed("private (RFC 1918)")),
    (Ipv4Addr::new(192, 0, 0, 0), 24, Verdict::Closed("protocol assignments (RFC 6890)")),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Verdict::Closed("documentation (RFC 5737)")),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Verdict::Closed("6to4 relay (RFC 7526)")),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Verdict::Closed("private (RFC 1918)")),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Verdict::Closed("benchmarking (RFC 2544)")),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Verdict::Closed("documentation (RFC 5737)")),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Verdict::Closed("documentation (RFC 5737)")),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Verdict::Closed("reserved (RFC 1112)")),
];

fn registry_4(ip: Ipv4Addr) -> Verdict {
    let found = SPECIAL_4.iter().find(|(base, bits, _)| within_4(*base, *bits, ip));
    found.map_or(Verdict::Open, |(_, _, verdict)| *verdict)
}

/// IPv6 within `2000::/3`, the only block that IANA hands out, and the few beyond that need a word
/// of their own. The first that fits decides.
const SPECIAL_6: &[(Ipv6Addr, u8, Verdict)] = &[
    // Metadata services of AWS and Google inside unique-local space.
    (net6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254]), 128, Verdict::Never("a metadata service")),
    (net6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254]), 128, Verdict::Never("a metadata service")),
    (net6([0xfe80, 0, 0, 0, 0, 0, 0, 0]), 10, Verdict::Never("link-local (RFC 4291)")),
    (net6([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8, Verdict::Never("multicast (RFC 4291)")),
    (Ipv6Addr::UNSPECIFIED, 128, Verdict::Never("no destination (RFC 4291)")),
    (Ipv6Addr::LOCALHOST, 128, Verdict::Closed("loopback (RFC 4291)")),
    (net6([0xfc00, 0, 0, 0, 0, 0, 0, 0]), 7, Verdict::Closed("unique-local (RFC 4193)")),
    (net6([0xfec0, 0, 0, 0, 0, 0, 0, 0]), 10, Verdict::Closed("site-local (RFC 3879)")),
    (net6([0x0064, 0xff9b, 0, 0, 0, 0, 0, 0]), 96, Verdict::Closed("NAT64 (RFC 6052)")),
    (net6([0x0064, 0xff9b, 1, 0, 0, 0, 0, 0]), 48, Verdict::Closed("local NAT64 (RFC 8215)")),
    (net6([0x2001, 0, 0, 0, 0, 0, 0, 0]), 32, Verdict::Closed("Teredo (RFC 4380)")),
    (net6([0x2001, 0, 0, 0, 0, 0, 0, 0]), 23, Verdict::Closed("protocol assignments (RFC 2928)")),
    (net6([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0]), 32, Verdict::Closed("documentation (RFC 3849)")),
    (net6([0x2002, 0, 0, 0, 0, 0, 0, 0]), 16, Verdict::Closed("6to4 (RFC 3056)")),
    (net6([0x3fff, 0, 0, 0, 0, 0, 0, 0]), 20, Verdict::Closed("documentation (RFC 9637)")),
    (net6([0x2000, 0, 0, 0, 0, 0, 0, 0]), 3, Verdict::Open),
];

const fn net6(words: [u16; 8]) -> Ipv6Addr {
    Ipv6Addr::from_segments(words)
}

fn registry_6(ip: Ipv6Addr) -> Verdict {
    let found = SPECIAL_6.iter().find(|(base, bits, _)| within_6(*base, *bits, ip));
    found.map_or(Verdict::Closed("not assigned to anyone (RFC 4291)"), |(_, _, verdict)| *verdict)
}

/// `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2).
fn mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// The IPv4 address that an IPv6 address leads to.
fn embedded(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = ip else { return None };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return Some(v4);
    }
    let words = v6.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match words {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // IPv4-compatible (RFC 4291 §2.5.5.1) and NAT64, well-known (RFC 6052) and local
        // (RFC 8215, which leaves the place open; the last 32 bits are the usual one).
        [0, 0, 0, 0, 0, 0, high, low] | [0x0064, 0xff9b, _, _, _, _, high, low] => {
            Some(v4(high, low))
        }
        // Teredo: the client's address, inverted (RFC 4380 §4).
        [0x2001, 0, _, _, _, _, high, low] => Some(v4(!high, !low)),
        // IPv4-translated (RFC 2765 §2.1), 6to4 (RFC 3056 §2), and ISATAP in any prefix (RFC 5214
        // §6.1).
        [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x2002, high, low, ..]
        | [_, _, _, _, 0 | 0x0200, 0x5efe, high, low] => Some(v4(high, low)),
        _ => None,
    }
}

fn within_4(base: Ipv4Addr, bits: u8, ip: Ipv4Addr) -> bool {
    let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
    base.to_bits() & mask == ip.to_bits() & mask
}

fn within_6(base: Ipv6Addr, bits: u8, ip: Ipv6Addr) -> bool {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    base.to_bits() & mask == ip.to_bits() & mask
}

#[cfg(test)]
mod tests {
    use super::{Verdict, judge};
    use ipnet::IpNet;

    fn plain(ip: &str) -> Verdict {
        judge(ip.parse().unwrap(), &[])
    }

    #[test]
    fn public_addresses_are_open() {
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "2606:4700:4700::1111",
            "2a00:1450:4007:80e::200e",
            "2001:4860:4860::8888",
            "2400:cb00::1",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(plain(ip), Verdict::Open, "{ip}");
        }
    }

    #[test]
    fn the_edges_of_every_special_block_are_closed() {
        for ip in [
            "0.0.0.1",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.255",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.255",
            "240.0.0.0",
            "255.255.255.254",
            "::1",
            "::2",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b:1::a00:1",
            "100::1",
            "1fff:ffff::1",
            "2001::1",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff:ffff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fec0::1",
            "2606:4700::5efe:10.0.0.1",
            "2606:4700::200:5efe:127.0.0.1",
        ] {
            assert!(matches!(plain(ip), Verdict::Closed(_)), "{ip}: {:?}", plain(ip));
        }
    }

    #[test]
    fn development_networks_open_what_is_closed_but_never_metadata_or_link_local() {
        let everything = ["0.0.0.0/0", "::/0"].map(|cidr| cidr.parse::<IpNet>().unwrap());
        for ip in ["127.0.0.1", "::1", "10.1.2.3", "fd12::1", "::ffff:127.0.0.1", "64:ff9b::a00:1"]
        {
            assert_eq!(judge(ip.parse().unwrap(), &everything), Verdict::Open, "{ip}");
        }
        for ip in [
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "febf::1",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "2001:0:1:2:3:4:5601:5601",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
        ] {
            let verdict = judge(ip.parse().unwrap(), &everything);
            assert!(matches!(verdict, Verdict::Never(_)), "{ip}: {verdict:?}");
        }
    }

    #[test]
    fn an_allowed_network_opens_only_itself() {
        let loopback = ["127.0.0.0/8".parse::<IpNet>().unwrap()];
        assert_eq!(judge("127.9.9.9".parse().unwrap(), &loopback), Verdict::Open);
        for ip in ["10.0.0.1", "::1", "2002:7f00:1::1", "64:ff9b::7f00:1"] {
            assert_ne!(judge(ip.parse().unwrap(), &loopback), Verdict::Open, "{ip}");
        }
    }
}
