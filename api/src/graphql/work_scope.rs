//! The work that is analysed: of which clusters, and what of theirs.

use std::collections::BTreeSet;

use async_graphql::{ID, InputObject};
use chrono::{DateTime, TimeDelta, Utc};
use entity::{cluster::Model, ids::ClusterId};

use super::{
    breakdown,
    cluster_list::ClusterFilter,
    error::ApiError,
    id::GlobalId,
    scope::{AccountScope, Costly},
};
use crate::domain::breakdown::{Dimension, Question, SpanChoice, Table};

/// Clusters of one scope at the most.
pub(super) const MAX_CLUSTERS: usize = 200;

/// Tags, and functions, of one scope at the most.
const MAX_NAMES: usize = 100;

/// Characters of a tag or of the name of a function.
const MAX_NAME: usize = 1_024;

/// The work that is looked at: what passes every condition that is given, and all work of the account if none is. It may
/// be that of at most 200 clusters.
#[derive(Debug, Default, InputObject)]
#[graphql(name = "Scope")]
pub(super) struct WorkScope {
    /// Only work of clusters that pass all conditions of this filter.
    clusters: Option<ClusterFilter>,
    /// Only work of these clusters, 1 to 200, each by its global identifier or its `number`.
    cluster_ids: Option<Vec<ID>>,
    /// Only work of spans with at least one of these tags anywhere on their path, 1 to 100 of them.
    span_tags: Option<Vec<String>>,
    /// Only the tasks of these functions, 1 to 100 of them. What threads did without a task is then no part of it.
    functions: Option<Vec<String>>,
    /// Only clusters that were there, spans whose first tasks arrived, and windows of profiles that begin at this time or
    /// later, by the scheduler's clock.
    from: Option<DateTime<Utc>>,
    /// Only clusters that were there, spans whose first tasks arrived, and windows of profiles that begin before this
    /// time, by the scheduler's clock.
    to: Option<DateTime<Utc>>,
}

/// The work of a scope, found.
pub(super) struct Selection {
    /// Its clusters, the first by when they started first.
    pub(super) clusters: Vec<Model>,
    /// The time that is looked at, in milliseconds; open where none is given.
    pub(super) range: (Option<i64>, Option<i64>),
    tags: Option<Vec<String>>,
    functions: Option<BTreeSet<String>>,
}

impl WorkScope {
    /// The work, read for `argument`.
    pub(super) async fn find(
        self,
        scope: &AccountScope,
        argument: &'static str,
    ) -> Result<Selection, ApiError> {
        self.find_during(scope, argument, None).await
    }

    /// The same of a time that ends now and is so long, as far as the scope names no other.
    pub(super) async fn find_during(
        self,
        scope: &AccountScope,
        argument: &'static str,
        length: Option<TimeDelta>,
    ) -> Result<Selection, ApiError> {
        scope.take(Costly::Analyses, 1)?;
        let refused = |reason: String| ApiError::InvalidArgument { argument, reason };
        let milliseconds = |time: Option<DateTime<Utc>>| time.map(|time| time.timestamp_millis());
        let mut range = (milliseconds(self.from), milliseconds(self.to));
        if let (Some(from), Some(to)) = range
            && from > to
        {
            return Err(refused("'from' must not lie after 'to'".to_owned()));
        }
        if let Some(length) = length {
            let to = range.1.unwrap_or(scope.now.timestamp_millis());
            let from = range.0.unwrap_or(to.saturating_sub(length.num_milliseconds()));
            range = (Some(from), Some(to));
        }
        for (name, names) in [("spanTags", &self.span_tags), ("functions", &self.functions)] {
            let Some(names) = names else { continue };
            if !(1..=MAX_NAMES).contains(&names.len()) {
                return Err(refused(format!("'{name}' must have 1 to {MAX_NAMES} items")));
            }
            if names.iter().any(|name| name.chars().count() > MAX_NAME) {
                return Err(refused(format!("'{name}' must have items of at most {MAX_NAME} characters")));
            }
        }
        let ids = self.cluster_ids.map(|ids| numbers(scope, &ids, argument)).transpose()?;
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
                found.into_values().filter(|row| was_there(row, range)).collect()
            }
            None => Vec::new(),
        };
        if ids.is_none() || filter.is_some() {
            let (filter, most) = (filter.unwrap_or_default(), MAX_CLUSTERS as u64 + 1);
            clusters = scope.store.work_clusters(&filter, ids.as_ref(), range, most).await?;
        }
        if clusters.len() > MAX_CLUSTERS {
            return Err(refused(format!(
                "has more than {MAX_CLUSTERS} clusters: narrow it by 'clusters', 'clusterIds', 'from' or 'to'"
            )));
        }
        clusters.sort_by_key(|row| (row.started_at.0, row.id));
        scope.loader.feed(clusters.iter().map(|row| (row.id, row.clone())));
        let functions = self.functions.map(|functions| functions.into_iter().collect());
        Ok(Selection { clusters, range, tags: self.span_tags, functions })
    }
}

impl Selection {
    /// The identifiers of its clusters.
    pub(super) fn ids(&self) -> Vec<ClusterId> {
        self.clusters.iter().map(|row| row.id).collect()
    }

    /// Whether it is some spans or functions of its clusters alone, which only fine performance metrics tell apart.
    pub(super) fn is_partial(&self) -> bool {
        self.tags.is_some() || self.functions.is_some()
    }

    /// What the work spent, by these dimensions.
    pub(super) async fn table(
        &self,
        scope: &AccountScope,
        by: BTreeSet<Dimension>,
        unit: String,
    ) -> Result<Table, ApiError> {
        let choice = SpanChoice {
            tags: self.tags.iter().flatten().cloned().collect(),
            from: self.range.0,
            to: self.range.1,
        };
        let question = Question { by, unit, functions: self.functions.clone() };
        // Nothing more when others read too much already.
        scope.take(Costly::FineMetrics, 0)?;
        let broken_down = breakdown::of_clusters(&scope.store, &self.clusters, choice, question).await?;
        scope.take(Costly::Spans, broken_down.spans)?;
        scope.take(Costly::FineMetrics, broken_down.metrics)?;
        Ok(broken_down.table)
    }
}

/// Whether a cluster is known to have been there at a time.
fn was_there(row: &Model, (from, to): (Option<i64>, Option<i64>)) -> bool {
    let started = row.started_at.timestamp_millis();
    from.is_none_or(|from| started + row.duration_ms >= from) && to.is_none_or(|to| started < to)
}

/// The clusters that identifiers of this account name, each once.
fn numbers(
    scope: &AccountScope,
    ids: &[ID],
    argument: &'static str,
) -> Result<BTreeSet<ClusterId>, ApiError> {
    if !(1..=MAX_CLUSTERS).contains(&ids.len()) {
        let reason = format!("'clusterIds' must have 1 to {MAX_CLUSTERS} items");
        return Err(ApiError::InvalidArgument { argument, reason });
    }
    ids.iter().map(|id| number(scope, id, argument)).collect()
}

/// The cluster that an argument names by an identifier of this account or by its number.
pub(super) fn number(scope: &AccountScope, id: &ID, argument: &'static str) -> Result<ClusterId, ApiError> {
    let number = match GlobalId::parse(id) {
        Some(GlobalId::Cluster(account, number)) if account == scope.account.id => Some(number),
        Some(_) => None,
        None => id.parse().ok(),
    };
    number.ok_or(ApiError::unknown(argument, "cluster"))
}
