//! Task groups, listed by cluster, by computation or by span.

use std::collections::{BTreeMap, HashMap};

use entity::{
    computation_task_group as link,
    ids::{ClusterId, ComputationId, SpanId, TaskGroupId},
    json_columns::{Names, TaskGroupIds},
    task_group::{Column, Entity, Model},
};
use sea_orm::{ColumnTrait, EntityTrait, JoinType, QueryFilter, QuerySelect, RelationDef, Select};

use crate::{
    domain::{
        report::TaskGroupReport,
        validated::{Count, Text, UnixTime},
    },
    store::core::{
        composite_in::{IsOneOf, one_of},
        error::StoreError,
        page::{Key, KeyPart, Page, PageRequest, Sort},
        parent_list::ParentSort,
        read_rows::ReadSelect,
        scoped::AccountStore,
        upsert::keep_newest_row,
    },
};

/// The sort orders of task groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskGroupSort {
    /// By first appearance, the oldest first. The order is that of the identifiers, which grow with
    /// time.
    OldestFirst,
    /// By a value, which the statement computes, see [`AccountStore::task_group_page`].
    By {
        /// The value.
        value: TaskGroupValue,
        /// True if large or late values come first.
        descending: bool,
    },
}

/// The values that task groups are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskGroupValue {
    /// The first appearance.
    FirstSeenAt,
    /// The start of the first finished task. Task groups without one come after all others.
    StartedAt,
    /// The number of tasks.
    Tasks,
    /// The number of tasks that erred themselves.
    TasksErred,
    /// The time spent computing tasks that succeeded.
    ComputeSeconds,
    /// The time spent fetching inputs.
    TransferSeconds,
    /// The size of results.
    Bytes,
}

impl Sort for TaskGroupSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        let Self::By { value, descending } = self else { return "id:asc" };
        match (value, descending) {
            (TaskGroupValue::FirstSeenAt, false) => "first_seen_at:asc",
            (TaskGroupValue::FirstSeenAt, true) => "first_seen_at:desc",
            (TaskGroupValue::StartedAt, false) => "started_at:asc",
            (TaskGroupValue::StartedAt, true) => "started_at:desc",
            (TaskGroupValue::Tasks, false) => "tasks:asc",
            (TaskGroupValue::Tasks, true) => "tasks:desc",
            (TaskGroupValue::TasksErred, false) => "tasks_erred:asc",
            (TaskGroupValue::TasksErred, true) => "tasks_erred:desc",
            (TaskGroupValue::ComputeSeconds, false) => "compute_seconds:asc",
            (TaskGroupValue::ComputeSeconds, true) => "compute_seconds:desc",
            (TaskGroupValue::TransferSeconds, false) => "transfer_seconds:asc",
            (TaskGroupValue::TransferSeconds, true) => "transfer_seconds:desc",
            (TaskGroupValue::Bytes, false) => "bytes:asc",
            (TaskGroupValue::Bytes, true) => "bytes:desc",
        }
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::Id]
    }

    fn descending(self) -> bool {
        matches!(self, Self::By { descending: true, .. })
    }

    fn accepts(self, key: &Key) -> bool {
        match (self, &key.0[..]) {
            (Self::OldestFirst, [KeyPart::Uuid(_)]) => true,
            (Self::By { .. }, [value, KeyPart::Uuid(_)]) => value.is_real(),
            _ => false,
        }
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.id.into()])
    }
}

/// The parent of a list of task groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskGroupParent {
    /// A cluster with all its task groups.
    Cluster(ClusterId),
    /// A computation with the task groups that it uses.
    Computation(ClusterId, ComputationId),
    /// A span with its own task groups, without those of its descendants.
    Span(ClusterId, SpanId),
}

impl ParentSort for TaskGroupSort {
    type Parent = TaskGroupParent;

    fn select_rows(self, store: &AccountStore, parent: TaskGroupParent, _: &PageRequest) -> Select<Entity> {
        store.task_groups_of(parent)
    }
}

impl AccountStore {
    /// Returns the same page of the task groups of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.task_group.pages", skip_all)]
    pub async fn task_group_pages(
        &self,
        parents: &[TaskGroupParent],
        sort: TaskGroupSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        self.parent_pages(parents, sort, request).await
    }

    pub(crate) fn task_groups_of(&self, parent: TaskGroupParent) -> Select<Entity> {
        match parent {
            TaskGroupParent::Cluster(cluster) => {
                self.select::<Entity>().filter(Column::ClusterId.eq(cluster))
            }
            TaskGroupParent::Computation(cluster, computation) => self
                .select::<Entity>()
                .filter(Column::ClusterId.eq(cluster))
                .join(JoinType::InnerJoin, used_by())
                .filter(link::Column::AccountId.eq(self.account_id()))
                .filter(link::Column::ClusterId.eq(cluster))
                .filter(link::Column::ComputationId.eq(computation)),
            TaskGroupParent::Span(cluster, span) => {
                self.select::<Entity>().filter(Column::ClusterId.eq(cluster)).filter(Column::SpanId.eq(span))
            }
        }
    }

