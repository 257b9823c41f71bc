//! TLS on the server's own connections, with a certificate that may be replaced while it runs.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;

use crate::{config::TlsConfig, error::Chain};

/// What is spoken inside of TLS.
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// Why a certificate cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// A file is no PEM, or has nothing of what belongs there.
    #[error("{} is not PEM with what belongs there", .0.display())]
    Pem(PathBuf, #[source] pem::Error),
    /// The key is of a kind that is not known, or of another certificate.
    #[error("the certificate cannot be used with its key")]
    Pair(#[source] rustls::Error),
    /// There is nothing that TLS could be spoken with.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// The certificate that is shown: the newest that was good.
pub(crate) struct Certificate {
    files: TlsConfig,
    shown: RwLock<Arc<CertifiedKey>>,
}

/// What the files say, and how it is told from what they said before.
struct Found {
    digest: [u8; 32],
    pair: Result<CertifiedKey, TlsError>,
}

impl Certificate {
    /// Reads the files for the first time, and watches them from then on for as long as the certificate is in use.
    ///
    /// # Errors
    /// [`TlsError`] when they cannot be read, or do not fit each other.
    pub(crate) async fn open(files: TlsConfig) -> Result<Arc<Self>, TlsError> {
        let (Found { digest, pair }, pause) = (read(&files).await?, files.look_every);
        let certificate = Arc::new(Self { files, shown: RwLock::new(Arc::new(pair?)) });
        let watched = Arc::downgrade(&certificate);
        tokio::spawn(async move {
            let mut known = digest;
            loop {
                tokio::time::sleep(pause).await;
                let Some(certificate) = watched.upgrade() else { break };
                known = certificate.look(known).await;
            }
        });
        Ok(certificate)
    }

    /// The certificate in the files, and those that lead to its authority, if it can be shown.
    ///
    /// # Errors
    /// [`TlsError`] when they cannot be read, or do not fit each other.
    pub(crate) async fn chain(files: &TlsConfig) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        Ok(read(files).await?.pair?.cert)
    }

    /// What accepts connections with it.
    ///
    /// # Errors
    /// [`TlsError::Setup`].
    pub(crate) fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Shows what the files hold if they changed and it is good. Returns the digest of what was seen.
    async fn look(&self, known: [u8; 32]) -> [u8; 32] {
        let (seen, error) = match read(&self.files).await {
            // They may be replaced one after the other, so that for a moment they do not fit.
            Err(error) => (known, error),
            Ok(Found { digest, .. }) if digest == known => return known,
            Ok(Found { digest, pair: Ok(pair) }) => {
                *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                tracing::info!("another certificate is shown from now on");
                return digest;
            }
            Ok(Found { digest, pair: Err(error) }) => (digest, error),
        };
        tracing::warn!(error = %Chain(&error), "the certificate stays as it was");
        seen
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

async fn read(files: &TlsConfig) -> Result<Found, TlsError> {
    let of = async |path: &Path| {
        tokio::fs::read(path).await.map_err(|error| TlsError::File(path.to_owned(), error))
    };
    let (certificate, key) = (of(&files.certificate).await?, of(&files.key).await?);
    // With the length, so that no byte can move from one file to the other unseen.
    let digest = Sha256::new().chain_update(certificate.len().to_le_bytes());
    let digest = digest.chain_update(&certificate).chain_update(&key).finalize().into();
    Ok(Found { digest, pair: pair(files, &certificate, &key) })
}

fn pair(files: &TlsConfig, certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let wrong = |error| TlsError::Pem(files.certificate.clone(), error);
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().map_err(wrong)?;
    if chain.is_empty() {
        return Err(wrong(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Pem(files.key.clone(), error))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(TlsError::Pair)
}
