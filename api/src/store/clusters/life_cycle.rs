//! The states of clusters as SQL conditions, and the updates that mark silent clusters and their
//! computations as lost.

use std::collections::BTreeSet;

use entity::{
    Timestamp,
    cluster::{Column, DesiredState, Entity, Status},
    computation,
    ids::{AccountId, ClusterId},
};
use sea_orm::{
    ActiveEnum, ColumnTrait, Condition, ConnectionTrait, EntityTrait, FromQueryResult, QueryFilter,
    QuerySelect, Statement, TransactionTrait,
    sea_query::{CaseStatement, Expr},
};

use crate::{
    domain::life_cycle::{LEAST_SILENCE_MS, STARTING_MS, State, is_lost},
    store::core::{
        composite_in::IsOneOf, connect::IMMEDIATE_TRANSACTION, error::StoreError, scoped::AccountStore,
        system::SystemStore,
    },
};

/// The largest number of silent clusters that one query returns.
pub(crate) const BATCH: usize = 500;

/// The condition for clusters in one of the given states. The status is a range of an index. For running
/// clusters, the rest of the state is read from their rows.
pub(crate) fn states_condition(states: &[State]) -> Condition {
    let statuses: BTreeSet<String> = states.iter().map(|state| state.status().to_value()).collect();
    let is_running = |state: &&State| state.status() == Status::Running;
    let running_state_count = State::ALL.iter().filter(is_running).count();
    let wanted_states: BTreeSet<State> = states.iter().filter(is_running).copied().collect();
    let mut condition = Condition::all();
    if !wanted_states.is_empty() && wanted_states.len() < running_state_count {
        let has_ended = (statuses.len() > 1).then(|| Column::Status.ne(Status::Running));
        condition = condition.add(
            wanted_states.into_iter().fold(Condition::any().add_option(has_ended), |alternatives, state| {
                alternatives.add(running_state_condition(state))
            }),
        );
    }
    condition.add(Column::Status.is_one_of(statuses))
}

/// Returns the name of the state of a cluster that reports, as [`State::of`] defines it.
pub(crate) fn running_state_name() -> Expr {
    let name = |state: State| Expr::cust(format!("'{}'", state.name()));
    let empty_case = CaseStatement::new();
    let other_states = [State::Closing, State::Starting, State::Idle];
    let cases = other_states.into_iter().fold(empty_case, |cases, state| {
        cases.case(Condition::all().add(running_state_condition(state)), name(state))
    });
    cases.finally(name(State::Running)).into()
}

/// The condition for a state of clusters that report, as [`State::of`] defines it.
fn running_state_condition(state: State) -> Condition {
    let has_not_worked = Condition::any()
        .add(Column::TotalWorkers.eq(0))
        .add(Condition::all().add(Column::TotalTasks.eq(0)).add(Column::IdleSince.is_not_null()));
    let starting = Condition::all().add(Column::DurationMs.lt(STARTING_MS)).add(has_not_worked);
    let is_to_run = Column::DesiredState.eq(DesiredState::Running);
    let ready = Condition::all().add(is_to_run.clone()).add(starting.clone().not());
    match state {
        State::Starting => starting.add(is_to_run),
        State::Running => ready.add(Column::IdleSince.is_null()),
        State::Idle => ready.add(Column::IdleSince.is_not_null()),
        State::Closing => Condition::all().add(Column::DesiredState.eq(DesiredState::Stopped)),
        State::Closed | State::Lost => Condition::all().add(Column::Status.eq(state.status())),
    }
}

impl AccountStore {
    /// Marks the running computations of a cluster as lost. The cluster closed without reporting their
    /// outcome.
    pub(crate) async fn mark_computations_lost(
        &self,
        cluster: ClusterId,
        closed_at: Timestamp,
        arrival: i64,
    ) -> Result<(), StoreError> {
        self.update::<computation::Entity>()
            .col_expr(computation::Column::State, Expr::val(computation::State::Lost))
            .col_expr(computation::Column::StoppedAt, Expr::val(closed_at))
            .col_expr(computation::Column::ArrivedAt, Expr::val(arrival))
            .filter(computation::Column::ClusterId.eq(cluster))
            .filter(computation::Column::State.eq(computation::State::Running))
            .exec(&self.write_executor())
            .await?;
        Ok(())
    }

