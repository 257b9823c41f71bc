//! The scope of an analysis: its clusters, and the selected part of their work.

use std::collections::BTreeSet;

use async_graphql::{ID, InputObject};
use chrono::{DateTime, TimeDelta, Utc};
use entity::{cluster::Model, ids::ClusterId};

use super::breakdown;
use crate::{
    domain::{
        answer::KnownPart,
        breakdown::{BreakdownQuery, Dimension, SpanFilter, Table},
    },
    graphql::{
        clusters::{cluster::Cluster, cluster_list::ClusterFilter},
        engine::{
            argument::{RANGE_FROM_AFTER_TO, check_range_of},
            error::ApiError,
            scope::{AccountScope, QuotaKind},
        },
    },
};

/// The maximum number of clusters of a scope.
pub(crate) const MAX_CLUSTERS: usize = 200;

/// The maximum number of tags, and of functions, of a scope.
const MAX_NAMES: usize = 100;

/// The maximum length of a tag, and of the name of a function, in characters.
const MAX_NAME: usize = 1_024;

/// The work to analyze: the work that passes every given condition, or all work of the account if none
/// is given. It may belong to at most 200 clusters.
#[derive(Debug, Default, InputObject)]
pub(crate) struct WorkScope {
    /// Only the work of clusters that pass all conditions of this filter.
    clusters: Option<ClusterFilter>,
    /// Only the work of these clusters, 1 to 200, each by its global identifier or its `number`.
    cluster_ids: Option<Vec<ID>>,
    /// Only the work of spans with at least one of these tags anywhere on their path, 1 to 100 tags.
    span_tags: Option<Vec<String>>,
    /// Only the tasks of these functions, 1 to 100 functions. The thread time without a task is then
    /// excluded.
    functions: Option<Vec<String>>,
    /// The start of the period, by the scheduler's clock. Only clusters that existed, spans whose first tasks
    /// arrived, and profile windows that began, at this time or later.
    from: Option<DateTime<Utc>>,
    /// The end of the period, by the scheduler's clock. Only clusters that existed before this time,
    /// spans whose first tasks arrived before it, and profile windows that began before it.
    to: Option<DateTime<Utc>>,
}

/// The selected work of a scope.
pub(crate) struct Selection {
    /// The clusters, ordered by their start time.
    pub(crate) clusters: Vec<Model>,
    /// The start and the end of the period, in milliseconds. `None` if open.
    pub(crate) range: (Option<i64>, Option<i64>),
    tags: Option<Vec<String>>,
    functions: Option<BTreeSet<String>>,
}

impl WorkScope {
    /// Returns the work of the scope. `argument` is the argument with the scope, for errors.
    pub(crate) async fn find(
        self,
        scope: &AccountScope,
        argument: &'static str,
    ) -> Result<Selection, ApiError> {
        self.find_in_period(scope, argument, None).await
    }

    /// Returns the work of the scope. If the scope has no period of its own, it covers the period of this
    /// length that ends now.
    pub(crate) async fn find_in_period(
        self,
        scope: &AccountScope,
        argument: &'static str,
        length: Option<TimeDelta>,
    ) -> Result<Selection, ApiError> {
        scope.charge(QuotaKind::Analyses, 1)?;
        let invalid = |reason: String| ApiError::InvalidArgument { argument, reason };
        let milliseconds = |time: Option<DateTime<Utc>>| time.map(|time| time.timestamp_millis());
        let mut range = (milliseconds(self.from), milliseconds(self.to));
        check_range_of(argument, RANGE_FROM_AFTER_TO, range.0, range.1)?;
        if let Some(length) = length {
            let to = range.1.unwrap_or(scope.now.timestamp_millis());
            let from = range.0.unwrap_or(to.saturating_sub(length.num_milliseconds()));
            range = (Some(from), Some(to));
        }
        for (name, names) in [("spanTags", &self.span_tags), ("functions", &self.functions)] {
            if let Some(reason) = names.as_deref().and_then(check_names) {
                return Err(invalid(format!("'{name}' {reason}")));
            }
        }
        let ids = self.cluster_ids.map(|ids| parse_cluster_ids(scope, &ids, argument)).transpose()?;
        let filter = match self.clusters {
            Some(filter) => Some(filter.check(scope).await?),
            None => None,
        };
        let mut clusters = match &ids {
            Some(ids) => {
                let found = scope.loader.load_many(ids.iter().copied()).await?;
                if found.len() < ids.len() {
                    return Err(ApiError::unknown(argument, "cluster"));
                }
                found.into_values().filter(|row| existed_in(row, range)).collect()
            }
            None => Vec::new(),
        };
        if ids.is_none() || filter.is_some() {
            let (filter, limit) = (filter.unwrap_or_default(), MAX_CLUSTERS as u64 + 1);
            clusters = scope.store.work_clusters(&filter, ids.as_ref(), range, limit).await?;
        }
        if clusters.len() > MAX_CLUSTERS {
            return Err(invalid(format!(
                "has more than {MAX_CLUSTERS} clusters: narrow it by 'clusters', 'clusterIds', 'from' or 'to'"
            )));
        }
        clusters.sort_by_key(|row| (row.started_at.0, row.id));
        scope.loader.insert_loaded(clusters.iter().map(|row| (row.id, row.clone())));
        let functions = self.functions.map(|functions| functions.into_iter().collect());
        Ok(Selection { clusters, range, tags: self.span_tags, functions })
    }
}

