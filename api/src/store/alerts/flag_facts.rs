//! The facts about clusters from which rules derive flags: a few statements for many clusters, each for one
//! table.

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

use crate::{
    domain::{
        flag::{
            CLUSTER_METRICS, ErrorCount, FAILURES_WITHIN_MS, FlagFacts, Process, Readings, WORKER_METRICS,
            mismatched_packages,
        },
        sample_chunk::{CHUNK_MILLISECONDS, unpack},
    },
    store::core::{
        composite_in::IsOneOf, error::StoreError, page, read_rows::ReadSelect, scoped::AccountStore,
    },
};

/// The time before a cluster's last report in which measurements count, in milliseconds: a few reports, and
/// longer than any rule needs.
const READINGS_MS: i64 = 5 * 60 * 1_000;

/// The same time in intervals between reports, if reports are rare.
const READINGS_REPORTS: f64 = 4.0;

/// The number of missed intervals between reports after which a cluster counts as silent.
const SILENT_REPORTS: f64 = 3.0;

/// The shortest time without a report after which a cluster counts as silent, in milliseconds.
const SILENT_MS: i64 = 60_000;

/// The largest number of chunks of ten minutes of workers that are read at once: some megabytes.
const MAX_CHUNKS: u64 = 8_192;

/// The range of times in which measurements of a cluster count.
type SampleRanges = BTreeMap<ClusterId, (i64, i64)>;

impl AccountStore {
    /// Returns the facts about some clusters.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, or if samples are damaged.
    #[tracing::instrument(name = "store.flag_facts.read", skip_all)]
    pub(crate) async fn flag_facts(
        &self,
        clusters: &[ClusterId],
        idle_timeout_seconds: Option<i64>,
        now: Timestamp,
    ) -> Result<BTreeMap<ClusterId, FlagFacts>, StoreError> {
        let rows = self.clusters_by_id(clusters).await?;
        let times: SampleRanges = rows.iter().map(|row| (row.id, sample_range(row))).collect();
        let mut facts: BTreeMap<ClusterId, FlagFacts> = rows
            .iter()
            .map(|row| {
                let cluster_facts = FlagFacts {
                    at: times[&row.id].1,
                    is_over: row.status == Status::Closed || is_silent(row, now),
                    idle_since: row.idle_since.map(|since| since.timestamp_millis()),
                    idle_timeout_seconds,
                    ..FlagFacts::default()
                };
                (row.id, cluster_facts)
            })
            .collect();
        if rows.is_empty() {
            return Ok(facts);
        }
        self.read_cluster_samples(&times, &mut facts).await?;
        self.read_worker_samples(&times, &mut facts).await?;
        self.read_errors(&times, &mut facts).await?;
        self.read_versions(&rows, &mut facts).await?;
        Ok(facts)
    }

