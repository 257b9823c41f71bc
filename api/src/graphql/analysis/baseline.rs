//! The answers that compare a cluster with an earlier run of the same work.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use async_graphql::{ID, dataloader::Loader};
use entity::{cluster::Model, ids::ClusterId};

use super::breakdown::TimeByActivityKey;
use crate::{
    blocking_work::run_blocking,
    domain::{
        answer::{
            self, Baseline, BaselineReason, EarlierRun, KnownPart, Qualified, Question, Size, Workload,
            last_good_run,
        },
        breakdown::Table,
        comparison::{Difference, differences},
    },
    graphql::{
        clusters::{cluster::Cluster, environment_difference::EnvironmentDifferenceKey},
        engine::{
            error::ApiError,
            loaders::StoreReader,
            scope::{AccountScope, QuotaKind},
        },
    },
    store::{RunStart, StoreError},
};

/// The maximum number of a user's earlier runs among which one with the same name is searched.
const MAX_EARLIER_RUNS: u64 = 100;

/// The maximum number of good runs among them whose work is compared.
const MAX_COMPARED_RUNS: usize = 10;

/// Answers the question what changed since an earlier run.
pub(crate) async fn what_changed(
    scope: &AccountScope,
    row: &Model,
    baseline: Option<ID>,
) -> Result<Qualified, ApiError> {
    let Some((earlier, against)) = find_baseline(scope, row, baseline).await? else {
        return Ok(KnownPart::of(row, scope.now).qualify(Question::WhatChanged, answer::without_baseline()));
    };
    let changes = scope.loader.load_one(EnvironmentDifferenceKey(earlier.id, row.id)).await?;
    let changes = changes.ok_or(ApiError::NotFound("cluster"))?;
    let (base, head) = (&changes.base, &changes.head);
    let size = |size, from, to| answer::SizeChange { size, from, to };
    let answer = answer::answer_changes(&answer::ChangeFacts {
        against: &against,
        software: &changes.software,
        software_known: changes.is_known,
        code_changed: changes.code_changed,
        sizes: &[
            size(Size::Workers, Some(base.peak_workers), Some(head.peak_workers)),
            size(Size::Threads, Some(base.peak_threads), Some(head.peak_threads)),
            size(Size::WorkerThreads, base.worker_threads, head.worker_threads),
            size(Size::WorkerMemory, base.worker_memory_limit, head.worker_memory_limit),
        ],
    });
    Ok(qualify_with_baseline(scope, Question::WhatChanged, answer, (row, &earlier)))
}

/// Answers the question where more time is spent than in an earlier run.
pub(crate) async fn slower(
    scope: &AccountScope,
    row: &Model,
    baseline: Option<ID>,
) -> Result<Qualified, ApiError> {
    let Some((earlier, against)) = find_baseline(scope, row, baseline).await? else {
        return Ok(KnownPart::of(row, scope.now).qualify(Question::Slower, answer::without_baseline()));
    };
    let (base, head, differences) = load_time_spent(scope, &earlier, row).await?;
    let facts =
        answer::Slower { base: &base, head: &head, differences: &differences, against: Some(&against) };
    Ok(qualify_with_baseline(scope, Question::Slower, answer::answer_slower(&facts), (row, &earlier)))
}

/// Answers the question where new inefficiency accrued since an earlier run.
pub(crate) async fn scaling(
    scope: &AccountScope,
    row: &Model,
    baseline: Option<ID>,
) -> Result<Qualified, ApiError> {
    let Some((earlier, against)) = find_baseline(scope, row, baseline).await? else {
        return Ok(KnownPart::of(row, scope.now).qualify(Question::Scaling, answer::without_baseline()));
    };
    let (base, head, differences) = load_time_spent(scope, &earlier, row).await?;
    let answer = answer::answer_scaling(&answer::Scaling {
        against: &against,
        base: &base,
        head: &head,
        differences: &differences,
        threads: (earlier.peak_threads, row.peak_threads),
    });
    Ok(qualify_with_baseline(scope, Question::Scaling, answer, (row, &earlier)))
}

