//! Tags: what spans are found by, and which there are.

use entity::{
    Timestamp,
    span::{Column, Entity},
};
use sea_orm::{
    Condition, ConnectionTrait, FromQueryResult, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Alias, Expr, ExprTrait, Func, Order, Query},
};

use super::{
    account_list::TimeRange, cluster_filter::ClusterFilter, error::StoreError, scoped::AccountStore,
};

/// How many spans are looked at for the tags of an account: the newest.
pub const SPANS_PER_TAGS: u64 = 50_000;

/// Tags that a span must have on its path, from the outermost span to its own, or must not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TagMatch {
    /// At least one of these, if there are any.
    pub any: Vec<String>,
    /// All of these.
    pub all: Vec<String>,
    /// None of these.
    pub none: Vec<String>,
    /// The path begins with these, in this order.
    pub under: Vec<String>,
}

/// What of a span's path is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// All of it.
    Whole,
    /// What the span it lies in has.
    Above,
}

impl TagMatch {
    /// Whether a span has the tags; with `roots` whether no span that it lies in has them, too.
    pub(super) fn condition(&self, roots: bool, postgres: bool) -> Condition {
        let mut condition = self.wanted(Reach::Whole, postgres);
        if roots {
            let above = self.wanted(Reach::Above, postgres);
            // Where a tag is missing, it is missing above, too, so only what is wanted tells spans apart. If that is
            // nothing, all spans that another one lies in are in the list like that.
            condition = condition.add(if above.is_empty() {
                Condition::all().add(Expr::col((Entity, Column::ParentId)).is_null())
            } else {
                above.not()
            });
        }
        if !self.none.is_empty() {
            condition = condition.add(on_path(&self.none, Reach::Whole, postgres).not());
        }
        condition
    }

    /// What a path must have.
    fn wanted(&self, reach: Reach, postgres: bool) -> Condition {
        let mut wanted = Condition::all();
        if !self.any.is_empty() {
            wanted = wanted.add(on_path(&self.any, reach, postgres));
        }
        for tag in &self.all {
            wanted = wanted.add(on_path(std::slice::from_ref(tag), reach, postgres));
        }
        if !self.under.is_empty() {
            let at_least = self.under.len() + usize::from(reach == Reach::Above);
            wanted = wanted.add(Expr::cust(format!("json_array_length(spans.path) >= {at_least}")));
        }
        for (position, tag) in self.under.iter().enumerate() {
            // The whole numbers of a JSON path mean positions in both databases.
            wanted = wanted.add(Expr::cust(format!("(spans.path ->> {position})")).eq(tag.as_str()));
        }
        wanted
    }
}

/// Whether one of `tags` is on a span's path.
fn on_path(tags: &[String], reach: Reach, postgres: bool) -> Expr {
    let numbers = 1..=tags.len();
    let values: Vec<_> = numbers.map(|n| if postgres { format!("${n}") } else { "?".to_owned() }).collect();
    let is_one = format!("tag.value IN ({})", values.join(", "));
    // The tags before a span's own are those of the spans it lies in.
    let (elements, above) = if postgres {
        (
            "json_array_elements_text(spans.path) WITH ORDINALITY AS tag(value, position)",
            "tag.position < json_array_length(spans.path)",
        )
    } else {
        ("json_each(spans.path) AS tag", "tag.key < json_array_length(spans.path) - 1")
    };
    let condition = match reach {
        Reach::Whole => is_one,
        Reach::Above => format!("{above} AND {is_one}"),
    };
    Expr::cust_with_values(format!("EXISTS (SELECT 1 FROM {elements} WHERE {condition})"), tags)
}

/// How a tag was used.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct TagUse {
    /// The tag.
    pub tag: String,
    /// Spans with this tag of their own.
    pub spans: i64,
    /// Clusters they ran on.
    pub clusters: i64,
    /// When the first tasks of the first of them arrived.
    pub first_at: Timestamp,
    /// The same of the last one.
    pub last_at: Timestamp,
}

impl AccountStore {
    /// The tags of spans that begin with `prefix`, those that were used last first, at most `limit`. The newest
    /// [`SPANS_PER_TAGS`] spans are looked at.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.span_tag.list", skip_all)]
    pub async fn span_tags(
        &self,
        clusters: &ClusterFilter,
        enqueued_in: TimeRange,
        prefix: &str,
        limit: u64,
    ) -> Result<Vec<TagUse>, StoreError> {
        let newest = self
            .during::<Entity>(Column::EnqueuedAt, enqueued_in)
            .select_only()
            .columns([Column::ClusterId, Column::EnqueuedAt, Column::Path])
            .order_by_desc(Column::EnqueuedAt)
            .order_by_desc(Column::ClusterId)
            .order_by_desc(Column::Id)
            .limit(SPANS_PER_TAGS)
            .into_query();
        // Every tag on a path is the own tag of a span, which is the last one.
        let own = "(spans.path ->> (json_array_length(spans.path) - 1))";
        let tags = Query::select()
            .expr_as(Expr::cust(own), Alias::new("tag"))
            .columns([(Entity, Column::ClusterId), (Entity, Column::EnqueuedAt)])
            .from_subquery(newest, Entity)
            .cond_where(Condition::all().add_option(self.of_clusters(clusters, Column::ClusterId)))
            .take();
        let length = i32::try_from(prefix.chars().count()).unwrap_or(i32::MAX);
        let tag = || Expr::col(Alias::new("tag"));
        // Not LIKE, which tells upper from lower case on one database only.
        let start = Func::cust("substr").args([tag(), Expr::val(1_i32), Expr::val(length)]);
        let statement = Query::select()
            .column(Alias::new("tag"))
            .expr_as(Func::count(Expr::cust("*")), Alias::new("spans"))
            .expr_as(Expr::col(Column::ClusterId).count_distinct(), Alias::new("clusters"))
            .expr_as(Expr::col(Column::EnqueuedAt).min(), Alias::new("first_at"))
            .expr_as(Expr::col(Column::EnqueuedAt).max(), Alias::new("last_at"))
            .from_subquery(tags, Alias::new("tags"))
            .and_where(Expr::from(start).eq(prefix))
            .group_by_col(Alias::new("tag"))
            .order_by(Alias::new("last_at"), Order::Desc)
            .order_by(Alias::new("tag"), Order::Asc)
            .limit(limit)
            .take();
        let rows = self.reads().query_all(&statement).await?;
        rows.iter().map(|row| Ok(TagUse::from_query_result(row, "")?)).collect()
    }
}
