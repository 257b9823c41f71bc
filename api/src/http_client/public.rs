//! Classification of IP addresses as public, as opposed to addresses of this machine or of private
//! networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns true if the address is public.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Follows the IANA registry of special-purpose addresses.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_local = address.is_unspecified()
        || a == 0
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_documentation();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_for_protocols = (a, b, c) == (192, 0, 0) || (a, b, c) == (192, 88, 99);
    let is_for_benchmarks = a == 198 && (18..20).contains(&b);
    !(is_local || is_shared || is_for_protocols || is_for_benchmarks || a >= 240)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // An embedded IPv4 address decides: mapped, translated by NAT64, or 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Only global unicast addresses, without those for protocols, tunnels and documentation.
        [first, second, ..] => {
            let global = (0x2000..0x4000).contains(&first);
            let is_for_protocols = first == 0x2001 && second < 0x200;
            let documents = (first == 0x2001 && second == 0xdb8) || (first == 0x3fff && second < 0x1000);
            global && !is_for_protocols && !documents
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_everybody_are_public() {
        for (address, public) in [
            ("93.184.216.34", true),
            ("1.1.1.1", true),
            ("172.32.0.1", true),
            ("100.63.255.255", true),
            ("192.0.1.1", true),
            ("198.20.0.1", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.1", false),
            ("100.64.0.1", false),
            ("127.0.0.1", false),
            ("127.255.255.254", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:2800:220:1::1", true),
            ("2a00::1", true),
            ("::", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:1.1.1.1", true),
            ("::127.0.0.1", false),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b::1.1.1.1", true),
            ("64:ff9b:1::1.1.1.1", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("2002:101:101::", true),
            ("3fff::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().expect(address)), public, "{address}");
        }
    }
}
