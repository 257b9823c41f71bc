//! What rules have to know of clusters to flag them: a few statements for many clusters, each for one table.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use entity::{
    Timestamp, client,
    cluster::{self, Status},
    error_occurrence,
    ids::{ClusterId, EnvironmentId, ErrorGroupId, KeyTime, WorkerId},
    task_group, worker,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, QueryFilter, QuerySelect, QueryTrait, Statement,
    sea_query::{Expr, UnionType},
};

use super::{error::StoreError, page, scoped::AccountStore};
use crate::domain::{
    flag::{ErrorCount, FAILURES_WITHIN_MS, Facts, OF_CLUSTERS, OF_WORKERS, Process, Readings, differing},
    sample_chunk::{CHUNK_MILLISECONDS, unpack},
};

/// How far back measurements are looked at, in milliseconds: a few reports, and longer than any rule needs.
const READINGS_MS: i64 = 5 * 60 * 1_000;

/// The same where reports are rare, in reports.
const READINGS_REPORTS: f64 = 4.0;

/// A cluster is not heard of any more after so many times as it means to report in.
const SILENT_REPORTS: f64 = 3.0;

/// And not before that, in milliseconds.
const SILENT_MS: i64 = 60_000;

/// Ten minutes of workers that are read at once at the most: some megabytes.
const MAX_CHUNKS: u64 = 8_192;

/// Between which moments measurements of a cluster count.
type Times = BTreeMap<ClusterId, (i64, i64)>;

impl AccountStore {
    /// What is known of some clusters.
    ///
    /// # Errors
    /// When the database does not answer, or samples are damaged.
    #[tracing::instrument(name = "store.flag_facts.read", skip_all)]
    pub(crate) async fn flag_facts(
        &self,
        clusters: &[ClusterId],
        idle_timeout_seconds: Option<i64>,
        now: Timestamp,
    ) -> Result<BTreeMap<ClusterId, Facts>, StoreError> {
        let rows = self.clusters_by_id(clusters).await?;
        let times: Times = rows.iter().map(|row| (row.id, times(row))).collect();
        let mut found: BTreeMap<ClusterId, Facts> = rows
            .iter()
            .map(|row| {
                let facts = Facts {
                    at: times[&row.id].1,
                    is_over: row.status == Status::Closed || is_silent(row, now),
                    idle_since: row.idle_since.map(|since| since.timestamp_millis()),
                    idle_timeout_seconds,
                    ..Facts::default()
                };
                (row.id, facts)
            })
            .collect();
        if rows.is_empty() {
            return Ok(found);
        }
        self.read_cluster_samples(&times, &mut found).await?;
        self.read_worker_samples(&times, &mut found).await?;
        self.read_errors(&times, &mut found).await?;
        self.read_versions(&rows, &mut found).await?;
        Ok(found)
    }

