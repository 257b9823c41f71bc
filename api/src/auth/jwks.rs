//! The public keys of an issuer, as a JSON Web Key Set (RFC 7517) that is read again now and then, and when a token names
//! a key that is missing. What was read last stays when it cannot be read.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::Mutex, task::JoinSet};
use url::Url;

use crate::{
    blocking::blocking,
    config::{JwksSource, JwksTiming},
    error::Chain,
    outgoing::{FetchError, Outgoing},
};

/// How large a set may be.
const MAX_BYTES: usize = 256 * 1024;

/// Keys of a set that are looked at.
const MAX_KEYS: usize = 100;

/// Bytes of the modulus of an RSA key: less is not safe, and more takes long.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

/// Bytes of the exponent of an RSA key at the most.
const MAX_EXPONENT_BYTES: usize = 8;

/// Bytes of a coordinate on the curves of ES256 and EdDSA.
const COORDINATE_BYTES: usize = 32;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// The file cannot be read.
    #[error("cannot read the keys in {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// The address does not answer as it should.
    #[error("cannot fetch the keys")]
    Url(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What was read is no set of keys.
    #[error("what was read is no JSON Web Key Set")]
    Wrong(#[source] serde_json::Error),
}

impl From<FetchError> for JwksError {
    fn from(error: FetchError) -> Self {
        Self::Url(Box::new(error))
    }
}

/// An issuer's keys. They are kept up to date until this is dropped.
pub(super) struct Jwks {
    shared: Arc<Shared>,
    /// What reads them now and then.
    _reading: JoinSet<()>,
}

struct Shared {
    source: Source,
    timing: JwksTiming,
    keys: RwLock<Arc<[Key]>>,
    /// When they were last read, or that was tried; held by who does.
    tried_at: Mutex<Option<Instant>>,
}

enum Source {
    File(PathBuf),
    Url(Box<(Url, Outgoing)>),
}

/// A key, and the only algorithm it is used with.
struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    public: DecodingKey,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// How many keys there are to verify with.
///
/// # Errors
/// When they cannot be read, or are something else.
pub(crate) async fn usable_keys(source: &JwksSource) -> Result<usize, JwksError> {
    Ok(Source::of(source).read().await?.len())
}

impl Jwks {
    /// Reads the keys and keeps reading them. An address that does not answer may do so later.
    ///
    /// # Errors
    /// When a file cannot be read, or there is something else in it.
    pub(super) async fn start(source: &JwksSource, timing: JwksTiming) -> Result<Self, JwksError> {
        let source = Source::of(source);
        let shared = Shared { source, timing, keys: RwLock::default(), tried_at: Mutex::default() };
        match (shared.source.read().await, &shared.source) {
            (Ok(keys), _) => shared.adopt(keys),
            (Err(error), Source::File(_)) => return Err(error),
            (Err(error), Source::Url(_)) => shared.complain(&error),
        }
        let shared = Arc::new(shared);
        let mut reading = JoinSet::new();
        let reader = Arc::clone(&shared);
        reading.spawn(async move {
            loop {
                tokio::time::sleep(reader.timing.every).await;
                reader.read_again(&mut *reader.tried_at.lock().await).await;
            }
        });
        Ok(Self { shared, _reading: reading })
    }

    /// The key with this identifier, if it is for this algorithm; without an identifier, the only key that is.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let seen = self.shared.keys();
        if let Some(key) = find(&seen, id, algorithm) {
            return Some(key);
        }
        // In a task of its own, because whoever asks may hang up, and others wait for the same.
        let shared = Arc::clone(&self.shared);
        let look_again = async move {
            let mut tried_at = shared.tried_at.lock().await;
            let is_new = !Arc::ptr_eq(&seen, &shared.keys());
            if !is_new && tried_at.is_none_or(|at| at.elapsed() >= shared.timing.at_most_every) {
                shared.read_again(&mut tried_at).await;
            }
        };
        // A reader that failed has changed nothing.
        let _ = tokio::spawn(look_again).await;
        find(&self.shared.keys(), id, algorithm)
    }
}

impl Shared {
    fn keys(&self) -> Arc<[Key]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn adopt(&self, keys: Vec<Key>) {
        if keys.is_empty() {
            tracing::warn!("the issuer of JWTs has no key that can be used");
        }
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys.into();
    }

    async fn read_again(&self, tried_at: &mut Option<Instant>) {
        match self.source.read().await {
            Ok(keys) => self.adopt(keys),
            Err(error) => self.complain(&error),
        }
        *tried_at = Some(Instant::now());
    }

    fn complain(&self, error: &JwksError) {
        let keys = self.keys().len();
        tracing::warn!(error = %Chain(error), keys, "the keys of the issuer of JWTs were not read; those known stay");
    }
}

