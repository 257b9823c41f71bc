//! Whether clusters are to go on: what people and the idle policy said of that. Everybody who writes here holds the row of
//! the cluster, as a report does.

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster,
    cluster::DesiredState,
    cluster_control::{Column, Entity, Model, StopOrigin},
    ids::{AccountId, ClusterId, UserId},
};
use sea_orm::{
    ActiveEnum, ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect, TransactionTrait,
    sea_query::{Expr, ExprTrait, Query, SubQueryStatement},
};

use serde_json::{Value, json};

use super::{
    arrival::next_change, audit_entry, connect::IMMEDIATE, error::StoreError, identity::SystemStore,
    life_cycle::in_states, scoped::AccountStore, upsert::replace,
};
use crate::domain::{
    audit::{Actor, Entry, Target, time_detail},
    life_cycle::State,
    stop::Reason,
};

/// Somebody wants a cluster to stop, or to go on after all.
#[derive(Clone, Debug)]
pub struct Wish {
    /// What is wanted.
    pub state: DesiredState,
    /// The member who wants it; none for an operator.
    pub user: Option<UserId>,
    /// Why.
    pub reason: Option<Reason>,
    /// When they said so.
    pub at: Timestamp,
}

/// What came of somebody's wish to keep a cluster.
#[derive(Clone, Debug)]
pub enum Kept {
    /// It is kept.
    Until(Box<cluster::Model>),
    /// It has closed.
    Closed(Box<cluster::Model>),
    /// There is no such cluster.
    Missing,
}

impl AccountStore {
    /// What was said of each cluster; those of which nobody said anything are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_control.by_cluster", skip_all)]
    pub async fn cluster_controls(&self, clusters: &[ClusterId]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_in(clusters.iter().copied()));
        Ok(select.all(&self.reads()).await?)
    }

    /// Says what the account wants of a cluster; `None` when there is no such cluster.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.cluster_control.wish", skip_all)]
    pub async fn wish_of_cluster(
        &self,
        id: ClusterId,
        wish: Wish,
    ) -> Result<Option<cluster::Model>, StoreError> {
        self.write(move |store| {
            let wish = wish.clone();
            Box::pin(async move {
                let Some(row) = store.cluster_to_write_on(id, wish.at).await? else { return Ok(None) };
                let control = store.cluster_control(id).await?;
                let control = match wish.state {
                    DesiredState::Stopped => stopped(&control, &wish),
                    DesiredState::Running => without_stop(&control),
                };
                store.put_cluster_control(control).await?;
                store.audit(wish_entry(id, &wish)).await?;
                store.set_desired_state(row, wish.state).await.map(Some)
            })
        })
        .await
    }

    /// Says until when a cluster is not to be stopped for being idle. What the idle policy said of it before is void.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.cluster_control.keep", skip_all)]
    pub async fn keep_cluster(
        &self,
        id: ClusterId,
        user: UserId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Kept, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let Some(row) = store.cluster_to_write_on(id, now).await? else { return Ok(Kept::Missing) };
                if row.status == cluster::Status::Closed {
                    return Ok(Kept::Closed(Box::new(row)));
                }
                let control = store.cluster_control(id).await?;
                let by_policy = control.stop_origin == Some(StopOrigin::IdlePolicy);
                let control = if by_policy { without_stop(&control) } else { control };
                store
                    .put_cluster_control(Model {
                        kept_at: Some(now),
                        kept_until: Some(until),
                        kept_by: Some(user),
                        ..control
                    })
                    .await?;
                let detail = json!({ "until": time_detail(Some(until)) });
                store.audit(Entry::done(Action::KeepAlive, Target::Cluster(id), detail)).await?;
                let row =
                    if by_policy { store.set_desired_state(row, DesiredState::Running).await? } else { row };
                Ok(Kept::Until(Box::new(row)))
            })
        })
        .await
    }

    /// What was said of a cluster, or that nothing was, as it is written.
    pub(crate) async fn cluster_control(&self, cluster: ClusterId) -> Result<Model, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        let nothing = || nothing_said(self.account_id(), cluster);
        Ok(select.one(&self.writes()).await?.unwrap_or_else(nothing))
    }

    /// Marks a cluster that has been idle for long, and that may be stopped for it.
    pub(crate) async fn warn_cluster(
        &self,
        row: &cluster::Model,
        control: Model,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let warned = Model { warned_at: Some(now), warned_idle_since: row.idle_since, ..control };
        self.put_cluster_control(warned).await?;
        self.touch_cluster(row, now).await
    }

    /// Says that a cluster is to stop because it has been idle for too long.
    pub(crate) async fn stop_idle_cluster(
        &self,
        row: &cluster::Model,
        control: Model,
        reason: Reason,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let stopped = Model {
            stop_at: Some(now),
            stop_origin: Some(StopOrigin::IdlePolicy),
            stop_user_id: None,
            stop_reason: Some(reason.into_string()),
            ..control
        };
        self.put_cluster_control(stopped).await?;
        self.set_desired_state(row.clone(), DesiredState::Stopped).await?;
        self.touch_cluster(row, now).await
    }

    /// Takes back that a cluster is to stop.
    pub(crate) async fn let_cluster_go_on(
        &self,
        row: &cluster::Model,
        control: Model,
        now: Timestamp,
    ) -> Result<Model, StoreError> {
        let control = without_stop(&control);
        self.put_cluster_control(control.clone()).await?;
        self.set_desired_state(row.clone(), DesiredState::Running).await?;
        self.touch_cluster(row, now).await?;
        Ok(control)
    }

    /// Until when the cluster of a statement is kept, as a column of it.
    pub(super) fn kept_until(&self) -> Expr {
        let kept = Query::select()
            .column(Column::KeptUntil)
            .from(Entity)
            .and_where(Expr::col((Entity, Column::AccountId)).eq(self.account_id()))
            .and_where(Expr::col((Entity, Column::ClusterId)).equals((cluster::Entity, cluster::Column::Id)))
            .take();
        Expr::SubQuery(None, Box::new(SubQueryStatement::SelectStatement(kept)))
    }

    async fn put_cluster_control(&self, control: Model) -> Result<(), StoreError> {
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
            .exec(&self.writes())
            .await?;
        Ok(cluster::Model { desired_state: state, ..row })
    }
}

