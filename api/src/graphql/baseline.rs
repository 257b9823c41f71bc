//! Questions about a cluster that are answered by comparing it with an earlier run.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use async_graphql::{ID, dataloader::Loader};
use entity::{cluster::Model, ids::ClusterId};

use super::{
    breakdown::SpentBy,
    environment_difference::ChangesSince,
    error::ApiError,
    loaders::Reader,
    scope::{AccountScope, Costly},
    work_scope::number,
};
use crate::{
    blocking::blocking,
    domain::{
        answer::{self, Against, EarlierRun, Likeness, Workload, last_good_run},
        breakdown::Table,
        comparison::{Difference, differences},
    },
    store::{Beginning, StoreError},
};

/// Earlier runs of a user that are looked through for one with the same name.
const MAX_EARLIER: u64 = 100;

/// Good ones of them whose work is looked at.
const MAX_ALIKE: usize = 10;

/// What changed since an earlier run?
pub(super) async fn what_changed(
    scope: &AccountScope,
    row: &Model,
    baseline: Option<ID>,
) -> Result<answer::Answer, ApiError> {
    let Some((earlier, against)) = find(scope, row, baseline).await? else {
        return Ok(answer::without_baseline());
    };
    let changes = scope.loader.load_one(ChangesSince(earlier.id, row.id)).await?;
    let changes = changes.ok_or(ApiError::NotFound("cluster"))?;
    let (base, head) = (&changes.base, &changes.head);
    Ok(answer::what_changed(&answer::WhatChanged {
        against: &against,
        software: &changes.software,
        told: changes.told,
        code_changed: changes.code_changed,
        sizes: &[
            ("workers at most", Some(base.peak_workers), Some(head.peak_workers)),
            ("threads at most", Some(base.peak_threads), Some(head.peak_threads)),
            ("threads of a worker", base.worker_threads, head.worker_threads),
            ("memory limit of a worker in bytes", base.worker_memory_limit, head.worker_memory_limit),
        ],
    }))
}

/// Where is more time spent than in an earlier run?
pub(super) async fn slower(
    scope: &AccountScope,
    row: &Model,
    baseline: Option<ID>,
) -> Result<answer::Answer, ApiError> {
    let Some((earlier, against)) = find(scope, row, baseline).await? else {
        return Ok(answer::without_baseline());
    };
    let (base, head, differences) = spent(scope, &earlier, row).await?;
    let facts =
        answer::Slower { base: &base, head: &head, differences: &differences, against: Some(&against) };
    Ok(answer::slower(&facts))
}

/// Where did new inefficiency accrue since an earlier run?
pub(super) async fn scaling(
    scope: &AccountScope,
    row: &Model,
    baseline: Option<ID>,
) -> Result<answer::Answer, ApiError> {
    let Some((earlier, against)) = find(scope, row, baseline).await? else {
        return Ok(answer::without_baseline());
    };
    let (base, head, differences) = spent(scope, &earlier, row).await?;
    Ok(answer::scaling(&answer::Scaling {
        against: &against,
        base: &base,
        head: &head,
        differences: &differences,
        threads: (earlier.peak_threads, row.peak_threads),
    }))
}

/// What both runs spent, by function and activity.
async fn spent(
    scope: &AccountScope,
    base: &Model,
    head: &Model,
) -> Result<(Arc<Table>, Arc<Table>, Vec<Difference>), ApiError> {
    let mut found = scope.loader.load_many([SpentBy(base.id), SpentBy(head.id)]).await?;
    let mut of = |row: &Model| found.remove(&SpentBy(row.id)).ok_or(ApiError::NotFound("cluster"));
    let (base, head) = (of(base)?, of(head)?);
    Ok(blocking(move || (Arc::clone(&base), Arc::clone(&head), differences(&base, &head))).await)
}

/// The run that a cluster is compared with; `None` when none is named and there is no good one.
async fn find(
    scope: &AccountScope,
    row: &Model,
    baseline: Option<ID>,
) -> Result<Option<(Model, Against)>, ApiError> {
    scope.take(Costly::Analyses, 1)?;
    let (id, likeness) = match baseline {
        Some(id) => {
            let id = number(scope, &id, "baseline")?;
            if id == row.id {
                let reason = "must be another cluster".to_owned();
                return Err(ApiError::InvalidArgument { argument: "baseline", reason });
            }
            (id, Likeness::Asked)
        }
        None => match scope.loader.load_one(LastGoodRun(row.id)).await? {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    let missing = ApiError::unknown("baseline", "cluster");
    let earlier = scope.loader.load_one(id).await?.ok_or(missing)?;
    let against = Against { id, started_at: earlier.started_at.0, likeness };
    Ok(Some((earlier, against)))
}

/// The key of the last good run of what a cluster did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LastGoodRun(ClusterId);

impl Loader<LastGoodRun> for Reader {
    type Value = (ClusterId, Likeness);
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[LastGoodRun]) -> Result<HashMap<LastGoodRun, Self::Value>, Self::Error> {
        let ids: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let rows = self.0.clusters_by_id(&ids).await?;
        // Who left the account has no runs to be compared with.
        let beginnings: Vec<Beginning> = rows
            .iter()
            .filter_map(|row| {
                Some(Beginning { cluster: row.id, user: row.user_id?, started_at: row.started_at })
            })
            .collect();
        let mut earlier = self.0.earlier_runs(&beginnings, MAX_EARLIER).await?;
        let mut alike: BTreeSet<ClusterId> = BTreeSet::new();
        for row in &rows {
            let Some(runs) = earlier.get_mut(&row.id) else { continue };
            runs.retain(|run| run.good);
            let named = |run: &EarlierRun| row.name.is_some() && run.name == row.name;
            if !runs.iter().any(named) {
                runs.truncate(MAX_ALIKE);
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
