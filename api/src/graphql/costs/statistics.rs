//! Summary figures of an account.

use async_graphql::{Context, Object};

use super::usage::{Usage, UsageScope, start_of_day};
use crate::{
    graphql::engine::{error::ApiError, scalar::BigInt, scope::AccountScope},
    store::DAY_LIMIT,
};

/// Summary figures of an account.
pub(crate) struct Statistics {
    pub(crate) scope: AccountScope,
    pub(crate) usage_scope: UsageScope,
}

/// Summary figures of an account, for a range of days or since the account was created. They cover the
/// clusters that pass the argument `clusters`.
#[Object]
impl Statistics {
    /// The number of clusters that are known to have existed on at least one of these days, by their own
    /// clocks.
    async fn clusters(&self) -> Result<BigInt, ApiError> {
        let (from, to) = self.usage_scope.days;
        let start = |day: i64| Some(start_of_day(day)?.timestamp_millis());
        let range = (start(from).filter(|_| from > 0), start(to).filter(|_| to < DAY_LIMIT));
        let count = self.scope.store.cluster_count_during(&self.usage_scope.filter, range).await?;
        Ok(BigInt(i64::try_from(count).unwrap_or(i64::MAX)))
    }

    /// The number of users whose clusters used anything on these days. As old as `Account.usage`.
    async fn users(&self) -> Result<BigInt, ApiError> {
        Ok(BigInt(
            self.scope.store.usage_user_count(&self.usage_scope.clusters, self.usage_scope.days).await?,
        ))
    }

    /// The usage of the clusters on these days, and its cost. As old as `Account.usage`.
    async fn usage(&self, context: &Context<'_>) -> Result<Usage, ApiError> {
        self.usage_scope.load(&self.scope, context).await
    }
}
