//! Statistical profiles.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use async_graphql::{ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    ids::{ClusterId, KeyTime, WorkerId},
    profile::Model,
};

use crate::{
    blocking_work::run_blocking,
    domain::profile::{self, Frame, Merge, Selection},
    graphql::{
        analysis::{
            analysis_scope::{Selection as WorkSelection, check_names},
            breakdown::count_value,
        },
        clusters::worker::Worker,
        engine::{
            argument::check_range,
            error::ApiError,
            projection::{Inline, inline_members},
            scalar::BigInt,
            scope::{AccountScope, QuotaKind},
        },
    },
    store::{AccountStore, StoreError},
};

/// The number of windows in memory at once, for one profile.
const WINDOWS_PER_BATCH: usize = 20;

/// The maximum number of merged windows of a cluster.
const MAX_WINDOWS: usize = 200;

/// The maximum number of merged windows of a scope, over all of its clusters.
const MAX_SCOPE_WINDOWS: usize = 500;

/// The maximum number of nodes in one response.
pub(crate) const MAX_NODES: usize = 20_000;

/// The maximum number of functions in one response.
const MAX_FUNCTIONS: usize = 100;

/// The maximum number of workers in one response, and of those that an argument selects.
const MAX_WORKERS: usize = 100;

/// The arguments of a profile.
pub(crate) struct ProfileArguments {
    pub(crate) from: Option<DateTime<Utc>>,
    pub(crate) to: Option<DateTime<Utc>>,
    pub(crate) min_share: f64,
    pub(crate) functions: Option<Vec<String>>,
    pub(crate) workers: Option<Vec<ID>>,
}

/// The merged windows of a statistical profile.
pub(crate) struct Profile {
    scope: AccountScope,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    windows: usize,
    complete: bool,
    workers: i64,
    samples: i64,
    samples_by_function: BTreeMap<String, i64>,
    samples_by_worker: BTreeMap<(ClusterId, WorkerId), i64>,
    tree: profile::Profile,
}

impl Profile {
    /// Returns the windows of a cluster as one profile; `None` if there are none.
    pub(crate) async fn find(
        scope: &AccountScope,
        cluster: ClusterId,
        arguments: ProfileArguments,
    ) -> Result<Option<Self>, ApiError> {
        let ProfileArguments { from, to, min_share, functions, workers } = arguments;
        validate_min_share(min_share)?;
        check_range(from, to)?;
        if let Some(reason) = functions.as_deref().and_then(check_names) {
            return Err(ApiError::InvalidArgument { argument: "functions", reason });
        }
        let workers = workers.map(|workers| parse_workers(scope, cluster, &workers)).transpose()?;
        let functions = functions.map(|functions| functions.into_iter().collect());
        let selection = Selection { functions, workers };
        let (from, to) = (from.map(Into::into), to.map(Into::into));
        let _permit = scope.store.acquire_analysis_permit().await?;
        let (mut merged, mut after, mut merged_count) = (MergedWindows::new(selection), None, 0);
        loop {
            // One window more than the maximum is read, to detect windows that are left out.
            let limit = WINDOWS_PER_BATCH.min(MAX_WINDOWS + 1 - merged_count);
            let windows = scope.store.profile_windows(cluster, from, to, after, limit as u64).await?;
            let read_count = windows.len();
            after = windows.last().map(|window| (window.started_at, window.id));
            let added_count = read_count.min(MAX_WINDOWS - merged_count);
            scope.charge(QuotaKind::ProfileWindows, added_count)?;
            merged.complete &= added_count == read_count;
            merged_count += added_count;
            let (store, sum) = (scope.store.clone(), std::mem::take(&mut merged));
            merged = run_blocking(move || sum.add_windows(&store, &windows[..added_count])).await?;
            if read_count < limit || added_count < read_count {
                break;
            }
        }
        Self::from_merged(scope, merged, min_share).await
    }

    /// Returns the windows of a selection of work as one profile; `None` if there are none.
    pub(crate) async fn find_for_work(
        scope: &AccountScope,
        work: &WorkSelection,
        min_share: f64,
    ) -> Result<Option<Self>, ApiError> {
        validate_min_share(min_share)?;
        let _permit = scope.store.acquire_analysis_permit().await?;
        Self::from_merged(scope, MergedWindows::load_for_work(scope, work).await?, min_share).await
    }

