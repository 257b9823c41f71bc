//! The subcommands of `galvo session`.

use clap::Subcommand;

use super::parse_slug;
use crate::domain::slug::Slug;

/// Manage browser sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List active sessions, newest first: identifier, user, start, last use, end. Session secrets are not
    /// shown.
    List {
        /// List only sessions of this user.
        #[arg(long, value_parser = parse_slug)]
        user: Option<Slug>,
        /// Maximum number of sessions, from 1 to 100000.
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// End one session or all sessions of a user. The user has to sign in again in that browser, or in
    /// every browser.
    End {
        /// Name of the user.
        #[arg(long, value_parser = parse_slug)]
        user: Slug,
        /// Identifier of the session, as listed. Without it, all sessions end.
        #[arg(long)]
        session: Option<String>,
    },
}
