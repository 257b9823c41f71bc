//! The usage of selected clusters. Daily sums are kept by user, so the usage of some users' clusters is read
//! from those. Any other selection sums the hours of its clusters.

use std::collections::BTreeMap;

use entity::{
    Row, cluster,
    ids::UserId,
    usage_day,
    usage_hour::{Column, Entity},
};
use sea_orm::{
    ColumnTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait, Select,
    sea_query::{Expr, ExprTrait, Func, SelectStatement},
};
use uuid::Uuid;

use super::{
    usage_columns::UsageColumns,
    usage_hour::{DAY, DAY_HOURS, cut_days, cut_hours, sum_of},
};
use crate::{
    domain::usage::Usage,
    store::{
        clusters::cluster_filter::ClusterFilter,
        core::{composite_in::IsOneOf, error::StoreError, read_rows::ReadRows, scoped::AccountStore},
    },
};

/// A day in the far future, after which there is no usage.
pub const DAY_LIMIT: i64 = 4_000_000;

/// The number of milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// The largest number of clusters whose hours are summed at once: each hour of a cluster is a row.
const MAX_CLUSTERS: u64 = 10_000;

/// The clusters whose usage is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum UsageClusters {
    /// All clusters of the account.
    #[default]
    All,
    /// The clusters of these users.
    OfUsers(Vec<UserId>),
    /// The clusters that pass this filter.
    Passing(Box<ClusterFilter>),
}

impl From<ClusterFilter> for UsageClusters {
    fn from(filter: ClusterFilter) -> Self {
        let without_users = ClusterFilter { users: None, ..filter.clone() };
        match (without_users == ClusterFilter::default(), filter.users) {
            (true, None) => Self::All,
            (true, Some(users)) => Self::OfUsers(users),
            (false, users) => Self::Passing(Box::new(ClusterFilter { users, ..without_users })),
        }
    }
}

impl UsageClusters {
    /// Returns the filter if the hours of single clusters have to be read.
    pub(crate) fn filter_of_hours(&self) -> Option<&ClusterFilter> {
        match self {
            Self::Passing(filter) => Some(filter),
            Self::All | Self::OfUsers(_) => None,
        }
    }

    /// Returns the users if the clusters are theirs.
    pub(crate) fn users(&self) -> Option<&[UserId]> {
        match self {
            Self::OfUsers(users) => Some(users),
            Self::All | Self::Passing(_) => None,
        }
    }
}

impl AccountStore {
    /// Refuses a selection of too many clusters. `days` is a range of days, the last one exclusive.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, or [`StoreError::TooLarge`] if the hours of more
    /// than 10,000 clusters would have to be read.
    #[tracing::instrument(name = "store.usage_filter.check", skip_all)]
    pub async fn check_usage_clusters(
        &self,
        clusters: &UsageClusters,
        days: (i64, i64),
    ) -> Result<(), StoreError> {
        let Some(filter) = clusters.filter_of_hours() else { return Ok(()) };
        let cluster_ids = self.passing_clusters(filter, days).select_only().column(cluster::Column::Id);
        if self.count_up_to(cluster_ids, MAX_CLUSTERS + 1).await? > MAX_CLUSTERS {
            return Err(StoreError::TooLarge(
                "the usage of more than 10,000 clusters is too much for one response: narrow the filter of \
                 clusters, or request a shorter period",
            ));
        }
        Ok(())
    }

    /// Returns some columns of the usage of selected clusters by day (UTC), from the day `from` to before
    /// `to`. The selection must have passed [`Self::check_usage_clusters`].
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_filter.by_day", skip_all)]
    pub async fn usage_by_day(
        &self,
        clusters: &UsageClusters,
        days: (i64, i64),
        columns: UsageColumns,
    ) -> Result<BTreeMap<i64, Usage>, StoreError> {
        if let Some(filter) = clusters.filter_of_hours() {
            let day = Expr::cust(DAY);
            let select = self
                .select::<Entity>()
                .select_only()
                .expr_as(day.clone(), "day")
                .filter(hours_in(Expr::col(Column::Hour), days))
                .filter(Column::ClusterId.in_subquery(self.passing_ids(filter, days)))
                .group_by(day);
            return self.read_days(select, columns, cut_hours("usage_hours")).await;
        }
        let Some(users) = clusters.users() else { return self.usage_days(days, columns).await };
        let select = self
            .select::<usage_day::Entity>()
            .select_only()
            .column(usage_day::Column::Day)
            .filter(usage_day::Column::Day.gte(days.0))
            .filter(usage_day::Column::Day.lt(days.1))
            .filter(usage_day::Column::UserId.is_one_of(users.iter().copied()))
            .group_by(usage_day::Column::Day);
        self.read_days(select, columns, cut_days()).await
    }

