//! The cost of clusters as the database computes it, for filters and orders.
//!
//! The costs in responses are computed exactly, by `domain/cost.rs`. The database does the same arithmetic
//! by day in floating-point numbers, which hold whole billionths up to nine million units of a currency.
//! Beyond that the last digits are rounded, which changes only the order of clusters whose costs differ in
//! nothing but those digits.

use entity::cluster;
use sea_orm::{
    ColumnTrait,
    sea_query::{Expr, ExprTrait, Func, IntoValueTuple, Query, TableRef},
};

use super::usage_hour::{DAY, DAY_HOURS};
use crate::{
    domain::cost::PricedDays,
    store::{
        clusters::{cluster_filter::ClusterFilter, cluster_order::ClusterSort},
        core::{
            composite_in::IsOneOf,
            error::StoreError,
            page::{self, ComputedValue, Page, PageRequest},
            scoped::AccountStore,
        },
    },
};

/// The microseconds of an hour. Prices are per hour.
const HOUR_US: f64 = 3.6e9;

/// A lower bound of a cluster's cost.
#[derive(Clone, Debug, PartialEq)]
pub struct CostAtLeast {
    /// The prices, by range of days.
    pub prices: Vec<PricedDays>,
    /// The bound, in billionths of the currency's unit.
    pub nanos: f64,
}

impl AccountStore {
    /// Returns a page of the account's clusters that pass the filter, ordered by cost.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_cost.page", skip_all)]
    pub async fn cluster_page_by_cost(
        &self,
        filter: &ClusterFilter,
        prices: &[PricedDays],
        sort: ClusterSort,
        request: &PageRequest,
    ) -> Result<Page<cluster::Model>, StoreError> {
        let (clusters, cost) = (self.filtered_clusters(filter), ComputedValue::Number(self.cost(prices)));
        page::fetch_by_value(&self.read_executor(), clusters, cost, sort, request).await
    }

    /// Returns the condition that a cluster's cost reaches a bound.
    pub(crate) fn cost_condition(&self, filter: &CostAtLeast) -> Expr {
        if !filter.prices.is_empty() {
            return self.cost(&filter.prices).gte(filter.nanos);
        }
        // Without prices every cost is zero. The database does not compare constants: see
        // `core/composite_in.rs`.
        let id = cluster::Column::Id;
        if filter.nanos > 0.0 { id.is_one_of([0_i64; 0]) } else { id.is_not_null() }
    }

    /// Returns the cost of a cluster in billionths, as an expression: the hours of each day at the price of
    /// that day. Time without a price costs nothing.
    fn cost(&self, prices: &[PricedDays]) -> Expr {
        let zero = || Expr::val(0.0_f64);
        if prices.is_empty() {
            return zero();
        }
        let hour = |column: &'static str| Expr::col(("usage_hours", column));
        let price_rows = prices.iter().map(|days| {
            let (from, to) = (days.from * DAY_HOURS, days.to * DAY_HOURS);
            (from, to, days.per_thread_hour, days.per_gib_hour, days.per_worker_hour).into_value_tuple()
        });
        let amount = |column: &'static str, price: &'static str| {
            let time = Func::sum(Func::cast_as(hour(column), "double precision"));
            let price = Func::max(Expr::col(("prices", price)));
            self.round(Expr::from(time).mul(Expr::from(price)).div(HOUR_US))
        };
        let day_cost = amount("thread_us", "column3")
            .add(amount("memory_gib_us", "column4"))
            .add(amount("worker_us", "column5"));
        let valid = hour("hour")
            .gte(Expr::col(("prices", "column1")))
            .and(hour("hour").lt(Expr::col(("prices", "column2"))));
        let days = Query::select()
            .expr_as(day_cost, "nanos")
            .from("usage_hours")
            .inner_join(TableRef::ValuesList(price_rows.collect(), "prices".into()), valid)
            .and_where(hour("account_id").eq(self.account_id().0))
            .and_where(hour("cluster_id").equals((cluster::Entity, cluster::Column::Id)))
            // As literal text: see `DAY` in `usage_hour.rs`.
            .add_group_by([Expr::cust(format!("usage_hours.{DAY}"))])
            .take();
        let total = Query::select()
            .expr(Func::coalesce([Func::sum(Expr::col("nanos")).into(), zero()]))
            .from_subquery(days, "days")
            .take();
        Expr::SubQuery(None, Box::new(total.into()))
    }

    /// Rounds a number that is not negative to the nearest integer, halves upward. PostgreSQL's own
    /// rounding of halves goes to the even number; SQLite has no function that rounds down.
    fn round(&self, number: Expr) -> Expr {
        if self.is_postgres() {
            Func::cust("floor").arg(number.add(0.5)).into()
        } else {
            Func::round(number).into()
        }
    }
}
