//! What the server itself asks of others over HTTP, as keys of who issues credentials. Encrypted unless it stays on this
//! machine, and bounded in time and size; redirections are not followed, since they lead to whom nobody chose.

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

/// How long an answer may take in all.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// The address cannot be asked.
    #[error("the address cannot be asked")]
    Address(#[from] InvalidUri),
    /// It could not be asked, or broke off.
    #[error("it does not answer")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// It takes too long.
    #[error("it does not answer within {} s", TIMEOUT.as_secs())]
    Late,
    /// It answered something else.
    #[error("it answers with the status {0}")]
    Status(StatusCode),
    /// It is an address that members may not reach over this server.
    #[error("it is no public address, or not encrypted")]
    NotPublic,
    /// The answer is longer than it may be.
    #[error("its answer is longer than {0} bytes")]
    TooLarge(usize),
}

/// Whom may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Everybody: who it is, operators say.
    Everybody,
    /// Those at public addresses, and encrypted: who it is, members say.
    Public,
}

/// Asks others.
#[derive(Clone)]
pub(crate) struct Outgoing {
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    reach: Reach,
}

/// Finds the addresses of names, of which only those are left that may be reached. They are the ones that are connected
/// to: a name cannot mean another address meanwhile.
#[derive(Clone)]
struct Resolver(Reach);

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let reach = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let may_be_reached = |address: &SocketAddr| reach == Reach::Everybody || is_public(address.ip());
            let found: Vec<SocketAddr> = found.filter(may_be_reached).collect();
            if found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, FetchError::NotPublic));
            }
            Ok(found.into_iter())
        })
    }
}

// Whom the machine trusts, and besides them whom Mozilla does: small images bring no certificates. Reading them takes a while.
static ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    // What cannot be read there is not trusted, and no reason to trust nobody.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
});

impl Outgoing {
    /// One that reaches whoever there is.
    pub(crate) fn new() -> Self {
        Self::to(Reach::Everybody)
    }

    /// The same for some.
    pub(crate) fn to(reach: Reach) -> Self {
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the versions it was built with")
            .with_root_certificates(Arc::clone(&ROOTS))
            .with_no_client_auth();
        let mut http = HttpConnector::new_with_resolver(Resolver(reach));
        // What is encrypted begins with a plain connection.
        http.enforce_http(false);
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let connector = connector.enable_http1().wrap_connector(http);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), reach }
    }

    /// The status with which others answer what they are told. Nothing else of the answer is read.
    ///
    /// # Errors
    /// [`FetchError`]
    pub(crate) async fn tell(&self, url: &Url, request: Request<Vec<u8>>) -> Result<StatusCode, FetchError> {
        // Names are looked at when they are looked up, but what is an address already is not looked up.
        let public = match url.host() {
            Some(Host::Ipv4(address)) => is_public(address.into()),
            Some(Host::Ipv6(address)) => is_public(address.into()),
            Some(Host::Domain(_)) => true,
            None => false,
        };
        if self.reach == Reach::Public && !(public && url.scheme() == "https") {
            return Err(FetchError::NotPublic);
        }
        let mut request = request.map(|body| Full::new(Bytes::from(body)));
        *request.uri_mut() = url.as_str().parse()?;
        let answer = tokio::time::timeout(TIMEOUT, self.client.request(request)).await;
        let answer =
            answer.map_err(|_| FetchError::Late)?.map_err(|error| FetchError::Failed(error.into()))?;
        Ok(answer.status())
    }

    /// What is answered to a request, whatever the status, with at most so many bytes of a body.
    ///
    /// # Errors
    /// [`FetchError`]
    pub(crate) async fn send(
        &self,
        request: Request<Vec<u8>>,
        limit: usize,
    ) -> Result<Response<Vec<u8>>, FetchError> {
        let answer = async {
            let request = request.map(|body| Full::new(Bytes::from(body)));
            let answer =
                self.client.request(request).await.map_err(|error| FetchError::Failed(error.into()))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, limit).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    FetchError::TooLarge(limit)
                } else {
                    FetchError::Failed(error)
                }
            })?;
            Ok(Response::from_parts(head, body.to_bytes().to_vec()))
        };
        tokio::time::timeout(TIMEOUT, answer).await.map_err(|_| FetchError::Late)?
    }

    /// What is there at an address, at most so many bytes of it.
    ///
    /// # Errors
    /// [`FetchError`]
    pub(crate) async fn get(&self, url: &Url, limit: usize) -> Result<Vec<u8>, FetchError> {
        let mut request = Request::new(Vec::new());
        *request.uri_mut() = url.as_str().parse()?;
        let answer = self.send(request, limit).await?;
        match answer.status() {
            StatusCode::OK => Ok(answer.into_body()),
            status => Err(FetchError::Status(status)),
        }
    }
}

/// Whether nobody between here and there can read or change what is said: it is encrypted, or does not leave the machine.
pub(crate) fn is_private(url: &Url) -> bool {
    let is_here = url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    });
    url.scheme() == "https" || url.scheme() == "http" && is_here
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
            assert_eq!(is_private(&url.parse().expect(url)), private, "{url}");
        }
    }
}
