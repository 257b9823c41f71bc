//! The subcommands of `galvo user`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Subcommand, ValueEnum};
use entity::membership::Role;

use super::{parse_duration, parse_slug};
use crate::domain::{claims::is_subject, public_url::PublicUrl, slug::Slug, time};

/// Manage users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// List the memberships: user, account, role, and the end of guest memberships.
    List {
        /// Short name of the account. Default: all accounts.
        #[arg(long, value_parser = parse_slug)]
        account: Option<Slug>,
    },
    /// Add a user to an account. Creates the user if the name is unknown.
    Create {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Role of the user in the account.
        #[arg(long, value_enum, default_value_t = RoleName::Member)]
        role: RoleName,
        /// End of a guest membership, such as `2026-12-31T00:00:00Z`. Required for guests, not accepted
        /// for other roles.
        #[arg(long, value_parser = time::parse)]
        until: Option<DateTime<Utc>>,
    },
    /// Change the role of a member, or the end of a guest membership.
    Role {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Role of the user in the account.
        #[arg(long, value_enum)]
        role: RoleName,
        /// End of a guest membership, such as `2026-12-31T00:00:00Z`. Required for guests, not accepted
        /// for other roles.
        #[arg(long, value_parser = time::parse)]
        until: Option<DateTime<Utc>>,
    },
    /// Remove a user from an account. Revokes the user's API tokens for that account.
    Remove {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
    },
    /// Remove a user from an account, and delete the user's clusters and performance reports. This
    /// cannot be undone. For a user who is no longer a member, only the data is deleted. Prints the
    /// number of deleted clusters.
    Delete {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
    },
    /// Create an invitation and print its secret on one line. The secret is shown only once.
    Invite {
        /// Name of the only user who can accept the invitation. Default: anyone with the secret.
        #[arg(value_parser = parse_slug)]
        name: Option<Slug>,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Role of the invited user in the account.
        #[arg(long, value_enum, default_value_t = RoleName::Member)]
        role: RoleName,
        /// End of a guest membership, such as `2026-12-31T00:00:00Z`. Required for guests, not accepted
        /// for other roles.
        #[arg(long, value_parser = time::parse)]
        until: Option<DateTime<Utc>>,
        /// Description of the invitation, for example the person it is meant for.
        #[arg(long, default_value = "")]
        label: String,
        /// Time within which the invitation can be accepted, such as `12h`. At most 30d. Default: 7d.
        #[arg(long, value_parser = parse_duration)]
        expires: Option<Duration>,
    },
    /// Link a user to a subject of an identity provider. JWTs of the issuer with this subject, and
    /// sign-ins through it, then authenticate this user.
    Link {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// The issuer, as in `GALVO_JWT_ISSUER` or `GALVO_OIDC_ISSUER`.
        #[arg(long)]
        issuer: String,
        /// The user's identifier at the issuer: the value of the claim that identifies the user. 1 to
        /// 255 characters.
        #[arg(long, value_parser = parse_subject)]
        subject: String,
    },
    /// Create a link with which a user can sign in once, within 15 minutes, and print it on one line. The
    /// previous link of the user becomes invalid, and so do all links when a server starts.
    SignInLink {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// URL of the server in the browser, as `https://NAME` or `https://NAME/PATH`.
        #[arg(long, env = "GALVO_PUBLIC_URL", value_name = "URL", default_value = "http://127.0.0.1:8000")]
        url: PublicUrl,
    },
    /// Set the password with which a user signs in in a browser, and end all sessions of the user.
    /// Prompts for the password on a terminal; otherwise reads the first line of standard input.
    Password {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
    },
}

/// A role as written on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RoleName {
    /// Manage everything, including the account's owners.
    Owner,
    /// Manage everything except owners.
    Admin,
    /// Send reports and read data.
    Member,
    /// Read data.
    Viewer,
    /// Read data until the membership ends.
    Guest,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Owner => Self::Owner,
            RoleName::Admin => Self::Admin,
            RoleName::Member => Self::Member,
            RoleName::Viewer => Self::Viewer,
            RoleName::Guest => Self::Guest,
        }
    }
}

fn parse_subject(text: &str) -> Result<String, &'static str> {
    let valid_subject = is_subject(text).then(|| text.to_owned());
    valid_subject.ok_or("must be 1 to 255 characters, none of them a control character")
}
