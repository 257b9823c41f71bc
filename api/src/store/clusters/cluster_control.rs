//! Decisions of members, operators and the idle policy on whether a cluster keeps running. Every writer
//! here locks the cluster's row, as a report does.

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster,
    cluster::DesiredState,
    cluster_control::{Column, Entity, Model, StopOrigin},
    ids::{AccountId, ClusterId, UserId},
};
use sea_orm::{
    ActiveEnum, ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect, TransactionTrait,
    sea_query::{Expr, ExprTrait, Query, SubQueryStatement},
};

use serde_json::{Value, json};

use super::{cluster_owner::ChangeOutcome, life_cycle::states_condition};
use crate::{
    domain::{
        audit::{Actor, Entry, Target, time_detail},
        life_cycle::State,
        stop::StopReason,
    },
    store::core::{
        audit_log, change_feed::next_change, composite_in::IsOneOf, connect::IMMEDIATE_TRANSACTION,
        error::StoreError, read_rows::ReadSelect, scoped::AccountStore, shown_clusters::is_shown,
        system::SystemStore, upsert::replace,
    },
};

/// A request to stop a cluster, or to let it run.
#[derive(Clone, Debug)]
pub struct DesiredStateRequest {
    /// The requested state.
    pub state: DesiredState,
    /// The member who makes the request. `None` for an operator.
    pub user: Option<UserId>,
    /// The user to whom the cluster must belong. `None` for any.
    pub owner: Option<UserId>,
    /// The reason of a stop.
    pub reason: Option<StopReason>,
    /// The time of the request.
    pub at: Timestamp,
}

/// The outcome of a request to keep a cluster.
#[derive(Clone, Debug)]
pub enum KeepOutcome {
    /// The cluster is kept.
    Protected(Box<cluster::Model>),
    /// The cluster has closed.
    Closed(Box<cluster::Model>),
    /// The cluster belongs to another user than the request requires.
    NotOwner,
    /// There is no such cluster.
    Missing,
}

