//! Outgoing HTTP requests of the server, for example for an issuer's public keys, bounded in time and size.
//! Redirects are not followed, since they lead to hosts that no one configured. Where encryption is
//! required, the settings check URLs with [`is_confidential`].

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock},
    task::{Context, Poll},
    time::Duration,
    vec,
};

use axum::{
    body::Bytes,
    http::{Request, Response, StatusCode, uri::InvalidUri},
};
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tower::Service;
use url::{Host, Url};

use self::public::is_public;

mod public;

/// The timeout of a whole request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// The URL is malformed.
    #[error("the URL is malformed")]
    Address(#[from] InvalidUri),
    /// The connection failed or broke off.
    #[error("no response")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The server did not answer within the timeout.
    #[error("no response within {} s", TIMEOUT.as_secs())]
    TimeoutExceeded,
    /// The server answered with another status than 200.
    #[error("response with status {0}")]
    Status(StatusCode),
    /// The URL is not public, and members of accounts must not reach it through this server.
    #[error("the address is not public, or not encrypted")]
    NotPublic,
    /// The response exceeds the size limit.
    #[error("the response is longer than {0} bytes")]
    TooLarge(usize),
}

/// The set of allowed destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedTargets {
    /// All addresses. For URLs chosen by operators.
    AnyAddress,
    /// Public addresses over https only. For URLs chosen by members of accounts.
    Public,
}

/// An HTTP client.
#[derive(Clone)]
pub(crate) struct OutgoingClient {
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    allowed_targets: AllowedTargets,
}

/// A DNS resolver that drops addresses outside the allowed set. The client connects to exactly the
/// addresses that were checked, so a name cannot resolve to another address in between.
#[derive(Clone)]
struct Resolver(AllowedTargets);

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let allowed_targets = self.0;
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let is_allowed = |address: &SocketAddr| {
                allowed_targets == AllowedTargets::AnyAddress || is_public(address.ip())
            };
            let addresses: Vec<SocketAddr> = addresses.filter(is_allowed).collect();
            if addresses.is_empty() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, FetchError::NotPublic));
            }
            Ok(addresses.into_iter())
        })
    }
}

// The trusted root certificates: the machine's and Mozilla's, because small container images bring none.
// Loading them takes a while.
static ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    // A certificate that cannot be parsed is not trusted. It must not disable the others.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
});

impl OutgoingClient {
    /// Returns a client that can reach all addresses.
    pub(crate) fn new() -> Self {
        Self::with_allowed_targets(AllowedTargets::AnyAddress)
    }

    /// Returns a client for a set of destinations.
    pub(crate) fn with_allowed_targets(allowed_targets: AllowedTargets) -> Self {
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the versions it was built with")
            .with_root_certificates(Arc::clone(&ROOTS))
            .with_no_client_auth();
        let mut http = HttpConnector::new_with_resolver(Resolver(allowed_targets));
        // An https connection starts as a plain TCP connection of this connector.
        http.enforce_http(false);
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let connector = connector.enable_http1().wrap_connector(http);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), allowed_targets }
    }

    /// Sends a request and returns the status of the response. The body of the response is not read.
    ///
    /// # Errors
    /// [`FetchError`]
    pub(crate) async fn send_for_status(
        &self,
        url: &Url,
        request: Request<Vec<u8>>,
    ) -> Result<StatusCode, FetchError> {
        // The resolver checks host names; a literal IP address is never resolved and has to be checked
        // here.
        let may_be_public = match url.host() {
            Some(Host::Ipv4(address)) => is_public(address.into()),
            Some(Host::Ipv6(address)) => is_public(address.into()),
            Some(Host::Domain(_)) => true,
            None => false,
        };
        if self.allowed_targets == AllowedTargets::Public && !(may_be_public && url.scheme() == "https") {
            return Err(FetchError::NotPublic);
        }
        let mut request = request.map(|body| Full::new(Bytes::from(body)));
        *request.uri_mut() = url.as_str().parse()?;
        let response = tokio::time::timeout(TIMEOUT, self.client.request(request)).await;
        let response = response
            .map_err(|_| FetchError::TimeoutExceeded)?
            .map_err(|error| FetchError::Failed(error.into()))?;
        Ok(response.status())
    }

    /// Sends a request and returns the response with any status. The body may have at most `limit`
    /// bytes.
    ///
    /// # Errors
    /// [`FetchError`]
    pub(crate) async fn send(
        &self,
        request: Request<Vec<u8>>,
        limit: usize,
    ) -> Result<Response<Vec<u8>>, FetchError> {
        let response = async {
            let request = request.map(|body| Full::new(Bytes::from(body)));
            let response =
                self.client.request(request).await.map_err(|error| FetchError::Failed(error.into()))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, limit).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    FetchError::TooLarge(limit)
                } else {
                    FetchError::Failed(error)
                }
            })?;
            Ok(Response::from_parts(head, body.to_bytes().to_vec()))
        };
        tokio::time::timeout(TIMEOUT, response).await.map_err(|_| FetchError::TimeoutExceeded)?
    }

    /// Fetches the content at `url`, at most `limit` bytes. Any status other than 200 is an error.
    ///
    /// # Errors
    /// [`FetchError`]
    pub(crate) async fn get(&self, url: &Url, limit: usize) -> Result<Vec<u8>, FetchError> {
        let mut request = Request::new(Vec::new());
        *request.uri_mut() = url.as_str().parse()?;
        let response = self.send(request, limit).await?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            status => Err(FetchError::Status(status)),
        }
    }
}

/// Returns true if third parties cannot read or change the traffic: it is encrypted, or stays on this
/// machine.
pub(crate) fn is_confidential(url: &Url) -> bool {
    let is_on_this_machine = url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    });
    url.scheme() == "https" || url.scheme() == "http" && is_on_this_machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_the_machine_is_encrypted() {
        for (url, private) in [
            ("https://login.example.com/keys", true),
            ("http://login.example.com/keys", false),
            ("http://127.0.0.1:8080/keys", true),
            ("http://[::1]/keys", true),
            ("http://localhost/keys", true),
            ("http://localhost.example.com/keys", false),
            ("http://127.0.0.1@example.com/keys", false),
            ("http://10.0.0.1/keys", false),
            ("ftp://127.0.0.1/keys", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(is_confidential(&url.parse().expect(url)), private, "{url}");
        }
    }
}