    async fn read_cluster_samples(
        &self,
        times: &SampleRanges,
        facts: &mut BTreeMap<ClusterId, FlagFacts>,
    ) -> Result<(), StoreError> {
        use entity::cluster_sample_chunk::{Column, Entity};
        let (first, last) = chunk_range(times);
        // Clusters whose clocks differ have other ranges.
        let condition = times.iter().fold(Condition::any(), |condition, (cluster, range)| {
            let (first, last) = chunk_range(&SampleRanges::from([(*cluster, *range)]));
            condition.add(
                Condition::all()
                    .add(Column::ClusterId.eq(*cluster))
                    .add(Column::StartedAt.between(first, last)),
            )
        });
        let rows: Vec<(ClusterId, KeyTime, Vec<u8>)> = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::StartedAt, Column::Data])
            .filter(Column::ClusterId.is_one_of(times.keys().copied()))
            .filter(Column::StartedAt.between(first, last))
            .filter(condition)
            .read_tuples(&self.read_executor())
            .await?;
        for (cluster, start, data) in rows {
            if let Some((cluster_facts, times)) = facts.get_mut(&cluster).zip(times.get(&cluster)) {
                let samples = unpack(&data);
                let samples = samples.map_err(|damaged| StoreError::damaged(&damaged))?;
                cluster_facts.cluster.add(start.0, &samples, &CLUSTER_METRICS, *times);
            }
        }
        Ok(())
    }

    /// Reads the samples of the current workers. Rows of workers that left are not read.
    async fn read_worker_samples(
        &self,
        times: &SampleRanges,
        facts: &mut BTreeMap<ClusterId, FlagFacts>,
    ) -> Result<(), StoreError> {
        let backend = self.read_executor().get_database_backend();
        let (first, last) = chunk_range(times);
        let mut values = vec![self.account_id().0.into(), first.into(), last.into()];
        let clusters: Vec<String> = times
            .keys()
            .map(|cluster| {
                values.push(cluster.0.into());
                format!("${}", values.len())
            })
            .collect();
        // SQLite reads the tables of a `CROSS JOIN` in the written order. Workers come first, because each
        // one's samples are a range of the other table's key.
        let sql = format!(
            "SELECT s.cluster_id, s.worker_id, s.started_at, s.data FROM workers w CROSS JOIN worker_sample_chunks s
             WHERE w.account_id = $1 AND w.cluster_id IN ({}) AND w.ended_at IS NULL
                 AND s.account_id = w.account_id AND s.cluster_id = w.cluster_id AND s.worker_id = w.id
                 AND s.started_at BETWEEN $2 AND $3
             ORDER BY s.cluster_id, s.worker_id, s.started_at LIMIT {MAX_CHUNKS}",
            clusters.join(", ")
        );
        let mut workers: BTreeMap<(ClusterId, WorkerId), Readings> = BTreeMap::new();
        for row in
            self.read_executor().query_all_raw(Statement::from_sql_and_values(backend, sql, values)).await?
        {
            let (cluster, worker, start, data): (ClusterId, WorkerId, KeyTime, Vec<u8>) =
                row.try_get_many_by_index()?;
            if let Some(times) = times.get(&cluster) {
                let samples = unpack(&data);
                let samples = samples.map_err(|damaged| StoreError::damaged(&damaged))?;
                workers.entry((cluster, worker)).or_default().add(start.0, &samples, &WORKER_METRICS, *times);
            }
        }
        for ((cluster, worker), readings) in workers {
            if let Some(cluster_facts) = facts.get_mut(&cluster) {
                cluster_facts.workers.push((worker, readings));
            }
        }
        Ok(())
    }

    async fn read_errors(
        &self,
        times: &SampleRanges,
        facts: &mut BTreeMap<ClusterId, FlagFacts>,
    ) -> Result<(), StoreError> {
        use error_occurrence::{Column, Entity};
        let earliest = times.values().map(|(_, end)| end - FAILURES_WITHIN_MS).min().unwrap_or_default();
        let condition = times.iter().fold(Condition::any(), |condition, (cluster, (_, end))| {
            let is_recent = Column::OccurredAt.gt(end - FAILURES_WITHIN_MS);
            condition.add(Condition::all().add(Column::ClusterId.eq(*cluster)).add(is_recent))
        });
        let rows: Vec<(ClusterId, Option<ErrorGroupId>, i64, KeyTime)> = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::GroupId])
            .column_as(Column::Id.count(), "count")
            .column_as(Column::OccurredAt.min(), "first_at")
            // First the time range of all clusters, which has an index, and then that of each cluster.
            .filter(Column::OccurredAt.gt(earliest))
            .filter(Column::ClusterId.is_one_of(times.keys().copied()))
            .filter(condition)
            .group_by(Column::ClusterId)
            .group_by(Column::GroupId)
            .read_tuples(&self.read_executor())
            .await?;
        for (cluster, group, count, first_at) in rows {
            if let Some(cluster_facts) = facts.get_mut(&cluster) {
                cluster_facts.errors.push(ErrorCount { group, count, first_at: first_at.0 });
            }
        }
        Ok(())
    }

    /// Reads the software versions of the current processes. Versions cannot differ on a cluster with only
    /// one environment.
    async fn read_versions(
        &self,
        rows: &[cluster::Model],
        facts: &mut BTreeMap<ClusterId, FlagFacts>,
    ) -> Result<(), StoreError> {
        let ids: Vec<ClusterId> = rows.iter().map(|row| row.id).collect();
        let mut workers = self
            .select::<worker::Entity>()
            .select_only()
            .columns([worker::Column::ClusterId, worker::Column::EnvironmentId])
            .filter(worker::Column::ClusterId.is_one_of(ids.iter().copied()))
            .filter(worker::Column::EndedAt.is_null())
            .filter(worker::Column::EnvironmentId.is_not_null())
            .into_query();
        let clients = self
            .select::<client::Entity>()
            .select_only()
            .columns([client::Column::ClusterId, client::Column::EnvironmentId])
            .filter(client::Column::ClusterId.is_one_of(ids.iter().copied()))
            .filter(client::Column::DisconnectedAt.is_null())
            .filter(client::Column::EnvironmentId.is_not_null())
            .into_query();
        let mut used: BTreeMap<ClusterId, BTreeSet<EnvironmentId>> = BTreeMap::new();
        for row in rows {
            used.entry(row.id).or_default().extend(row.environment_id);
        }
        for row in self.read_executor().query_all(&workers.union(UnionType::Distinct, clients).take()).await?
        {
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
        let mut environments_by_cluster: HashMap<ClusterId, Vec<entity::environment::Model>> = HashMap::new();
        for environment in self.environments_by_id(&keys).await? {
            environments_by_cluster.entry(environment.cluster_id).or_default().push(environment);
        }
        for (cluster, environments) in environments_by_cluster {
            let processes = environments.iter().map(|environment| Process {
                python: environment.python.as_deref(),
                packages: &environment.packages.0,
            });
            if let Some(cluster_facts) = facts.get_mut(&cluster) {
                cluster_facts.mismatches = mismatched_packages(processes);
            }
        }
        Ok(())
    }

    /// Returns the function with the largest task group of each cluster. Clusters without task groups are
    /// missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.flag_facts.largest_functions", skip_all)]
    pub(crate) async fn largest_functions(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, String>, StoreError> {
        use task_group::{Column, Entity};
        let rank = "ROW_NUMBER() OVER (PARTITION BY cluster_id ORDER BY tasks DESC, id)";
        let groups = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::Prefix])
            .expr_as(Expr::cust(rank), page::RANK)
            .filter(Column::ClusterId.is_one_of(clusters.iter().copied()));
        let rows = self.read_executor().query_all(&page::filter_top_ranked(groups.into_query(), 1)).await?;
        let rows = rows.iter().map(|row| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?)));
        rows.collect()
    }
}

