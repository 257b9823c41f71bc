//! Settings of TLS: a certificate and its key, in files that may be replaced while the server runs.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::Problems;

/// Between looks at the files. Who replaces them leaves the certificate before good for longer.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What `serve` takes of it, as it came.
#[derive(Clone, Debug, Args)]
pub(super) struct TlsArgs {
    /// A file with the certificate to show, and those that lead to its authority, as PEM. The server speaks TLS then, and
    /// nothing else. It is read anew when it changes.
    #[arg(long, env = "GALVO_TLS_CERTIFICATE", value_name = "FILE")]
    tls_certificate: Option<PathBuf>,
    /// A file with the certificate's private key, as PEM.
    #[arg(long, env = "GALVO_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

/// Where a certificate and its key are.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The certificate and those that lead to its authority, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// How often it is looked whether they changed. Nobody has to set it but tests, which would have to wait.
    pub look_every: Duration,
}

impl TlsArgs {
    /// Adds what is wrong to `problems`.
    pub(super) fn read(&self, problems: &mut Problems) -> Option<TlsConfig> {
        match (self.tls_certificate.clone(), self.tls_key.clone()) {
            (Some(certificate), Some(key)) => Some(TlsConfig { certificate, key, look_every: LOOK_EVERY }),
            (None, None) => None,
            (Some(_), None) => {
                problems.add("tls-key", &"is needed with a certificate");
                None
            }
            (None, Some(_)) => {
                problems.add("tls-certificate", &"is needed with a key");
                None
            }
        }
    }
}
