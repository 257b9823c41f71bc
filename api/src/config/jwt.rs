//! Settings of JWT authentication: the trusted issuer and the claims that are read.

use std::{ffi::OsStr, fmt, fs, path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, ValueEnum};
use entity::membership::Role;
use url::Url;

use super::{JWT_SECRET, Problems};
use crate::{
    domain::{
        claims::{ClaimName, ClaimNames},
        slug::Slug,
    },
    http_client,
};

/// The minimum length of a shared secret, in bytes: the hash length of HS256 (RFC 7518, 3.2).
const MIN_SECRET: usize = 32;

/// The maximum length of a shared secret, in bytes.
const MAX_SECRET: u64 = 4_096;

/// The JWT options of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
pub(super) struct JwtArgs {
    /// Issuer whose JWTs are accepted as credentials. Must equal the `iss` claim. Needs keys:
    /// `GALVO_JWKS`, `GALVO_JWT_SECRET_FILE`, or `GALVO_JWT_SECRET`, which holds the secret itself and
    /// has no flag.
    #[arg(long, env = "GALVO_JWT_ISSUER")]
    jwt_issuer: Option<String>,
    /// Audience of accepted JWTs. The `aud` claim must contain it. Required with keys.
    #[arg(long, env = "GALVO_JWT_AUDIENCE")]
    jwt_audience: Option<String>,
    /// Public keys of the issuer for RS256, ES256 and EdDSA: a JWKS file, or its URL. The URL must begin
    /// with https://, except on this machine.
    #[arg(long, env = "GALVO_JWKS", value_name = "FILE|URL")]
    jwks: Option<String>,
    /// File with the secret shared with the issuer for HS256, from 32 to 4096 bytes.
    #[arg(long, env = "GALVO_JWT_SECRET_FILE", value_name = "FILE")]
    jwt_secret_file: Option<PathBuf>,
    /// Claim that identifies the user. The issuer must never give the value to another user. A JSON
    /// pointer such as `/a/b` selects a nested claim.
    #[arg(long, env = "GALVO_JWT_USER_CLAIM", value_name = "CLAIM", default_value = "sub")]
    jwt_user_claim: String,
    /// Claim with the short names of the accounts the JWT gives access to. Default: all accounts of the
    /// user.
    #[arg(long, env = "GALVO_JWT_ACCOUNT_CLAIM", value_name = "CLAIM")]
    jwt_account_claim: Option<String>,
    /// Claim with the highest role the JWT grants: owner, admin, member or viewer. Default: the user's
    /// role in the account.
    #[arg(long, env = "GALVO_JWT_ROLE_CLAIM", value_name = "CLAIM")]
    jwt_role_claim: Option<String>,
    /// Highest role of unknown users, who are created on their first request: never, viewer, member or
    /// admin. With `never`, unknown users are rejected.
    #[arg(long, env = "GALVO_JWT_PROVISION", value_name = "ROLE", default_value = "never")]
    jwt_provision: String,
    /// Account that unknown users join if no claim names one. Required for provisioning unless
    /// `GALVO_JWT_ACCOUNT_CLAIM` is set.
    #[arg(long, env = "GALVO_JWT_PROVISION_ACCOUNT", value_name = "ACCOUNT")]
    jwt_provision_account: Option<String>,
}

/// The trusted issuer of JWTs, and the claims that are read.
#[derive(Clone, Debug)]
pub struct JwtConfig {
    /// The required value of the `iss` claim.
    pub issuer: String,
    /// The required value in the `aud` claim.
    pub audience: String,
    /// The secret shared with the issuer, for HS256.
    pub secret: Option<JwtSecret>,
    /// The source of the issuer's public keys.
    pub jwks: Option<JwksSource>,
    /// The refresh intervals of the public keys.
    pub jwks_timing: JwksRefresh,
    /// The names of the claims that are read.
    pub claims: ClaimNames,
    /// The provisioning of unknown users. `None` if they are rejected.
    pub provision: Option<Provision>,
}

/// The secret shared with an issuer. Its `Debug` output is blank.
#[derive(Clone)]
pub struct JwtSecret(Vec<u8>);

impl JwtSecret {
    /// Returns the bytes of the secret.
    pub(crate) fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<&[u8]> for JwtSecret {
    type Error = String;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        let trimmed = bytes.trim_ascii_end();
        if trimmed.len() >= MIN_SECRET {
            Ok(Self(trimmed.to_vec()))
        } else {
            Err(format!("must have at least {MIN_SECRET} bytes"))
        }
    }
}

impl fmt::Debug for JwtSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JwtSecret")
    }
}

/// The source of public keys.
#[derive(Clone, Debug)]
pub enum JwksSource {
    /// A file.
    File(PathBuf),
    /// A URL with https, or one on this machine. No third party can tamper with the response.
    Url(Url),
}