/// Returns an answer about a cluster and an earlier run that also states the known parts of both.
fn qualify_with_baseline(
    scope: &AccountScope,
    question: Question,
    answer: answer::Answer,
    (row, earlier): (&Model, &Model),
) -> Qualified {
    let (known, of_earlier) = (KnownPart::of(row, scope.now), KnownPart::of(earlier, scope.now));
    known.qualify_comparison(question, answer, Some((earlier.id, &of_earlier)))
}

/// Returns the time that both runs spent, by function and activity.
async fn load_time_spent(
    scope: &AccountScope,
    base: &Model,
    head: &Model,
) -> Result<(Arc<Table>, Arc<Table>, Vec<Difference>), ApiError> {
    let mut found = scope.loader.load_many([TimeByActivityKey(base.id), TimeByActivityKey(head.id)]).await?;
    let mut of = |row: &Model| found.remove(&TimeByActivityKey(row.id)).ok_or(ApiError::NotFound("cluster"));
    let (base, head) = (of(base)?, of(head)?);
    Ok(run_blocking(move || (Arc::clone(&base), Arc::clone(&head), differences(&base, &head))).await)
}

/// Returns the run that a cluster is compared with. `None` if none is named and there is no good one.
async fn find_baseline(
    scope: &AccountScope,
    row: &Model,
    baseline: Option<ID>,
) -> Result<Option<(Model, Baseline)>, ApiError> {
    scope.charge(QuotaKind::Analyses, 1)?;
    let (id, likeness) = match baseline {
        Some(id) => {
            let id = Cluster::parse_id(scope, "baseline", &id)?;
            if id == row.id {
                let reason = "must be another cluster".to_owned();
                return Err(ApiError::InvalidArgument { argument: "baseline", reason });
            }
            (id, BaselineReason::Requested)
        }
        None => match scope.loader.load_one(LastGoodRun(row.id)).await? {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    let missing = ApiError::unknown("baseline", "cluster");
    let earlier = scope.loader.load_one(id).await?.ok_or(missing)?;
    let against = Baseline { id, started_at: earlier.started_at.0, likeness };
    Ok(Some((earlier, against)))
}

/// The key of the last good run of a cluster's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LastGoodRun(ClusterId);

impl Loader<LastGoodRun> for StoreReader {
    type Value = (ClusterId, BaselineReason);
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[LastGoodRun]) -> Result<HashMap<LastGoodRun, Self::Value>, Self::Error> {
        let ids: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let rows = self.0.clusters_by_id(&ids).await?;
        // A user who left the account has no runs to compare with.
        let beginnings: Vec<RunStart> = rows
            .iter()
            .filter_map(|row| {
                Some(RunStart { cluster: row.id, user: row.user_id?, started_at: row.started_at })
            })
            .collect();
        let mut earlier = self.0.earlier_runs(&beginnings, MAX_EARLIER_RUNS).await?;
        let mut alike: BTreeSet<ClusterId> = BTreeSet::new();
        for row in &rows {
            let Some(runs) = earlier.get_mut(&row.id) else { continue };
            runs.retain(|run| run.good);
            let named = |run: &EarlierRun| row.name.is_some() && run.name == row.name;
            if !runs.iter().any(named) {
                runs.truncate(MAX_COMPARED_RUNS);
                alike.insert(row.id);
                alike.extend(runs.iter().map(|run| run.id));
            }
        }
        let workloads =
            if alike.len() > 1 { self.0.workloads(&Vec::from_iter(alike)).await? } else { BTreeMap::new() };
        let nothing = Workload::default();
        let found = rows.iter().filter_map(|row| {
            let workload = workloads.get(&row.id).unwrap_or(&nothing);
            let found = last_good_run(row.name.as_deref(), workload, earlier.get(&row.id)?, &workloads);
            Some((LastGoodRun(row.id), found?))
        });
        Ok(found.collect())
    }
}
