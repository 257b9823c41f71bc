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
    let Some((earlier, selected_baseline)) = find_baseline(scope, row, baseline).await? else {
        return Ok(KnownPart::of(row, scope.now).qualify(Question::WhatChanged, answer::without_baseline()));
    };
    let changes = scope.loader.load_one(EnvironmentDifferenceKey(earlier.id, row.id)).await?;
    let changes = changes.ok_or(ApiError::NotFound("cluster"))?;
    let (base, head) = (&changes.base, &changes.head);
    let size = |size, from, to| answer::SizeChange { size, from, to };
    let answer = answer::answer_changes(&answer::ChangeFacts {
        baseline: &selected_baseline,
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
    let Some((earlier, selected_baseline)) = find_baseline(scope, row, baseline).await? else {
        return Ok(KnownPart::of(row, scope.now).qualify(Question::Slower, answer::without_baseline()));
    };
    let (base, head, differences) = load_time_spent(scope, &earlier, row).await?;
    let facts = answer::Slower {
        base: &base,
        head: &head,
        differences: &differences,
        baseline: Some(&selected_baseline),
    };
    Ok(qualify_with_baseline(scope, Question::Slower, answer::answer_slower(&facts), (row, &earlier)))
}

/// Answers the question where new inefficiency accrued since an earlier run.
pub(crate) async fn scaling(
    scope: &AccountScope,
    row: &Model,
    baseline: Option<ID>,
) -> Result<Qualified, ApiError> {
    let Some((earlier, selected_baseline)) = find_baseline(scope, row, baseline).await? else {
        return Ok(KnownPart::of(row, scope.now).qualify(Question::Scaling, answer::without_baseline()));
    };
    let (base, head, differences) = load_time_spent(scope, &earlier, row).await?;
    let answer = answer::answer_scaling(&answer::Scaling {
        baseline: &selected_baseline,
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
    let (known_part, earlier_known_part) = (KnownPart::of(row, scope.now), KnownPart::of(earlier, scope.now));
    known_part.qualify_comparison(question, answer, Some((earlier.id, &earlier_known_part)))
}

/// Returns the time that both runs spent, by function and activity.
async fn load_time_spent(
    scope: &AccountScope,
    base: &Model,
    head: &Model,
) -> Result<(Arc<Table>, Arc<Table>, Vec<Difference>), ApiError> {
    let mut tables = scope.loader.load_many([TimeByActivityKey(base.id), TimeByActivityKey(head.id)]).await?;
    let mut take_table =
        |row: &Model| tables.remove(&TimeByActivityKey(row.id)).ok_or(ApiError::NotFound("cluster"));
    let (base, head) = (take_table(base)?, take_table(head)?);
    Ok(run_blocking(move || (Arc::clone(&base), Arc::clone(&head), differences(&base, &head))).await)
}

/// Returns the run that a cluster is compared with. `None` if no run is named and there is no good run.
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
        None => match scope.loader.load_one(LastGoodRunKey(row.id)).await? {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    let not_found = ApiError::unknown("baseline", "cluster");
    let earlier = scope.loader.load_one(id).await?.ok_or(not_found)?;
    let selected_baseline = Baseline { id, started_at: earlier.started_at.0, likeness };
    Ok(Some((earlier, selected_baseline)))
}

/// The key of the last good run of a cluster's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LastGoodRunKey(ClusterId);

impl Loader<LastGoodRunKey> for StoreReader {
    type Value = (ClusterId, BaselineReason);
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[LastGoodRunKey],
    ) -> Result<HashMap<LastGoodRunKey, Self::Value>, Self::Error> {
        let ids: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let rows = self.0.clusters_by_id(&ids).await?;
        // A user who left the account has no runs to compare with.
        let run_starts: Vec<RunStart> = rows
            .iter()
            .filter_map(|row| {
                Some(RunStart { cluster: row.id, user: row.user_id?, started_at: row.started_at })
            })
            .collect();
        let mut earlier_runs = self.0.earlier_runs(&run_starts, MAX_EARLIER_RUNS).await?;
        let mut compared_ids: BTreeSet<ClusterId> = BTreeSet::new();
        for row in &rows {
            let Some(runs) = earlier_runs.get_mut(&row.id) else { continue };
            runs.retain(|run| run.is_good);
            let has_same_name = |run: &EarlierRun| row.name.is_some() && run.name == row.name;
            if !runs.iter().any(has_same_name) {
                runs.truncate(MAX_COMPARED_RUNS);
                compared_ids.insert(row.id);
                compared_ids.extend(runs.iter().map(|run| run.id));
            }
        }
        let workloads = if compared_ids.len() > 1 {
            self.0.workloads(&Vec::from_iter(compared_ids)).await?
        } else {
            BTreeMap::new()
        };
        let empty_workload = Workload::default();
        let found = rows.iter().filter_map(|row| {
            let workload = workloads.get(&row.id).unwrap_or(&empty_workload);
            let run = last_good_run(row.name.as_deref(), workload, earlier_runs.get(&row.id)?, &workloads);
            Some((LastGoodRunKey(row.id), run?))
        });
        Ok(found.collect())
    }
}
