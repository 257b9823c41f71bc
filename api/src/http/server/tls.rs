//! TLS for the server's own connections. The certificate can be replaced while the server runs.

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

/// The protocols within TLS.
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// The reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// A file is not PEM, or does not contain the expected items.
    #[error("{} does not contain the expected PEM data", .0.display())]
    Pem(PathBuf, #[source] pem::Error),
    /// The key is of an unknown kind, or belongs to another certificate.
    #[error("the certificate cannot be used with its key")]
    Pair(#[source] rustls::Error),
    /// TLS could not be configured.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// The certificate in use: the latest valid one.
pub(crate) struct Certificate {
    files: TlsConfig,
    certified_key: RwLock<Arc<CertifiedKey>>,
}

/// The contents of the files, and their digest for detecting a change.
struct LoadedFiles {
    digest: [u8; 32],
    pair: Result<CertifiedKey, TlsError>,
}

impl Certificate {
    /// Reads the files, and watches them for changes as long as the certificate is in use.
    ///
    /// # Errors
    /// Returns a [`TlsError`] if the files cannot be read or do not match each other.
    pub(crate) async fn open(files: TlsConfig) -> Result<Arc<Self>, TlsError> {
        let (LoadedFiles { digest, pair }, check_interval) = (read(&files).await?, files.check_interval);
        let certificate = Arc::new(Self { files, certified_key: RwLock::new(Arc::new(pair?)) });
        let weak_certificate = Arc::downgrade(&certificate);
        tokio::spawn(async move {
            let mut current_digest = digest;
            loop {
                tokio::time::sleep(check_interval).await;
                let Some(certificate) = weak_certificate.upgrade() else { break };
                current_digest = certificate.reload_if_changed(current_digest).await;
            }
        });
        Ok(certificate)
    }

    /// Reads the certificate chain from the files, and checks that it can be used.
    ///
    /// # Errors
    /// Returns a [`TlsError`] if the files cannot be read or do not match each other.
    pub(crate) async fn chain(files: &TlsConfig) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        Ok(read(files).await?.pair?.cert)
    }

    /// Returns an acceptor for connections with this certificate.
    ///
    /// # Errors
    /// Returns [`TlsError::Setup`] if TLS cannot be configured.
    pub(crate) fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Replaces the certificate if the files have changed and are valid. Returns the digest of the
    /// files.
    async fn reload_if_changed(&self, current_digest: [u8; 32]) -> [u8; 32] {
        let (new_digest, error) = match read(&self.files).await {
            // The files may be replaced one after the other, so they may not match for a moment.
            Err(error) => (current_digest, error),
            Ok(LoadedFiles { digest, .. }) if digest == current_digest => return current_digest,
            Ok(LoadedFiles { digest, pair: Ok(pair) }) => {
                *self.certified_key.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                tracing::info!("TLS certificate reloaded");
                return digest;
            }
            Ok(LoadedFiles { digest, pair: Err(error) }) => (digest, error),
        };
        tracing::warn!(
            error = %Chain(&error),
            "failed to reload the TLS certificate; the current one stays in use"
        );
        new_digest
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.certified_key.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

async fn read(files: &TlsConfig) -> Result<LoadedFiles, TlsError> {
    let read_file = async |path: &Path| {
        tokio::fs::read(path).await.map_err(|error| TlsError::File(path.to_owned(), error))
    };
    let (certificate, key) = (read_file(&files.certificate).await?, read_file(&files.key).await?);
    // The digest includes the length, so that moving bytes from one file to the other changes it.
    let digest = Sha256::new().chain_update(certificate.len().to_le_bytes());
    let digest = digest.chain_update(&certificate).chain_update(&key).finalize().into();
    Ok(LoadedFiles { digest, pair: parse_pair(files, &certificate, &key) })
}

fn parse_pair(files: &TlsConfig, certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let pem_error = |error| TlsError::Pem(files.certificate.clone(), error);
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().map_err(pem_error)?;
    if chain.is_empty() {
        return Err(pem_error(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Pem(files.key.clone(), error))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(TlsError::Pair)
}