/// Returns the range of times in which measurements of a cluster count, by its own clock.
fn sample_range(row: &cluster::Model) -> (i64, i64) {
    let reported_at = row.reported_at.timestamp_millis();
    let end = row.closed_at.map_or(reported_at, |closed_at| closed_at.timestamp_millis().max(reported_at));
    #[expect(clippy::cast_possible_truncation, reason = "reports come within hours of each other")]
    let reporting_gap_ms = (row.interval_seconds.min(86_400.0) * 1e3 * READINGS_REPORTS) as i64;
    (end - READINGS_MS.max(reporting_gap_ms), end)
}

/// Returns true if a cluster stopped reporting without closing.
fn is_silent(row: &cluster::Model, now: Timestamp) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "reports come within hours of each other")]
    let expected = (row.interval_seconds.min(86_400.0) * 1e3 * SILENT_REPORTS) as i64;
    now.timestamp_millis() - row.last_seen_at.timestamp_millis() > expected.max(SILENT_MS)
}

/// Returns the beginnings of the first and the last ten minutes that are read.
fn chunk_range(times: &SampleRanges) -> (i64, i64) {
    let chunk = |time: i64| time.div_euclid(CHUNK_MILLISECONDS) * CHUNK_MILLISECONDS;
    let first_time = times.values().map(|(from, _)| *from).min().unwrap_or_default();
    let last_time = times.values().map(|(_, to)| *to).max().unwrap_or_default();
    (chunk(first_time), chunk(last_time))
}
