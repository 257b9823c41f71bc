//! Accounts: the tenants.

use async_graphql::{Enum, ID, InputObject, Object};
use chrono::{DateTime, Utc};

use super::{
    cluster::Cluster,
    connection::{Connection, PageArguments},
    cost::CostRate,
    data_policy::DataPolicy,
    error::ApiError,
    error_group::{ErrorGroup, ErrorOrigin},
    id::GlobalId,
    list::Items,
    scalar::Date,
    scope::AccountScope,
    usage::{self, FunctionTotals, Usage, UsageGrouping, UsageRow},
};
use crate::store::{ClusterSort, ErrorGroupSort};

/// An account: everything in it is seen by all of its members and by nobody else.
pub(super) struct Account(pub(super) AccountScope);

/// An account: everything in it is seen by all of its members and by nobody else.
#[Object]
impl Account {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::Account(self.0.account.id).into()
    }

    /// The short name in URLs.
    async fn slug(&self) -> &str {
        &self.0.account.slug
    }

    /// The name for people.
    async fn name(&self) -> &str {
        &self.0.account.name
    }

    /// When the account was made.
    async fn created_at(&self) -> DateTime<Utc> {
        self.0.account.created_at.0
    }

    /// What all of its clusters used, and what that cost. Up to a minute old.
    async fn usage(
        &self,
        #[graphql(desc = "The first day; all days since the account was made if not given.")] from: Option<
            Date,
        >,
        #[graphql(desc = "The day after the last one; up to now if not given.")] to: Option<Date>,
    ) -> Result<Usage, ApiError> {
        usage::of_account(&self.0, usage::days(from, to)).await
    }

    /// The same by day, by user, or both; what was not used has no row. At most 10,000 days of users. Up to a minute
    /// old.
    async fn usage_table(
        &self,
        #[graphql(desc = "The first day.")] from: Date,
        #[graphql(desc = "The day after the last one.")] to: Date,
        #[graphql(desc = "What has a row of its own.", default)] by: UsageGrouping,
    ) -> Result<Items<UsageRow>, ApiError> {
        usage::rows(&self.0, usage::days(Some(from), Some(to)), by).await.map(Items)
    }

    /// What its functions used, those that computed longest first. Up to a minute old.
    async fn functions(
        &self,
        #[graphql(desc = "The first day; all days since the account was made if not given.")] from: Option<
            Date,
        >,
        #[graphql(desc = "The day after the last one; up to now if not given.")] to: Option<Date>,
        #[graphql(desc = "Only what this user's clusters ran.")] user: Option<ID>,
        #[graphql(desc = "The first so many, 1 to 1,000.", default = 100)] first: i32,
    ) -> Result<Vec<FunctionTotals>, ApiError> {
        let Ok(limit @ 1..=1_000) = u64::try_from(first) else {
            let reason = "must be from 1 to 1000".to_owned();
            return Err(ApiError::InvalidArgument { argument: "first", reason });
        };
        let user = match user.as_ref().map(GlobalId::parse) {
            None => None,
            Some(Some(GlobalId::User(account, user))) if account == self.0.account.id => Some(user),
            Some(_) => return Err(ApiError::NotFound("user")),
        };
        let found = self.0.store.function_usage(usage::days(from, to), user, limit).await?;
        Ok(found.into_iter().map(FunctionTotals::from).collect())
    }

    /// What things cost, the first rate first. Days before it, and all days if there is none, are estimated.
    async fn cost_rates(&self) -> Result<Vec<CostRate>, ApiError> {
        Ok(self.0.store.cost_rates().await?.into_iter().map(CostRate::from).collect())
    }

    /// The clusters that ever reported to this account.
    async fn clusters(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
        #[graphql(desc = "The order of the list.", default)] order_by: ClusterOrder,
    ) -> Result<Connection<Cluster>, ApiError> {
        let sort = order_by.into();
        let request = PageArguments { first, after, last, before }.request(sort)?;
        let page = self.0.store.cluster_page(sort, &request).await?;
        let store = self.0.store.clone();
        let total = Box::new(move || {
            let store = store.clone();
            let count = async move { Ok(i64::try_from(store.cluster_count().await?).unwrap_or(i64::MAX)) };
            Box::pin(count) as _
        });
        Ok(Connection::new(page, sort, |row| Cluster::new(&self.0, row), total))
    }

    /// The errors of all of its clusters, those that look alike as one; the group with the newest error first.
    async fn error_groups(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
        #[graphql(desc = "Only failures of one kind of code; all if absent.")] origin: Option<ErrorOrigin>,
    ) -> Result<Connection<ErrorGroup>, ApiError> {
        let (sort, origin) = (ErrorGroupSort::LastSeenFirst, origin.map(Into::into));
        let request = PageArguments { first, after, last, before }.request(sort)?;
        let page = self.0.store.error_group_page(origin, sort, &request).await?;
        let store = self.0.store.clone();
        let total = Box::new(move || {
            let store = store.clone();
            let count =
                async move { Ok(i64::try_from(store.error_group_count(origin).await?).unwrap_or(i64::MAX)) };
            Box::pin(count) as _
        });
        Ok(Connection::new(page, sort, |row| ErrorGroup::new(&self.0, row), total))
    }

    /// What it accepts of each class of data, and for how long it keeps it.
    async fn data_policies(&self) -> Result<Vec<DataPolicy>, ApiError> {
        DataPolicy::all(&self.0).await
    }
}

/// How clusters are ordered.
#[derive(Clone, Copy, Debug, Default, InputObject)]
pub(super) struct ClusterOrder {
    /// By what.
    #[graphql(default)]
    field: ClusterOrderField,
    /// In which direction.
    #[graphql(default)]
    direction: OrderDirection,
}

/// By what clusters can be ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(super) enum ClusterOrderField {
    /// When the scheduler started.
    #[default]
    StartedAt,
}

/// The direction of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(super) enum OrderDirection {
    /// Small and early first.
    Asc,
    /// Large and late first.
    #[default]
    Desc,
}

impl From<ClusterOrder> for ClusterSort {
    fn from(order: ClusterOrder) -> Self {
        match (order.field, order.direction) {
            (ClusterOrderField::StartedAt, OrderDirection::Desc) => Self::NewestFirst,
            (ClusterOrderField::StartedAt, OrderDirection::Asc) => Self::OldestFirst,
        }
    }
}
