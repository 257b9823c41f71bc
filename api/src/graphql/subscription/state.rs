//! What has a newest state: whoever is slow gets that, and not what was before.

use async_graphql::{Context, ID, Object, Subscription};

use super::{Delivery, Gap, Payloads, Planned, Rows, Wanted, account, delivered, named, planned, resumed};
use crate::{
    domain::position::Stream,
    graphql::{
        cluster::Cluster,
        cluster_list::ClusterFilter,
        error::ApiError,
        in_place::{Items, Placed},
        scope::AccountScope,
    },
};

/// Between two rounds of reading what changed, in milliseconds: so long reports are waited for that come together.
pub(super) const PAUSE_MS: u64 = 100;

/// The longest time between snapshots, in seconds.
const MAX_SECONDS: f64 = 3_600.0;

#[derive(Default)]
pub(super) struct StateSubscription;

#[Subscription]
impl StateSubscription {
    /// Clusters that changed: each as it is now, in one payload. A reader who is slower than they change gets the newest
    /// state of each, with `gap`.
    async fn clusters(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(
            desc = "Only clusters that pass all of its conditions, or did before they changed; all if absent."
        )]
        filter: Option<ClusterFilter>,
        #[graphql(desc = "Only the clusters with these global identifiers, at most 100; all if absent.")]
        ids: Option<Vec<ID>>,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`: what changed since then comes first."
        )]
        after: Option<String>,
    ) -> Result<Payloads<ClusterChange>, ApiError> {
        if let Some(payload) = delivered(context, ClusterChange::of) {
            return Ok(payload);
        }
        let scope = self::account(context, &account)?;
        let after = resumed(after, Stream::Clusters)?;
        let clusters = named(scope, ids).await?;
        let wanted = Wanted::Clusters(filter.unwrap_or_default().check(scope).await?);
        Ok(planned(context, Planned { wanted, clusters, after, pause_ms: PAUSE_MS }))
    }

    /// Clusters that reported, every so many seconds: those that did since the last payload, as they are now, at most 100 in
    /// one payload.
    async fn snapshots(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "Only clusters that pass all of its conditions; all if absent.")] filter: Option<
            ClusterFilter,
        >,
        #[graphql(desc = "Only the clusters with these global identifiers, at most 100; all if absent.")]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "Seconds between payloads, 1 to 3,600.", default = 10.0)] every_seconds: f64,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`: what changed since then comes first."
        )]
        after: Option<String>,
    ) -> Result<Payloads<SnapshotBatch>, ApiError> {
        if let Some(payload) = delivered(context, SnapshotBatch::of) {
            return Ok(payload);
        }
        let scope = self::account(context, &account)?;
        if !(1.0..=MAX_SECONDS).contains(&every_seconds) {
            return Err(ApiError::invalid("everySeconds", "must be from 1 to 3600"));
        }
        let after = resumed(after, Stream::Snapshots)?;
        let clusters = named(scope, ids).await?;
        let wanted = Wanted::Snapshots(filter.unwrap_or_default().check(scope).await?);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it has been looked at")]
        let pause_ms = (every_seconds * 1e3) as u64;
        Ok(planned(context, Planned { wanted, clusters, after, pause_ms }))
    }
}

/// A cluster that changed.
pub(super) struct ClusterChange {
    cursor: String,
    matches: bool,
    cluster: Cluster,
}

impl ClusterChange {
    fn of(scope: &AccountScope, Delivery { cursor, rows }: Delivery) -> Option<Self> {
        let Rows::Cluster(row, matches) = rows else { return None };
        Some(Self { cursor, matches, cluster: Cluster::new(scope, *row) })
    }
}

/// A cluster that changed.
#[Object]
impl ClusterChange {
    /// Where the stream is: give it as `after` to go on behind this payload.
    async fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Whether changes in front of this payload were left out: the cluster, or others, had states that were not sent.
    async fn gap(&self) -> Gap {
        Gap
    }

    /// Whether the cluster passes the filter now. It is sent without, too, where what changes by itself is what it does not
    /// pass any more: its state, times, errors, cost or flags.
    async fn matches(&self) -> bool {
        self.matches
    }

    /// The cluster as it is now.
    async fn cluster(&self) -> Placed<&Cluster> {
        Placed(&self.cluster)
    }
}

/// Clusters that reported since the last payload.
pub(super) struct SnapshotBatch {
    cursor: String,
    clusters: Vec<Cluster>,
}

impl SnapshotBatch {
    fn of(scope: &AccountScope, Delivery { cursor, rows }: Delivery) -> Option<Self> {
        let Rows::Clusters(rows) = rows else { return None };
        let clusters = rows.into_iter().map(|row| Cluster::new(scope, row)).collect();
        Some(Self { cursor, clusters })
    }
}

/// Clusters that reported since the last payload.
#[Object]
impl SnapshotBatch {
    /// Where the stream is: give it as `after` to go on behind this payload.
    async fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Whether payloads in front of this one were left out.
    async fn gap(&self) -> Gap {
        Gap
    }

    /// The clusters as they are now, at most 100.
    async fn clusters(&self) -> Items<&Cluster> {
        Items(self.clusters.iter().collect())
    }
}
