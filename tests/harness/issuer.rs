//! Who issues JWTs: keys to sign with, and a server that tells the public halves.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use galvo::{
    config::{JwksTiming, JwtConfig},
    domain::claims::ClaimNames,
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

/// Who issues tokens in tests.
pub const ISSUER: &str = "https://login.example.com/";

/// For whom.
pub const AUDIENCE: &str = "galvo";

/// The secret shared for HS256.
pub const SHARED_SECRET: &[u8] = b"a secret of thirty-two bytes, or more";

/// A key to sign with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningKey {
    /// What is shared, for HS256.
    Shared,
    /// For RS256.
    Rsa,
    /// Another one.
    OtherRsa,
    /// For ES256.
    Ec,
    /// For EdDSA.
    Ed,
}

impl SigningKey {
    /// The algorithm it is for.
    #[must_use]
    pub fn algorithm(self) -> Algorithm {
        match self {
            Self::Shared => Algorithm::HS256,
            Self::Rsa | Self::OtherRsa => Algorithm::RS256,
            Self::Ec => Algorithm::ES256,
            Self::Ed => Algorithm::EdDSA,
        }
    }

    /// Its public half under a name, as sets of keys hold it.
    #[must_use]
    pub fn public(self, id: &str) -> Value {
        let mut key = Jwk::from_encoding_key(&self.private(), self.algorithm()).unwrap();
        key.common.key_id = Some(id.to_owned());
        serde_json::to_value(key).unwrap()
    }

    /// A token with these claims, which names a key if there is a name.
    #[must_use]
    pub fn sign(self, id: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: id.map(str::to_owned), ..Header::new(self.algorithm()) };
        self.sign_with(&header, claims)
    }

    /// A token with another head.
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

/// Claims that are good at the time at which servers in tests begin, for five minutes.
#[must_use]
pub fn claims(subject: &str) -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": 1_795_176_000, "exp": 1_795_176_300 })
}

/// Settings by which the issuer's tokens are accepted; keys have to be added.
#[must_use]
pub fn jwt_config() -> JwtConfig {
    JwtConfig {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        secret: None,
        jwks: None,
        // A test that looks for a key that is not there does not wait for the next time.
        jwks_timing: JwksTiming { every: Duration::from_mins(5), at_most_every: Duration::ZERO },
        claims: ClaimNames { user: "sub".parse().unwrap(), accounts: None, role: None },
        provision: None,
    }
}

/// Settings with the shared secret.
#[must_use]
pub fn shared_jwt_config() -> JwtConfig {
    JwtConfig { secret: Some(SHARED_SECRET.try_into().unwrap()), ..jwt_config() }
}

/// A server that answers everything with what it was told.
pub struct KeyServer {
    address: SocketAddr,
    answer: Arc<Mutex<(u16, String)>>,
    asked: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl KeyServer {
    /// One that answers with a set of keys.
    pub async fn start(keys: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new((200, keys.to_string())));
        let asked = Arc::new(AtomicUsize::new(0));
        let mut serving = JoinSet::new();
        let (answers, counts) = (Arc::clone(&answer), Arc::clone(&asked));
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
                // Whoever asked may have heard enough.
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        Self { address, answer, asked, _serving: serving }
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/keys", self.address)
    }

    /// Answers so from now on.
    pub fn answer(&self, status: u16, body: impl Into<String>) {
        *self.answer.lock().unwrap() = (status, body.into());
    }

    /// How often it was asked.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}
