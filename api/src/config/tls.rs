//! Settings of TLS: the files of a certificate and its key, which may be replaced while the server runs.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::Problems;

/// The interval between checks of the files. Renewal tools replace a certificate well before it expires,
/// so a longer delay than this does no harm.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The TLS options of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
pub(super) struct TlsArgs {
    /// PEM file with the certificate of this server and the intermediate certificates. The server then
    /// accepts only TLS. The file is reloaded when it changes. Requires `GALVO_TLS_KEY`.
    #[arg(long, env = "GALVO_TLS_CERTIFICATE", value_name = "FILE")]
    tls_certificate: Option<PathBuf>,
    /// PEM file with the private key of the certificate. Requires `GALVO_TLS_CERTIFICATE`.
    #[arg(long, env = "GALVO_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The PEM file with the certificate and the intermediate certificates.
    pub certificate: PathBuf,
    /// The PEM file with the private key.
    pub key: PathBuf,
    /// The interval between checks of the files for changes. It has no setting; only tests change it, so
    /// as not to wait.
    pub check_interval: Duration,
}

impl TlsArgs {
    /// Parses the options and adds each problem to `problems`.
    pub(super) fn read(&self, problems: &mut Problems) -> Option<TlsConfig> {
        match (self.tls_certificate.clone(), self.tls_key.clone()) {
            (Some(certificate), Some(key)) => {
                Some(TlsConfig { certificate, key, check_interval: CHECK_INTERVAL })
            }
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
