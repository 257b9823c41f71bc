//! The public keys of an issuer, as a JSON Web Key Set (RFC 7517). It is refreshed periodically, and
//! when a token names an unknown key. If a refresh fails, the previous keys stay in use.

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
    blocking_work::run_blocking,
    config::{JwksRefresh, JwksSource},
    error::Chain,
    http_client::{FetchError, OutgoingClient},
};

/// The maximum size of a key set, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The maximum number of keys that are read from a set.
const MAX_KEYS: usize = 100;

/// The allowed length of an RSA modulus, in bytes. Shorter ones are not safe, longer ones are slow.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

/// The maximum length of an RSA exponent, in bytes.
const MAX_EXPONENT_BYTES: usize = 8;

/// The length of a coordinate on the curves of ES256 and EdDSA, in bytes.
const COORDINATE_BYTES: usize = 32;

/// The reason why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// The file cannot be read.
    #[error("cannot read the keys in {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// The request to the URL failed.
    #[error("cannot fetch the keys")]
    Url(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The content is not a key set.
    #[error("the content is not a JSON Web Key Set")]
    Wrong(#[source] serde_json::Error),
}

impl From<FetchError> for JwksError {
    fn from(error: FetchError) -> Self {
        Self::Url(Box::new(error))
    }
}

/// The keys of an issuer. They are refreshed until this is dropped.
pub(super) struct Jwks {
    shared: Arc<Shared>,
    /// The task that refreshes the keys periodically.
    _refresh_tasks: JoinSet<()>,
}

struct Shared {
    source: Source,
    timing: JwksRefresh,
    keys: RwLock<Arc<[Key]>>,
    /// The time of the last refresh, successful or not. The lock is held during a refresh.
    tried_at: Mutex<Option<Instant>>,
}

enum Source {
    File(PathBuf),
    Url(Box<(Url, OutgoingClient)>),
}

/// A key and the only algorithm it is used with.
struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    public: DecodingKey,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Returns the number of usable keys at `source`.
///
/// # Errors
/// Returns an error if the keys cannot be read or parsed.
pub(crate) async fn count_usable_keys(source: &JwksSource) -> Result<usize, JwksError> {
    Ok(Source::of(source).read().await?.len())
}

impl Jwks {
    /// Reads the keys and starts refreshing them. A URL that does not answer is only logged, because it
    /// may answer later.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or parsed.
    pub(super) async fn start(source: &JwksSource, timing: JwksRefresh) -> Result<Self, JwksError> {
        let source = Source::of(source);
        let shared = Shared { source, timing, keys: RwLock::default(), tried_at: Mutex::default() };
        match (shared.source.read().await, &shared.source) {
            (Ok(keys), _) => shared.replace_keys(keys),
            (Err(error), Source::File(_)) => return Err(error),
            (Err(error), Source::Url(_)) => shared.log_failure(&error),
        }
        let shared = Arc::new(shared);
        let mut refresh_tasks = JoinSet::new();
        let reader = Arc::clone(&shared);
        refresh_tasks.spawn(async move {
            loop {
                tokio::time::sleep(reader.timing.refresh_interval).await;
                reader.refresh_keys(&mut *reader.tried_at.lock().await).await;
            }
        });
        Ok(Self { shared, _refresh_tasks: refresh_tasks })
    }

    /// Returns the key with this identifier and algorithm. Without an identifier, returns the only key
    /// for the algorithm. Refreshes the keys if there is no match.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let initial_keys = self.shared.keys();
        if let Some(key) = find(&initial_keys, id, algorithm) {
            return Some(key);
        }
        // A task of its own, because the caller may be dropped while others wait for the same refresh.
        let shared = Arc::clone(&self.shared);
        let refresh_if_unchanged = async move {
            let mut tried_at = shared.tried_at.lock().await;
            let was_refreshed = !Arc::ptr_eq(&initial_keys, &shared.keys());
            if !was_refreshed && tried_at.is_none_or(|at| at.elapsed() >= shared.timing.min_refresh_interval)
            {
                shared.refresh_keys(&mut tried_at).await;
            }
        };
        // If the task panicked, the keys have not changed.
        let _ = tokio::spawn(refresh_if_unchanged).await;
        find(&self.shared.keys(), id, algorithm)
    }
}

impl Shared {
    fn keys(&self) -> Arc<[Key]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace_keys(&self, keys: Vec<Key>) {
        if keys.is_empty() {
            tracing::warn!("the JWT issuer's key set contains no usable key");
        }
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys.into();
    }

    async fn refresh_keys(&self, tried_at: &mut Option<Instant>) {
        match self.source.read().await {
            Ok(keys) => self.replace_keys(keys),
            Err(error) => self.log_failure(&error),
        }
        *tried_at = Some(Instant::now());
    }

    fn log_failure(&self, error: &JwksError) {
        let keys = self.keys().len();
        tracing::warn!(
            error = %Chain(error),
            keys,
            "failed to fetch the JWT issuer's keys; the cached keys stay in use"
        );
    }
}

impl Source {
    fn of(source: &JwksSource) -> Self {
        match source {
            JwksSource::File(path) => Self::File(path.clone()),
            JwksSource::Url(url) => Self::Url(Box::new((url.clone(), OutgoingClient::new()))),
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
                let bytes = run_blocking(move || read_file(&file)).await;
                bytes.map_err(|error| JwksError::File(path.clone(), error))?
            }
        };
        let set: KeySet = serde_json::from_slice(&bytes).map_err(JwksError::Wrong)?;
        Ok(set.keys.into_iter().take(MAX_KEYS).filter_map(parse_usable_key).collect())
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() <= MAX_BYTES { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

fn find(keys: &[Key], id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
    let mut matching = keys
        .iter()
        .filter(|key| key.algorithm == algorithm && id.is_none_or(|id| key.id.as_deref() == Some(id)));
    let found = matching.next()?;
    let is_unambiguous = id.is_some() || matching.next().is_none();
    is_unambiguous.then(|| found.public.clone())
}

/// Returns a key that can verify signatures, with its algorithm. `None` for other keys of the set.
fn parse_usable_key(key: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    let length = |text: &str| URL_SAFE_NO_PAD.decode(text).map(|bytes| bytes.len()).ok();
    let (algorithm, jwk_algorithm) = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) => {
            let is_safe = RSA_BYTES.contains(&length(&rsa.n)?) && length(&rsa.e)? <= MAX_EXPONENT_BYTES;
            is_safe.then_some((Algorithm::RS256, KeyAlgorithm::RS256))?
        }
        AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => {
            let has_valid_length =
                length(&point.x)? == COORDINATE_BYTES && length(&point.y)? == COORDINATE_BYTES;
            has_valid_length.then_some((Algorithm::ES256, KeyAlgorithm::ES256))?
        }
        AlgorithmParameters::OctetKeyPair(point) if point.curve == EllipticCurve::Ed25519 => {
            (length(&point.x)? == COORDINATE_BYTES).then_some((Algorithm::EdDSA, KeyAlgorithm::EdDSA))?
        }
        // Symmetric keys are secrets and cannot be public, even if someone publishes them.
        _ => return None,
    };
    let common = &jwk.common;
    let may_verify_signatures = common.key_algorithm.is_none_or(|declared| declared == jwk_algorithm)
        && common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
        && common
            .key_operations
            .as_ref()
            .is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    let public = DecodingKey::from_jwk(&jwk).ok()?;
    may_verify_signatures.then(|| Key { id: jwk.common.key_id.clone(), algorithm, public })
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
            assert_eq!(parse_usable_key(key.clone()).map(|key| key.algorithm), algorithm, "{key}");
        }
    }
}
