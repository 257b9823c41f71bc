//! Invariants of credential parsing, for arbitrary input.

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use entity::membership::Role;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{
    authenticator::{Bearer, MAX_LENGTH, parse_bearer},
    jwt::JwtVerifier,
};
use crate::{
    config::{JwksRefresh, JwtConfig},
    domain::{claims::ClaimNames, role::scopes_of, session::SessionSecret, slug::Slug, token::ApiToken},
    fuzzing::{lines, wait},
};

const SECRET: &[u8] = b"a secret of at least thirty-two bytes";

const ISSUER: &str = "https://issuer.example";

static VERIFIER: LazyLock<JwtVerifier> =
    LazyLock::new(|| wait(JwtVerifier::start(&config())).expect("no file"));

fn config() -> JwtConfig {
    let claim = |name: &str| name.parse().expect("a name of a claim");
    JwtConfig {
        issuer: ISSUER.to_owned(),
        audience: "galvo".to_owned(),
        secret: Some(SECRET.try_into().expect("a secret")),
        jwks: None,
        jwks_timing: JwksRefresh::default(),
        claims: ClaimNames {
            user: claim("sub"),
            accounts: Some(claim("accounts")),
            role: Some(claim("/galvo/roles")),
        },
        provision: None,
    }
}

/// Signs the input as a JWT if it begins like a JSON header: the header is the first line, the claims
/// are the rest. Other input is used as it is.
pub(crate) fn token(bytes: &[u8]) {
    if bytes.starts_with(b"{") {
        let [header, claims] = lines(bytes);
        check_acceptance(&sign(header, claims), true);
        return;
    }
    let Ok(text) = str::from_utf8(bytes) else {
        assert_eq!(parse_bearer(bytes), None);
        return;
    };
    match parse_bearer(bytes) {
        Some(_) if bytes.len() > MAX_LENGTH => panic!("a header beyond the length limit was parsed"),
        Some(Bearer::Jwt(token)) => check_acceptance(token, false),
        Some(Bearer::ApiToken(token)) => {
            assert!(text.trim().ends_with(&token.reveal()), "the parsed token is the one in the header");
            assert_eq!(ApiToken::parse(&token.reveal()).as_ref(), Some(&token));
            assert!(ApiToken::is_identifier(token.identifier()));
        }
        None => {}
    }
    if let Some(token) = ApiToken::parse(text) {
        assert_eq!(token.reveal(), text, "a token has one notation");
    }
    if let Some(secret) = SessionSecret::parse(text) {
        assert_eq!(secret.cookie_value(), text, "a session has one notation");
        assert!(secret.csrf_matches(secret.csrf_token().as_bytes()) && !secret.csrf_matches(text.as_bytes()));
    }
    if let Ok(slug) = text.parse::<Slug>() {
        assert_eq!(slug.as_str(), text, "a short name has one notation");
    }
}

/// Checks that a JWT is accepted only if it is signed. `signed_here` is true if the caller signed it;
/// nothing else has the secret.
fn check_acceptance(token: &str, signed_here: bool) {
    let now: DateTime<Utc> = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
    let Ok(verified) = wait(VERIFIER.verify(token, now)) else { return };
    assert!(signed_here || is_signed(token), "nobody signed {token}");
    assert!(verified.expires_at.0 > now, "it has expired");
    let identity = verified.identity;
    assert!((1..=255).contains(&identity.subject.chars().count()));
    let role = identity.role.expect("the claim has to name one");
    assert_ne!(role, Role::Guest, "guests have an end, which no claim says");
    let scopes = identity.scopes.expect("a role has scopes");
    assert!(scopes.iter().all(|scope| scopes_of(role).contains(scope)), "more than the role has");
    assert!(identity.accounts.expect("the claim has to name them").len() <= 100);
}

fn sign(header: &[u8], claims: &[u8]) -> String {
    let content = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(mac(&content).finalize().into_bytes());
    format!("{content}.{signature}")
}

fn is_signed(token: &str) -> bool {
    let (content, signature) = token.rsplit_once('.').unwrap_or_default();
    URL_SAFE_NO_PAD.decode(signature).is_ok_and(|signature| mac(content).verify_slice(&signature).is_ok())
}

fn mac(content: &str) -> Hmac<Sha256> {
    Hmac::new_from_slice(SECRET).expect("a key of any length").chain_update(content)
}
