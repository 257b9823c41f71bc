//! Checks of the identity providers: the JWT issuer and the OpenID provider.

use super::Finding;
use crate::{
    auth::{OidcProvider, count_usable_keys},
    config::ServeConfig,
    error::Chain,
};

pub(super) async fn examine(serve: &ServeConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(source) = serve.jwt.as_ref().and_then(|jwt| jwt.jwks.as_ref()) {
        let advice = "correct GALVO_JWKS, or make it reachable from this machine";
        findings.push(match count_usable_keys(source).await {
            Ok(0) => Finding::failed(
                "jwks",
                "the issuer's key set contains no usable key",
                "have the issuer sign with RS256, ES256 or EdDSA",
            ),
            Ok(count) => Finding::ok("jwks", format!("the issuer's key set contains {count} usable keys")),
            Err(error) => Finding::failed("jwks", Chain(&error).to_string(), advice),
        });
    }
    if let Some((oidc, public)) = serve.oidc.as_ref().zip(serve.public_url.as_ref()) {
        let advice = "correct GALVO_OIDC_ISSUER, or make the provider reachable from this machine";
        findings.push(match OidcProvider::new(oidc, public).check_health().await {
            Ok(()) => Finding::ok("openid", format!("{} answers", oidc.issuer)),
            Err(error) => Finding::failed("openid", format!("{}: {}", oidc.issuer, Chain(&error)), advice),
        });
    }
    findings
}