impl AccountStore {
    /// Returns the decisions on each cluster. Clusters without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_control.by_cluster", skip_all)]
    pub async fn cluster_controls(&self, clusters: &[ClusterId]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_one_of(clusters.iter().copied()));
        Ok(select.read_models(&self.read_executor()).await?)
    }

    /// Sets the desired state of a cluster.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cluster_control.wish", skip_all)]
    pub async fn request_desired_state(
        &self,
        id: ClusterId,
        request: DesiredStateRequest,
    ) -> Result<ChangeOutcome<cluster::Model>, StoreError> {
        self.write(move |store| {
            let request = request.clone();
            Box::pin(async move {
                let row = match store.lock_cluster_of(id, request.owner, request.at).await? {
                    ChangeOutcome::Done(row) => row,
                    refused => return Ok(refused),
                };
                let control = store.cluster_control(id).await?;
                let control = match request.state {
                    DesiredState::Stopped => with_stop(&control, &request),
                    DesiredState::Running => without_stop(&control),
                };
                store.upsert_cluster_control(control).await?;
                store.record_audit_entry(desired_state_audit_entry(id, &request)).await?;
                let row = store.set_desired_state(*row, request.state).await?;
                Ok(ChangeOutcome::Done(Box::new(row)))
            })
        })
        .await
    }

    /// Protects a cluster from being stopped for idleness until a time. Earlier decisions of the idle
    /// policy are void. The cluster must belong to `owner` unless that is `None`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cluster_control.keep", skip_all)]
    pub async fn keep_cluster(
        &self,
        id: ClusterId,
        (user, owner): (UserId, Option<UserId>),
        now: Timestamp,
        until: Timestamp,
    ) -> Result<KeepOutcome, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let row = match store.lock_cluster_of(id, owner, now).await? {
                    ChangeOutcome::Done(row) => row,
                    ChangeOutcome::NotOwner => return Ok(KeepOutcome::NotOwner),
                    ChangeOutcome::Missing => return Ok(KeepOutcome::Missing),
                };
                if row.status == cluster::Status::Closed {
                    return Ok(KeepOutcome::Closed(row));
                }
                let control = store.cluster_control(id).await?;
                let is_policy_stop = control.stop_origin == Some(StopOrigin::IdlePolicy);
                let control = if is_policy_stop { without_stop(&control) } else { control };
                store
                    .upsert_cluster_control(Model {
                        kept_at: Some(now),
                        kept_until: Some(until),
                        kept_by: Some(user),
                        ..control
                    })
                    .await?;
                let detail = json!({ "until": time_detail(Some(until)) });
                store.record_audit_entry(Entry::done(Action::KeepAlive, Target::Cluster(id), detail)).await?;
                let row = if is_policy_stop {
                    Box::new(store.set_desired_state(*row, DesiredState::Running).await?)
                } else {
                    row
                };
                Ok(KeepOutcome::Protected(row))
            })
        })
        .await
    }

    /// Returns the decisions on a cluster as the current transaction reads them; an empty row if there are
    /// none.
    pub(crate) async fn cluster_control(&self, cluster: ClusterId) -> Result<Model, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        let empty = || empty_control(self.account_id(), cluster);
        Ok(select.one(&self.write_executor()).await?.unwrap_or_else(empty))
    }

    /// Marks a cluster that has been idle for so long that it may be stopped.
    pub(crate) async fn mark_idle_cluster(
        &self,
        row: &cluster::Model,
        control: Model,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let warned = Model { warned_at: Some(now), warned_idle_since: row.idle_since, ..control };
        self.upsert_cluster_control(warned).await?;
        self.record_cluster_change(row, now).await
    }

    /// Restarts the count of a cluster's idleness: what lies before `now` does not count.
    pub(crate) async fn restart_idle_count(
        &self,
        cluster: ClusterId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let control = self.cluster_control(cluster).await?;
        self.upsert_cluster_control(Model { counted_since: Some(now), ..control }).await
    }

    /// Requests the stop of a cluster that has been idle for too long.
    pub(crate) async fn stop_idle_cluster(
        &self,
        row: &cluster::Model,
        control: Model,
        reason: StopReason,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let stopped = Model {
            stop_at: Some(now),
            stop_origin: Some(StopOrigin::IdlePolicy),
            stop_user_id: None,
            stop_reason: Some(reason.into_string()),
            ..control
        };
        self.upsert_cluster_control(stopped).await?;
        self.set_desired_state(row.clone(), DesiredState::Stopped).await?;
        self.record_cluster_change(row, now).await
    }

    /// Withdraws the request to stop a cluster. Returns the remaining decisions.
    pub(crate) async fn withdraw_stop(
        &self,
        row: &cluster::Model,
        control: Model,
        now: Timestamp,
    ) -> Result<Model, StoreError> {
        let control = without_stop(&control);
        self.upsert_cluster_control(control.clone()).await?;
        self.set_desired_state(row.clone(), DesiredState::Running).await?;
        self.record_cluster_change(row, now).await?;
        Ok(control)
    }

    /// Returns the end of the protection of the statement's cluster, as a subquery for a column.
    pub(crate) fn kept_until_subquery(&self) -> Expr {
        let kept_until = Query::select()
            .column(Column::KeptUntil)
            .from(Entity)
            .and_where(Expr::col((Entity, Column::AccountId)).eq(self.account_id()))
            .and_where(Expr::col((Entity, Column::ClusterId)).equals((cluster::Entity, cluster::Column::Id)))
            .take();
        Expr::SubQuery(None, Box::new(SubQueryStatement::SelectStatement(kept_until)))
    }

    async fn upsert_cluster_control(&self, control: Model) -> Result<(), StoreError> {
        self.insert::<Entity>(vec![control], &replace::<Entity>()).await?;
        Ok(())
    }

    async fn set_desired_state(
        &self,
        row: cluster::Model,
        state: DesiredState,
    ) -> Result<cluster::Model, StoreError> {
        self.update::<cluster::Entity>()
            .col_expr(cluster::Column::DesiredState, Expr::val(state))
            .filter(cluster::Column::Id.eq(row.id))
            .exec(&self.write_executor())
            .await?;
        Ok(cluster::Model { desired_state: state, ..row })
    }
}