    async fn read_cluster_samples(
        &self,
        times: &Times,
        found: &mut BTreeMap<ClusterId, Facts>,
    ) -> Result<(), StoreError> {
        use entity::cluster_sample_chunk::{Column, Entity};
        let (first, last) = chunks(times);
        // Clusters whose clocks differ have other times.
        let any = times.iter().fold(Condition::any(), |any, (cluster, of)| {
            let (first, last) = chunks(&Times::from([(*cluster, *of)]));
            any.add(
                Condition::all()
                    .add(Column::ClusterId.eq(*cluster))
                    .add(Column::StartedAt.between(first, last)),
            )
        });
        let rows: Vec<(ClusterId, KeyTime, Vec<u8>)> = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::StartedAt, Column::Data])
            .filter(Column::ClusterId.is_in(times.keys().copied()))
            .filter(Column::StartedAt.between(first, last))
            .filter(any)
            .into_tuple()
            .all(&self.reads())
            .await?;
        for (cluster, start, data) in rows {
            if let Some((facts, times)) = found.get_mut(&cluster).zip(times.get(&cluster)) {
                let samples = unpack(&data);
                let samples = samples.map_err(|damaged| StoreError::damaged(&damaged))?;
                facts.cluster.add(start.0, &samples, &OF_CLUSTERS, *times);
            }
        }
        Ok(())
    }

    /// Of the workers that are there. Those that left have rows as well, which are not looked at.
    async fn read_worker_samples(
        &self,
        times: &Times,
        found: &mut BTreeMap<ClusterId, Facts>,
    ) -> Result<(), StoreError> {
        let backend = self.reads().get_database_backend();
        let (first, last) = chunks(times);
        let mut values = vec![self.account_id().0.into(), first.into(), last.into()];
        let clusters: Vec<String> = times
            .keys()
            .map(|cluster| {
                values.push(cluster.0.into());
                format!("${}", values.len())
            })
            .collect();
        // To SQLite the words `CROSS JOIN` say that workers come first: each is a range of the other table's key.
        let sql = format!(
            "SELECT s.cluster_id, s.worker_id, s.started_at, s.data FROM workers w CROSS JOIN worker_sample_chunks s
             WHERE w.account_id = $1 AND w.cluster_id IN ({}) AND w.ended_at IS NULL
                 AND s.account_id = w.account_id AND s.cluster_id = w.cluster_id AND s.worker_id = w.id
                 AND s.started_at BETWEEN $2 AND $3
             ORDER BY s.cluster_id, s.worker_id, s.started_at LIMIT {MAX_CHUNKS}",
            clusters.join(", ")
        );
        let mut workers: BTreeMap<(ClusterId, WorkerId), Readings> = BTreeMap::new();
        for row in self.reads().query_all_raw(Statement::from_sql_and_values(backend, sql, values)).await? {
            let (cluster, worker, start, data): (ClusterId, WorkerId, KeyTime, Vec<u8>) =
                row.try_get_many_by_index()?;
            if let Some(times) = times.get(&cluster) {
                let samples = unpack(&data);
                let samples = samples.map_err(|damaged| StoreError::damaged(&damaged))?;
                workers.entry((cluster, worker)).or_default().add(start.0, &samples, &OF_WORKERS, *times);
            }
        }
        for ((cluster, worker), readings) in workers {
            if let Some(facts) = found.get_mut(&cluster) {
                facts.workers.push((worker, readings));
            }
        }
        Ok(())
    }

    async fn read_errors(
        &self,
        times: &Times,
        found: &mut BTreeMap<ClusterId, Facts>,
    ) -> Result<(), StoreError> {
        use error_occurrence::{Column, Entity};
        let earliest = times.values().map(|(_, at)| at - FAILURES_WITHIN_MS).min().unwrap_or_default();
        let any = times.iter().fold(Condition::any(), |any, (cluster, (_, at))| {
            let lately = Column::OccurredAt.gt(at - FAILURES_WITHIN_MS);
            any.add(Condition::all().add(Column::ClusterId.eq(*cluster)).add(lately))
        });
        let rows: Vec<(ClusterId, Option<ErrorGroupId>, i64, KeyTime)> = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::GroupId])
            .column_as(Column::Id.count(), "count")
            .column_as(Column::OccurredAt.min(), "first_at")
            // First by the time of all of them, which has an index, and only then by each one's.
            .filter(Column::OccurredAt.gt(earliest))
            .filter(Column::ClusterId.is_in(times.keys().copied()))
            .filter(any)
            .group_by(Column::ClusterId)
            .group_by(Column::GroupId)
            .into_tuple()
            .all(&self.reads())
            .await?;
        for (cluster, group, count, first_at) in rows {
            if let Some(facts) = found.get_mut(&cluster) {
                facts.errors.push(ErrorCount { group, count, first_at: first_at.0 });
            }
        }
        Ok(())
    }

    /// Versions on the processes that are there. What only one environment has cannot differ.
    async fn read_versions(
        &self,
        rows: &[cluster::Model],
        found: &mut BTreeMap<ClusterId, Facts>,
    ) -> Result<(), StoreError> {
        let ids: Vec<ClusterId> = rows.iter().map(|row| row.id).collect();
        let mut workers = self
            .select::<worker::Entity>()
            .select_only()
            .columns([worker::Column::ClusterId, worker::Column::EnvironmentId])
            .filter(worker::Column::ClusterId.is_in(ids.iter().copied()))
            .filter(worker::Column::EndedAt.is_null())
            .filter(worker::Column::EnvironmentId.is_not_null())
            .into_query();
        let clients = self
            .select::<client::Entity>()
            .select_only()
            .columns([client::Column::ClusterId, client::Column::EnvironmentId])
            .filter(client::Column::ClusterId.is_in(ids.iter().copied()))
            .filter(client::Column::DisconnectedAt.is_null())
            .filter(client::Column::EnvironmentId.is_not_null())
            .into_query();
        let mut used: BTreeMap<ClusterId, BTreeSet<EnvironmentId>> = BTreeMap::new();
        for row in rows {
            used.entry(row.id).or_default().extend(row.environment_id);
        }
        for row in self.reads().query_all(&workers.union(UnionType::Distinct, clients).take()).await? {
            let (cluster, environment): (ClusterId, EnvironmentId) = row.try_get_many_by_index()?;
            used.entry(cluster).or_default().insert(environment);
        }
        used.retain(|_, environments| environments.len() > 1);
        let keys: Vec<(ClusterId, EnvironmentId)> = used
            .iter()
            .flat_map(|(cluster, environments)| {
                environments.iter().map(|environment| (*cluster, *environment))
            })
            .collect();
        if keys.is_empty() {
            return Ok(());
        }
        let mut by_cluster: HashMap<ClusterId, Vec<entity::environment::Model>> = HashMap::new();
        for environment in self.environments_by_id(&keys).await? {
            by_cluster.entry(environment.cluster_id).or_default().push(environment);
        }
        for (cluster, environments) in by_cluster {
            let processes = environments.iter().map(|environment| Process {
                python: environment.python.as_deref(),
                packages: &environment.packages.0,
            });
            if let Some(facts) = found.get_mut(&cluster) {
                facts.mismatches = differing(processes);
            }
        }
        Ok(())
    }

    /// The function that most tasks of each cluster run; clusters without task groups are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.flag_facts.largest_functions", skip_all)]
    pub(crate) async fn largest_functions(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, String>, StoreError> {
        use task_group::{Column, Entity};
        let place = "ROW_NUMBER() OVER (PARTITION BY cluster_id ORDER BY tasks DESC, id)";
        let groups = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::Prefix])
            .expr_as(Expr::cust(place), page::PLACE)
            .filter(Column::ClusterId.is_in(clusters.iter().copied()));
        let rows = self.reads().query_all(&page::first_places(groups.into_query(), 1)).await?;
        let rows = rows.iter().map(|row| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?)));
        rows.collect()
    }
}

