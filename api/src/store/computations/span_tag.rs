//! Tags of spans: the conditions of tag filters, and the list of the tags in use.

use entity::{
    Timestamp,
    span::{Column, Entity},
};
use sea_orm::{
    Condition, ConnectionTrait, FromQueryResult, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Alias, Expr, ExprTrait, Func, Order, Query},
};

use crate::store::{
    clusters::{cluster_filter::ClusterFilter, cross_cluster::TimeRange},
    core::{error::StoreError, scoped::AccountStore},
};

/// The number of spans searched for the tags of an account, the newest first.
pub const SPANS_PER_TAGS: u64 = 50_000;

/// Tags that the path of a span, from the outermost span to its own tag, must or must not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TagMatch {
    /// The path must contain at least one of these, if there are any.
    pub any: Vec<String>,
    /// The path must contain all of these.
    pub all: Vec<String>,
    /// The path must contain none of these.
    pub none: Vec<String>,
    /// The path must begin with these, in this order.
    pub under: Vec<String>,
}

/// A condition on the text of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagText<'a> {
    /// The tag begins with exactly this text.
    StartsWith(&'a str),
    /// The tag contains this text. Upper and lower case are equal for ASCII letters.
    Contains(&'a str),
}

/// The part of a span's path that a condition covers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathPart {
    /// The whole path.
    Whole,
    /// The path of the parent span.
    ParentPath,
}

impl TagMatch {
    /// The condition that a span matches. With `roots`, no ancestor of the span may match too.
    pub(crate) fn condition(&self, roots: bool, postgres: bool) -> Condition {
        let mut condition = self.required_tags(PathPart::Whole, postgres);
        if roots {
            let parent_matches = self.required_tags(PathPart::ParentPath, postgres);
            // A tag that is missing from the path is missing from the parent's path too, so only the
            // required tags can tell the two apart. Without required tags, all ancestors are in the
            // list.
            condition = condition.add(if parent_matches.is_empty() {
                Condition::all().add(Expr::col((Entity, Column::ParentId)).is_null())
            } else {
                parent_matches.not()
            });
        }
        if !self.none.is_empty() {
            condition = condition.add(path_contains(&self.none, PathPart::Whole, postgres).not());
        }
        condition
    }

    /// The condition for the required tags.
    fn required_tags(&self, part: PathPart, postgres: bool) -> Condition {
        let mut condition = Condition::all();
        if !self.any.is_empty() {
            condition = condition.add(path_contains(&self.any, part, postgres));
        }
        for tag in &self.all {
            condition = condition.add(path_contains(std::slice::from_ref(tag), part, postgres));
        }
        if !self.under.is_empty() {
            let min_length = self.under.len() + usize::from(part == PathPart::ParentPath);
            condition = condition.add(Expr::cust(format!("json_array_length(spans.path) >= {min_length}")));
        }
        for (position, tag) in self.under.iter().enumerate() {
            // An integer in a JSON path is a position in both databases.
            condition = condition.add(Expr::cust(format!("(spans.path ->> {position})")).eq(tag.as_str()));
        }
        condition
    }
}

/// The condition that a span's path contains one of `tags`.
fn path_contains(tags: &[String], part: PathPart, postgres: bool) -> Expr {
    let numbers = 1..=tags.len();
    let values: Vec<_> = numbers.map(|n| if postgres { format!("${n}") } else { "?".to_owned() }).collect();
    let is_one_of_tags = format!("tag.value IN ({})", values.join(", "));
    // All elements of the path but the last one are the tags of the ancestors.
    let (elements, is_ancestor) = if postgres {
        (
            "json_array_elements_text(spans.path) WITH ORDINALITY AS tag(value, position)",
            "tag.position < json_array_length(spans.path)",
        )
    } else {
        ("json_each(spans.path) AS tag", "tag.key < json_array_length(spans.path) - 1")
    };
    let condition = match part {
        PathPart::Whole => is_one_of_tags,
        PathPart::ParentPath => format!("{is_ancestor} AND {is_one_of_tags}"),
    };
    Expr::cust_with_values(format!("EXISTS (SELECT 1 FROM {elements} WHERE {condition})"), tags)
}

/// The use of a tag.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct TagUse {
    /// The tag.
    pub tag: String,
    /// The number of spans whose own tag it is.
    pub spans: i64,
    /// The number of clusters that the spans ran on.
    pub clusters: i64,
    /// The arrival of the first tasks of the oldest of these spans.
    pub first_at: Timestamp,
    /// The arrival of the first tasks of the newest of these spans.
    pub last_at: Timestamp,
}

impl AccountStore {
    /// Returns the tags of spans that meet a condition, the most recently used first, at most
    /// `limit`. Only the newest [`SPANS_PER_TAGS`] spans are searched.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.span_tag.list", skip_all)]
    pub async fn span_tags(
        &self,
        clusters: &ClusterFilter,
        enqueued_in: TimeRange,
        text: TagText<'_>,
        limit: u64,
    ) -> Result<Vec<TagUse>, StoreError> {
        let newest = self
            .select_in_range::<Entity>(Column::EnqueuedAt, enqueued_in)
            .select_only()
            .columns([Column::ClusterId, Column::EnqueuedAt, Column::Path])
            .order_by_desc(Column::EnqueuedAt)
            .order_by_desc(Column::ClusterId)
            .order_by_desc(Column::Id)
            .limit(SPANS_PER_TAGS)
            .into_query();
        // Each tag of a path is some span's own tag, which is the last element of that span's path.
        let own_tag = "(spans.path ->> (json_array_length(spans.path) - 1))";
        let tags = Query::select()
            .expr_as(Expr::cust(own_tag), Alias::new("tag"))
            .columns([(Entity, Column::ClusterId), (Entity, Column::EnqueuedAt)])
            .from_subquery(newest, Entity)
            .cond_where(Condition::all().add_option(self.cluster_condition(clusters, Column::ClusterId)))
            .take();
        let condition = match text {
            TagText::StartsWith(prefix) => {
                let length = i32::try_from(prefix.chars().count()).unwrap_or(i32::MAX);
                // LIKE is case-sensitive on one of the databases only.
                let start = [Expr::col(Alias::new("tag")), Expr::val(1_i32), Expr::val(length)];
                Expr::from(Func::cust("substr").args(start)).eq(prefix)
            }
            TagText::Contains(part) => self.contains(r#""tags"."tag""#, part),
        };
        let statement = Query::select()
            .column(Alias::new("tag"))
            .expr_as(Func::count(Expr::cust("*")), Alias::new("spans"))
            .expr_as(Expr::col(Column::ClusterId).count_distinct(), Alias::new("clusters"))
            .expr_as(Expr::col(Column::EnqueuedAt).min(), Alias::new("first_at"))
            .expr_as(Expr::col(Column::EnqueuedAt).max(), Alias::new("last_at"))
            .from_subquery(tags, Alias::new("tags"))
            .and_where(condition)
            .group_by_col(Alias::new("tag"))
            .order_by(Alias::new("last_at"), Order::Desc)
            .order_by(Alias::new("tag"), Order::Asc)
            .limit(limit)
            .take();
        let rows = self.read_executor().query_all(&statement).await?;
        rows.iter().map(|row| Ok(TagUse::from_query_result(row, "")?)).collect()
    }
}
