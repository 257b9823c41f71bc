//! Admission of token requests that no user has approved yet.
//!
//! Anybody can create such requests, so their number is bounded. If all of them are taken, the network with
//! the most requests gives way: of its address with the most, the oldest request is dropped. A client can
//! thus only take the place of another that has more than itself.

use std::{cmp::Reverse, collections::HashMap, hash::Hash, net::IpAddr};

use entity::Timestamp;

/// The largest number of pending requests, in total and per address.
const MAX_PENDING: usize = 1_000;
const MAX_OF_ADDRESS: usize = 20;

/// The largest number of pending requests through one untrusted proxy, whatever client addresses it
/// reports.
const MAX_OF_PROXY: usize = 400;

/// The beginning of the name of an untrusted proxy, after the client address that the proxy reports.
pub const PROXY_MARK: &str = " (reported by ";

/// A pending request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRequest {
    /// The public half of the token.
    pub identifier: String,
    /// The address that the request came from, as it is displayed.
    pub address: String,
    /// The time of the request.
    pub created_at: Timestamp,
}

/// Returns the identifiers of the requests that have to be dropped for one more request from an address,
/// none if there is room. Returns `None` if the new request is refused.
#[must_use]
pub fn admit(mut pending: Vec<PendingRequest>, address: &str) -> Option<Vec<String>> {
    let address_count = pending.iter().filter(|request| request.address == address).count();
    if address_count >= MAX_OF_ADDRESS {
        return None;
    }
    let network = network_of(address);
    let mut dropped = Vec::new();
    // Requests that arrived at the same time can exceed the limits by a few.
    let mut drop_request = |pending: &mut Vec<PendingRequest>, crowded_network: &str| {
        let index = if crowded_network == network {
            let (index, largest_count) = oldest_of_largest_address(pending, crowded_network)?;
            (address_count < largest_count).then_some(index)?
        } else {
            oldest_of_largest_address(pending, crowded_network)?.0
        };
        dropped.push(pending.swap_remove(index).identifier);
        Some(())
    };
    if network.starts_with(PROXY_MARK) {
        while count_of(&pending, &network) >= MAX_OF_PROXY {
            drop_request(&mut pending, &network)?;
        }
    }
    while pending.len() >= MAX_PENDING {
        let crowded_network = largest_network(&pending)?;
        let is_smaller = count_of(&pending, &network) < count_of(&pending, &crowded_network);
        drop_request(&mut pending, if is_smaller { &crowded_network } else { &network })?;
    }
    Some(dropped)
}

/// Returns the network of a displayed address. All clients of an untrusted proxy are in one network,
/// because such a proxy can report any address.
fn network_of(address: &str) -> String {
    if let Some(mark_start) = address.find(PROXY_MARK) {
        return address[mark_start..].to_owned();
    }
    match address.parse() {
        Ok(IpAddr::V4(address)) => IpAddr::V4((address.to_bits() >> 8 << 8).into()).to_string(),
        Ok(IpAddr::V6(address)) => IpAddr::V6((address.to_bits() >> 80 << 80).into()).to_string(),
        Err(_) => address.to_owned(),
    }
}

fn count_of(pending: &[PendingRequest], network: &str) -> usize {
    pending.iter().filter(|request| network_of(&request.address) == network).count()
}

/// Returns the network with the most requests. Of several, it is the one with the oldest request.
fn largest_network(pending: &[PendingRequest]) -> Option<String> {
    largest(pending.iter().map(|request| (network_of(&request.address), request.created_at))).map(|of| of.0)
}

/// Returns the position of the oldest request of the network's address with the most requests, and their
/// number.
fn oldest_of_largest_address(pending: &[PendingRequest], network: &str) -> Option<(usize, usize)> {
    let requests_of_network =
        || pending.iter().enumerate().filter(|(_, request)| network_of(&request.address) == network);
    let (address, count) =
        largest(requests_of_network().map(|(_, request)| (request.address.as_str(), request.created_at)))?;
    let requests_of_address = requests_of_network().filter(|(_, request)| request.address == address);
    let (index, _) = requests_of_address
        .min_by(|(_, a), (_, b)| (a.created_at.0, &a.identifier).cmp(&(b.created_at.0, &b.identifier)))?;
    Some((index, count))
}

