//! Subscriptions to current states. A slow subscriber receives the newest state only.

use async_graphql::{Context, ID, Object, Subscription};

use super::{
    Gap, PayloadContent, PayloadStream, RowSelection, Rows, SubscriptionPlan, parse_position,
    require_account, resolve, resolve_cluster_ids,
};
use crate::{
    domain::stream_cursor::Stream,
    graphql::{
        clusters::{cluster::Cluster, cluster_list::ClusterFilter},
        engine::{
            error::ApiError,
            projection::{Inline, InlineList},
            scope::AccountScope,
        },
    },
};

/// The maximum time between snapshots, in seconds.
const MAX_SECONDS: f64 = 3_600.0;

#[derive(Default)]
pub(super) struct StateSubscription;

#[Subscription]
impl StateSubscription {
    /// Clusters that changed, in their current state, one per payload. A subscriber that is slower than
    /// the changes receives the newest state of each cluster, with `gap`.
    async fn clusters(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(
            desc = "A filter that the clusters pass now, or passed before the change. Null for all clusters."
        )]
        filter: Option<ClusterFilter>,
        #[graphql(desc = "The global identifiers of the clusters, at most 100. Null for all clusters.")]
        ids: Option<Vec<ID>>,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`. Clusters that changed after it are \
                    sent first. Null to start from now."
        )]
        after: Option<String>,
    ) -> Result<PayloadStream<ClusterChange>, ApiError> {
        let plan = async {
            let scope = require_account(context, &account)?;
            let after = parse_position(after, Stream::Clusters)?;
            let clusters = resolve_cluster_ids(scope, ids).await?;
            let selection = RowSelection::Clusters(filter.unwrap_or_default().check(scope).await?);
            Ok(SubscriptionPlan::new(selection, clusters, after))
        };
        resolve(context, ClusterChange::of, plan).await
    }

    /// Snapshots at regular intervals: the clusters that reported since the last payload, in their
    /// current state, at most 100 per payload.
    async fn snapshots(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "A filter that the clusters must pass. Null for all clusters.")] filter: Option<
            ClusterFilter,
        >,
        #[graphql(desc = "The global identifiers of the clusters, at most 100. Null for all clusters.")]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "The interval in seconds, 1 to 3,600.", default = 10.0)] every_seconds: f64,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`. Clusters that changed after it are \
                    sent first. Null to start from now."
        )]
        after: Option<String>,
    ) -> Result<PayloadStream<SnapshotBatch>, ApiError> {
        let plan = async {
            let scope = require_account(context, &account)?;
            if !(1.0..=MAX_SECONDS).contains(&every_seconds) {
                return Err(ApiError::invalid("everySeconds", "must be from 1 to 3600"));
            }
            let after = parse_position(after, Stream::Snapshots)?;
            let clusters = resolve_cluster_ids(scope, ids).await?;
            let selection = RowSelection::Snapshots(filter.unwrap_or_default().check(scope).await?);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the range is checked"
            )]
            let read_interval_ms = (every_seconds * 1e3) as u64;
            Ok(SubscriptionPlan { selection, clusters, after, read_interval_ms })
        };
        resolve(context, SnapshotBatch::of, plan).await
    }
}

/// A cluster that changed.
pub(super) struct ClusterChange {
    cursor: String,
    matches: bool,
    cluster: Cluster,
}

impl ClusterChange {
    fn of(scope: &AccountScope, PayloadContent { cursor, rows }: PayloadContent) -> Option<Self> {
        let Rows::Cluster(row, matches) = rows else { return None };
        Some(Self { cursor, matches, cluster: Cluster::new(scope, *row) })
    }
}

/// A cluster that changed.
#[Object]
impl ClusterChange {
    /// The position of the stream after this payload. Pass it as `after` to resume from here.
    async fn cursor(&self) -> &str {
        &self.cursor
    }

    /// True if changes before this payload were left out: the cluster or other clusters had states that
    /// were not sent.
    async fn gap(&self) -> Gap {
        Gap
    }

    /// True if the cluster passes the filter now. A cluster that stops passing it because of its state,
    /// times, errors, cost or flags is sent once more, with false.
    async fn matches(&self) -> bool {
        self.matches
    }

    /// The cluster in its current state.
    async fn cluster(&self) -> Inline<&Cluster> {
        Inline(&self.cluster)
    }
}

/// Clusters that reported since the last payload.
pub(super) struct SnapshotBatch {
    cursor: String,
    clusters: Vec<Cluster>,
}

impl SnapshotBatch {
    fn of(scope: &AccountScope, PayloadContent { cursor, rows }: PayloadContent) -> Option<Self> {
        let Rows::Clusters(rows) = rows else { return None };
        let clusters = rows.into_iter().map(|row| Cluster::new(scope, row)).collect();
        Some(Self { cursor, clusters })
    }
}

/// Clusters that reported since the last payload.
#[Object]
impl SnapshotBatch {
    /// The position of the stream after this payload. Pass it as `after` to resume from here.
    async fn cursor(&self) -> &str {
        &self.cursor
    }

    /// True if payloads before this one were left out.
    async fn gap(&self) -> Gap {
        Gap
    }

    /// The clusters in their current state, at most 100.
    async fn clusters(&self) -> InlineList<&Cluster> {
        InlineList(self.clusters.iter().collect())
    }
}
