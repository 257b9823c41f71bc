//! The origin and the identifier of a request.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    extract::{ConnectInfo, FromRequestParts, Request, State},
    http::{HeaderName, HeaderValue, request::Parts},
    middleware::Next,
    response::Response,
};
use uuid::Uuid;

use crate::{
    domain::{audit::Origin, client_ip::TrustedProxies},
    http::middleware::security_headers,
    metrics::HttpMetrics,
};

/// The header that identifies a request in its response, in the log and in the audit log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The server's knowledge of the proxies before it.
pub(crate) struct ProxySettings {
    pub(crate) proxies: Arc<TrustedProxies>,
    /// True if browsers may reach the host only by TLS.
    pub(crate) sends_hsts: bool,
    /// The counters of requests through proxies that are not configured.
    pub(crate) metrics: HttpMetrics,
    /// True if the log has already reported such a proxy.
    pub(crate) has_warned: AtomicBool,
}

impl ProxySettings {
    /// Counts a request through a proxy that is not trusted, and logs the first one.
    fn report_untrusted_proxy(&self, peer: IpAddr) {
        self.metrics.count_untrusted_proxy();
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %peer,
                header = self.proxies.header().name(),
                "requests arrive through an untrusted proxy, so all of its clients share the rate limits of \
                 one address: set GALVO_TRUSTED_PROXIES={peer}, or remove the header at the proxy"
            );
        }
    }
}

/// The client address according to a proxy that is not configured. It is not trusted; it only
/// distinguishes the clients of that proxy from each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntrustedForwardedFor(pub(crate) IpAddr);

/// Assigns a request its identifier and origin, and adds the security headers to its response.
pub(crate) async fn set_origin(
    State(settings): State<Arc<ProxySettings>>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    // A request without a peer did not arrive over the network.
    let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let proxies = &settings.proxies;
    let forwarded = request.headers().get_all(proxies.header().name()).iter();
    let forwarded: Vec<&str> = forwarded.filter_map(|value| value.to_str().ok()).collect();
    let origin = Origin { address: proxies.client(peer, &forwarded), request_id: Uuid::now_v7() };
    let untrusted_client = proxies.unconfigured_proxy_client(peer, &forwarded);
    request.extensions_mut().insert(origin);
    if let Some(forwarded) = untrusted_client {
        settings.report_untrusted_proxy(peer);
        request.extensions_mut().insert(UntrustedForwardedFor(forwarded));
    }
    let mut response = next.run(request).await;
    security_headers::add_security_headers(&mut response, settings.sends_hsts);
    if let Ok(id) = HeaderValue::from_str(&origin.request_id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Returns the identifier of a request.
pub(crate) fn request_id(request: &Request) -> Option<Uuid> {
    request.extensions().get::<Origin>().map(|origin| origin.request_id)
}

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOrigin(pub(crate) Origin);

impl<S: Sync> FromRequestParts<S> for RequestOrigin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let local_origin = || Origin { address: IpAddr::V4(Ipv4Addr::LOCALHOST), request_id: Uuid::now_v7() };
        Ok(Self(parts.extensions.get().copied().unwrap_or_else(local_origin)))
    }
}
