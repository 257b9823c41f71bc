//! Task groups that pass a filter, in any order. No index serves these lists: each reads all task groups of
//! its parent.

use entity::task_group::{Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, PaginatorTrait, QueryFilter, Select,
    sea_query::{Expr, ExprTrait, Func},
};

use super::task_group::{TaskGroupParent, TaskGroupSort, TaskGroupValue};
use crate::store::{
    clusters::cross_cluster::{TimeRange, overlaps},
    core::{
        composite_in::IsOneOf,
        error::StoreError,
        page::{self, ComputedValue, Page, PageRequest},
        scoped::AccountStore,
    },
};

/// The states of tasks that are not finished.
const UNFINISHED: [Column; 4] = [Column::Waiting, Column::NoWorker, Column::Queued, Column::Processing];

/// A filter of task groups. A task group must meet every condition that is set.
#[derive(Clone, Debug, Default)]
pub struct TaskGroupFilter {
    /// Only task groups with one of these prefixes.
    pub prefixes: Option<Vec<String>>,
    /// Only task groups with a task in one of these states, which are columns.
    pub states: Option<Vec<Column>>,
    /// Task groups with failed tasks, or task groups without.
    pub has_errors: Option<bool>,
    /// Only task groups that ran in this period, as far as their times are known.
    pub during: TimeRange,
}

impl TaskGroupFilter {
    fn condition(&self) -> Condition {
        let column = |column: Column| Expr::col((Entity, column));
        let mut condition = ran_in(self.during);
        if let Some(prefixes) = &self.prefixes {
            condition = condition.add(Column::Prefix.is_one_of(prefixes.iter().map(String::as_str)));
        }
        if let Some(states) = &self.states {
            // Zero is stored as null.
            let is_in_any = states
                .iter()
                .fold(Condition::any(), |alternatives, state| alternatives.add(column(*state).is_not_null()));
            condition = condition.add(is_in_any);
        }
        if let Some(has_errors) = self.has_errors {
            let errors = Column::TasksErred;
            condition = condition.add(if has_errors { errors.gt(0) } else { errors.eq(0) });
        }
        condition
    }
}

/// Returns the condition that a task group ran in a period: from the start of its first finished task, or
/// from its first appearance, to the end of its last task, if all have finished.
fn ran_in(during: TimeRange) -> Condition {
    let column = |column: Column| Expr::col((Entity, column));
    let start = Func::coalesce([column(Column::StartedAt), column(Column::FirstSeenAt)]);
    let is_finished =
        UNFINISHED.iter().fold(Condition::all(), |condition, state| condition.add(column(*state).is_null()));
    let end = Expr::case(is_finished, column(Column::StoppedAt)).finally(Expr::cust("NULL"));
    overlaps(start.into(), &end.into(), during)
}

impl AccountStore {
    /// Returns a page of the task groups of a parent that pass a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.task_group_filter.page", skip_all)]
    pub async fn task_group_page(
        &self,
        parent: TaskGroupParent,
        filter: &TaskGroupFilter,
        sort: TaskGroupSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.filtered_task_groups(parent, filter);
        match sort {
            TaskGroupSort::OldestFirst => page::fetch(&self.read_executor(), select, sort, request).await,
            TaskGroupSort::By { value, .. } => {
                let value = ComputedValue::Number(value_of(value));
                page::fetch_by_value(&self.read_executor(), select, value, sort, request).await
            }
        }
    }

    /// Counts the task groups of a parent that pass a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.task_group_filter.count", skip_all)]
    pub async fn task_group_count(
        &self,
        parent: TaskGroupParent,
        filter: &TaskGroupFilter,
    ) -> Result<u64, StoreError> {
        Ok(self.filtered_task_groups(parent, filter).count(&self.read_executor()).await?)
    }

    fn filtered_task_groups(&self, parent: TaskGroupParent, filter: &TaskGroupFilter) -> Select<Entity> {
        self.task_groups_of(parent).filter(filter.condition())
    }
}

/// Returns the value that task groups are ordered by, as a number that is never null.
fn value_of(value: TaskGroupValue) -> Expr {
    /// A time after all others, which the numbers of both databases represent exactly.
    const NEVER: i64 = 9_000_000_000_000_000;
    let column = |column: Column| Expr::col((Entity, column));
    let value = match value {
        TaskGroupValue::FirstSeenAt => column(Column::FirstSeenAt),
        TaskGroupValue::StartedAt => {
            Func::coalesce([column(Column::StartedAt), Expr::cust(NEVER.to_string())]).into()
        }
        TaskGroupValue::Tasks => column(Column::Tasks),
        TaskGroupValue::TasksErred => column(Column::TasksErred),
        TaskGroupValue::ComputeSeconds => column(Column::ComputeSeconds),
        TaskGroupValue::TransferSeconds => column(Column::TransferSeconds),
        TaskGroupValue::Bytes => column(Column::Bytes),
    };
    Func::cast_as(value, "double precision").into()
}