    async fn from_merged(
        scope: &AccountScope,
        merged: MergedWindows,
        min_share: f64,
    ) -> Result<Option<Self>, ApiError> {
        let MergedWindows {
            merge,
            complete,
            windows,
            from,
            to,
            workers,
            samples,
            samples_by_function,
            samples_by_worker,
            decryption_error,
            selection: _,
        } = merged;
        let (Some(from), Some(to)) = (from, to) else {
            return decryption_error.map_or(Ok(None), |error| Err(error.into()));
        };
        let tree =
            run_blocking(move || merge.profile().pruned(min_samples(samples, min_share), MAX_NODES)).await;
        let scope = scope.clone();
        Ok(Some(Self {
            scope,
            from,
            to,
            windows,
            complete,
            workers,
            samples,
            samples_by_function,
            samples_by_worker,
            tree,
        }))
    }
}

/// Parses the identifiers of the selected workers.
fn parse_workers(
    scope: &AccountScope,
    cluster: ClusterId,
    workers: &[ID],
) -> Result<BTreeSet<WorkerId>, ApiError> {
    if workers.is_empty() || workers.len() > MAX_WORKERS {
        let reason = format!("must have 1 to {MAX_WORKERS} workers, not {}", workers.len());
        return Err(ApiError::InvalidArgument { argument: "workers", reason });
    }
    workers.iter().map(|id| Worker::parse_id(scope, cluster, "workers", id)).collect()
}

/// Returns the number of samples that make up the share `min_share`.
#[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53 samples")]
pub(crate) fn min_samples(samples: i64, min_share: f64) -> f64 {
    samples as f64 * min_share
}

pub(crate) fn validate_min_share(min_share: f64) -> Result<(), ApiError> {
    if (0.0..=1.0).contains(&min_share) {
        return Ok(());
    }
    let reason = format!("must be between 0 and 1, not {min_share}");
    Err(ApiError::InvalidArgument { argument: "minShare", reason })
}

/// The merge of a profile's windows.
pub(crate) struct MergedWindows {
    pub(crate) merge: Merge,
    /// True if no window was left out.
    pub(crate) complete: bool,
    pub(crate) windows: usize,
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
    workers: i64,
    pub(crate) samples: i64,
    /// The numbers of samples in tasks of each function, also of those that are not selected.
    samples_by_function: BTreeMap<String, i64>,
    /// The numbers of samples on each worker, also of those that are not selected.
    samples_by_worker: BTreeMap<(ClusterId, WorkerId), i64>,
    /// The samples to merge.
    selection: Selection,
    /// The error of a window that could not be decrypted. `None` if all could.
    pub(crate) decryption_error: Option<StoreError>,
}

impl Default for MergedWindows {
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
            samples_by_function: BTreeMap::new(),
            samples_by_worker: BTreeMap::new(),
            selection: Selection::default(),
            decryption_error: None,
        }
    }
}

impl MergedWindows {
    /// Creates an empty merge for the selected samples.
    fn new(selection: Selection) -> Self {
        Self { selection, ..Self::default() }
    }

    /// Merges the windows of a selection of work: the newest windows of each of its clusters, the same
    /// number for each, so that a long-lived cluster does not outweigh the others.
    pub(crate) async fn load_for_work(scope: &AccountScope, work: &WorkSelection) -> Result<Self, ApiError> {
        if work.has_span_tags() {
            return Err(ApiError::InvalidArgument {
                argument: "scope",
                reason: "profiles are not available by span: omit 'spanTags'".to_owned(),
            });
        }
        let clusters = work.ids();
        let max_per_cluster = (MAX_SCOPE_WINDOWS / clusters.len().max(1)).max(1);
        let range = (work.range.0.map(KeyTime), work.range.1.map(KeyTime));
        // One window more than the maximum is read, to detect windows that are left out.
        let limit = max_per_cluster as u64 + 1;
        let mut windows = scope.store.newest_profile_windows(&clusters, range, limit).await?;
        windows.sort_unstable_by(|a, b| b.cmp(a));
        let mut merged = Self::new(Selection { functions: work.functions().cloned(), workers: None });
        let mut window_counts: HashMap<ClusterId, usize> = HashMap::new();
        windows.retain(|(cluster, ..)| {
            let count = window_counts.entry(*cluster).or_default();
            *count += 1;
            *count <= max_per_cluster
        });
        merged.complete = window_counts.values().all(|count| *count <= max_per_cluster);
        scope.charge(QuotaKind::ProfileWindows, windows.len())?;
        for keys in windows.chunks(WINDOWS_PER_BATCH) {
            let windows = scope.store.profiles_by_key(keys).await?;
            let store = scope.store.clone();
            merged = run_blocking(move || merged.add_windows(&store, &windows)).await?;
        }
        Ok(merged)
    }

