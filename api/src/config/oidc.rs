//! With which OpenID provider people sign in, and what is believed of it.

use std::{ffi::OsStr, fmt, fs, path::PathBuf};

use clap::Args;
use url::Url;

use super::{OIDC_CLIENT_SECRET, Problems, Provision, jwt::ProvisionRole};
use crate::{
    domain::{claims::ClaimName, slug::Slug},
    outgoing,
};

/// Bytes of a client's secret at the most.
const MAX_SECRET: u64 = 4_096;

/// What `serve` takes of it, as it came.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_field_names, reason = "flags are named after their fields")]
pub(super) struct OidcArgs {
    /// The OpenID provider people sign in with in a browser: its issuer, an address beginning with https://. It needs
    /// `GALVO_PUBLIC_URL`.
    #[arg(long, env = "GALVO_OIDC_ISSUER", value_name = "URL")]
    oidc_issuer: Option<String>,
    /// What the provider calls this server.
    #[arg(long, env = "GALVO_OIDC_CLIENT_ID", value_name = "ID")]
    oidc_client_id: Option<String>,
    /// A file with the secret the provider knows this server by. `GALVO_OIDC_CLIENT_SECRET`, in the environment only, takes
    /// the secret itself instead.
    #[arg(long, env = "GALVO_OIDC_CLIENT_SECRET_FILE", value_name = "FILE")]
    oidc_client_secret_file: Option<PathBuf>,
    /// What people call the provider, for the page to sign in on.
    #[arg(long, env = "GALVO_OIDC_NAME", value_name = "NAME", default_value = "OpenID Connect")]
    oidc_name: String,
    /// What is asked of the provider beside `openid`, with spaces between.
    #[arg(long, env = "GALVO_OIDC_SCOPES", value_name = "SCOPES", default_value = "profile email")]
    oidc_scopes: String,
    /// The claim that names accounts, by their short names, in which somebody becomes a member who is not known yet.
    #[arg(long, env = "GALVO_OIDC_ACCOUNT_CLAIM", value_name = "CLAIM")]
    oidc_account_claim: Option<String>,
    /// The claim that says as what at the most: owner, admin, member or viewer.
    #[arg(long, env = "GALVO_OIDC_ROLE_CLAIM", value_name = "CLAIM")]
    oidc_role_claim: Option<String>,
    /// What somebody becomes at the most who is not known yet: never, viewer, member or admin.
    #[arg(long, env = "GALVO_OIDC_PROVISION", value_name = "ROLE", default_value = "never")]
    oidc_provision: String,
    /// The account in which that is, if no claim names one.
    #[arg(long, env = "GALVO_OIDC_PROVISION_ACCOUNT", value_name = "ACCOUNT")]
    oidc_provision_account: Option<String>,
}

/// With which OpenID provider people sign in, and what is believed of it.
#[derive(Clone, Debug)]
pub struct OidcConfig {
    /// Who it is, and where.
    pub issuer: String,
    /// What it calls this server.
    pub client_id: String,
    /// What it knows this server by, if it wants more than PKCE.
    pub client_secret: Option<ClientSecret>,
    /// What people call it.
    pub name: String,
    /// What is asked of it beside `openid`.
    pub scopes: Vec<String>,
    /// Which claim names accounts.
    pub account_claim: Option<ClaimName>,
    /// Which claim names a role.
    pub role_claim: Option<ClaimName>,
    /// What becomes of somebody who is not known yet; none if nothing.
    pub provision: Option<Provision>,
}

/// What a provider knows this server by. Its `Debug` is blank.
#[derive(Clone)]
pub struct ClientSecret(String);

impl ClientSecret {
    /// The secret itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&[u8]> for ClientSecret {
    type Error = &'static str;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        match std::str::from_utf8(bytes).map(str::trim_end) {
            Ok(secret) if !secret.is_empty() => Ok(Self(secret.to_owned())),
            _ => Err("must be a text, and not an empty one"),
        }
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret")
    }
}

impl OidcArgs {
    /// Adds what is wrong to `problems`. `secret` is what the environment holds, and `has_url` whether anything says how
    /// browsers call this server.
    pub(super) fn read(
        &self,
        problems: &mut Problems,
        secret: Option<&OsStr>,
        has_url: bool,
    ) -> Option<OidcConfig> {
        let wrong = problems.0.len();
        let provision: Option<ProvisionRole> = problems.read("oidc-provision", &self.oidc_provision);
        let account = self.oidc_provision_account.as_ref();
        let account: Option<Slug> =
            account.and_then(|account| problems.read("oidc-provision-account", account));
        let mut claim = |flag: &str, name: &Option<String>| -> Option<ClaimName> {
            name.as_ref().and_then(|name| problems.read(flag, name))
        };
        let account_claim = claim("oidc-account-claim", &self.oidc_account_claim);
        let role_claim = claim("oidc-role-claim", &self.oidc_role_claim);
        let provision = provision.and_then(ProvisionRole::role).map(|role| Provision { role, account });
        if provision.as_ref().is_some_and(|to| to.account.is_none()) && account_claim.is_none() {
            problems.add("oidc-provision-account", &"is needed unless --oidc-account-claim names a claim");
        }
        let Some(issuer) = &self.oidc_issuer else {
            let others = self.oidc_client_id.is_some()
                || self.oidc_client_secret_file.is_some()
                || secret.is_some()
                || provision.is_some();
            if others {
                problems.add("oidc-issuer", &"is needed to sign in with an OpenID provider");
            }
            return None;
        };
        if !issuer.parse::<Url>().is_ok_and(|url| outgoing::is_private(&url) && url.query().is_none()) {
            problems.add("oidc-issuer", &"must be an address beginning with https://");
        }
        if self.oidc_client_id.as_ref().is_none_or(String::is_empty) {
            problems.add("oidc-client-id", &"is needed to sign in with an OpenID provider");
        }
        if !has_url {
            problems.add(
                "public-url",
                &"is needed to sign in with an OpenID provider, which sends browsers back there",
            );
        }
        let client_secret = match (secret, &self.oidc_client_secret_file) {
            (Some(_), Some(_)) => {
                problems.add(
                    "oidc-client-secret-file",
                    &format_args!("cannot be set together with {OIDC_CLIENT_SECRET}"),
                );
                None
            }
            (Some(secret), None) => {
                let secret = ClientSecret::try_from(secret.as_encoded_bytes());
                secret.map_err(|problem| problems.0.push(format!("{OIDC_CLIENT_SECRET}: {problem}"))).ok()
            }
            (None, Some(file)) => {
                read_secret(file).map_err(|problem| problems.add("oidc-client-secret-file", &problem)).ok()
            }
            (None, None) => None,
        };
        if problems.0.len() > wrong {
            return None;
        }
        Some(OidcConfig {
            issuer: issuer.clone(),
            client_id: self.oidc_client_id.clone()?,
            client_secret,
            name: self.oidc_name.clone(),
            scopes: self.oidc_scopes.split_whitespace().map(str::to_owned).collect(),
            account_claim,
            role_claim,
            provision,
        })
    }
}

fn read_secret(file: &PathBuf) -> Result<ClientSecret, String> {
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_SECRET {
        return Err(format!("must have at most {MAX_SECRET} bytes"));
    }
    let bytes = fs::read(file).map_err(|error| error.to_string())?;
    ClientSecret::try_from(bytes.as_slice()).map_err(str::to_owned)
}
