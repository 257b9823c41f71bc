//! The trait of tables that belong to tenants.

use sea_orm::EntityTrait;

/// A table in which every row belongs to one account, given by its `account_id`.
pub trait AccountOwned: EntityTrait {
    /// The column with the account, which comes first in the primary key and in every index.
    const ACCOUNT_ID: Self::Column;

    /// The column with the cluster that a row belongs to. `None` if rows belong to no single cluster.
    /// Every table states it explicitly, so that no statement finds rows of a hidden cluster.
    const CLUSTER_ID: Option<Self::Column>;

    /// The column with the time since which a row is hidden, in tables that combine rows of several
    /// clusters. It is null while the row is visible.
    const HIDDEN_AT: Option<Self::Column> = None;

    /// True if rows are only ever inserted, and deleted only with their account.
    const APPEND_ONLY: bool = false;
}