impl FromStr for JwksSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !text.contains("://") {
            return Ok(Self::File(text.into()));
        }
        let url = text.parse().map_err(|_| "must be a file, or an address beginning with https://")?;
        if http_client::is_confidential(&url) {
            Ok(Self::Url(url))
        } else {
            Err("must begin with https:// unless it is on this machine")
        }
    }
}

/// The refresh intervals of public keys. They have no settings; only tests change them, so as not to
/// wait.
#[derive(Clone, Copy, Debug)]
pub struct JwksRefresh {
    /// The maximum age of the keys. A key that the issuer withdrew stops working after this time.
    pub refresh_interval: Duration,
    /// The minimum interval between two refreshes caused by an unknown key.
    pub min_refresh_interval: Duration,
}

impl Default for JwksRefresh {
    fn default() -> Self {
        Self { refresh_interval: Duration::from_mins(5), min_refresh_interval: Duration::from_secs(10) }
    }
}

/// The provisioning of unknown users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provision {
    /// The highest role of the new member. A claim can lower it.
    pub role: Role,
    /// The account the user joins if no claim names one.
    pub account: Option<Slug>,
}

/// The highest role of a provisioned user. Owner is left out: a claim must not give an account away.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ProvisionRole {
    Never,
    Viewer,
    Member,
    Admin,
}

impl ProvisionRole {
    pub(super) fn role(self) -> Option<Role> {
        match self {
            Self::Never => None,
            Self::Viewer => Some(Role::Viewer),
            Self::Member => Some(Role::Member),
            Self::Admin => Some(Role::Admin),
        }
    }
}

impl FromStr for ProvisionRole {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        ValueEnum::from_str(text, false).map_err(|_| "must be 'never', 'viewer', 'member' or 'admin'")
    }
}

impl JwtArgs {
    /// Parses the options and adds each problem to `problems`. `secret` is the value of the environment
    /// variable.
    pub(super) fn read(&self, problems: &mut Problems, secret: Option<&OsStr>) -> Option<JwtConfig> {
        let initial_problem_count = problems.0.len();
        let secret = match (secret, &self.jwt_secret_file) {
            (Some(_), Some(_)) => {
                problems.add("jwt-secret-file", &format_args!("cannot be set together with {JWT_SECRET}"));
                None
            }
            (Some(secret), None) => {
                let secret = JwtSecret::try_from(secret.as_encoded_bytes());
                secret.map_err(|problem| problems.0.push(format!("{JWT_SECRET}: {problem}"))).ok()
            }
            (None, Some(file)) => {
                let secret = read_secret(file);
                secret.map_err(|problem| problems.add("jwt-secret-file", &problem)).ok()
            }
            (None, None) => None,
        };
        let jwks = self.jwks.as_ref().and_then(|source| problems.read("jwks", source));
        let user = problems.read("jwt-user-claim", &self.jwt_user_claim);
        let mut claim = |flag: &str, name: &Option<String>| -> Option<ClaimName> {
            name.as_ref().and_then(|name| problems.read(flag, name))
        };
        let accounts = claim("jwt-account-claim", &self.jwt_account_claim);
        let role = claim("jwt-role-claim", &self.jwt_role_claim);
        let provision: Option<ProvisionRole> = problems.read("jwt-provision", &self.jwt_provision);
        let account = self.jwt_provision_account.as_ref();
        let account: Option<Slug> =
            account.and_then(|account| problems.read("jwt-provision-account", account));
        let provision = provision.and_then(ProvisionRole::role).map(|role| Provision { role, account });
        if provision.as_ref().is_some_and(|provision| provision.account.is_none()) && accounts.is_none() {
            problems.add("jwt-provision-account", &"is needed unless --jwt-account-claim names a claim");
        }
        let has_keys = secret.is_some() || jwks.is_some();
        for (flag, is_set) in
            [("jwt-issuer", self.jwt_issuer.is_some()), ("jwt-audience", self.jwt_audience.is_some())]
        {
            if has_keys && !is_set {
                problems.add(flag, &"is needed for JWTs");
            }
        }
        if !has_keys
            && problems.0.len() == initial_problem_count
            && (self.jwt_issuer.is_some() || provision.is_some())
        {
            problems.add("jwks", &format_args!("JWTs need this, --jwt-secret-file or {JWT_SECRET}"));
        }
        if !has_keys || problems.0.len() > initial_problem_count {
            return None;
        }
        Some(JwtConfig {
            issuer: self.jwt_issuer.clone()?,
            audience: self.jwt_audience.clone()?,
            secret,
            jwks,
            jwks_timing: JwksRefresh::default(),
            claims: ClaimNames { user: user?, accounts, role },
            provision,
        })
    }
}

fn read_secret(file: &PathBuf) -> Result<JwtSecret, String> {
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_SECRET {
        return Err(format!("must have at most {MAX_SECRET} bytes"));
    }
    JwtSecret::try_from(fs::read(file).map_err(|error| error.to_string())?.as_slice())
}
