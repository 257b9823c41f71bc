//! Checks of the server's reachability from outside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::Url;

use super::Finding;
use crate::{config::ServeConfig, error::Chain, http_client::OutgoingClient};

/// The maximum size of the health response, in bytes.
const MAX_HEALTH_BYTES: usize = 4_096;

/// The maximum size of the metrics response, in bytes.
const MAX_METRICS_BYTES: usize = 4 << 20;

/// The counter of requests by untrusted proxies, in the server's metrics.
const UNTRUSTED_PROXY_COUNTER: &str = "galvo_http_requests_by_unnamed_proxy_total ";

pub(super) async fn examine(serve: &ServeConfig) -> Finding {
    let Some(public) = &serve.public_url else {
        return if serve.listen.ip().is_loopback() || serve.tls.is_some() {
            Finding::warning(
                "public url",
                "GALVO_PUBLIC_URL is not set, so the server derives its address from the Host header. \
                 Behind a proxy that changes Host, sign-in fails and links are wrong; behind a TLS proxy, \
                 cookies are not Secure",
                "set GALVO_PUBLIC_URL to the address in the browser, such as https://galvo.example or \
                 https://tools.example/galvo; not needed without a proxy",
            )
        } else {
            Finding::warning(
                "public url",
                format!("tokens sent to {} are not encrypted", serve.listen),
                "set GALVO_TLS_CERTIFICATE and GALVO_TLS_KEY, or put a proxy with TLS in front and set GALVO_PUBLIC_URL",
            )
        };
    };
    if !public.is_secure() && !serve.listen.ip().is_loopback() {
        let advice = "serve browsers over HTTPS, and set GALVO_PUBLIC_URL to the https:// address";
        return Finding::warning(
            "public url",
            format!("{public} is not encrypted, so tokens are sent in plain text"),
            advice,
        );
    }
    let address: Option<Url> = public.url_of("/healthz").parse().ok();
    let advice = "start the server and its proxy; ignore this if the address is not reachable from this \
                  machine";
    let Some(address) = address else {
        return Finding::failed("public url", format!("{public} is not a valid URL"), advice);
    };
    match OutgoingClient::new().get(&address, MAX_HEALTH_BYTES).await {
        Ok(_) => Finding::ok("public url", format!("{public} answers")),
        Err(error) => Finding::warning("public url", format!("{public}: {}", Chain(&error)), advice),
    }
}

/// Warns of an untrusted proxy: either the running server has counted requests through one, or browsers
/// use TLS although the server does not.
pub(super) async fn examine_proxies(serve: &ServeConfig) -> Option<Finding> {
    if let Some(count) = count_untrusted_proxy_requests(serve).await.filter(|count| *count > 0) {
        return Some(Finding::warning(
            "proxies",
            format!(
                "{count} requests came through an untrusted proxy, so all of its clients share the rate \
                 limits of one address, including those of failed sign-ins"
            ),
            "set GALVO_TRUSTED_PROXIES to the proxy's address in the server's log, such as 172.31.250.1",
        ));
    }
    let public = serve.public_url.as_ref().filter(|public| public.is_secure() && serve.tls.is_none())?;
    serve.network.proxies.is_empty().then(|| {
        Finding::warning(
            "proxies",
            format!(
                "a proxy serves {public}, but no proxy is trusted, so all of its clients share the rate \
                 limits of one address"
            ),
            "set GALVO_TRUSTED_PROXIES to the address from which the proxy connects, such as 10.0.0.0/8",
        )
    })
}

/// Returns the counter of the server on this machine. `None` if no server answers.
async fn count_untrusted_proxy_requests(serve: &ServeConfig) -> Option<u64> {
    let (listen, is_tls) = match serve.metrics_listen {
        Some(listen) => (listen, false),
        None => (serve.listen, serve.tls.is_some()),
    };
    // A server that listens on all addresses also listens on the loopback address.
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let scheme = if is_tls { "https" } else { "http" };
    let address: Url = format!("{scheme}://{}/metrics", SocketAddr::new(ip, listen.port())).parse().ok()?;
    let metrics = OutgoingClient::new().get(&address, MAX_METRICS_BYTES).await.ok()?;
    let metrics = String::from_utf8_lossy(&metrics);
    metrics.lines().find_map(|line| line.strip_prefix(UNTRUSTED_PROXY_COUNTER))?.trim().parse().ok()
}
