//! Networks, and which address a request comes from that a proxy hands on.

use std::{
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

/// A text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a network as in 10.0.0.0/8 or fd00::/8, or an address")]
pub struct NoNetwork;

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), |bits| bits.parse().map_err(|_| NoNetwork))?;
        if bits > width { Err(NoNetwork) } else { Ok(Self { address, bits }) }
    }
}

impl Network {
    /// Whether an address lies in it.
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

/// What of an address limits are counted by: of IPv6 the network, since whoever has one address there has all of it.
#[must_use]
pub fn limited(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// The header in which proxies write the address that a request came to them from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ForwardedHeader {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }

    /// The address of one element of it.
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
        // With a port, and IPv6 in brackets then.
        let bare = match node.strip_prefix('[') {
            Some(bracketed) => bracketed.split(']').next()?,
            None => node.rsplit_once(':')?.0,
        };
        bare.parse().ok()
    }
}

/// Who may say which address a request comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    trusted: Vec<Network>,
    header: ForwardedHeader,
}

impl Proxies {
    /// Those in `trusted` say it in `header`. Nobody else does, and in no other header: what a proxy does not write itself,
    /// it hands on from anybody.
    #[must_use]
    pub fn new(trusted: Vec<Network>, header: ForwardedHeader) -> Self {
        Self { trusted, header }
    }

    /// The header in which they say it.
    #[must_use]
    pub fn header(&self) -> ForwardedHeader {
        self.header
    }

    /// The address of the client whose request came from `peer` with these values of the header. Each proxy adds at the end
    /// the address it was asked from, so they are read from there, as long as those are trusted that wrote them.
    #[must_use]
    pub fn client(&self, peer: IpAddr, values: &[&str]) -> IpAddr {
        let is_trusted = |address| self.trusted.iter().any(|network| network.contains(address));
        let mut client = peer.to_canonical();
        for element in values.iter().rev().flat_map(|value| value.rsplit(',')) {
            if !is_trusted(client) {
                break;
            }
            // Behind what cannot be read nothing is known.
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
            assert_eq!(text.parse::<Network>(), Err(NoNetwork), "{text}");
        }
    }

    #[test]
    fn only_trusted_proxies_say_who_asks() {
        let trusted = vec!["10.0.0.0/8".parse().expect("a network")];
        let client = |header, peer: &str, values: &[&str]| {
            Proxies::new(trusted.clone(), header).client(peer.parse().expect(peer), values).to_string()
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