    /// Marks the lost computations of a cluster as running again. The cluster had not ended after all.
    pub(crate) async fn restore_lost_computations(
        &self,
        cluster: ClusterId,
        arrival: i64,
    ) -> Result<(), StoreError> {
        self.update::<computation::Entity>()
            .col_expr(computation::Column::State, Expr::val(computation::State::Running))
            .col_expr(computation::Column::StoppedAt, Expr::val(Option::<Timestamp>::None))
            .col_expr(computation::Column::ArrivedAt, Expr::val(arrival))
            .filter(computation::Column::ClusterId.eq(cluster))
            .filter(computation::Column::State.eq(computation::State::Lost))
            .exec(&self.write_executor())
            .await?;
        Ok(())
    }
}

/// A cluster whose last report is old enough for a check.
#[derive(Clone, Copy, Debug, FromQueryResult)]
pub(crate) struct SilentCluster {
    pub(crate) account_id: AccountId,
    pub(crate) id: ClusterId,
    pub(crate) last_seen_at: Timestamp,
    pub(crate) interval_seconds: f64,
}

#[expect(clippy::disallowed_methods, reason = "silent clusters of all accounts are queried")]
impl SystemStore {
    /// Returns running clusters of the accounts after `after` that have been silent for longer than they
    /// may be, by account, at most [`BATCH`]. The index contains only clusters with the status
    /// `running`.
    #[tracing::instrument(name = "store.life_cycle.silent", skip_all)]
    pub(crate) async fn silent_clusters(
        &self,
        now: Timestamp,
        after: Option<AccountId>,
    ) -> Result<Vec<SilentCluster>, StoreError> {
        let sql = format!(
            "SELECT account_id, id, last_seen_at, interval_seconds FROM clusters \
             WHERE status = 'running' AND account_id > $2 AND last_seen_at < $1 - \
             CASE WHEN interval_seconds * 3000 > {LEAST_SILENCE_MS} \
             THEN CAST(interval_seconds * 3000 AS BIGINT) ELSE {LEAST_SILENCE_MS} END \
             ORDER BY account_id, id LIMIT {BATCH}"
        );
        let backend = self.pools.reader.get_database_backend();
        // No account has the nil identifier.
        let after = after.map_or_else(uuid::Uuid::nil, |account| account.0);
        let values = [now.timestamp_millis().into(), after.into()];
        let statement = Statement::from_sql_and_values(backend, sql, values);
        Ok(SilentCluster::find_by_statement(statement).all(&self.pools.reader).await?)
    }

    /// Marks a cluster and its running computations as lost if it is still silent. Returns the position
    /// of the change, or `None` if the cluster is not silent any more.
    #[tracing::instrument(name = "store.life_cycle.lose", skip_all)]
    pub(crate) async fn mark_cluster_lost(
        &self,
        silent: SilentCluster,
        watching_since: Timestamp,
        now: Timestamp,
    ) -> Result<Option<i64>, StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let key = (silent.account_id, silent.id);
        let Some(row) = Entity::find_by_id(key).lock_exclusive().one(&transaction).await? else {
            return Ok(None);
        };
        let last_seen_ms = row.last_seen_at.timestamp_millis();
        let (watching_since_ms, now_ms) = (watching_since.timestamp_millis(), now.timestamp_millis());
        if row.status != Status::Running
            || !is_lost(last_seen_ms, row.interval_seconds, watching_since_ms, now_ms)
        {
            return Ok(None);
        }
        let changed_at = now_ms.max(row.changed_at + 1);
        Entity::update_many()
            .col_expr(Column::Status, Expr::val(Status::Lost))
            .col_expr(Column::EndedKey, Expr::val(row.reported_at.timestamp_millis()))
            .col_expr(Column::ChangedAt, Expr::val(changed_at))
            .filter(Column::AccountId.eq(row.account_id))
            .filter(Column::Id.eq(row.id))
            .exec(&transaction)
            .await?;
        computation::Entity::update_many()
            .col_expr(computation::Column::State, Expr::val(computation::State::Lost))
            .col_expr(computation::Column::StoppedAt, Expr::val(row.reported_at))
            .col_expr(computation::Column::ArrivedAt, Expr::val(changed_at))
            .filter(computation::Column::AccountId.eq(row.account_id))
            .filter(computation::Column::ClusterId.eq(row.id))
            .filter(computation::Column::State.eq(computation::State::Running))
            .exec(&transaction)
            .await?;
        transaction.commit().await?;
        Ok(Some(changed_at))
    }
}