#[expect(clippy::disallowed_methods, reason = "an operator names the account")]
impl SystemStore {
    /// The newest clusters of an account in some states.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_control.newest", skip_all)]
    pub async fn newest_clusters(
        &self,
        account: AccountId,
        states: &[State],
        limit: u64,
    ) -> Result<Vec<cluster::Model>, StoreError> {
        let select = cluster::Entity::find()
            .filter(cluster::Column::AccountId.eq(account))
            .filter(in_states(states))
            .order_by_desc(cluster::Column::StartedAt)
            .order_by_desc(cluster::Column::Id);
        Ok(select.limit(limit).all(&self.pools.reader).await?)
    }

    /// Says that an operator wants a cluster to stop, unless it has closed, and returns it; none if there is no such cluster.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.cluster_control.stop", skip_all)]
    pub async fn stop_cluster(
        &self,
        account: AccountId,
        id: ClusterId,
        reason: Option<Reason>,
        now: Timestamp,
    ) -> Result<Option<cluster::Model>, StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let select = cluster::Entity::find_by_id((account, id)).lock_exclusive();
        let Some(row) = select.one(&transaction).await? else { return Ok(None) };
        if row.status == cluster::Status::Closed {
            return Ok(Some(row));
        }
        let known = Entity::find_by_id((account, id)).one(&transaction).await?;
        let wish = Wish { state: DesiredState::Stopped, user: None, reason, at: now };
        let by = Actor::operator(now);
        audit_entry::add(&transaction, account, &by, wish_entry(id, &wish)).await?;
        let control = stopped(&known.unwrap_or_else(|| nothing_said(account, id)), &wish);
        let replaced =
            Entity::insert(control.into_active_model().reset_all()).on_conflict(replace::<Entity>());
        replaced.exec_without_returning(&transaction).await?;
        cluster::Entity::update_many()
            .col_expr(cluster::Column::DesiredState, Expr::val(DesiredState::Stopped))
            .col_expr(cluster::Column::ChangedAt, next_change(now))
            .filter(cluster::Column::AccountId.eq(account))
            .filter(cluster::Column::Id.eq(id))
            .exec(&transaction)
            .await?;
        transaction.commit().await?;
        Ok(Some(row))
    }
}

/// A cluster of which nobody said anything.
fn nothing_said(account: AccountId, cluster: ClusterId) -> Model {
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
    }
}

/// What is written down of a wish.
fn wish_entry(cluster: ClusterId, wish: &Wish) -> Entry {
    let reason = wish.reason.clone().map_or(Value::Null, |reason| reason.into_string().into());
    let detail = json!({ "state": wish.state.to_value(), "reason": reason });
    Entry::done(Action::SetDesiredState, Target::Cluster(cluster), detail)
}

fn stopped(control: &Model, wish: &Wish) -> Model {
    Model {
        stop_at: Some(wish.at),
        stop_origin: Some(wish.user.map_or(StopOrigin::Operator, |_| StopOrigin::User)),
        stop_user_id: wish.user,
        stop_reason: wish.reason.clone().map(Reason::into_string),
        ..*control
    }
}

fn without_stop(control: &Model) -> Model {
    Model { stop_at: None, stop_origin: None, stop_user_id: None, stop_reason: None, ..*control }
}
