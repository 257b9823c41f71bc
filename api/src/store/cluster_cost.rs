//! What clusters cost, worked out by the database: to find those that cost much, and to order by it.
//!
//! What a query shows of costs is worked out by `domain/cost.rs`, exactly. This is the same arithmetic by days, in
//! floating-point numbers that hold whole billionths up to nine million units of a currency; beyond that the last digits
//! are rounded, which changes the order of clusters that cost the same but for those.

use entity::cluster;
use sea_orm::sea_query::{Expr, ExprTrait, Func, IntoValueTuple, Query, TableRef};

use super::{
    cluster::ClusterSort,
    cluster_filter::ClusterFilter,
    error::StoreError,
    page::{self, Page, PageRequest},
    scoped::AccountStore,
    usage_hour::{DAY, DAY_HOURS},
};
use crate::domain::cost::PricedDays;

/// Microseconds of an hour, for which prices are.
const HOUR_US: f64 = 3.6e9;

/// Which clusters cost enough.
#[derive(Clone, Debug, PartialEq)]
pub struct CostAtLeast {
    /// What things cost when.
    pub prices: Vec<PricedDays>,
    /// In billionths of the currency's unit.
    pub nanos: f64,
}

impl AccountStore {
    /// A page of the account's clusters that pass the filter, by what they cost.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_cost.page", skip_all)]
    pub async fn cluster_page_by_cost(
        &self,
        filter: &ClusterFilter,
        prices: &[PricedDays],
        sort: ClusterSort,
        request: &PageRequest,
    ) -> Result<Page<cluster::Model>, StoreError> {
        page::fetch_by(&self.reads(), self.filtered_clusters(filter), self.cost(prices), sort, request).await
    }

    /// What clusters are asked for that cost enough.
    pub(super) fn costs_at_least(&self, least: &CostAtLeast) -> Expr {
        self.cost(&least.prices).gte(least.nanos)
    }

    /// What a cluster cost, in billionths: the hours of each day at the price of that day. What has no price costs nothing.
    fn cost(&self, prices: &[PricedDays]) -> Expr {
        let none = || Expr::val(0.0_f64);
        if prices.is_empty() {
            return none();
        }
        let hour = |column: &'static str| Expr::col(("usage_hours", column));
        let prices_of = prices.iter().map(|days| {
            let (from, to) = (days.from * DAY_HOURS, days.to * DAY_HOURS);
            (from, to, days.per_thread_hour, days.per_gib_hour, days.per_worker_hour).into_value_tuple()
        });
        let amount = |column: &'static str, price: &'static str| {
            let time = Func::sum(Func::cast_as(hour(column), "double precision"));
            let price = Func::max(Expr::col(("prices", price)));
            self.whole(Expr::from(time).mul(Expr::from(price)).div(HOUR_US))
        };
        let of_day = amount("thread_us", "column3")
            .add(amount("memory_gib_us", "column4"))
            .add(amount("worker_us", "column5"));
        let valid = hour("hour")
            .gte(Expr::col(("prices", "column1")))
            .and(hour("hour").lt(Expr::col(("prices", "column2"))));
        let days = Query::select()
            .expr_as(of_day, "nanos")
            .from("usage_hours")
            .inner_join(TableRef::ValuesList(prices_of.collect(), "prices".into()), valid)
            .and_where(hour("account_id").equals((cluster::Entity, cluster::Column::AccountId)))
            .and_where(hour("cluster_id").equals((cluster::Entity, cluster::Column::Id)))
            // As text: see the day of `usage_hour.rs`.
            .add_group_by([Expr::cust(format!("usage_hours.{DAY}"))])
            .take();
        let whole = Query::select()
            .expr(Func::coalesce([Func::sum(Expr::col("nanos")).into(), none()]))
            .from_subquery(days, "days")
            .take();
        Expr::SubQuery(None, Box::new(whole.into()))
    }

    /// A number that is not negative to the nearest whole one, and from the middle upwards. PostgreSQL's own rounding goes
    /// to even numbers from there; SQLite has no function for what lies below.
    fn whole(&self, number: Expr) -> Expr {
        if self.is_postgres() {
            Func::cust("floor").arg(number.add(0.5)).into()
        } else {
            Func::round(number).into()
        }
    }
}
