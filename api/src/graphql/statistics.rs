//! Summary figures of an account.

use async_graphql::Object;

use super::{
    error::ApiError,
    scalar::BigInt,
    scope::AccountScope,
    usage::{DAY_LIMIT, Usage, load_account_usage, start_of_day},
};

/// Summary figures of an account.
pub(super) struct Statistics {
    pub(super) scope: AccountScope,
    pub(super) days: (i64, i64),
}

/// Summary figures of an account, for a range of days or since the account was created.
#[Object]
impl Statistics {
    /// The number of clusters that are known to have existed on at least one of these days, by their own
    /// clocks.
    async fn clusters(&self) -> Result<BigInt, ApiError> {
        let (from, to) = self.days;
        let start = |day: i64| Some(start_of_day(day)?.timestamp_millis());
        let range = (start(from).filter(|_| from > 0), start(to).filter(|_| to < DAY_LIMIT));
        let count = self.scope.store.cluster_count_during(range).await?;
        Ok(BigInt(i64::try_from(count).unwrap_or(i64::MAX)))
    }

    /// The number of users whose clusters used anything on these days. Up to a minute old.
    async fn users(&self) -> Result<BigInt, ApiError> {
        Ok(BigInt(self.scope.store.usage_user_count(self.days).await?))
    }

    /// The usage of all clusters on these days, and its cost. Up to a minute old.
    async fn usage(&self) -> Result<Usage, ApiError> {
        load_account_usage(&self.scope, self.days).await
    }
}
