//! The statistical profiles of two pieces of work beside each other.

use async_graphql::{Object, SimpleObject};

use super::{
    breakdown::count,
    error::ApiError,
    profile::{Found, MAX_NODES, MERGES, ProfileFrame, check_share, index, least},
    scalar::BigInt,
    scope::AccountScope,
    work_scope::Selection,
};
use crate::{
    blocking::blocking,
    domain::profile::{self, Counts},
};

/// The profiles of two pieces of work, in one tree.
pub(super) struct ProfileComparison {
    base: Side,
    head: Side,
    tree: profile::Profile,
}

/// One of the two.
struct Side {
    windows: usize,
    complete: bool,
    samples: i64,
    /// How often each node of the tree occurs in it.
    counts: Vec<Counts>,
}

impl ProfileComparison {
    /// The windows of both; `None` when there is none of either.
    pub(super) async fn find(
        scope: &AccountScope,
        base: &Selection,
        head: &Selection,
        min_share: f64,
    ) -> Result<Option<Self>, ApiError> {
        check_share(min_share)?;
        if base.is_partial() || head.is_partial() {
            return Ok(None);
        }
        let _turn = MERGES.acquire().await.ok();
        let base = Found::of_work(scope, base).await?;
        let head = Found::of_work(scope, head).await?;
        if base.windows + head.windows == 0 {
            return base.unreadable.or(head.unreadable).map_or(Ok(None), |error| Err(error.into()));
        }
        Ok(Some(blocking(move || Self::of(&base, &head, min_share)).await))
    }

    fn of(base: &Found, head: &Found, min_share: f64) -> Self {
        let (of_base, of_head) = (base.merge.profile(), head.merge.profile());
        // What is rare in both is rare in their sum, too; what is rare in the sum may be common in the smaller one.
        let samples = least(base.samples.min(head.samples), min_share);
        let tree = profile::merge([&of_base, &of_head]).pruned(samples, MAX_NODES);
        let side = |found: &Found, profile: &profile::Profile| Side {
            windows: found.windows,
            complete: found.complete,
            samples: found.samples,
            counts: tree.counts_in(profile),
        };
        let (base, head) = (side(base, &of_base), side(head, &of_head));
        Self { base, head, tree }
    }
}

/// The profiles of two pieces of work in one tree. They have different numbers of samples, so compare shares of them.
#[Object]
impl ProfileComparison {
    /// Samples of the first work in all, also in nodes that are left out here.
    async fn base_samples(&self) -> BigInt {
        BigInt(self.base.samples)
    }

    /// Samples of the second work in all, also in nodes that are left out here.
    async fn head_samples(&self) -> BigInt {
        BigInt(self.head.samples)
    }

    /// How many windows of the first work are merged here.
    async fn base_windows(&self) -> BigInt {
        count(self.base.windows)
    }

    /// How many windows of the second work are merged here.
    async fn head_windows(&self) -> BigInt {
        count(self.head.windows)
    }

    /// Whether these are all windows of both; the newest 500 of each are merged at the most, of all of its clusters
    /// equally many, without those that cannot be decrypted.
    async fn complete(&self) -> bool {
        self.base.complete && self.head.complete
    }

    /// The lines of code that occur in `nodes`.
    async fn frames(&self) -> Vec<ProfileFrame> {
        self.tree.frames.iter().map(Into::into).collect()
    }

    /// The tree, parents before their children and the costliest branch of both together first; at most 20,000 nodes, the
    /// costliest.
    async fn nodes(&self) -> Vec<ProfileDifference> {
        let counts = self.base.counts.iter().zip(&self.head.counts);
        let nodes = self.tree.nodes.iter().zip(counts).map(|(node, (base, head))| ProfileDifference {
            parent: node.parent.map(index),
            frame: index(node.frame),
            base_self: BigInt(base.own),
            base_total: BigInt(base.total),
            head_self: BigInt(head.own),
            head_total: BigInt(head.total),
        });
        nodes.collect()
    }
}

/// A line of code on one path of calls, in both profiles.
#[derive(SimpleObject)]
struct ProfileDifference {
    /// The index of the calling node in `nodes`; null for an outermost one.
    parent: Option<i32>,
    /// The index of its line in `frames`.
    frame: i32,
    /// Samples of the first work in which it was innermost.
    base_self: BigInt,
    /// Samples of the first work it was part of.
    base_total: BigInt,
    /// Samples of the second work in which it was innermost.
    head_self: BigInt,
    /// Samples of the second work it was part of.
    head_total: BigInt,
}