    /// Adds windows. Windows that cannot be decrypted are left out, and so are those whose functions or
    /// workers are unknown, if some are selected.
    fn add_windows(mut self, store: &AccountStore, windows: &[Model]) -> Result<Self, StoreError> {
        for window in windows {
            let content = match store.profile_of(window) {
                Ok(content) => content,
                Err(error @ StoreError::Decryption(_)) => {
                    self.complete = false;
                    self.decryption_error = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (prefix, samples) in content.samples_by_function() {
                let sum = self.samples_by_function.entry(prefix.to_owned()).or_default();
                *sum = sum.saturating_add(samples);
            }
            for (worker, samples) in content.samples_by_worker() {
                let sum = self.samples_by_worker.entry((window.cluster_id, worker)).or_default();
                *sum = sum.saturating_add(samples);
            }
            let Some(selected) = content.select(&self.selection) else {
                self.complete = false;
                continue;
            };
            self.merge.add(&selected);
            let samples = if self.selection.is_everything() { window.samples } else { selected.samples() };
            let to = window.stopped_at.0;
            let from = DateTime::from_timestamp_millis(window.started_at.0).unwrap_or(to);
            self.windows += 1;
            self.from = Some(self.from.map_or(from, |earliest| earliest.min(from)));
            self.to = Some(self.to.map_or(to, |latest| latest.max(to)));
            self.workers = self.workers.max(window.workers);
            self.samples = self.samples.saturating_add(samples);
        }
        Ok(self)
    }
}

/// A statistical profile: the lines of code that the workers' threads were in whenever Dask took a sample.
/// Samples are stored in windows: short periods of one cluster, 60 seconds long by default. Consecutive
/// windows may share samples, because Dask's windows overlap.
#[Object]
impl Profile {
    /// The start of the first window, by the scheduler's clock.
    async fn from(&self) -> DateTime<Utc> {
        self.from
    }

    /// The end of the last window, by the scheduler's clock.
    async fn to(&self) -> DateTime<Utc> {
        self.to
    }

    /// The number of merged windows.
    async fn windows(&self) -> BigInt {
        count_value(self.windows)
    }

    /// True if all windows of the range are merged. At most the newest 200 windows of a cluster are merged;
    /// of a scope at most the newest 500, the same number for each of its clusters. Windows that cannot be
    /// decrypted are left out. If functions are selected, windows whose functions are unknown are also left
    /// out; see `functions`.
    async fn complete(&self) -> bool {
        self.complete
    }

    /// The largest number of workers that were sampled in one window.
    async fn workers(&self) -> BigInt {
        BigInt(self.workers)
    }

    /// The total number of samples, including those in nodes that are left out.
    async fn samples(&self) -> BigInt {
        BigInt(self.samples)
    }

    /// The functions whose tasks were sampled, the one with the most samples first, at most 100. It includes
    /// functions that are not selected. The functions of a window are unknown if a worker ran tasks of more
    /// than 16 functions in it or began a cycle of samples while it answered, if there are more than 100
    /// functions, if the cluster may not report tasks, or if its plugin is an earlier release.
    async fn functions(&self) -> Vec<ProfileFunction> {
        let mut functions: Vec<ProfileFunction> = self.samples_by_function.iter().map(Into::into).collect();
        // The sort is stable: functions with equally many samples stay in the order of their names.
        functions.sort_by_key(|function| Reverse(function.samples.0));
        functions.truncate(MAX_FUNCTIONS);
        functions
    }

    /// The sampled workers, the one with the most samples first, at most 100. It includes workers that are
    /// not selected. Empty unless `galvo.profile.by-worker` is set for the cluster's plugin.
    async fn by_worker(&self) -> Result<Vec<ProfileWorker>, ApiError> {
        let mut samples: Vec<_> =
            self.samples_by_worker.iter().map(|(worker, samples)| (*worker, *samples)).collect();
        samples.sort_by_key(|(_, samples)| Reverse(*samples));
        samples.truncate(MAX_WORKERS);
        let workers = samples.into_iter().map(async |((cluster, worker), samples)| {
            let worker = Worker::find_optional(&self.scope, cluster, Some(worker)).await?;
            Ok(ProfileWorker { worker, samples: BigInt(samples) })
        });
        futures::future::try_join_all(workers).await
    }

    /// The lines of code that occur in `nodes`.
    async fn frames(&self) -> Vec<ProfileFrame> {
        self.tree.frames.iter().map(Into::into).collect()
    }

    /// The nodes of the call tree, parents before their children and the branch with the most samples
    /// first. At most 20,000 nodes, those with the most samples.
    async fn nodes(&self) -> Vec<ProfileNode> {
        let nodes = self.tree.nodes.iter().map(|node| ProfileNode {
            parent: node.parent.map(to_graphql_int),
            frame: to_graphql_int(node.frame),
            own: BigInt(node.own),
            total: BigInt(node.total),
        });
        nodes.collect()
    }

    /// The same nodes as lists of numbers, for charts. They take a third of the space.
    async fn columns(&self) -> Inline<ProfileColumns> {
        let nodes = &self.tree.nodes;
        Inline(ProfileColumns {
            parents: nodes.iter().map(|node| node.parent.map(to_graphql_int)).collect(),
            frames: nodes.iter().map(|node| to_graphql_int(node.frame)).collect(),
            own: nodes.iter().map(|node| BigInt(node.own)).collect(),
            totals: nodes.iter().map(|node| BigInt(node.total)).collect(),
        })
    }
}

/// The samples in tasks of one function.
#[derive(SimpleObject)]
struct ProfileFunction {
    /// The function or operation: Dask's task prefix.
    prefix: String,
    /// The number of samples.
    samples: BigInt,
}

/// The samples on one worker.
#[derive(SimpleObject)]
struct ProfileWorker {
    /// The worker. Null if it is no longer stored.
    worker: Option<Worker>,
    /// The number of samples.
    samples: BigInt,
}

impl From<(&String, &i64)> for ProfileFunction {
    fn from((prefix, samples): (&String, &i64)) -> Self {
        Self { prefix: prefix.clone(), samples: BigInt(*samples) }
    }
}

/// The nodes of a profile as lists of numbers, in the order of `nodes`. All lists have the same length.
#[derive(SimpleObject)]
struct ProfileColumns {
    /// The indices of the calling nodes in these lists. Null for an outermost node.
    parents: Vec<Option<i32>>,
    /// The indices of the lines in the profile's `frames`.
    frames: Vec<i32>,
    /// The numbers of samples in which the lines were innermost.
    #[graphql(name = "self")]
    own: Vec<BigInt>,
    /// The numbers of samples in which the lines were on the call path.
    totals: Vec<BigInt>,
}

inline_members! { ProfileColumns: parents, frames, own as "self", totals }

/// Converts an index to a GraphQL `Int`.
pub(crate) fn to_graphql_int(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

/// A line of code in a profile.
#[derive(SimpleObject)]
pub(crate) struct ProfileFrame {
    /// The path of the source file.
    file: String,
    /// The name of the function.
    function: String,
    /// The line number, starting at 1.
    line: BigInt,
    /// The source text of the line. Null if source code is not sent.
    text: Option<String>,
}

impl From<&Frame> for ProfileFrame {
    fn from(frame: &Frame) -> Self {
        let Frame { file, function, line, text } = frame.clone();
        Self { file, function, line: BigInt(line), text }
    }
}

/// A line of code on one call path.
#[derive(SimpleObject)]
struct ProfileNode {
    /// The index of the calling node in `nodes`. Null for an outermost node.
    parent: Option<i32>,
    /// The index of the line in `frames`.
    frame: i32,
    /// The number of samples in which the line was innermost.
    #[graphql(name = "self")]
    own: BigInt,
    /// The number of samples in which the line was on the call path.
    total: BigInt,
}