    /// Reads the sums of some columns for each row of a statement that selects and groups by days.
    /// `cut_rows` is the expression for the number of rows with a clamped value.
    pub(crate) async fn read_days<E: EntityTrait>(
        &self,
        mut select: Select<E>,
        columns: UsageColumns,
        cut_rows: Expr,
    ) -> Result<BTreeMap<i64, Usage>, StoreError> {
        for column in columns.names() {
            select = select.expr_as(sum_of(self.backend(), column), column);
        }
        select = select.expr_as(cut_rows, "cut_rows");
        let decode = |row: &Row<'_>| Ok((row.get(0)?, columns.decode(row, &mut (1..))?));
        let rows = self.read_executor().read_rows(select.build(self.backend()), decode).await?;
        Ok(rows.into_iter().collect())
    }

    /// Returns the number of users whose selected clusters used anything from the day `from` to before `to`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_filter.user_count", skip_all)]
    pub async fn usage_user_count(
        &self,
        clusters: &UsageClusters,
        days: (i64, i64),
    ) -> Result<i64, StoreError> {
        use usage_day::Column::{Day, UserId as OfUser};
        let count: Option<i64> = if let Some(filter) = clusters.filter_of_hours() {
            let used = self
                .select::<Entity>()
                .select_only()
                .expr(Expr::val(1))
                .filter(Expr::col((Entity, Column::ClusterId)).equals((cluster::Entity, cluster::Column::Id)))
                .filter(hours_in(Expr::col(Column::Hour), days));
            let users = Func::count_distinct(Expr::col((cluster::Entity, cluster::Column::UserId)));
            self.passing_clusters(filter, days)
                .select_only()
                .expr_as(users, "users")
                .filter(Expr::exists(used.into_query()))
                .into_tuple()
                .one(&self.read_executor())
                .await?
        } else {
            let mut select = self
                .select::<usage_day::Entity>()
                .select_only()
                .expr_as(Func::count_distinct(Expr::col(OfUser)), "users")
                .filter(Day.gte(days.0))
                .filter(Day.lt(days.1))
                .filter(OfUser.ne(UserId(Uuid::nil())));
            if let Some(users) = clusters.users() {
                select = select.filter(OfUser.is_one_of(users.iter().copied()));
            }
            select.into_tuple().one(&self.read_executor()).await?
        };
        Ok(count.unwrap_or(0))
    }

    /// Returns the clusters that pass a filter and are known to have existed on some days.
    fn passing_clusters(&self, filter: &ClusterFilter, (from, to): (i64, i64)) -> Select<cluster::Entity> {
        let from = (from > 0).then(|| from.saturating_mul(DAY_MS));
        let to = (to < DAY_LIMIT).then(|| to.saturating_mul(DAY_MS));
        self.select_clusters_in_range(filter, (from, to))
    }

    /// Selects the identifiers of these clusters.
    pub(crate) fn passing_ids(&self, filter: &ClusterFilter, days: (i64, i64)) -> SelectStatement {
        self.passing_clusters(filter, days).select_only().column(cluster::Column::Id).into_query()
    }
}

/// Returns the condition that an hour lies in a range of days.
pub(crate) fn hours_in(hour: Expr, (from, to): (i64, i64)) -> Expr {
    hour.clone().gte(from * DAY_HOURS).and(hour.lt(to * DAY_HOURS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_filter_by_users_alone_is_served_by_daily_sums() {
        let users = vec![UserId(Uuid::from_u128(1))];
        let of_users = ClusterFilter { users: Some(users.clone()), ..ClusterFilter::default() };
        assert_eq!(UsageClusters::from(ClusterFilter::default()), UsageClusters::All);
        assert_eq!(UsageClusters::from(of_users.clone()), UsageClusters::OfUsers(users));
        let not_only_users = ClusterFilter { has_errors: Some(true), ..of_users };
        assert_eq!(
            UsageClusters::from(not_only_users.clone()),
            UsageClusters::Passing(Box::new(not_only_users))
        );
    }
}
