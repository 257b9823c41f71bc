//! An account in figures.

use async_graphql::Object;

use super::{
    error::ApiError,
    scalar::BigInt,
    scope::AccountScope,
    usage::{FOREVER, Usage, of_account, start_of},
};

/// An account in figures.
pub(super) struct Statistics {
    pub(super) scope: AccountScope,
    pub(super) days: (i64, i64),
}

/// An account in figures, over some days or since it was made.
#[Object]
impl Statistics {
    /// Clusters that are known to have been there at a time of these days, by their own clocks.
    async fn clusters(&self) -> Result<BigInt, ApiError> {
        let (from, to) = self.days;
        let start = |day: i64| Some(start_of(day)?.timestamp_millis());
        let range = (start(from).filter(|_| from > 0), start(to).filter(|_| to < FOREVER));
        let count = self.scope.store.cluster_count_during(range).await?;
        Ok(BigInt(i64::try_from(count).unwrap_or(i64::MAX)))
    }

    /// Users whose clusters used something in these days. Up to a minute old.
    async fn users(&self) -> Result<BigInt, ApiError> {
        Ok(BigInt(self.scope.store.usage_user_count(self.days).await?))
    }

    /// What all clusters used in these days, and what that cost. Up to a minute old.
    async fn usage(&self) -> Result<Usage, ApiError> {
        of_account(&self.scope, self.days).await
    }
}
