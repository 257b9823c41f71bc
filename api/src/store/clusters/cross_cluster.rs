//! Conditions and bounds that the lists over all clusters of an account share.

use entity::{AccountOwned, cluster, ids::ClusterId};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait, Select,
    sea_query::{Alias, Expr, ExprTrait, Func, Query},
};

use super::cluster_filter::ClusterFilter;
use crate::store::core::{
    error::StoreError,
    page::{Key, KeyPart, PageRequest},
    read_rows::ReadSelect,
    scoped::AccountStore,
};

/// A range from a time to before a time, in milliseconds since 1970. `None` leaves an end open.
pub type TimeRange = (Option<i64>, Option<i64>);

/// Returns the bounds of a time range that a page's position in an order by the same time does not imply.
/// SQLite uses only one bound on each side of a range: with both, it would read from the bound of the range
/// instead of the page's position.
pub(crate) fn remaining_range((from, to): TimeRange, descending: bool, request: &PageRequest) -> TimeRange {
    let position = |key: &Option<Key>| match key.as_ref()?.0.first()? {
        KeyPart::Integer(position) => Some(*position),
        _ => None,
    };
    let (after, before) = (position(&request.after), position(&request.before));
    let (lowest, highest) = if descending { (before, after) } else { (after, before) };
    (
        from.filter(|from| lowest.is_none_or(|lowest| lowest < *from)),
        to.filter(|to| highest.is_none_or(|highest| highest >= *to)),
    )
}

/// Returns the condition that an interval overlaps a period. The interval includes its end, and lasts on if
/// that is null.
pub(crate) fn overlaps(start: Expr, end: &Expr, (from, to): TimeRange) -> Condition {
    Condition::all()
        .add_option(to.map(|to| start.lt(to)))
        .add_option(from.map(|from| end.clone().is_null().or(end.clone().gte(from))))
}

/// Returns the condition that the time of a row lies in a period.
pub(crate) fn lies_in(time: impl ColumnTrait, (from, to): TimeRange) -> Condition {
    Condition::all().add_option(from.map(|from| time.gte(from))).add_option(to.map(|to| time.lt(to)))
}

/// The largest number of clusters that a query reads one by one.
const MAX_LISTED_CLUSTERS: u64 = 500;

impl AccountStore {
    /// Returns the rows whose time is in a range.
    pub(crate) fn select_in_range<E: AccountOwned>(
        &self,
        time: E::Column,
        (from, to): TimeRange,
    ) -> Select<E> {
        let mut select = self.select::<E>();
        if let Some(from) = from {
            select = select.filter(time.gte(from));
        }
        if let Some(to) = to {
            select = select.filter(time.lt(to));
        }
        select
    }

    /// Returns the condition that the cluster of a row passes a filter. `None` if all clusters do. The
    /// condition is tested per row, so that a page looks at no more clusters than rows.
    pub(crate) fn cluster_condition(
        &self,
        filter: &ClusterFilter,
        cluster: impl ColumnTrait,
    ) -> Option<Expr> {
        if *filter == ClusterFilter::default() {
            return None;
        }
        let id = Expr::col((cluster::Entity, cluster::Column::Id));
        let is_cluster_of_row = id.eq(Expr::col(cluster.as_column_ref()));
        let matching_clusters = self
            .filtered_clusters(filter)
            .select_only()
            .column(cluster::Column::Id)
            .filter(is_cluster_of_row);
        Some(Expr::exists(matching_clusters.into_query()))
    }

    /// Returns the clusters that pass a filter, for queries that read clusters one by one. `None` if all
    /// clusters pass.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, and [`StoreError::TooLarge`] if more than 500
    /// clusters pass.
    #[tracing::instrument(name = "store.cluster.few", skip_all)]
    pub async fn load_filtered_cluster_ids(
        &self,
        filter: &ClusterFilter,
    ) -> Result<Option<Vec<ClusterId>>, StoreError> {
        if *filter == ClusterFilter::default() {
            return Ok(None);
        }
        let matching_clusters = self.filtered_clusters(filter).select_only().column(cluster::Column::Id);
        let ids: Vec<ClusterId> =
            matching_clusters.limit(MAX_LISTED_CLUSTERS + 1).read_column(&self.read_executor()).await?;
        if ids.len() as u64 > MAX_LISTED_CLUSTERS {
            return Err(StoreError::TooLarge(
                "more than 500 clusters match 'clusters': narrow the filter, or omit it for all clusters of \
                 the account",
            ));
        }
        Ok(Some(ids))
    }

    /// Returns the clusters that pass a filter and are known to have existed in a time range, by their own
    /// clocks.
    pub(crate) fn select_clusters_in_range(
        &self,
        filter: &ClusterFilter,
        (from, to): TimeRange,
    ) -> Select<cluster::Entity> {
        use cluster::Column;
        let mut select = self.filtered_clusters(filter);
        if let Some(from) = from {
            // A closed cluster's last report may be later than its close, so either time counts.
            select = select.filter(Column::ReportedAt.gte(from).or(Column::ClosedAt.gte(from)));
        }
        if let Some(to) = to {
            select = select.filter(Column::StartedAt.lt(to));
        }
        select
    }

    /// Counts the rows of a statement, up to `max_rows`.
    pub(crate) async fn count_up_to<E: EntityTrait>(
        &self,
        select: Select<E>,
        max_rows: u64,
    ) -> Result<u64, StoreError> {
        let statement = Query::select()
            .expr_as(Func::count(Expr::cust("*")), Alias::new("count"))
            .from_subquery(select.limit(max_rows).into_query(), Alias::new("some"))
            .take();
        let Some(row) = self.read_executor().query_one(&statement).await? else { return Ok(0) };
        let count: i64 = row.try_get("", "count")?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::core::page::End;

    #[test]
    fn a_position_says_what_lies_behind_it() {
        let key = |time| Some(Key(vec![KeyPart::Integer(time), KeyPart::Integer(1)]));
        for (after, before, descending, expected) in [
            (None, None, false, (Some(10), Some(20))),
            (key(15), None, false, (None, Some(20))),
            (key(15), None, true, (Some(10), None)),
            (key(9), key(20), false, (Some(10), Some(20))),
            (key(10), key(19), false, (None, None)),
            (key(30), key(5), true, (Some(10), Some(20))),
        ] {
            let request = PageRequest { after, before, ..PageRequest::from(End::First, 1) };
            let remaining = remaining_range((Some(10), Some(20)), descending, &request);
            assert_eq!(remaining, expected, "{request:?} {descending}");
        }
    }
}
