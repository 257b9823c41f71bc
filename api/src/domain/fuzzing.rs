//! Fuzz targets for client addresses and return paths: invariants that hold for every request.

use std::net::IpAddr;

use super::{
    client_ip::{ForwardedHeader, Network, TrustedProxies, rate_limit_address},
    return_path::ReturnPath,
};
use crate::fuzzing::lines;

/// Checks client addresses. The input has the trusted network and the peer on two lines; the remaining
/// lines are values of the header.
pub(crate) fn forwarded(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let [trusted, peer, values] = lines(text.as_bytes()).map(|line| str::from_utf8(line).unwrap_or_default());
    let values: Vec<&str> = values.lines().collect();
    let peer: Option<IpAddr> = peer.parse().ok();
    if let Some(peer) = peer {
        assert_eq!(
            rate_limit_address(rate_limit_address(peer)),
            rate_limit_address(peer),
            "what limits are counted by is counted by itself"
        );
    }
    let Ok(network) = trusted.parse::<Network>() else { return };
    if let Some(address) = trusted.split('/').next().and_then(|address| address.parse().ok()) {
        assert!(network.contains(address) || IpAddr::to_canonical(&address) != address, "{trusted}");
    }
    let Some(peer) = peer else { return };
    for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
        let proxies = TrustedProxies::new(vec![network], header);
        let client = proxies.client(peer, &values);
        if !network.contains(peer) {
            assert_eq!(client, peer.to_canonical(), "nobody else is asked who it is");
        }
        if !network.contains(client) {
            // A client can write any values before those that proxies append.
            let forged: Vec<&str> =
                ["for=203.0.113.1", "203.0.113.1"].into_iter().chain(values.clone()).collect();
            assert_eq!(proxies.client(peer, &forged), client, "{values:?}");
        }
        assert_eq!(TrustedProxies::default().client(peer, &values), peer.to_canonical());
    }
}

/// Checks the return path of a request.
pub(crate) fn return_path(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let path = ReturnPath::sanitize(text);
    let page_url = url::Url::parse("https://galvo.example/sign-in").expect("an address");
    let target_url = page_url.join(path.as_str()).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    assert_eq!(target_url.origin(), page_url.origin(), "{path:?}");
    assert!(target_url.username().is_empty() && target_url.password().is_none(), "{path:?}");
    assert!(axum::http::HeaderValue::from_str(path.as_str()).is_ok(), "{path:?}");
    assert_eq!(ReturnPath::sanitize(path.as_str()), path, "what is returned to can be wanted");
}