    /// Returns the number of task groups of each parent. Parents without task groups are missing from
    /// the map.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.task_group.counts", skip_all)]
    pub async fn task_group_counts(
        &self,
        parents: &[TaskGroupParent],
    ) -> Result<HashMap<TaskGroupParent, i64>, StoreError> {
        let (mut clusters, mut computations, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        for parent in parents {
            match parent {
                TaskGroupParent::Cluster(cluster) => clusters.push(*cluster),
                TaskGroupParent::Computation(cluster, computation) => {
                    computations.push((*cluster, *computation));
                }
                TaskGroupParent::Span(cluster, span) => spans.push((*cluster, *span)),
            }
        }
        let mut counts = HashMap::new();
        if !clusters.is_empty() {
            let rows: Vec<(ClusterId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_one_of(clusters))
                .group_by(Column::ClusterId)
                .read_tuples(&self.read_executor())
                .await?;
            counts
                .extend(rows.into_iter().map(|(cluster, count)| (TaskGroupParent::Cluster(cluster), count)));
        }
        if !computations.is_empty() {
            // The count is over the join, so that a link whose task group never arrived does not count.
            let rows: Vec<(ClusterId, ComputationId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(link::Column::ClusterId)
                .column(link::Column::ComputationId)
                .column_as(Column::Id.count(), "count")
                .join(JoinType::InnerJoin, used_by())
                .filter(link::Column::AccountId.eq(self.account_id()))
                .filter(one_of(link::Column::ClusterId, link::Column::ComputationId, &computations))
                .group_by(link::Column::ClusterId)
                .group_by(link::Column::ComputationId)
                .read_tuples(&self.read_executor())
                .await?;
            counts.extend(rows.into_iter().map(|(cluster, computation, count)| {
                (TaskGroupParent::Computation(cluster, computation), count)
            }));
        }
        if !spans.is_empty() {
            let rows: Vec<(ClusterId, SpanId, i64)> = self
                .select::<Entity>()
                .select_only()
                .columns([Column::ClusterId, Column::SpanId])
                .column_as(Column::Id.count(), "count")
                .filter(one_of(Column::ClusterId, Column::SpanId, &spans))
                .group_by(Column::ClusterId)
                .group_by(Column::SpanId)
                .read_tuples(&self.read_executor())
                .await?;
            counts.extend(
                rows.into_iter().map(|(cluster, span, count)| (TaskGroupParent::Span(cluster, span), count)),
            );
        }
        Ok(counts)
    }

    /// Returns the task groups that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.task_group.by_id", skip_all)]
    pub async fn task_groups_by_id(
        &self,
        ids: &[(ClusterId, TaskGroupId)],
    ) -> Result<Vec<Model>, StoreError> {
        let is_one_of_ids = one_of(Column::ClusterId, Column::Id, ids);
        Ok(self.select::<Entity>().filter(is_one_of_ids).read_models(&self.read_executor()).await?)
    }

    /// Upserts the task groups of a report.
    pub(crate) async fn record_task_groups(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[TaskGroupReport],
    ) -> Result<(), StoreError> {
        // The rows are sorted by identifier, since a statement must not contain a row twice and all
        // transactions must lock in the same order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.id, report)).collect();
        let nonzero = |count: Count| Some(count.get()).filter(|count| *count > 0);
        let nonzero_seconds = |seconds: f64| Some(seconds).filter(|seconds| *seconds > 0.0);
        let rows = reports.values().map(|report| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            id: report.id,
            sequence,
            name: report.name.as_str().to_owned(),
            prefix: report.prefix.as_str().to_owned(),
            first_seen_at: report.first_seen_at.timestamp(),
            started_at: report.started_at.map(UnixTime::timestamp),
            stopped_at: report.stopped_at.map(UnixTime::timestamp),
            tasks: report.tasks.get(),
            tasks_succeeded: report.tasks_succeeded.get(),
            tasks_erred: report.tasks_erred.get(),
            tasks_blamed: report.tasks_blamed.get(),
            released: nonzero(report.states.released),
            waiting: nonzero(report.states.waiting),
            no_worker: nonzero(report.states.no_worker),
            queued: nonzero(report.states.queued),
            processing: nonzero(report.states.processing),
            memory: nonzero(report.states.memory),
            erred: nonzero(report.states.erred),
            forgotten: nonzero(report.states.forgotten),
            compute_seconds: report.durations.compute,
            transfer_seconds: report.durations.transfer,
            disk_read_seconds: nonzero_seconds(report.durations.disk_read),
            disk_write_seconds: nonzero_seconds(report.durations.disk_write),
            serialize_seconds: nonzero_seconds(report.durations.serialize),
            deserialize_seconds: nonzero_seconds(report.durations.deserialize),
            other_seconds: nonzero_seconds(report.durations.other),
            bytes: report.bytes.get(),
            types: Names(report.types.iter().cloned().map(Text::into_string).collect()),
            dependencies: TaskGroupIds(report.dependencies.to_vec()),
            span_id: report.span_id,
            tasks_retried: report.tasks_retried.get(),
        });
        self.insert::<Entity>(rows.collect(), &keep_newest_row::<Entity>(Column::Sequence)).await?;
        Ok(())
    }
}

/// The join from task groups to the links that refer to them, within one account and cluster.
pub(crate) fn used_by() -> RelationDef {
    Entity::belongs_to(link::Entity)
        .from((Column::AccountId, Column::ClusterId, Column::Id))
        .to((link::Column::AccountId, link::Column::ClusterId, link::Column::TaskGroupId))
        .into()
}
