//! What the server itself asks of others over HTTP, as keys of who issues credentials. Encrypted unless it stays on this
//! machine, and bounded in time and size; redirections are not followed, since they lead to whom nobody chose.

use std::{error::Error, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    body::Bytes,
    http::{Request, Response, StatusCode, uri::InvalidUri},
};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use url::Url;

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
    /// The answer is longer than it may be.
    #[error("its answer is longer than {0} bytes")]
    TooLarge(usize),
}

/// Asks others.
#[derive(Clone)]
pub(crate) struct Outgoing(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl Outgoing {
    /// One that trusts whom the machine trusts, and besides them whom Mozilla does: small images bring no certificates.
    pub(crate) fn new() -> Self {
        let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        // What cannot be read there is not trusted, and no reason to trust nobody.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the versions it was built with")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        Self(Client::builder(TokioExecutor::new()).build(connector))
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
            let answer = self.0.request(request).await.map_err(|error| FetchError::Failed(error.into()))?;
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
