//! The lists of task groups: their filter and their orders.

use async_graphql::{Enum, InputObject};
use entity::task_group::Column;

use super::task_group::{TaskGroup, TaskState};
use crate::{
    graphql::{
        accounts::account_list::MAX_VALUES,
        clusters::cluster_list::{OrderDirection, TimeRange},
        engine::{
            argument::{check_max_len, check_text_list},
            connection::{Connection, RequestedPage, load_connection, total_count_by},
            error::ApiError,
            scope::{AccountScope, QuotaKind},
        },
    },
    store::{self, TaskGroupParent, TaskGroupSort, TaskGroupValue},
};

/// Conditions on task groups. A task group has to meet all given conditions.
#[derive(Debug, Default, InputObject)]
pub(crate) struct TaskGroupFilter {
    /// Only task groups of one of these functions and operations, by their exact `prefix`, at most 100.
    functions: Option<Vec<String>>,
    /// Only task groups with a task in one of these states, as of the last report.
    states: Option<Vec<TaskState>>,
    /// True for task groups with tasks whose own execution failed, false for task groups without.
    has_errors: Option<bool>,
    /// Only task groups that ran in this period: from the start of the first finished task to the end of the
    /// last one. A task group with unfinished tasks counts as still running. Failed tasks have no times, so a
    /// task group without succeeded tasks counts from `firstSeenAt` on. A match does not imply that a task
    /// ran in the period, because the times of single tasks are not stored.
    during: Option<TimeRange>,
}

/// An order of task groups. Those that compare equal are in the order in which they were first seen, in the
/// same direction.
#[derive(Clone, Copy, Debug, InputObject)]
pub(crate) struct TaskGroupOrder {
    /// The field to order by.
    field: TaskGroupOrderField,
    /// The direction of the order.
    #[graphql(default)]
    direction: OrderDirection,
}

/// A field to order task groups by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum TaskGroupOrderField {
    /// The time at which the scheduler first knew the task group.
    FirstSeenAt,
    /// The start of the first finished task. Task groups without one are later than all others.
    StartedAt,
    /// The number of tasks.
    Tasks,
    /// The number of tasks whose own execution failed.
    TasksErred,
    /// The time of the action `COMPUTE`.
    ComputeSeconds,
    /// The time of the action `TRANSFER`.
    TransferSeconds,
    /// The size of all results.
    Bytes,
}

impl TaskGroupFilter {
    fn check(self) -> Result<store::TaskGroupFilter, ApiError> {
        check_text_list("functions", self.functions.as_deref(), MAX_VALUES)?;
        check_max_len("states", self.states.as_deref(), MAX_VALUES)?;
        if self.states.as_ref().is_some_and(Vec::is_empty) {
            return Err(ApiError::invalid("states", "must have at least one item"));
        }
        Ok(store::TaskGroupFilter {
            prefixes: self.functions,
            states: self.states.map(|states| states.into_iter().map(state_column).collect()),
            has_errors: self.has_errors,
            during: TimeRange::range_of_argument("during", self.during)?,
        })
    }
}

impl From<TaskGroupOrder> for TaskGroupSort {
    fn from(order: TaskGroupOrder) -> Self {
        let value = match order.field {
            TaskGroupOrderField::FirstSeenAt => TaskGroupValue::FirstSeenAt,
            TaskGroupOrderField::StartedAt => TaskGroupValue::StartedAt,
            TaskGroupOrderField::Tasks => TaskGroupValue::Tasks,
            TaskGroupOrderField::TasksErred => TaskGroupValue::TasksErred,
            TaskGroupOrderField::ComputeSeconds => TaskGroupValue::ComputeSeconds,
            TaskGroupOrderField::TransferSeconds => TaskGroupValue::TransferSeconds,
            TaskGroupOrderField::Bytes => TaskGroupValue::Bytes,
        };
        Self::By { value, descending: order.direction == OrderDirection::Desc }
    }
}

/// Returns the column with the number of tasks in a state.
fn state_column(state: TaskState) -> Column {
    match state {
        TaskState::Released => Column::Released,
        TaskState::Waiting => Column::Waiting,
        TaskState::NoWorker => Column::NoWorker,
        TaskState::Queued => Column::Queued,
        TaskState::Processing => Column::Processing,
        TaskState::Memory => Column::Memory,
        TaskState::Erred => Column::Erred,
        TaskState::Forgotten => Column::Forgotten,
    }
}

/// Returns a page of the task groups of a parent. A filter or an order reads all of them, and is charged to
/// the request's quota of searches.
pub(crate) async fn load_task_groups(
    scope: &AccountScope,
    parent: TaskGroupParent,
    filter: Option<TaskGroupFilter>,
    order: Option<TaskGroupOrder>,
    page: RequestedPage,
) -> Result<Connection<TaskGroup>, ApiError> {
    let sort = order.map_or(TaskGroupSort::OldestFirst, TaskGroupSort::from);
    if filter.is_none() && order.is_none() {
        return load_connection(scope, parent, sort, page, TaskGroup::new).await;
    }
    let (filter, request) = (filter.unwrap_or_default().check()?, page.request(scope, sort)?);
    scope.charge(QuotaKind::Searches, 1)?;
    let page = scope.store.task_group_page(parent, &filter, sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let (store, filter) = (store.clone(), filter.clone());
        async move { store.task_group_count(parent, &filter).await }
    });
    Ok(Connection::new(page, sort, |row| TaskGroup::new(scope, row), total))
}