/// Returns the reason why these tags or functions cannot be selected. `None` if they can be.
pub(crate) fn check_names(names: &[String]) -> Option<String> {
    if !(1..=MAX_NAMES).contains(&names.len()) {
        return Some(format!("must have 1 to {MAX_NAMES} items"));
    }
    let is_long = names.iter().any(|name| name.chars().count() > MAX_NAME);
    is_long.then(|| format!("must have items of at most {MAX_NAME} characters"))
}

impl Selection {
    /// Returns the part of each cluster that is known at a time.
    pub(crate) fn known_parts_at(&self, now: DateTime<Utc>) -> Vec<KnownPart> {
        self.clusters.iter().map(|row| KnownPart::of(row, now)).collect()
    }

    /// Returns the identifiers of the clusters.
    pub(crate) fn ids(&self) -> Vec<ClusterId> {
        self.clusters.iter().map(|row| row.id).collect()
    }

    /// Returns true if the work is limited to spans or functions, which only fine performance metrics
    /// distinguish.
    pub(crate) fn is_partial(&self) -> bool {
        self.tags.is_some() || self.functions.is_some()
    }

    /// Returns true if the work is limited to spans.
    pub(crate) fn has_span_tags(&self) -> bool {
        self.tags.is_some()
    }

    /// Returns the functions whose tasks are selected. `None` for all.
    pub(crate) fn functions(&self) -> Option<&BTreeSet<String>> {
        self.functions.as_ref()
    }

    /// Returns the values of the work in one unit, grouped by the dimensions.
    pub(crate) async fn load_table(
        &self,
        scope: &AccountScope,
        by: BTreeSet<Dimension>,
        unit: String,
    ) -> Result<Table, ApiError> {
        let span_filter = SpanFilter {
            tags: self.tags.iter().flatten().cloned().collect(),
            from: self.range.0,
            to: self.range.1,
        };
        let query = BreakdownQuery { by, unit, functions: self.functions.clone() };
        // Refuses the read if the request has already exceeded its quota.
        scope.charge(QuotaKind::FineMetrics, 0)?;
        let result = breakdown::break_down_clusters(&scope.store, &self.clusters, span_filter, query).await?;
        scope.charge(QuotaKind::Spans, result.spans)?;
        scope.charge(QuotaKind::FineMetrics, result.metrics)?;
        Ok(result.table)
    }
}

/// Returns true if the cluster is known to have existed in the period.
fn existed_in(row: &Model, (from, to): (Option<i64>, Option<i64>)) -> bool {
    let started = row.started_at.timestamp_millis();
    from.is_none_or(|from| started + row.duration_ms >= from) && to.is_none_or(|to| started < to)
}

/// Returns the clusters that the identifiers of this account name, each once.
fn parse_cluster_ids(
    scope: &AccountScope,
    ids: &[ID],
    argument: &'static str,
) -> Result<BTreeSet<ClusterId>, ApiError> {
    if !(1..=MAX_CLUSTERS).contains(&ids.len()) {
        let reason = format!("'clusterIds' must have 1 to {MAX_CLUSTERS} items");
        return Err(ApiError::InvalidArgument { argument, reason });
    }
    ids.iter().map(|id| Cluster::parse_id(scope, argument, id)).collect()
}
