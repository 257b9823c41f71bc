//! The limit of a cluster's compute time by its thread time, applied to its hours after each report.
//!
//! An hour that is capped keeps its reported value in `reported_compute_us`. The caps are computed from
//! reported values only, so the order of reports does not matter.

use std::collections::{BTreeMap, BTreeSet};

use entity::{
    cluster, function_usage_hour,
    ids::ClusterId,
    json_columns::Names,
    usage_hour::{Column, Entity, Model},
};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect, sea_query::Expr};

use super::usage_hour::sum_of_values;
use crate::{
    domain::{
        compute_limit::{ComputeLimit, counted_part},
        report::{UsageReport, plausible::COMPUTE_BEYOND_THREADS},
    },
    store::core::{composite_in::IsOneOf, error::StoreError, scoped::AccountStore, upsert::replace},
};

/// The maximum number of hours that one report recomputes, from its first hour on. It bounds the work for a
/// late report.
const MAX_HOURS: u64 = 200;

/// The observed thread time of an hour.
const OBSERVED: &str = "thread_us - unobserved_us";

impl AccountStore {
    /// Limits the compute time of a cluster's hours from the first hour of a report on. `clamped` lists the
    /// fields of the cluster's reports with impossible values. The field for compute time is added or
    /// removed. Returns true if the report has usage and some compute time of the cluster does not count.
    ///
    /// It must run in the transaction of the report, after its hours were written, and with the cluster's row
    /// locked.
    pub(crate) async fn limit_compute(
        &self,
        cluster: ClusterId,
        reports: &[UsageReport],
        clamped: &Names,
    ) -> Result<bool, StoreError> {
        let was_limited = clamped.0.iter().any(|path| path == COMPUTE_BEYOND_THREADS);
        let Some(first_hour) = reports.iter().map(|report| report.hour.get()).min() else {
            return Ok(false);
        };
        let hours = || self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        let exceeds = Expr::cust(format!("COALESCE(reported_compute_us, compute_us) > {OBSERVED}"));
        let exceeding = hours().filter(Column::Hour.gte(first_hour)).filter(exceeds);
        if !was_limited && !self.has_rows(exceeding).await? {
            return Ok(false);
        }
        let mut limit = self.limit_before(cluster, first_hour).await?;
        let rows = hours().filter(Column::Hour.gte(first_hour)).order_by_asc(Column::Hour).limit(MAX_HOURS);
        let reported: BTreeSet<i64> = reports.iter().map(|report| report.hour.get()).collect();
        let (mut changed_rows, mut counted_hours) = (Vec::new(), BTreeMap::new());
        for mut row in rows.all(&self.write_executor()).await? {
            let is_changed = limit_hour(&mut limit, &mut row);
            // An old report may add functions to an hour of a newer one.
            if is_changed || (row.reported_compute_us.is_some() && reported.contains(&row.hour)) {
                let reported_us = row.reported_compute_us.unwrap_or(row.compute_us);
                counted_hours.insert(row.hour, (row.compute_us, reported_us));
            }
            changed_rows.extend(is_changed.then_some(row));
        }
        self.insert::<Entity>(changed_rows, &replace::<Entity>()).await?;
        self.limit_functions(cluster, &counted_hours).await?;
        let is_limited = self.has_rows(hours().filter(Column::ReportedComputeUs.is_not_null())).await?;
        if is_limited != was_limited {
            let mut paths = clamped.0.clone();
            paths.retain(|path| path != COMPUTE_BEYOND_THREADS);
            paths.extend(is_limited.then(|| COMPUTE_BEYOND_THREADS.to_owned()));
            paths.sort_unstable();
            self.update::<cluster::Entity>()
                .col_expr(cluster::Column::Cut, Expr::val(sea_orm::Value::from(Names(paths))))
                .filter(cluster::Column::Id.eq(cluster))
                .exec(&self.write_executor())
                .await?;
        }
        Ok(is_limited)
    }

    /// Returns the limit after the hours before `first_hour`.
    async fn limit_before(&self, cluster: ClusterId, first_hour: i64) -> Result<ComputeLimit, StoreError> {
        let sums: Option<(Option<i64>, Option<i64>)> = self
            .select::<Entity>()
            .select_only()
            .expr_as(sum_of_values(self.backend(), Expr::cust(format!("({OBSERVED})"))), "observed_us")
            .expr_as(sum_of_values(self.backend(), Expr::col(Column::ComputeUs)), "compute_us")
            .filter(Column::ClusterId.eq(cluster))
            .filter(Column::Hour.lt(first_hour))
            .into_tuple()
            .one(&self.write_executor())
            .await?;
        let (observed_us, compute_us) = sums.unwrap_or_default();
        Ok(ComputeLimit::after(observed_us.unwrap_or(0), compute_us.unwrap_or(0)))
    }

    /// Limits the compute time of the functions of hours. `counted_hours` has the counted part of each
    /// hour's compute time, and the reported one.
    async fn limit_functions(
        &self,
        cluster: ClusterId,
        counted_hours: &BTreeMap<i64, (i64, i64)>,
    ) -> Result<(), StoreError> {
        use function_usage_hour::{Column, Entity, Model};
        if counted_hours.is_empty() {
            return Ok(());
        }
        let functions = self
            .select::<Entity>()
            .filter(Column::ClusterId.eq(cluster))
            .filter(Column::Hour.is_one_of(counted_hours.keys().copied()))
            .order_by_asc(Column::Hour)
            .order_by_asc(Column::Prefix)
            .all(&self.write_executor())
            .await?;
        let changed_rows = functions.into_iter().filter_map(|row| {
            let (counted_us, hour_us) = counted_hours.get(&row.hour)?;
            let reported_us = row.reported_compute_us.unwrap_or(row.compute_us);
            let compute_us = counted_part(reported_us, *counted_us, *hour_us);
            let reported_compute_us = (compute_us < reported_us).then_some(reported_us);
            let is_changed = (row.compute_us, row.reported_compute_us) != (compute_us, reported_compute_us);
            is_changed.then_some(Model { compute_us, reported_compute_us, ..row })
        });
        self.insert::<Entity>(changed_rows.collect(), &replace::<Entity>()).await?;
        Ok(())
    }

    async fn has_rows(&self, hours: sea_orm::Select<Entity>) -> Result<bool, StoreError> {
        let hour = hours.select_only().column(Column::Hour).limit(1).into_tuple::<i64>();
        Ok(hour.one(&self.write_executor()).await?.is_some())
    }
}

/// Applies the limit to the next hour. Returns true if its compute time changes.
fn limit_hour(limit: &mut ComputeLimit, row: &mut Model) -> bool {
    let reported_us = row.reported_compute_us.unwrap_or(row.compute_us);
    let compute_us = limit.add_hour(Ord::max(row.thread_us - row.unobserved_us, 0), reported_us);
    let reported_compute_us = (compute_us < reported_us).then_some(reported_us);
    let is_changed = (row.compute_us, row.reported_compute_us) != (compute_us, reported_compute_us);
    (row.compute_us, row.reported_compute_us) = (compute_us, reported_compute_us);
    // The sums of its day need the new value.
    row.folded &= !is_changed;
    is_changed
}
