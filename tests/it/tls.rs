//! TLS: serving with a certificate, and replacing it.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use galvo::config::TlsConfig;
use harness::{Program, TestApp};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

const REQUEST: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A certificate and its key in files.
struct Files {
    directory: TempDir,
}

impl Files {
    fn new(pair: &CertifiedKey<KeyPair>) -> Self {
        let files = Self { directory: TempDir::new().unwrap() };
        files.write(pair);
        files
    }

    fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    fn write(&self, pair: &CertifiedKey<KeyPair>) {
        std::fs::write(self.certificate(), pair.cert.pem()).unwrap();
        std::fs::write(self.key(), pair.signing_key.serialize_pem()).unwrap();
    }

    fn config(&self) -> TlsConfig {
        let look_every = Duration::from_millis(20);
        TlsConfig { certificate: self.certificate(), key: self.key(), check_interval: look_every }
    }
}

fn pair() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// The response to a client that trusts only one certificate.
async fn ask(app: &TestApp, trusted: &CertifiedKey<KeyPair>) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(app.address()).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(REQUEST.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn with_a_certificate_the_server_speaks_tls_and_nothing_else() {
    let (first, second) = (pair(), pair());
    let files = Files::new(&first);
    let app = TestApp::start_with(|serve| serve.tls = Some(files.config())).await;
    let answer = ask(&app, &first).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.to_ascii_lowercase().contains("\r\nstrict-transport-security: max-age=31536000\r\n"),
        "{answer}"
    );
    assert!(ask(&app, &second).await.is_err(), "it shows the first one");
    let mut plain = TcpStream::connect(app.address()).await.unwrap();
    plain.write_all(REQUEST.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    app.stop().await;
}

#[tokio::test]
async fn a_certificate_is_replaced_while_the_server_runs() {
    let (first, second) = (pair(), pair());
    let files = Files::new(&first);
    let app = TestApp::start_with(|serve| serve.tls = Some(files.config())).await;
    // Half of a new pair, and then a file that is no PEM: the valid certificate remains in use.
    std::fs::write(files.certificate(), second.cert.pem()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(ask(&app, &first).await.is_ok());
    std::fs::write(files.certificate(), "nonsense").unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(ask(&app, &first).await.is_ok());
    files.write(&second);
    for _ in 0..500 {
        if ask(&app, &second).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(ask(&app, &second).await.is_ok());
    assert!(ask(&app, &first).await.is_err());
    app.stop().await;
}

#[tokio::test]
async fn who_does_not_shake_hands_is_sent_away() {
    let first = pair();
    let files = Files::new(&first);
    let app = TestApp::start_with(|serve| {
        serve.tls = Some(files.config());
        serve.timeouts.head_timeout = Duration::from_millis(100);
    })
    .await;
    let mut silent = TcpStream::connect(app.address()).await.unwrap();
    let mut answer = Vec::new();
    let _ = silent.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
    assert!(ask(&app, &first).await.is_ok());
    app.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_told_at_the_start() {
    let (first, second) = (pair(), pair());
    let files = Files::new(&first);
    std::fs::write(files.key(), second.signing_key.serialize_pem()).unwrap();
    let texts = [files.certificate(), files.key()].map(|path| path.to_str().unwrap().to_owned());
    let [certificate, key] = texts.each_ref().map(String::as_str);
    for (arguments, status, message) in [
        (&["--tls-certificate", certificate][..], 2, "tls-key"),
        (&["--tls-key", key], 2, "tls-certificate"),
        (&["--tls-certificate", "/nowhere", "--tls-key", key], 1, "cannot read /nowhere"),
        (&["--tls-certificate", key, "--tls-key", key], 1, "does not contain the expected PEM data"),
        (&["--tls-certificate", certificate, "--tls-key", key], 1, "cannot be used with its key"),
    ] {
        let store = format!("sqlite://{}?mode=rwc", files.directory.path().join("store.db").display());
        let all = [&["serve", "--database-url", &store, "--listen", "127.0.0.1:0"], arguments].concat();
        let output = Program::command(&all).output().await.unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
}
