//! What clusters are doing, as the database is asked for it, and what is written when nothing is heard of one any more.

use std::collections::BTreeSet;

use entity::{
    Timestamp,
    cluster::{Column, DesiredState, Entity, Status},
    computation,
    ids::{AccountId, ClusterId},
};
use sea_orm::{
    ActiveEnum, ColumnTrait, Condition, EntityTrait, FromQueryResult, QueryFilter, QuerySelect, Statement,
    TransactionTrait, sea_query::Expr,
};

use super::{connect::IMMEDIATE, error::StoreError, identity::SystemStore, scoped::AccountStore};
use crate::domain::life_cycle::{LEAST_SILENCE_MS, STARTING_MS, State, is_lost};

/// Clusters that are looked for at once.
pub(crate) const BATCH: usize = 500;

/// What clusters are asked for that are in one of some states: those of one status are a range of an index, and among
/// those that report, the rest is looked up in their rows.
pub(super) fn in_states(states: &[State]) -> Condition {
    let statuses: BTreeSet<String> = states.iter().map(|state| state.status().to_value()).collect();
    let reporting = |state: &&State| state.status() == Status::Running;
    let all = State::ALL.iter().filter(reporting).count();
    let wanted: BTreeSet<State> = states.iter().filter(reporting).copied().collect();
    let mut condition = Condition::all();
    if !wanted.is_empty() && wanted.len() < all {
        let others = (statuses.len() > 1).then(|| Column::Status.ne(Status::Running));
        condition = condition.add(
            wanted
                .into_iter()
                .fold(Condition::any().add_option(others), |any, state| any.add(while_reporting(state))),
        );
    }
    condition.add(Column::Status.is_in(statuses))
}

/// As [`State::of`], of clusters that report.
fn while_reporting(state: State) -> Condition {
    let untried = Condition::any()
        .add(Column::TotalWorkers.eq(0))
        .add(Condition::all().add(Column::TotalTasks.eq(0)).add(Column::IdleSince.is_not_null()));
    let starting = Condition::all().add(Column::DurationMs.lt(STARTING_MS)).add(untried);
    let wanted = Column::DesiredState.eq(DesiredState::Running);
    let ready = Condition::all().add(wanted.clone()).add(starting.clone().not());
    match state {
        State::Starting => starting.add(wanted),
        State::Running => ready.add(Column::IdleSince.is_null()),
        State::Idle => ready.add(Column::IdleSince.is_not_null()),
        State::Closing => Condition::all().add(Column::DesiredState.eq(DesiredState::Stopped)),
        State::Closed | State::Lost => Condition::all().add(Column::Status.eq(state.status())),
    }
}

impl AccountStore {
    /// Writes down that what a cluster was computing is lost, which closed without telling what became of it.
    pub(crate) async fn lose_computations(
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
            .exec(&self.writes())
            .await?;
        Ok(())
    }

    /// Takes back that the computations of a cluster are lost, which has not ended as was thought.
    pub(super) async fn find_computations_again(
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
            .exec(&self.writes())
            .await?;
        Ok(())
    }
}

/// A cluster of which nothing was heard for long enough to look at it.
#[derive(Clone, Copy, Debug, FromQueryResult)]
pub(crate) struct SilentCluster {
    pub(crate) account_id: AccountId,
    pub(crate) id: ClusterId,
    pub(crate) last_seen_at: Timestamp,
    pub(crate) interval_seconds: f64,
}

#[expect(clippy::disallowed_methods, reason = "clusters of all accounts are looked for")]
impl SystemStore {
    /// Clusters that are thought to report and have been silent for longer than they may be, at most [`BATCH`].
    #[tracing::instrument(name = "store.life_cycle.silent", skip_all)]
    pub(crate) async fn silent_clusters(&self, now: Timestamp) -> Result<Vec<SilentCluster>, StoreError> {
        // Account by account, because that is how indexes begin. To SQLite the words `CROSS JOIN` say that the accounts
        // come first.
        let sql = format!(
            "SELECT c.account_id, c.id, c.last_seen_at, c.interval_seconds \
             FROM accounts a CROSS JOIN clusters c \
             WHERE c.account_id = a.id AND c.status = 'running' AND c.last_seen_at < $1 - \
             CASE WHEN c.interval_seconds * 3000 > {LEAST_SILENCE_MS} \
             THEN CAST(c.interval_seconds * 3000 AS BIGINT) ELSE {LEAST_SILENCE_MS} END \
             LIMIT {BATCH}"
        );
        let backend = self.pools.reader.get_database_backend();
        let values = [now.timestamp_millis().into()];
        let statement = Statement::from_sql_and_values(backend, sql, values);
        Ok(SilentCluster::find_by_statement(statement).all(&self.pools.reader).await?)
    }

    /// Writes down that a cluster is lost, with what it was computing, if it is still silent. Returns the change's place if it
    /// did.
    #[tracing::instrument(name = "store.life_cycle.lose", skip_all)]
    pub(crate) async fn lose_cluster(
        &self,
        silent: SilentCluster,
        watching_since: Timestamp,
        now: Timestamp,
    ) -> Result<Option<i64>, StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let key = (silent.account_id, silent.id);
        let Some(row) = Entity::find_by_id(key).lock_exclusive().one(&transaction).await? else {
            return Ok(None);
        };
        let seen = row.last_seen_at.timestamp_millis();
        let (since, now) = (watching_since.timestamp_millis(), now.timestamp_millis());
        if row.status != Status::Running || !is_lost(seen, row.interval_seconds, since, now) {
            return Ok(None);
        }
        let changed_at = now.max(row.changed_at + 1);
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