/// Since when measurements of a cluster count, and until when, by its own clock.
fn times(row: &cluster::Model) -> (i64, i64) {
    let reported_at = row.reported_at.timestamp_millis();
    let at = row.closed_at.map_or(reported_at, |closed| closed.timestamp_millis().max(reported_at));
    #[expect(clippy::cast_possible_truncation, reason = "reports come within hours of each other")]
    let rarely = (row.interval_seconds.min(86_400.0) * 1e3 * READINGS_REPORTS) as i64;
    (at - READINGS_MS.max(rarely), at)
}

/// Whether a cluster is not heard of any more, though it did not close.
fn is_silent(row: &cluster::Model, now: Timestamp) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "reports come within hours of each other")]
    let expected = (row.interval_seconds.min(86_400.0) * 1e3 * SILENT_REPORTS) as i64;
    now.timestamp_millis() - row.last_seen_at.timestamp_millis() > expected.max(SILENT_MS)
}

/// Where the first and the last ten minutes begin that are looked at.
fn chunks(times: &Times) -> (i64, i64) {
    let chunk = |time: i64| time.div_euclid(CHUNK_MILLISECONDS) * CHUNK_MILLISECONDS;
    let first = times.values().map(|(from, _)| *from).min().unwrap_or_default();
    let last = times.values().map(|(_, to)| *to).max().unwrap_or_default();
    (chunk(first), chunk(last))
}