/// Returns the most frequent key and its number. Of several, it is the one with the earliest time.
fn largest<K: Hash + Eq + Ord>(keys: impl Iterator<Item = (K, Timestamp)>) -> Option<(K, usize)> {
    let mut counts: HashMap<K, (usize, Timestamp)> = HashMap::new();
    for (key, time) in keys {
        let (count, earliest) = counts.entry(key).or_insert((0, time));
        *count += 1;
        *earliest = if time.0 < earliest.0 { time } else { *earliest };
    }
    let (key, (count, _)) = counts.into_iter().max_by(|(a_key, a), (b_key, b)| {
        (a.0, Reverse(a.1.0), Reverse(a_key)).cmp(&(b.0, Reverse(b.1.0), Reverse(b_key)))
    })?;
    Some((key, count))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    /// Requests by address, in the order of their arrival. Their identifiers are their numbers.
    fn pending(addresses: impl IntoIterator<Item = String>) -> Vec<PendingRequest> {
        let request = |(number, address): (i64, String)| PendingRequest {
            identifier: number.to_string(),
            address,
            created_at: DateTime::from_timestamp(number, 0).expect("a time").into(),
        };
        (0..).zip(addresses).map(request).collect()
    }

    fn addresses(networks: usize, hosts_per_network: usize, requests: usize) -> Vec<String> {
        let address = |network: usize, host: usize| format!("10.{}.{}.{host}", network / 256, network % 256);
        let hosts = (0..networks).flat_map(|network| (0..hosts_per_network).map(move |host| (network, host)));
        hosts.flat_map(|(network, host)| vec![address(network, host); requests]).collect()
    }

    fn dropped(addresses: Vec<String>, address: &str) -> Option<Vec<String>> {
        admit(pending(addresses), address)
    }

    #[test]
    fn nobody_gives_way_while_there_is_room() {
        assert_eq!(dropped(addresses(333, 3, 1), "192.0.2.1"), Some(vec![]));
        assert_eq!(dropped(addresses(1, 1, 19), "10.0.0.0"), Some(vec![]));
        assert_eq!(dropped(addresses(1, 1, 20), "10.0.0.0"), None, "one address has twenty");
        assert_eq!(dropped(addresses(1, 1, 20), "10.0.0.1"), Some(vec![]));
    }

    #[test]
    fn the_oldest_request_of_the_largest_address_of_the_largest_network_gives_way() {
        // Fifty addresses in fifty networks: the first of them has the oldest request.
        assert_eq!(dropped(addresses(50, 1, 20), "192.0.2.1"), Some(vec!["0".to_owned()]));
        // A network with more of them precedes one with older ones, and in it the address with most.
        let mut mixed_addresses = addresses(49, 1, 20);
        mixed_addresses.extend(vec!["198.51.100.1".to_owned(); 5]);
        mixed_addresses.extend(vec!["198.51.100.2".to_owned(); 10]);
        mixed_addresses.extend(vec!["198.51.100.3".to_owned(); 5]);
        mixed_addresses[0] = "198.51.100.4".to_owned();
        assert_eq!(dropped(mixed_addresses, "192.0.2.1"), Some(vec!["985".to_owned()]));
    }

    #[test]
    fn nobody_takes_the_place_of_one_that_has_no_more() {
        assert_eq!(dropped(addresses(1_000, 1, 1), "10.0.0.0"), None);
        assert_eq!(dropped(addresses(1_000, 1, 1), "192.0.2.1"), Some(vec!["0".to_owned()]));
        // Within the largest network, the rule holds for addresses.
        assert_eq!(dropped(addresses(1, 200, 5), "10.0.0.7"), None);
        assert_eq!(dropped(addresses(1, 200, 5), "10.0.0.250"), Some(vec!["0".to_owned()]));
        // A network that has as many as the largest one makes room itself.
        assert_eq!(dropped(addresses(2, 100, 5), "10.0.1.250"), Some(vec!["500".to_owned()]));
    }

    #[test]
    fn a_proxy_that_is_not_trusted_has_one_share_whatever_it_reports() {
        let proxied = |client: &str| format!("{client}{PROXY_MARK}172.17.0.1)");
        let clients = |number: usize| (0..number).map(move |at| proxied(&format!("203.0.113.{}", at % 200)));
        assert_eq!(dropped(clients(399).collect(), &proxied("192.0.2.1")), Some(vec![]));
        // The first client has two requests, a new one none: the older of the two is dropped.
        assert_eq!(dropped(clients(400).collect(), &proxied("192.0.2.1")), Some(vec!["0".to_owned()]));
        assert_eq!(dropped(clients(400).collect(), &proxied("203.0.113.1")), None);
        assert_eq!(dropped(clients(400).collect(), "203.0.113.1"), Some(vec![]));
    }

    #[test]
    fn what_exceeds_the_limit_is_dropped_as_well() {
        let expected = ["0", "20", "40"].map(str::to_owned).to_vec();
        assert_eq!(dropped(addresses(51, 1, 20)[..1_002].to_vec(), "192.0.2.1"), Some(expected));
    }

    #[test]
    fn networks_are_as_large_as_what_one_client_has() {
        for (address, network) in [
            ("192.0.2.7", "192.0.2.0"),
            ("2001:db8:1:2::", "2001:db8:1::"),
            ("203.0.113.9 (reported by 10.0.0.1)", " (reported by 10.0.0.1)"),
            ("somewhere", "somewhere"),
        ] {
            assert_eq!(network_of(address), network);
        }
    }
}
