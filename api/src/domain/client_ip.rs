//! Networks, and the client address of a request that a proxy forwards.

use std::{
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// A network: all addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

/// The error for a text that is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a network as in 10.0.0.0/8 or fd00::/8, or an address")]
pub struct ParseNetworkError;

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, ParseNetworkError> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| ParseNetworkError)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), |bits| bits.parse().map_err(|_| ParseNetworkError))?;
        if bits > width { Err(ParseNetworkError) } else { Ok(Self { address, bits }) }
    }
}

impl Network {
    /// Returns true if the network contains the address.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(address)) => {
                let differing = own.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.bits
            }
            (IpAddr::V6(own), IpAddr::V6(address)) => {
                let differing = own.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

/// Returns the address under which a rate limiter counts. For IPv6 it is the /64 network, because its
/// owner can use all addresses in it.
#[must_use]
pub fn rate_limit_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// The header in which proxies state the address of their client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ForwardedHeader {
    /// Returns the name of the header.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }

    /// Parses the address in one element of the header.
    fn address(self, element: &str) -> Option<IpAddr> {
        let node = match self {
            Self::XForwardedFor => element.trim(),
            Self::Forwarded => element.split(';').find_map(|pair| {
                let (name, value) = pair.split_once('=')?;
                name.trim().eq_ignore_ascii_case("for").then(|| value.trim().trim_matches('"'))
            })?,
        };
        if let Ok(address) = node.parse() {
            return Some(address);
        }
        // The address has a port, and brackets if it is IPv6.
        let bare = match node.strip_prefix('[') {
            Some(bracketed) => bracketed.split(']').next()?,
            None => node.rsplit_once(':')?.0,
        };
        bare.parse().ok()
    }
}

/// Returns true if the address is local to this machine or to a private network: RFC 1918, 3927, 4193,
/// 4291 and 6598.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

/// The proxies that may state the client address of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    trusted: Vec<Network>,
    header: ForwardedHeader,
}

impl TrustedProxies {
    /// Creates the set of proxies that are trusted to state the client address in `header`. Other peers
    /// and other headers are ignored, because a proxy forwards every header that it does not set.
    #[must_use]
    pub fn new(trusted: Vec<Network>, header: ForwardedHeader) -> Self {
        Self { trusted, header }
    }

    /// Returns true if no proxy is trusted. All clients behind a proxy then have its address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trusted.is_empty()
    }

    /// Returns true if the address belongs to a trusted proxy.
    #[must_use]
    pub fn trust(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// Returns the header in which they state the client address.
    #[must_use]
    pub fn header(&self) -> ForwardedHeader {
        self.header
    }

    /// Returns the client address in the header of a peer that is not trusted, but seems to be an
    /// unconfigured proxy, because it is on this machine or in a private network. It is the last address
    /// of the header, the one that a proxy itself adds.
    #[must_use]
    pub fn unconfigured_proxy_client(&self, peer: IpAddr, values: &[&str]) -> Option<IpAddr> {
        let is_trusted = self.trusted.iter().any(|network| network.contains(peer));
        if is_trusted || !is_private(peer) {
            return None;
        }
        let last = values.last()?.rsplit(',').next()?;
        self.header.address(last).map(|address| address.to_canonical())
    }

    /// Returns the client address of a request from `peer` with these header values. Each proxy appends
    /// the address of its own client, so the addresses are read from the end, for as long as the proxies
    /// that wrote them are trusted.
    #[must_use]
    pub fn client(&self, peer: IpAddr, values: &[&str]) -> IpAddr {
        let mut client = peer.to_canonical();
        for element in values.iter().rev().flat_map(|value| value.rsplit(',')) {
            if !self.trust(client) {
                break;
            }
            // Addresses before an unreadable one are unknown.
            let Some(address) = self.header.address(element) else { break };
            client = address.to_canonical();
        }
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_begins_like_them() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().expect(network).contains(address.parse().expect(address))
        };
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "2001:db8::1", true),
        ] {
            assert_eq!(contains(network, address), expected, "{network} {address}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x", "localhost"] {
            assert_eq!(text.parse::<Network>(), Err(ParseNetworkError), "{text}");
        }
    }

    #[test]
    fn proxies_that_were_not_named_are_noticed() {
        let proxies =
            TrustedProxies::new(vec!["10.0.0.1".parse().expect("an address")], ForwardedHeader::default());
        let client_of = |peer: &str, values: &[&str]| {
            proxies
                .unconfigured_proxy_client(peer.parse().expect(peer), values)
                .map(|address| address.to_string())
        };
        for peer in ["10.0.0.2", "172.18.0.1", "192.168.1.1", "127.0.0.1", "::1", "fd00::1", "100.64.0.1"] {
            assert_eq!(
                client_of(peer, &["198.51.100.1, 203.0.113.9"]).as_deref(),
                Some("203.0.113.9"),
                "{peer}"
            );
            assert_eq!(client_of(peer, &[]), None);
            assert_eq!(client_of(peer, &["198.51.100.1, unknown"]), None);
        }
        assert_eq!(
            client_of("172.18.0.1", &["198.51.100.1", "[2001:db8::1]:4711"]).as_deref(),
            Some("2001:db8::1")
        );
        for peer in ["10.0.0.1", "::ffff:10.0.0.1", "203.0.113.1", "100.128.0.1", "2001:db8::1"] {
            assert_eq!(client_of(peer, &["203.0.113.9"]), None, "{peer}");
        }
    }

    #[test]
    fn only_trusted_proxies_say_who_asks() {
        let trusted = vec!["10.0.0.0/8".parse().expect("a network")];
        let client = |header, peer: &str, values: &[&str]| {
            TrustedProxies::new(trusted.clone(), header).client(peer.parse().expect(peer), values).to_string()
        };
        let x = |peer: &str, values: &[&str]| client(ForwardedHeader::XForwardedFor, peer, values);
        assert_eq!(x("192.0.2.1", &["203.0.113.9"]), "192.0.2.1", "anybody can send the header");
        assert_eq!(x("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(x("10.0.0.1", &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(
            x("10.0.0.1", &["198.51.100.1, 203.0.113.9"]),
            "203.0.113.9",
            "the first was said by the client"
        );
        assert_eq!(x("10.0.0.1", &["198.51.100.1", "203.0.113.9, 10.0.0.2"]), "203.0.113.9");
        assert_eq!(x("10.0.0.1", &["unknown, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(x("10.0.0.1", &["203.0.113.9:4711"]), "203.0.113.9");
        assert_eq!(x("::ffff:10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        let forwarded = |values: &[&str]| client(ForwardedHeader::Forwarded, "10.0.0.1", values);
        assert_eq!(forwarded(&["for=192.0.2.60;proto=http;by=203.0.113.43"]), "192.0.2.60");
        assert_eq!(forwarded(&["for=192.0.2.43, For=\"[2001:db8:cafe::17]:4711\""]), "2001:db8:cafe::17");
        assert_eq!(forwarded(&["for=_hidden"]), "10.0.0.1");
    }
}
