//! The schema and the limits of operations.

use std::time::Duration;

use crate::{
    app::AccountSizes,
    blocking_work::cores,
    config::ServeConfig,
    domain::base_path::BasePath,
    graphql::Schema,
    guard::{Guard, PersistedDocuments},
    shares::{FairShares, Slots},
};

/// The number of queries and mutations that run at the same time: per core, and the minimum.
const OPERATIONS_PER_CORE: usize = 2;
const MIN_OPERATIONS: usize = 4;

/// The schema and the limits of operations.
pub(crate) struct Operations {
    /// The executable schema.
    pub(crate) schema: Schema,
    /// The checks of documents before their execution.
    pub(crate) guard: Guard,
    /// The numbers of clusters by account, on which costs depend.
    pub(crate) account_sizes: AccountSizes,
    /// The timeout of an operation.
    pub(crate) timeout: Duration,
    /// The slots of queries and mutations.
    pub(crate) slots: Slots,
}

impl Operations {
    /// Creates the limits of a configured server, with all slots free.
    pub(crate) fn new(
        config: &ServeConfig,
        base: &BasePath,
        persisted: PersistedDocuments,
        shares: &FairShares,
    ) -> Self {
        Self {
            schema: Schema::new(base.clone()),
            guard: Guard::new(config.max_query_cost.into(), persisted),
            account_sizes: AccountSizes::default(),
            timeout: config.query_timeout,
            slots: shares.slots("operations", max_operations()),
        }
    }
}

/// Returns the number of queries and mutations that run at the same time.
pub(crate) fn max_operations() -> usize {
    (OPERATIONS_PER_CORE * cores()).max(MIN_OPERATIONS)
}
