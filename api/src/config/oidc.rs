//! Settings of signing in through an OpenID provider, and the claims that are read.

use std::{ffi::OsStr, fmt, fs, path::PathBuf};

use clap::Args;
use url::Url;

use super::{OIDC_CLIENT_SECRET, Problems, Provision, jwt::ProvisionRole};
use crate::{
    domain::{claims::ClaimName, slug::Slug},
    http_client,
};

/// The maximum length of a client secret, in bytes.
const MAX_SECRET: u64 = 4_096;

/// The OpenID options of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_field_names, reason = "flags are named after their fields")]
pub(super) struct OidcArgs {
    /// OpenID provider for signing in with a browser: its issuer URL, which must begin with https://
    /// except on this machine. Requires `GALVO_PUBLIC_URL` and `GALVO_OIDC_CLIENT_ID`.
    #[arg(long, env = "GALVO_OIDC_ISSUER", value_name = "URL")]
    oidc_issuer: Option<String>,
    /// Client ID of this server at the provider.
    #[arg(long, env = "GALVO_OIDC_CLIENT_ID", value_name = "ID")]
    oidc_client_id: Option<String>,
    /// File with the client secret of this server at the provider, at most 4096 bytes. Not needed for a
    /// provider that accepts PKCE alone. `GALVO_OIDC_CLIENT_SECRET` holds the secret itself and has no
    /// flag.
    #[arg(long, env = "GALVO_OIDC_CLIENT_SECRET_FILE", value_name = "FILE")]
    oidc_client_secret_file: Option<PathBuf>,
    /// Name of the provider on the sign-in page.
    #[arg(long, env = "GALVO_OIDC_NAME", value_name = "NAME", default_value = "OpenID Connect")]
    oidc_name: String,
    /// Scopes requested from the provider in addition to `openid`, separated by spaces.
    #[arg(long, env = "GALVO_OIDC_SCOPES", value_name = "SCOPES", default_value = "profile email")]
    oidc_scopes: String,
    /// Claim with the short names of the accounts that an unknown user joins at the first sign-in.
    #[arg(long, env = "GALVO_OIDC_ACCOUNT_CLAIM", value_name = "CLAIM")]
    oidc_account_claim: Option<String>,
    /// Claim with the highest role of an unknown user: owner, admin, member or viewer.
    /// `GALVO_OIDC_PROVISION` limits it.
    #[arg(long, env = "GALVO_OIDC_ROLE_CLAIM", value_name = "CLAIM")]
    oidc_role_claim: Option<String>,
    /// Highest role of unknown users, who are created at their first sign-in: never, viewer, member or
    /// admin. With `never`, unknown users are rejected.
    #[arg(long, env = "GALVO_OIDC_PROVISION", value_name = "ROLE", default_value = "never")]
    oidc_provision: String,
    /// Account that unknown users join if no claim names one. Required for provisioning unless
    /// `GALVO_OIDC_ACCOUNT_CLAIM` is set.
    #[arg(long, env = "GALVO_OIDC_PROVISION_ACCOUNT", value_name = "ACCOUNT")]
    oidc_provision_account: Option<String>,
}

/// The OpenID provider for signing in, and the claims that are read.
#[derive(Clone, Debug)]
pub struct OidcConfig {
    /// The provider's issuer URL.
    pub issuer: String,
    /// The client ID of this server.
    pub client_id: String,
    /// The client secret of this server. `None` if the provider accepts PKCE alone.
    pub client_secret: Option<ClientSecret>,
    /// The provider's name on the sign-in page.
    pub name: String,
    /// The scopes requested in addition to `openid`.
    pub scopes: Vec<String>,
    /// The claim with account names.
    pub account_claim: Option<ClaimName>,
    /// The claim with a role.
    pub role_claim: Option<ClaimName>,
    /// The provisioning of unknown users. `None` if they are rejected.
    pub provision: Option<Provision>,
}

/// The client secret at a provider. Its `Debug` output is blank.
#[derive(Clone)]
pub struct ClientSecret(String);

impl ClientSecret {
    /// Returns the text of the secret.
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
    /// Parses the options and adds each problem to `problems`. `secret` is the value of the environment
    /// variable. `has_public_url` is true if the server's public URL is configured.
    pub(super) fn read(
        &self,
        problems: &mut Problems,
        secret: Option<&OsStr>,
        has_public_url: bool,
    ) -> Option<OidcConfig> {
        let initial_problem_count = problems.0.len();
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
        if provision.as_ref().is_some_and(|provision| provision.account.is_none()) && account_claim.is_none()
        {
            problems.add("oidc-provision-account", &"is needed unless --oidc-account-claim names a claim");
        }
        let Some(issuer) = &self.oidc_issuer else {
            let has_other_options = self.oidc_client_id.is_some()
                || self.oidc_client_secret_file.is_some()
                || secret.is_some()
                || provision.is_some();
            if has_other_options {
                problems.add("oidc-issuer", &"is needed to sign in with an OpenID provider");
            }
            return None;
        };
        if !issuer.parse::<Url>().is_ok_and(|url| http_client::is_confidential(&url) && url.query().is_none())
        {
            problems.add("oidc-issuer", &"must be an address beginning with https://");
        }
        if self.oidc_client_id.as_ref().is_none_or(String::is_empty) {
            problems.add("oidc-client-id", &"is needed to sign in with an OpenID provider");
        }
        if !has_public_url {
            problems.add(
                "public-url",
                &"is needed to sign in with an OpenID provider, which redirects browsers there",
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
        if problems.0.len() > initial_problem_count {
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
