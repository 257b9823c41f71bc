//! What makes a table a tenant's.

use sea_orm::EntityTrait;

/// A table whose every row belongs to one account, named by its `account_id`.
pub trait AccountOwned: EntityTrait {
    /// The column holding the account, first in the primary key and in every index.
    const ACCOUNT_ID: Self::Column;

    /// Whether rows are only ever added, and go with their account alone.
    const APPEND_ONLY: bool = false;
}
