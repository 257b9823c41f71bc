//! The subcommands of `galvo account`.

use clap::Subcommand;

use super::{AccountQuotaArgs, parse_slug};
use crate::domain::slug::Slug;

/// Manage accounts.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// List the accounts: short name, number of members, creation time.
    List,
    /// Create an account.
    Create {
        /// Short name of the account in URLs.
        #[arg(value_parser = parse_slug)]
        slug: Slug,
    },
    /// Delete an account with all its data. This cannot be undone. All memberships end at once; the
    /// running server removes the data in the background.
    Delete {
        /// Short name of the account.
        #[arg(value_parser = parse_slug)]
        slug: Slug,
        /// The short name again, as confirmation.
        #[arg(long, value_parser = parse_slug)]
        confirm: Slug,
    },
    /// Set an account's storage quotas, or print them with the current usage.
    Quota(AccountQuotaArgs),
}
