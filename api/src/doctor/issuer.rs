//! Those whose word is taken for who somebody is: the issuer of JWTs, and the OpenID provider.

use super::Finding;
use crate::{
    auth::{OidcProvider, usable_keys},
    config::ServeConfig,
    error::Chain,
};

pub(super) async fn examine(serve: &ServeConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(source) = serve.jwt.as_ref().and_then(|jwt| jwt.jwks.as_ref()) {
        let advice = "correct GALVO_JWKS, or see to it that this machine reaches it";
        findings.push(match usable_keys(source).await {
            Ok(0) => Finding::failed(
                "jwks",
                "none of the issuer's keys can be used",
                "RS256, ES256 or EdDSA is needed",
            ),
            Ok(count) => Finding::ok("jwks", format!("{count} keys of the issuer can be used")),
            Err(error) => Finding::failed("jwks", Chain(&error).to_string(), advice),
        });
    }
    if let Some((oidc, public)) = serve.oidc.as_ref().zip(serve.public_url.as_ref()) {
        let advice = "correct GALVO_OIDC_ISSUER, or see to it that this machine reaches the provider";
        findings.push(match OidcProvider::new(oidc, public).examine().await {
            Ok(()) => Finding::ok("openid", format!("{} answers", oidc.issuer)),
            Err(error) => Finding::failed("openid", format!("{}: {}", oidc.issuer, Chain(&error)), advice),
        });
    }
    findings
}
