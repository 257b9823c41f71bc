//! An issuer of JWTs: signing keys, and a server that publishes the public halves.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use galvo::{
    config::{JwksRefresh, JwtConfig},
    domain::claims::ClaimNames,
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

/// The issuer of tokens in tests.
pub const ISSUER: &str = "https://login.example.com/";

/// The audience of these tokens.
pub const AUDIENCE: &str = "galvo";

/// The secret shared for HS256.
pub const SHARED_SECRET: &[u8] = b"a secret of thirty-two bytes, or more";

/// A signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningKey {
    /// The shared secret, for HS256.
    Shared,
    /// An RSA key, for RS256.
    Rsa,
    /// Another RSA key.
    OtherRsa,
    /// An EC key, for ES256.
    Ec,
    /// An Ed25519 key, for EdDSA.
    Ed,
}

impl SigningKey {
    /// The algorithm of the key.
    #[must_use]
    pub fn algorithm(self) -> Algorithm {
        match self {
            Self::Shared => Algorithm::HS256,
            Self::Rsa | Self::OtherRsa => Algorithm::RS256,
            Self::Ec => Algorithm::ES256,
            Self::Ed => Algorithm::EdDSA,
        }
    }

    /// Its public half with a key identifier, as in a key set.
    #[must_use]
    pub fn public(self, id: &str) -> Value {
        let mut key = Jwk::from_encoding_key(&self.private(), self.algorithm()).unwrap();
        key.common.key_id = Some(id.to_owned());
        serde_json::to_value(key).unwrap()
    }

    /// A token with these claims, and with a key identifier if given.
    #[must_use]
    pub fn sign(self, id: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: id.map(str::to_owned), ..Header::new(self.algorithm()) };
        self.sign_with(&header, claims)
    }

    /// A token with a custom header.
    #[must_use]
    pub fn sign_with(self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.private()).unwrap()
    }

    fn private(self) -> EncodingKey {
        match self {
            Self::Shared => EncodingKey::from_secret(SHARED_SECRET),
            Self::Rsa => EncodingKey::from_rsa_der(include_bytes!("keys/rsa.der")),
            Self::OtherRsa => EncodingKey::from_rsa_der(include_bytes!("keys/rsa-other.der")),
            Self::Ec => EncodingKey::from_ec_der(include_bytes!("keys/ec.der")),
            Self::Ed => EncodingKey::from_ed_der(include_bytes!("keys/ed.der")),
        }
    }
}

/// A set of public keys.
#[must_use]
pub fn key_set(keys: &[(SigningKey, &str)]) -> Value {
    json!({ "keys": keys.iter().map(|(key, id)| key.public(id)).collect::<Vec<_>>() })
}

/// Claims that are valid for five minutes from the initial time of servers in tests.
#[must_use]
pub fn claims(subject: &str) -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": 1_795_176_000, "exp": 1_795_176_300 })
}

/// Settings that accept the issuer's tokens. Keys must be added.
#[must_use]
pub fn jwt_config() -> JwtConfig {
    JwtConfig {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        secret: None,
        jwks: None,
        // A test that looks up an unknown key must not wait for the next refresh.
        jwks_timing: JwksRefresh {
            refresh_interval: Duration::from_mins(5),
            min_refresh_interval: Duration::ZERO,
        },
        claims: ClaimNames { user: "sub".parse().unwrap(), accounts: None, role: None },
        provision: None,
    }
}

/// Settings with the shared secret.
#[must_use]
pub fn shared_jwt_config() -> JwtConfig {
    JwtConfig { secret: Some(SHARED_SECRET.try_into().unwrap()), ..jwt_config() }
}

/// A server that answers every request with a preset response.
pub struct KeyServer {
    address: SocketAddr,
    answer: Arc<Mutex<(u16, String)>>,
    requests: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl KeyServer {
    /// Starts a server that answers with a key set.
    pub async fn start(keys: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new((200, keys.to_string())));
        let requests = Arc::new(AtomicUsize::new(0));
        let mut serving = JoinSet::new();
        let (answers, counts) = (Arc::clone(&answer), Arc::clone(&requests));
        serving.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                counts.fetch_add(1, Ordering::SeqCst);
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let (status, body) = answers.lock().unwrap().clone();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nConnection: close\r\nLocation: /elsewhere\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                // The client may have closed the connection already.
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        Self { address, answer, requests, _serving: serving }
    }

    /// The URL of the key set.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/keys", self.address)
    }

    /// Sets the response from now on.
    pub fn answer(&self, status: u16, body: impl Into<String>) {
        *self.answer.lock().unwrap() = (status, body.into());
    }

    /// The number of requests received.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}