#[expect(clippy::disallowed_methods, reason = "an operator chooses the account")]
impl SystemStore {
    /// Returns the newest clusters of an account that are in one of some states.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_control.newest", skip_all)]
    pub async fn newest_clusters(
        &self,
        account: AccountId,
        states: &[State],
        limit: u64,
    ) -> Result<Vec<cluster::Model>, StoreError> {
        let backend = self.pools.reader.get_database_backend();
        let select = cluster::Entity::find()
            .filter(cluster::Column::AccountId.eq(account))
            .filter(is_shown(cluster::Column::Id.into_expr(), account, backend))
            .filter(states_condition(states))
            .order_by_desc(cluster::Column::StartedAt)
            .order_by_desc(cluster::Column::Id);
        Ok(select.limit(limit).all(&self.pools.reader).await?)
    }

    /// Requests the stop of a cluster for an operator, unless it has closed. Returns the cluster as it was
    /// before. `None` if there is no such cluster.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cluster_control.stop", skip_all)]
    pub async fn stop_cluster(
        &self,
        account: AccountId,
        id: ClusterId,
        reason: Option<StopReason>,
        now: Timestamp,
    ) -> Result<Option<cluster::Model>, StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let select = cluster::Entity::find_by_id((account, id))
            .filter(is_shown(cluster::Column::Id.into_expr(), account, transaction.get_database_backend()))
            .lock_exclusive();
        let Some(row) = select.one(&transaction).await? else { return Ok(None) };
        if row.status == cluster::Status::Closed {
            return Ok(Some(row));
        }
        let stored = Entity::find_by_id((account, id)).one(&transaction).await?;
        let request =
            DesiredStateRequest { state: DesiredState::Stopped, user: None, owner: None, reason, at: now };
        let actor = Actor::operator(now);
        audit_log::insert_audit_entry(&transaction, account, &actor, desired_state_audit_entry(id, &request))
            .await?;
        let control = with_stop(&stored.unwrap_or_else(|| empty_control(account, id)), &request);
        let replaced =
            Entity::insert(control.into_active_model().reset_all()).on_conflict(replace::<Entity>());
        replaced.exec_without_returning(&transaction).await?;
        cluster::Entity::update_many()
            .col_expr(cluster::Column::DesiredState, Expr::val(DesiredState::Stopped))
            .col_expr(cluster::Column::ChangedAt, next_change(cluster::Column::ChangedAt, now))
            .filter(cluster::Column::AccountId.eq(account))
            .filter(cluster::Column::Id.eq(id))
            .exec(&transaction)
            .await?;
        transaction.commit().await?;
        Ok(Some(row))
    }
}

/// Returns the row of a cluster without decisions.
fn empty_control(account: AccountId, cluster: ClusterId) -> Model {
    Model {
        account_id: account,
        cluster_id: cluster,
        kept_at: None,
        kept_until: None,
        kept_by: None,
        warned_at: None,
        warned_idle_since: None,
        stop_at: None,
        stop_origin: None,
        stop_user_id: None,
        stop_reason: None,
        counted_since: None,
    }
}

/// Returns the audit entry of a request.
fn desired_state_audit_entry(cluster: ClusterId, request: &DesiredStateRequest) -> Entry {
    let reason = request.reason.clone().map_or(Value::Null, |reason| reason.into_string().into());
    let detail = json!({ "state": request.state.to_value(), "reason": reason });
    Entry::done(Action::SetDesiredState, Target::Cluster(cluster), detail)
}

fn with_stop(control: &Model, request: &DesiredStateRequest) -> Model {
    Model {
        stop_at: Some(request.at),
        stop_origin: Some(request.user.map_or(StopOrigin::Operator, |_| StopOrigin::User)),
        stop_user_id: request.user,
        stop_reason: request.reason.clone().map(StopReason::into_string),
        ..*control
    }
}

fn without_stop(control: &Model) -> Model {
    Model { stop_at: None, stop_origin: None, stop_user_id: None, stop_reason: None, ..*control }
}
