//! The subcommands of `galvo token`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Subcommand, ValueEnum};
use entity::api_token::Scope;

use super::{parse_duration, parse_slug};
use crate::domain::{slug::Slug, time, token::ApiToken};

/// Manage API tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// List API tokens, newest first: identifier, state, user, account, scopes, expiry, last use, label.
    /// Secrets are not shown.
    List {
        /// List only tokens of this user.
        #[arg(long, value_parser = parse_slug)]
        user: Option<Slug>,
        /// List only tokens for this account.
        #[arg(long, value_parser = parse_slug)]
        account: Option<Slug>,
        /// List the tokens that were issued to schedulers, instead of the tokens that people and
        /// programs hold.
        #[arg(long)]
        schedulers: bool,
        /// Maximum number of tokens, from 1 to 100000.
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Revoke an API token and the scheduler tokens derived from it. Requests with these tokens are
    /// rejected from then on.
    Revoke {
        /// Identifier of the token: the part before the dash, as `galvo token list` prints it.
        #[arg(value_parser = parse_token_identifier)]
        identifier: String,
    },
    /// Quarantine the clusters that were reported with an API token, and print how many rows they have.
    /// Quarantined clusters are hidden; `galvo token restore` shows them again. With --confirm, remove
    /// the quarantined clusters instead, which cannot be undone. Revoke the token first.
    Forget {
        /// Identifier of the token: the part before the dash, as `galvo token list` prints it. The token
        /// may be revoked or expired.
        #[arg(value_parser = parse_token_identifier)]
        identifier: String,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Start of the affected period, such as `2026-12-31T00:00:00Z`. A cluster is included as a
        /// whole if it was reported with the token at or after this time.
        #[arg(long, value_parser = time::parse)]
        since: DateTime<Utc>,
        /// Remove the clusters that are quarantined for this token. Quarantines no others.
        #[arg(long)]
        confirm: bool,
    },
    /// Restore the clusters that are quarantined for an API token, and print their number.
    Restore {
        /// Identifier of the token: the part before the dash, as `galvo token list` prints it.
        #[arg(value_parser = parse_token_identifier)]
        identifier: String,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
    },
    /// Create an API token and print it on one line. The token is shown only once.
    Create {
        /// Name of the user the token authenticates.
        #[arg(long, value_parser = parse_slug)]
        user: Slug,
        /// Short name of the account the token gives access to.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Scopes of the token. Can be given several times.
        #[arg(long = "scope", value_enum, num_args = 1.., default_values_t = [ScopeName::Ingest, ScopeName::Read])]
        scopes: Vec<ScopeName>,
        /// Description of the token.
        #[arg(long, default_value = "")]
        label: String,
        /// Time until the token expires, such as `90d`, `12h`, `30m` or `45s`. Default: the token does
        /// not expire.
        #[arg(long, value_parser = parse_duration)]
        expires: Option<Duration>,
    },
}

/// A token scope as written on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ScopeName {
    /// Send reports.
    Ingest,
    /// Read all data of the account.
    Read,
    /// Change data and settings.
    Admin,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Ingest => Self::Ingest,
            ScopeName::Read => Self::Read,
            ScopeName::Admin => Self::Admin,
        }
    }
}

/// Parses the identifier of a token. Accepts a whole token and drops its secret half, which must not be
/// repeated in messages.
fn parse_token_identifier(text: &str) -> Result<String, &'static str> {
    let identifier = text.split_once('-').map_or(text, |(identifier, _)| identifier);
    let valid_identifier = ApiToken::is_identifier(identifier).then(|| identifier.to_owned());
    valid_identifier.ok_or("must be the public half of a token, as `galvo token list` prints it")
}
