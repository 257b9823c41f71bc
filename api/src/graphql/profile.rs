//! Statistical profiles.

use async_graphql::{Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{ids::ClusterId, profile::Model};
use tokio::sync::Semaphore;

use super::{
    error::ApiError,
    scalar::BigInt,
    scope::{AccountScope, Costly},
};
use crate::{
    blocking::blocking,
    domain::profile::{self, Merge},
    store::{AccountStore, StoreError},
};

/// Windows that are in memory at once, for one profile.
const BATCH: usize = 20;

/// Profiles that are merged at once, for all requests together: the others wait.
static MERGES: Semaphore = Semaphore::const_new(4);

/// Windows that are merged at the most.
const MAX_WINDOWS: usize = 200;

/// Nodes of an answer at the most.
const MAX_NODES: usize = 20_000;

/// Which profile is wanted.
pub(super) struct ProfileArguments {
    pub(super) from: Option<DateTime<Utc>>,
    pub(super) to: Option<DateTime<Utc>>,
    pub(super) min_share: f64,
}

/// Some windows of a statistical profile, merged.
pub(super) struct Profile {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    windows: usize,
    complete: bool,
    workers: i64,
    samples: i64,
    tree: profile::Profile,
}

impl Profile {
    /// The windows of a cluster as one profile; `None` when there is none.
    pub(super) async fn find(
        scope: &AccountScope,
        cluster: ClusterId,
        arguments: ProfileArguments,
    ) -> Result<Option<Self>, ApiError> {
        let ProfileArguments { from, to, min_share } = arguments;
        if !(0.0..=1.0).contains(&min_share) {
            let reason = format!("must be between 0 and 1, not {min_share}");
            return Err(ApiError::InvalidArgument { argument: "minShare", reason });
        }
        let (from, to) = (from.map(Into::into), to.map(Into::into));
        let _turn = MERGES.acquire().await.ok();
        let (mut found, mut after, mut seen) = (Found::default(), None, 0);
        loop {
            // One more than are merged tells whether there are others.
            let limit = BATCH.min(MAX_WINDOWS + 1 - seen);
            let windows = scope.store.profile_windows(cluster, from, to, after, limit as u64).await?;
            let read = windows.len();
            after = windows.last().map(|window| (window.started_at, window.id));
            let merged = windows.len().min(MAX_WINDOWS - seen);
            scope.take(Costly::ProfileWindows, merged)?;
            found.complete &= merged == read;
            seen += merged;
            let (store, sum) = (scope.store.clone(), std::mem::take(&mut found));
            found = blocking(move || sum.with(&store, &windows[..merged])).await?;
            if read < limit || merged < read {
                break;
            }
        }
        let Found { merge, complete, windows, from, to, workers, samples, unreadable } = found;
        let (Some(from), Some(to)) = (from, to) else {
            return unreadable.map_or(Ok(None), |error| Err(error.into()));
        };
        #[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 samples")]
        let least = samples as f64 * min_share;
        let tree = blocking(move || merge.profile().pruned(least, MAX_NODES)).await;
        Ok(Some(Self { from, to, windows, complete, workers, samples, tree }))
    }
}

/// What was merged of a profile's windows.
struct Found {
    merge: Merge,
    /// Whether nothing was left out.
    complete: bool,
    windows: usize,
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
    workers: i64,
    samples: i64,
    /// Why a window was left out, if one was.
    unreadable: Option<StoreError>,
}

impl Default for Found {
    fn default() -> Self {
        let merge = Merge::default();
        Self {
            merge,
            complete: true,
            windows: 0,
            from: None,
            to: None,
            workers: 0,
            samples: 0,
            unreadable: None,
        }
    }
}

impl Found {
    /// The same with more windows. Those that cannot be decrypted are left out.
    fn with(mut self, store: &AccountStore, windows: &[Model]) -> Result<Self, StoreError> {
        for window in windows {
            match store.profile_of(window) {
                Ok(tree) => self.merge.add(&tree),
                Err(error @ StoreError::Sealed(_)) => {
                    self.complete = false;
                    self.unreadable = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            }
            let to = window.stopped_at.0;
            let from = DateTime::from_timestamp_millis(window.started_at.0).unwrap_or(to);
            self.windows += 1;
            self.from = Some(self.from.map_or(from, |known| known.min(from)));
            self.to = Some(self.to.map_or(to, |known| known.max(to)));
            self.workers = self.workers.max(window.workers);
            self.samples = self.samples.saturating_add(window.samples);
        }
        Ok(self)
    }
}

/// A statistical profile: which lines of code the workers' threads were in whenever Dask looked. Windows that
/// follow each other may share a moment, since Dask's do.
#[Object]
impl Profile {
    /// When the first window begins, by the scheduler's clock.
    async fn from(&self) -> DateTime<Utc> {
        self.from
    }

    /// When the last window ends, by the scheduler's clock.
    async fn to(&self) -> DateTime<Utc> {
        self.to
    }

    /// How many windows are merged here.
    async fn windows(&self) -> BigInt {
        BigInt(i64::try_from(self.windows).unwrap_or(i64::MAX))
    }

    /// Whether these are all windows of the range; the newest 200 are merged at the most, without those that cannot
    /// be decrypted.
    async fn complete(&self) -> bool {
        self.complete
    }

    /// Workers that were asked in a window, at the most.
    async fn workers(&self) -> BigInt {
        BigInt(self.workers)
    }

    /// Samples in all, also in nodes that are left out here.
    async fn samples(&self) -> BigInt {
        BigInt(self.samples)
    }

    /// The lines of code that occur in `nodes`.
    async fn frames(&self) -> Vec<ProfileFrame> {
        let frames = self.tree.frames.iter().map(|frame| ProfileFrame {
            file: frame.file.clone(),
            function: frame.function.clone(),
            line: BigInt(frame.line),
            text: frame.text.clone(),
        });
        frames.collect()
    }

    /// The tree, parents before their children and the costliest branch first; at most 20,000 nodes, the costliest.
    async fn nodes(&self) -> Vec<ProfileNode> {
        let index = |index: usize| i32::try_from(index).unwrap_or(i32::MAX);
        let nodes = self.tree.nodes.iter().map(|node| ProfileNode {
            parent: node.parent.map(index),
            frame: index(node.frame),
            own: BigInt(node.own),
            total: BigInt(node.total),
        });
        nodes.collect()
    }
}

/// A line of code in a profile.
#[derive(SimpleObject)]
struct ProfileFrame {
    /// The file.
    file: String,
    /// The function.
    function: String,
    /// The line's number, counted from 1.
    line: BigInt,
    /// The line; null when code is not sent.
    text: Option<String>,
}

/// A line of code on one path of calls.
#[derive(SimpleObject)]
struct ProfileNode {
    /// The index of the calling node in `nodes`; null for an outermost one.
    parent: Option<i32>,
    /// The index of its line in `frames`.
    frame: i32,
    /// Samples in which it was innermost.
    #[graphql(name = "self")]
    own: BigInt,
    /// Samples it was part of.
    total: BigInt,
}
