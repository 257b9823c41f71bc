//! Who issues JWTs that are accepted, and what is believed of them.

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
    outgoing,
};

/// Bytes of a shared secret at least: as many as the hash has that it is used with (RFC 7518, 3.2).
const MIN_SECRET: usize = 32;

/// Bytes of a shared secret at the most.
const MAX_SECRET: u64 = 4_096;

/// What `serve` takes of it, as it came.
#[derive(Clone, Debug, Args)]
pub(super) struct JwtArgs {
    /// The issuer whose JWTs are accepted as credentials, as `iss` names it. It needs keys: `GALVO_JWKS`,
    /// `GALVO_JWT_SECRET_FILE`, or the secret itself in `GALVO_JWT_SECRET`, in the environment only.
    #[arg(long, env = "GALVO_JWT_ISSUER")]
    jwt_issuer: Option<String>,
    /// For whom they have to be, as `aud` names it.
    #[arg(long, env = "GALVO_JWT_AUDIENCE")]
    jwt_audience: Option<String>,
    /// The issuer's public keys for RS256, ES256 and EdDSA: a file, or an address beginning with https://.
    #[arg(long, env = "GALVO_JWKS", value_name = "FILE|URL")]
    jwks: Option<String>,
    /// A file with the secret shared with the issuer for HS256, at least 32 bytes.
    #[arg(long, env = "GALVO_JWT_SECRET_FILE", value_name = "FILE")]
    jwt_secret_file: Option<PathBuf>,
    /// The claim that says who it is: what the issuer calls the user, and nobody else ever. A JSON pointer finds what lies
    /// deeper.
    #[arg(long, env = "GALVO_JWT_USER_CLAIM", value_name = "CLAIM", default_value = "sub")]
    jwt_user_claim: String,
    /// The claim that says which accounts it opens, by their short names; all of the user's without.
    #[arg(long, env = "GALVO_JWT_ACCOUNT_CLAIM", value_name = "CLAIM")]
    jwt_account_claim: Option<String>,
    /// The claim that says what it is good for at the most: owner, admin, member or viewer.
    #[arg(long, env = "GALVO_JWT_ROLE_CLAIM", value_name = "CLAIM")]
    jwt_role_claim: Option<String>,
    /// What somebody becomes at the most who is not known yet.
    #[arg(long, env = "GALVO_JWT_PROVISION", value_name = "ROLE", default_value = "never")]
    jwt_provision: String,
    /// The account in which that is, if no claim names one.
    #[arg(long, env = "GALVO_JWT_PROVISION_ACCOUNT", value_name = "ACCOUNT")]
    jwt_provision_account: Option<String>,
}

/// Who issues JWTs that are accepted, and what is believed of them.
#[derive(Clone, Debug)]
pub struct JwtConfig {
    /// What `iss` has to be.
    pub issuer: String,
    /// What `aud` has to name.
    pub audience: String,
    /// What is shared with the issuer, if anything is.
    pub secret: Option<JwtSecret>,
    /// Where the issuer's public keys are, if it has any.
    pub jwks: Option<JwksSource>,
    /// How often those are read.
    pub jwks_timing: JwksTiming,
    /// Which claims say what.
    pub claims: ClaimNames,
    /// What becomes of somebody who is not known yet; none if nothing.
    pub provision: Option<Provision>,
}

/// What is shared with an issuer. Its `Debug` is blank.
#[derive(Clone)]
pub struct JwtSecret(Vec<u8>);

impl JwtSecret {
    /// The secret itself.
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

/// Where public keys are.
#[derive(Clone, Debug)]
pub enum JwksSource {
    /// In a file.
    File(PathBuf),
    /// At an address that nobody on the way can answer for.
    Url(Url),
}

impl FromStr for JwksSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !text.contains("://") {
            return Ok(Self::File(text.into()));
        }
        let url = text.parse().map_err(|_| "must be a file, or an address beginning with https://")?;
        if outgoing::is_private(&url) {
            Ok(Self::Url(url))
        } else {
            Err("must begin with https:// unless it is on this machine")
        }
    }
}

/// How often public keys are read. Nobody has to set it but tests, which would have to wait.
#[derive(Clone, Copy, Debug)]
pub struct JwksTiming {
    /// After this time they are read again, so that a key that was withdrawn is good no longer.
    pub every: Duration,
    /// When a key is missing they are read again at once, unless that was done within this time.
    pub at_most_every: Duration,
}

impl Default for JwksTiming {
    fn default() -> Self {
        Self { every: Duration::from_mins(5), at_most_every: Duration::from_secs(10) }
    }
}

/// What becomes of somebody who is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provision {
    /// As what they become a member, or as less if a claim says so.
    pub role: Role,
    /// Of which account, if no claim names one.
    pub account: Option<Slug>,
}

/// What somebody may become who is not known yet. Nobody becomes an owner so: an account is not given away by a claim.
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
    /// Adds what is wrong to `problems`. `secret` is what the environment holds.
    pub(super) fn read(&self, problems: &mut Problems, secret: Option<&OsStr>) -> Option<JwtConfig> {
        let wrong = problems.0.len();
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
        if provision.as_ref().is_some_and(|to| to.account.is_none()) && accounts.is_none() {
            problems.add("jwt-provision-account", &"is needed unless --jwt-account-claim names a claim");
        }
        let has_keys = secret.is_some() || jwks.is_some();
        for (flag, is_there) in
            [("jwt-issuer", self.jwt_issuer.is_some()), ("jwt-audience", self.jwt_audience.is_some())]
        {
            if has_keys && !is_there {
                problems.add(flag, &"is needed for JWTs");
            }
        }
        if !has_keys && problems.0.len() == wrong && (self.jwt_issuer.is_some() || provision.is_some()) {
            problems.add("jwks", &format_args!("JWTs need this, --jwt-secret-file or {JWT_SECRET}"));
        }
        if !has_keys || problems.0.len() > wrong {
            return None;
        }
        Some(JwtConfig {
            issuer: self.jwt_issuer.clone()?,
            audience: self.jwt_audience.clone()?,
            secret,
            jwks,
            jwks_timing: JwksTiming::default(),
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
