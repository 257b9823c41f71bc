//! The usage of a cluster, and its cost.

use async_graphql::{Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::cluster::{Model, Status};

use super::{
    cost::CostBasis,
    usage::{self, Usage, UsageHour},
};
use crate::{
    domain::{cost, retention::DAY},
    graphql::engine::{
        error::{ApiError, NullOnError},
        loaders::ClusterUsageKey,
        projection::InlineList,
        scope::AccountScope,
    },
};

/// The fields of a cluster that concern its usage and cost.
pub(crate) struct ClusterCost<'a> {
    scope: &'a AccountScope,
    row: &'a Model,
}

impl<'a> ClusterCost<'a> {
    pub(crate) fn new(scope: &'a AccountScope, row: &'a Model) -> Self {
        Self { scope, row }
    }
}

/// The fields of a cluster that concern its usage and cost.
#[Object]
impl ClusterCost<'_> {
    /// The resources that the cluster used over its whole life, and their cost.
    async fn usage(&self) -> Result<Usage, ApiError> {
        let days = self.scope.loader.load_one(ClusterUsageKey(self.row.id)).await?.unwrap_or_default();
        Ok(Usage::from_days(self.scope, days))
    }

    /// The resources that the cluster used in each hour, and their cost, the first hour first. At most
    /// 10,000 hours over all clusters of the query. Null, with the error code `BAD_USER_INPUT`, if there
    /// are more.
    async fn usage_hours(
        &self,
        #[graphql(desc = "Only hours that begin at this time or later.")] from: Option<DateTime<Utc>>,
        #[graphql(desc = "Only hours that begin before this time.")] to: Option<DateTime<Utc>>,
    ) -> NullOnError<InlineList<UsageHour>> {
        Some(usage::load_usage_hours(self.scope, self.row.id, from, to).await.map(InlineList))
    }

    /// The price of an hour at the size in `now`, by the rate of today (UTC). Null once the cluster
    /// closed or is `LOST`. Null, too, if the rate has a price for memory, and a worker has no memory
    /// limit.
    async fn cost_per_hour(&self) -> Result<Option<HourlyCost>, ApiError> {
        if self.row.status != Status::Running {
            return Ok(None);
        }
        let size = cost::Size {
            threads: self.row.threads,
            workers: self.row.workers,
            memory_bytes: if self.row.workers == 0 { Some(0) } else { self.row.memory_limit_bytes },
        };
        let today = self.scope.now.timestamp_millis().div_euclid(DAY);
        let price = self.scope.rates().await?.price_of_hour(today, &size);
        Ok(price.map(HourlyCost::from))
    }
}

/// The price of an hour, in one currency and on one basis.
#[derive(SimpleObject)]
struct HourlyCost {
    /// The amount per hour, in units of the currency.
    amount: f64,
    /// The currency, as an ISO 4217 code.
    currency: String,
    /// The basis of the rate.
    basis: CostBasis,
}

impl From<cost::HourlyPrice> for HourlyCost {
    fn from(price: cost::HourlyPrice) -> Self {
        Self { amount: cost::amount(price.nanos), currency: price.currency, basis: price.basis.into() }
    }
}
