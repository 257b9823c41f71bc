//! The comparison of the statistical profiles of two selections of work.

use async_graphql::{Object, SimpleObject};

use super::profile::{
    MAX_NODES, MergedWindows, ProfileFrame, min_samples, to_graphql_int, validate_min_share,
};
use crate::{
    blocking_work::run_blocking,
    domain::profile::{self, Counts},
    graphql::{
        analysis::{analysis_scope::Selection, breakdown::count_value},
        engine::{error::ApiError, scalar::BigInt, scope::AccountScope},
    },
};

/// The profiles of two selections of work, merged into one tree.
pub(crate) struct ProfileComparison {
    base: ComparedProfile,
    head: ComparedProfile,
    tree: profile::Profile,
}

/// One of the two compared profiles.
struct ComparedProfile {
    windows: usize,
    complete: bool,
    samples: i64,
    /// The counts of each node of the tree in this profile.
    counts: Vec<Counts>,
}

impl ProfileComparison {
    /// Returns the comparison of the profiles of two selections. `None` if neither has windows.
    pub(crate) async fn find(
        scope: &AccountScope,
        base: &Selection,
        head: &Selection,
        min_share: f64,
    ) -> Result<Option<Self>, ApiError> {
        validate_min_share(min_share)?;
        if base.has_span_tags() || head.has_span_tags() {
            return Ok(None);
        }
        let _permit = scope.store.acquire_analysis_permit().await?;
        let base = MergedWindows::load_for_work(scope, base).await?;
        let head = MergedWindows::load_for_work(scope, head).await?;
        if base.windows + head.windows == 0 {
            return base
                .decryption_error
                .or(head.decryption_error)
                .map_or(Ok(None), |error| Err(error.into()));
        }
        Ok(Some(run_blocking(move || Self::from_merged(&base, &head, min_share)).await))
    }

    fn from_merged(base: &MergedWindows, head: &MergedWindows, min_share: f64) -> Self {
        let (base_profile, head_profile) = (base.merge.profile(), head.merge.profile());
        // The threshold is that of the profile with fewer samples: a node that is rare in the sum may be
        // common in that profile, while a node that is rare in both profiles is also rare in the sum.
        let samples = min_samples(base.samples.min(head.samples), min_share);
        let tree = profile::merge([&base_profile, &head_profile]).pruned(samples, MAX_NODES);
        let compared = |merged: &MergedWindows, profile: &profile::Profile| ComparedProfile {
            windows: merged.windows,
            complete: merged.complete,
            samples: merged.samples,
            counts: tree.counts_in(profile),
        };
        let (base, head) = (compared(base, &base_profile), compared(head, &head_profile));
        Self { base, head, tree }
    }
}

/// The statistical profiles of two selections of work in one tree. Their numbers of samples differ, so
/// compare shares of `baseSamples` and `headSamples`, not counts.
#[Object]
impl ProfileComparison {
    /// The total number of samples of the base, including those in nodes that are left out.
    async fn base_samples(&self) -> BigInt {
        BigInt(self.base.samples)
    }

    /// The total number of samples of the head, including those in nodes that are left out.
    async fn head_samples(&self) -> BigInt {
        BigInt(self.head.samples)
    }

    /// The number of merged windows of the base.
    async fn base_windows(&self) -> BigInt {
        count_value(self.base.windows)
    }

    /// The number of merged windows of the head.
    async fn head_windows(&self) -> BigInt {
        count_value(self.head.windows)
    }

    /// True if all windows of both selections are merged. At most the newest 500 windows of each selection
    /// are merged, the same number for each of its clusters. Windows that cannot be decrypted are left out.
    async fn complete(&self) -> bool {
        self.base.complete && self.head.complete
    }

    /// The lines of code that occur in `nodes`.
    async fn frames(&self) -> Vec<ProfileFrame> {
        self.tree.frames.iter().map(Into::into).collect()
    }

    /// The nodes of the call tree, parents before their children and the branch with the most samples of
    /// both selections first. At most 20,000 nodes, those with the most samples.
    async fn nodes(&self) -> Vec<ProfileDifference> {
        let counts = self.base.counts.iter().zip(&self.head.counts);
        let nodes = self.tree.nodes.iter().zip(counts).map(|(node, (base, head))| ProfileDifference {
            parent: node.parent.map(to_graphql_int),
            frame: to_graphql_int(node.frame),
            base_self: BigInt(base.own),
            base_total: BigInt(base.total),
            head_self: BigInt(head.own),
            head_total: BigInt(head.total),
        });
        nodes.collect()
    }
}

/// A line of code on one call path, with its samples in both selections.
#[derive(SimpleObject)]
struct ProfileDifference {
    /// The index of the calling node in `nodes`. Null for an outermost node.
    parent: Option<i32>,
    /// The index of the line in `frames`.
    frame: i32,
    /// The number of samples of the base in which the line was innermost.
    base_self: BigInt,
    /// The number of samples of the base in which the line was on the call path.
    base_total: BigInt,
    /// The number of samples of the head in which the line was innermost.
    head_self: BigInt,
    /// The number of samples of the head in which the line was on the call path.
    head_total: BigInt,
}