impl Source {
    fn of(source: &JwksSource) -> Self {
        match source {
            JwksSource::File(path) => Self::File(path.clone()),
            JwksSource::Url(url) => Self::Url(Box::new((url.clone(), Outgoing::new()))),
        }
    }

    async fn read(&self) -> Result<Vec<Key>, JwksError> {
        let bytes = match self {
            Self::Url(address) => {
                let (url, outgoing) = &**address;
                outgoing.get(url, MAX_BYTES).await?
            }
            Self::File(path) => {
                let file = path.clone();
                let bytes = blocking(move || read_file(&file)).await;
                bytes.map_err(|error| JwksError::File(path.clone(), error))?
            }
        };
        let set: KeySet = serde_json::from_slice(&bytes).map_err(JwksError::Wrong)?;
        Ok(set.keys.into_iter().take(MAX_KEYS).filter_map(usable).collect())
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() <= MAX_BYTES { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

fn find(keys: &[Key], id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
    let mut fitting = keys
        .iter()
        .filter(|key| key.algorithm == algorithm && id.is_none_or(|id| key.id.as_deref() == Some(id)));
    let found = fitting.next()?;
    let is_meant = id.is_some() || fitting.next().is_none();
    is_meant.then(|| found.public.clone())
}

/// A key that can verify, with the algorithm that it is for. Others of the set are for something else.
fn usable(key: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    let length = |text: &str| URL_SAFE_NO_PAD.decode(text).map(|bytes| bytes.len()).ok();
    let (algorithm, named) = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) => {
            let is_safe = RSA_BYTES.contains(&length(&rsa.n)?) && length(&rsa.e)? <= MAX_EXPONENT_BYTES;
            is_safe.then_some((Algorithm::RS256, KeyAlgorithm::RS256))?
        }
        AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => {
            let is_whole = length(&point.x)? == COORDINATE_BYTES && length(&point.y)? == COORDINATE_BYTES;
            is_whole.then_some((Algorithm::ES256, KeyAlgorithm::ES256))?
        }
        AlgorithmParameters::OctetKeyPair(point) if point.curve == EllipticCurve::Ed25519 => {
            (length(&point.x)? == COORDINATE_BYTES).then_some((Algorithm::EdDSA, KeyAlgorithm::EdDSA))?
        }
        // Secrets are not public keys, whoever publishes them.
        _ => return None,
    };
    let common = &jwk.common;
    let is_for_it = common.key_algorithm.is_none_or(|own| own == named)
        && common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
    let public = DecodingKey::from_jwk(&jwk).ok()?;
    is_for_it.then(|| Key { id: jwk.common.key_id.clone(), algorithm, public })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_for_one_algorithm_and_for_signatures() {
        let bytes = |length: usize| URL_SAFE_NO_PAD.encode(vec![0x41; length]);
        let rsa = json!({ "kty": "RSA", "kid": "1", "n": bytes(256), "e": "AQAB" });
        let ec = json!({ "kty": "EC", "crv": "P-256", "x": bytes(32), "y": bytes(32) });
        let ed = json!({ "kty": "OKP", "crv": "Ed25519", "x": bytes(32) });
        let with = |key: &Value, name: &str, value: Value| {
            let mut key = key.clone();
            key[name] = value;
            key
        };
        for (key, algorithm) in [
            (rsa.clone(), Some(Algorithm::RS256)),
            (ec.clone(), Some(Algorithm::ES256)),
            (ed.clone(), Some(Algorithm::EdDSA)),
            (with(&rsa, "alg", json!("RS256")), Some(Algorithm::RS256)),
            (with(&rsa, "use", json!("sig")), Some(Algorithm::RS256)),
            (with(&rsa, "key_ops", json!(["verify"])), Some(Algorithm::RS256)),
            (with(&rsa, "alg", json!("RS512")), None),
            (with(&rsa, "alg", json!("HS256")), None),
            (with(&rsa, "alg", json!("none")), None),
            (with(&rsa, "use", json!("enc")), None),
            (with(&rsa, "key_ops", json!(["encrypt"])), None),
            (with(&rsa, "n", json!(bytes(255))), None),
            (with(&rsa, "n", json!(bytes(1_025))), None),
            (with(&rsa, "n", json!("?")), None),
            (with(&rsa, "e", json!(bytes(9))), None),
            (with(&ec, "crv", json!("P-384")), None),
            (with(&ec, "x", json!(bytes(31))), None),
            (with(&ed, "x", json!(bytes(33))), None),
            (with(&ed, "crv", json!("Ed448")), None),
            (json!({ "kty": "oct", "k": bytes(32) }), None),
            (json!({ "kty": "oct", "k": bytes(32), "alg": "RS256" }), None),
            (json!("key"), None),
        ] {
            assert_eq!(usable(key.clone()).map(|key| key.algorithm), algorithm, "{key}");
        }
    }
}
