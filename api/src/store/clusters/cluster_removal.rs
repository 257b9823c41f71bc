//! The removal of clusters: one row hides a cluster at once from every statement on the account, and a job
//! deletes its rows in batches.
//!
//! A quarantined cluster is only hidden, so that it can be restored. Rows that clusters share are adjusted:
//! the days of its usage are folded again without it, and the times of error groups are narrowed to the
//! errors that are shown.

use std::collections::{BTreeMap, HashSet};

use entity::{
    AccountOwned, Timestamp, alert,
    audit_entry::Action,
    client, client_span, cluster, cluster_flag,
    cluster_removal::{Column, Entity, Model, State},
    cluster_reporter, cluster_sample_chunk, computation, computation_share, computation_task_group,
    environment, error_group, error_occurrence, event, fine_metric, fine_metric_total,
    function_activity_chunk, function_usage_hour,
    ids::{AccountId, ClusterId, ErrorGroupId, UserId},
    log_line, profile, span, task_group, thread_change, usage_hour, worker, worker_sample_chunk,
};
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, FromQueryResult, Iterable, PaginatorTrait, PrimaryKeyToColumn,
    QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
    sea_query::{Expr, ExprTrait, Query, SelectStatement, SubQueryStatement},
};
use serde_json::json;

use super::cluster_owner::{REPORTER_SEEN_MS, reported_with};
use crate::{
    domain::audit::{Entry, Target},
    store::{
        accounts::ingest_day::Deletion,
        core::{
            composite_in::IsOneOf,
            error::StoreError,
            scoped::{AccountStore, Write},
            system::SystemStore,
            upsert::replace,
        },
        maintenance::retention::BATCH,
    },
};

/// The largest number of clusters that are hidden, restored or marked for removal in one transaction.
const CLUSTER_BATCH: u64 = 100;

/// The largest number of error groups in one statement.
const MAX_GROUPS_PER_STATEMENT: usize = 512;

/// The largest number of accounts that one round of the job handles.
const ACCOUNTS: u64 = 1_000;

/// A cluster whose rows are to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
pub struct DueRemoval {
    /// The account.
    pub account_id: AccountId,
    /// The cluster.
    pub cluster_id: ClusterId,
}

/// The outcome of one step of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterRemovalStep {
    /// The number of deleted rows.
    pub rows: u64,
    /// True if the cluster is deleted.
    pub is_done: bool,
    /// True if the rest has to wait until days are folded without the cluster.
    pub waits_for_daily_totals: bool,
}

/// The times of the first and the last error of a group, among those that are shown or those of one
/// cluster.
#[derive(Clone, Copy, Debug, FromQueryResult)]
struct ErrorTimes {
    group_id: ErrorGroupId,
    first_at: Timestamp,
    last_at: Timestamp,
}

impl AccountStore {
    /// Returns the stage of the removal of the statement's cluster, as a subquery for a column.
    pub(crate) fn removal_state_subquery(&self) -> Expr {
        let removal = Query::select()
            .column(Column::State)
            .from(Entity)
            .and_where(Expr::col((Entity, Column::AccountId)).eq(self.account_id()))
            .and_where(Expr::col((Entity, Column::ClusterId)).equals((cluster::Entity, cluster::Column::Id)))
            .take();
        Expr::SubQuery(None, Box::new(SubQueryStatement::SelectStatement(removal)))
    }

    /// Deletes a cluster, which may be quarantined: it is hidden at once, and a job deletes its rows.
    /// Returns false if there is no such cluster.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cluster_removal.delete", skip_all)]
    pub async fn delete_cluster(&self, id: ClusterId, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let Some((row, state)) = store.lock_with_removal(id).await? else { return Ok(false) };
                match state {
                    Some(State::Removing | State::Removed) => return Ok(false),
                    Some(State::Quarantined) => {}
                    None => store.record_cluster_change(&row, now).await?,
                }
                let detail = json!({ "scheduler_id": row.scheduler_id });
                store
                    .record_audit_entry(Entry::done(Action::DeleteCluster, Target::Cluster(id), detail))
                    .await?;
                store.upsert_removal(&row, State::Removing, None, now).await?;
                if state.is_none() {
                    store.remove_from_shared_rows(&row, now).await?;
                    store.delete_ingest_of_clusters(&[row], Deletion::Begins).await?;
                }
                Ok(true)
            })
        })
        .await
    }

    /// Returns true if the account has a token with this public half, or a cluster that was reported with
    /// it or with a token that it was exchanged for.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn has_token_or_reports(&self, identifier: &str) -> Result<bool, StoreError> {
        if self.api_token(identifier).await?.is_some() {
            return Ok(true);
        }
        let reported = self.select_with_hidden::<cluster_reporter::Entity>();
        let reported = reported.filter(reported_with(identifier));
        Ok(reported.one(&self.read_executor()).await?.is_some())
    }

    /// Deletes the clusters of a user. Returns their number.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Clusters that were hidden before the error stay
    /// hidden.
    #[tracing::instrument(name = "store.cluster_removal.delete_of_user", skip_all)]
    pub async fn delete_user_clusters(&self, user: UserId, now: Timestamp) -> Result<u64, StoreError> {
        self.repeat_in_transactions(move |store| {
            Box::pin(async move {
                let clusters = store.select::<cluster::Entity>().filter(cluster::Column::UserId.eq(user));
                let hidden_count = store.mark_batch_for_removal(clusters, now).await?;
                Ok((hidden_count, hidden_count == CLUSTER_BATCH))
            })
        })
        .await
    }

    /// Hides at most one batch of the clusters of a selection, and marks them for removal. Returns their
    /// number.
    pub(crate) async fn mark_batch_for_removal(
        &self,
        clusters: Select<cluster::Entity>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        use cluster::Column;
        let batch = clusters.select_only().column(Column::Id).order_by_asc(Column::Id).limit(CLUSTER_BATCH);
        let ids: Vec<ClusterId> = batch.into_tuple().all(&self.write_executor()).await?;
        let mut hidden = Vec::new();
        for id in &ids {
            let Some((row, None)) = self.lock_with_removal(*id).await? else { continue };
            self.record_cluster_change(&row, now).await?;
            self.upsert_removal(&row, State::Removing, None, now).await?;
            self.remove_from_shared_rows(&row, now).await?;
            hidden.push(row);
        }
        self.delete_ingest_of_clusters(&hidden, Deletion::Begins).await?;
        Ok(ids.len() as u64)
    }

    /// Hides all clusters that were reported with a token at `since` or later, and some whose last report was
    /// up to a minute earlier, because that time is updated at most once a minute. Returns their number.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Clusters that were hidden before the error stay
    /// hidden.
    #[tracing::instrument(name = "store.cluster_removal.quarantine", skip_all)]
    pub async fn quarantine_reports(
        &self,
        token: &str,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let token = token.to_owned();
        self.repeat_in_transactions(move |store| {
            let token = token.clone();
            Box::pin(async move {
                let seen_after = since.timestamp_millis().saturating_sub(REPORTER_SEEN_MS);
                let ids: Vec<ClusterId> = store
                    .select::<cluster_reporter::Entity>()
                    .select_only()
                    .column(cluster_reporter::Column::ClusterId)
                    .filter(reported_with(&token))
                    .filter(cluster_reporter::Column::LastSeenAt.gt(seen_after))
                    .order_by_asc(cluster_reporter::Column::ClusterId)
                    .limit(CLUSTER_BATCH)
                    .into_tuple()
                    .all(&store.write_executor())
                    .await?;
                let mut hidden = Vec::new();
                for id in &ids {
                    let Some((row, None)) = store.lock_with_removal(*id).await? else { continue };
                    store.record_cluster_change(&row, now).await?;
                    store.upsert_removal(&row, State::Quarantined, Some(token.clone()), now).await?;
                    store.remove_from_shared_rows(&row, now).await?;
                    hidden.push(row);
                }
                store.delete_ingest_of_clusters(&hidden, Deletion::Begins).await?;
                let hidden = hidden.len() as u64;
                if hidden > 0 || ids.is_empty() {
                    let detail = json!({ "quarantined": hidden, "since": since.0.to_rfc3339() });
                    store
                        .record_audit_entry(Entry::done(Action::ForgetToken, Target::ApiToken(token), detail))
                        .await?;
                }
                Ok((hidden, ids.len() as u64 == CLUSTER_BATCH))
            })
        })
        .await
    }

    /// Restores the clusters that were quarantined for a token. Returns their number.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Clusters that were restored before the error stay
    /// restored.
    #[tracing::instrument(name = "store.cluster_removal.restore", skip_all)]
    pub async fn restore_reports(&self, token: &str, now: Timestamp) -> Result<u64, StoreError> {
        let token = token.to_owned();
        self.repeat_in_transactions(move |store| {
            let token = token.clone();
            Box::pin(async move {
                let quarantined =
                    store.quarantined_removals(&token).order_by_asc(Column::ClusterId).limit(CLUSTER_BATCH);
                let rows: Vec<Model> = quarantined.all(&store.write_executor()).await?;
                let mut restored_clusters = Vec::new();
                for removal in &rows {
                    let id = removal.cluster_id;
                    let cluster = store.lock_with_removal(id).await?;
                    let removal_row = store.delete::<Entity>().filter(Column::ClusterId.eq(id));
                    removal_row.exec(&store.write_executor()).await?;
                    let Some((row, _)) = cluster else { continue };
                    store.add_to_shared_rows(&row, now).await?;
                    store.record_cluster_change(&row, now).await?;
                    restored_clusters.push(row);
                }
                store.delete_ingest_of_clusters(&restored_clusters, Deletion::Ends).await?;
                let restored = rows.len() as u64;
                if restored > 0 || rows.is_empty() {
                    let detail = json!({ "restored": restored });
                    store
                        .record_audit_entry(Entry::done(
                            Action::RestoreToken,
                            Target::ApiToken(token),
                            detail,
                        ))
                        .await?;
                }
                Ok((restored, restored == CLUSTER_BATCH))
            })
        })
        .await
    }

    /// Marks the clusters that were quarantined for a token for removal. Returns their number.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cluster_removal.confirm", skip_all)]
    pub async fn remove_quarantined(&self, token: &str, now: Timestamp) -> Result<u64, StoreError> {
        let token = token.to_owned();
        self.write(move |store| {
            let token = token.clone();
            Box::pin(async move {
                let update = store
                    .update::<Entity>()
                    .col_expr(Column::State, Expr::val(State::Removing))
                    .col_expr(Column::ChangedAt, Expr::val(now))
                    .filter(Column::TokenIdentifier.eq(token.as_str()))
                    .filter(Column::State.eq(State::Quarantined));
                let removed_count = update.exec(&store.write_executor()).await?.rows_affected;
                if removed_count > 0 {
                    let detail = json!({ "removed": removed_count });
                    store
                        .record_audit_entry(Entry::done(Action::ForgetToken, Target::ApiToken(token), detail))
                        .await?;
                }
                Ok(removed_count)
            })
        })
        .await
    }

    /// Deletes a bounded number of rows of a cluster, and at last the cluster itself. The removal's row
    /// stays as a record.
    #[tracing::instrument(name = "store.cluster_removal.remove", skip_all)]
    pub(crate) async fn remove_cluster_batch(
        &self,
        cluster: ClusterId,
        now: Timestamp,
    ) -> Result<ClusterRemovalStep, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let rows = store.remove_rows_of_cluster(cluster).await?;
                if rows >= BATCH {
                    return Ok(ClusterRemovalStep { rows, is_done: false, waits_for_daily_totals: false });
                }
                // Waits until the daily totals are computed without these hours: later they could not be.
                let unfolded = store
                    .select_with_hidden::<usage_hour::Entity>()
                    .filter(usage_hour::Column::ClusterId.eq(cluster));
                if unfolded.count(&store.write_executor()).await? > 0 {
                    return Ok(ClusterRemovalStep { rows, is_done: false, waits_for_daily_totals: true });
                }
                store.delete_empty_groups().await?;
                let subject = format!("cluster:{cluster}");
                let condition = alert::Column::Subject
                    .eq(subject.as_str())
                    .or(alert::Column::Subject.starts_with(format!("{subject}:")));
                store.delete::<alert::Entity>().filter(condition).exec(&store.write_executor()).await?;
                if let Some((row, _)) = store.lock_with_removal(cluster).await? {
                    store.remove_ingest_of_cluster(&row).await?;
                }
                // The remaining tables have few rows of the cluster, which are deleted with it.
                let cluster_row = store.delete_with_hidden::<cluster::Entity>();
                cluster_row.filter(cluster::Column::Id.eq(cluster)).exec(&store.write_executor()).await?;
                store
                    .update::<Entity>()
                    .col_expr(Column::State, Expr::val(State::Removed))
                    .col_expr(Column::ChangedAt, Expr::val(now))
                    .filter(Column::ClusterId.eq(cluster))
                    .exec(&store.write_executor())
                    .await?;
                Ok(ClusterRemovalStep { rows: rows + 1, is_done: true, waits_for_daily_totals: false })
            })
        })
        .await
    }

    /// Runs transactions until one returns that nothing is left to do. Returns the sum of their numbers.
    async fn repeat_in_transactions(
        &self,
        operation: impl Fn(Self) -> Write<(u64, bool)> + Clone + Send + Sync + 'static,
    ) -> Result<u64, StoreError> {
        let mut total = 0;
        loop {
            let (count, has_more) = self.write(operation.clone()).await?;
            total += count;
            if !has_more {
                return Ok(total);
            }
        }
    }

    /// Locks the row of a cluster, hidden or not, against reports until the transaction ends. Returns it
    /// with the stage of its removal.
    pub(crate) async fn lock_with_removal(
        &self,
        id: ClusterId,
    ) -> Result<Option<(cluster::Model, Option<State>)>, StoreError> {
        let select = self.select_with_hidden::<cluster::Entity>().filter(cluster::Column::Id.eq(id));
        let Some(row) = select.lock_exclusive().one(&self.write_executor()).await? else { return Ok(None) };
        let removal =
            self.select::<Entity>().filter(Column::ClusterId.eq(id)).one(&self.write_executor()).await?;
        Ok(Some((row, removal.map(|removal| removal.state))))
    }

    async fn upsert_removal(
        &self,
        row: &cluster::Model,
        state: State,
        token: Option<String>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let removal = Model {
            account_id: self.account_id(),
            cluster_id: row.id,
            scheduler_id: row.scheduler_id.clone(),
            state,
            changed_at: now,
            user_id: self.actor().and_then(|actor| actor.user.as_ref().map(|(user, _)| *user)),
            token_identifier: token,
            owner_id: row.user_id,
        };
        self.insert::<Entity>(vec![removal], &replace::<Entity>()).await?;
        Ok(())
    }

    /// Removes a cluster, which is hidden already, from the rows that it shares with others.
    async fn remove_from_shared_rows(&self, row: &cluster::Model, now: Timestamp) -> Result<(), StoreError> {
        use error_group::Column;
        self.mark_usage_unfolded(row.id).await?;
        let error_times = self.load_cluster_error_times(row.id).await?;
        for chunk in error_times.chunks(MAX_GROUPS_PER_STATEMENT) {
            let shown_times = self.load_shown_error_times(chunk.iter().map(|times| times.group_id)).await?;
            let groups = self.select::<error_group::Entity>();
            let groups = groups.filter(Column::Id.is_one_of(chunk.iter().map(|times| times.group_id)));
            let groups: BTreeMap<_, _> = groups
                .all(&self.write_executor())
                .await?
                .into_iter()
                .map(|group| (group.id, group))
                .collect();
            let mut groups_without_errors = Vec::new();
            for times in chunk {
                let Some(group) = groups.get(&times.group_id) else { continue };
                let Some(remaining_times) = shown_times.get(&times.group_id) else {
                    groups_without_errors.push(times.group_id);
                    continue;
                };
                // A bound that is not this cluster's own stays: it may come from an error that retention
                // has deleted.
                let narrow = |bound: Timestamp, cluster_bound: Timestamp, shown_bound: Timestamp| {
                    if bound.0 == cluster_bound.0 { shown_bound } else { bound }
                };
                let first_seen_at = narrow(group.first_seen_at, times.first_at, remaining_times.first_at);
                let last_seen_at = narrow(group.last_seen_at, times.last_at, remaining_times.last_at);
                if (first_seen_at.0, last_seen_at.0) != (group.first_seen_at.0, group.last_seen_at.0) {
                    self.set_error_times(group.id, (first_seen_at, last_seen_at), now).await?;
                }
            }
            if !groups_without_errors.is_empty() {
                self.update::<error_group::Entity>()
                    .col_expr(Column::HiddenAt, Expr::val(now))
                    .filter(Column::Id.is_one_of(groups_without_errors))
                    .exec(&self.write_executor())
                    .await?;
            }
        }
        Ok(())
    }

    /// Adds a cluster, which is shown again, to the rows that it shares with others.
    async fn add_to_shared_rows(&self, row: &cluster::Model, now: Timestamp) -> Result<(), StoreError> {
        use error_group::Column;
        self.mark_usage_unfolded(row.id).await?;
        let error_times = self.load_cluster_error_times(row.id).await?;
        for chunk in error_times.chunks(MAX_GROUPS_PER_STATEMENT) {
            let groups = self.select_with_hidden::<error_group::Entity>();
            let groups = groups.filter(Column::Id.is_one_of(chunk.iter().map(|times| times.group_id)));
            let groups: BTreeMap<_, _> = groups
                .all(&self.write_executor())
                .await?
                .into_iter()
                .map(|group| (group.id, group))
                .collect();
            for times in chunk {
                let Some(group) = groups.get(&times.group_id) else { continue };
                let (first_seen_at, last_seen_at) = if group.hidden_at.is_some() {
                    (times.first_at, times.last_at)
                } else {
                    let first_seen_at = std::cmp::min(group.first_seen_at.0, times.first_at.0);
                    (first_seen_at.into(), std::cmp::max(group.last_seen_at.0, times.last_at.0).into())
                };
                self.set_error_times(group.id, (first_seen_at, last_seen_at), now).await?;
            }
        }
        Ok(())
    }

    /// Returns the times of the errors of a cluster, by group.
    async fn load_cluster_error_times(&self, cluster: ClusterId) -> Result<Vec<ErrorTimes>, StoreError> {
        use error_occurrence::Column;
        let errors = self.select_with_hidden::<error_occurrence::Entity>();
        let errors = select_error_times(errors.filter(Column::ClusterId.eq(cluster)));
        // In the order in which reports write the groups, so that locks are taken in one order.
        let ordered = errors.order_by_asc(Column::GroupId);
        Ok(ordered.into_model().all(&self.write_executor()).await?)
    }

    /// Returns the times of the shown errors of some groups. Groups without any are missing.
    async fn load_shown_error_times(
        &self,
        groups: impl Iterator<Item = ErrorGroupId>,
    ) -> Result<BTreeMap<ErrorGroupId, ErrorTimes>, StoreError> {
        use error_occurrence::Column;
        let errors = self.select::<error_occurrence::Entity>().filter(Column::GroupId.is_one_of(groups));
        let times: Vec<ErrorTimes> =
            select_error_times(errors).into_model().all(&self.write_executor()).await?;
        Ok(times.into_iter().map(|group_times| (group_times.group_id, group_times)).collect())
    }

    /// Deletes the hidden groups that have no errors left.
    async fn delete_empty_groups(&self) -> Result<(), StoreError> {
        use error_group::Column;
        let hidden = self.select_with_hidden::<error_group::Entity>().filter(Column::HiddenAt.is_not_null());
        let hidden: Vec<ErrorGroupId> =
            hidden.select_only().column(Column::Id).into_tuple().all(&self.write_executor()).await?;
        for chunk in hidden.chunks(MAX_GROUPS_PER_STATEMENT) {
            let groups_with_errors: Vec<ErrorGroupId> = self
                .select_with_hidden::<error_occurrence::Entity>()
                .select_only()
                .column(error_occurrence::Column::GroupId)
                .distinct()
                .filter(error_occurrence::Column::GroupId.is_one_of(chunk.iter().copied()))
                .into_tuple()
                .all(&self.write_executor())
                .await?;
            let groups_with_errors: HashSet<ErrorGroupId> = groups_with_errors.into_iter().collect();
            let empty_groups: Vec<ErrorGroupId> =
                chunk.iter().copied().filter(|id| !groups_with_errors.contains(id)).collect();
            if !empty_groups.is_empty() {
                let groups = self.delete_with_hidden::<error_group::Entity>();
                groups.filter(Column::Id.is_one_of(empty_groups)).exec(&self.write_executor()).await?;
            }
        }
        Ok(())
    }

    /// Deletes rows of a cluster, at most [`BATCH`]. Tables that are not named here have few rows of a
    /// cluster, which are deleted with it.
    async fn remove_rows_of_cluster(&self, cluster: ClusterId) -> Result<u64, StoreError> {
        let folded = Condition::all().add(usage_hour::Column::Folded.eq(true));
        let mut rows = 0;
        macro_rules! remove {
            ($($noun:ident),+ $(,)?) => {$(
                rows += self.remove_rows::<$noun::Entity>(cluster, Condition::all(), BATCH - rows).await?;
                if rows >= BATCH {
                    return Ok(rows);
                }
            )+};
        }
        remove!(
            log_line,
            event,
            profile,
            worker_sample_chunk,
            cluster_sample_chunk,
            function_activity_chunk,
            error_occurrence,
            computation_task_group,
            computation_share,
            computation,
            task_group,
            client_span,
            fine_metric_total,
            fine_metric,
            span,
            thread_change,
            cluster_flag,
            client,
            worker,
            environment,
            function_usage_hour,
        );
        Ok(rows + self.remove_rows::<usage_hour::Entity>(cluster, folded, BATCH - rows).await?)
    }

    async fn remove_rows<E: AccountOwned>(
        &self,
        cluster: ClusterId,
        condition: Condition,
        limit: u64,
    ) -> Result<u64, StoreError> {
        let cluster_id = E::CLUSTER_ID.expect("the table is one of clusters");
        let key = || E::PrimaryKey::iter().map(PrimaryKeyToColumn::into_column);
        let batch = self.select_with_hidden::<E>().select_only().columns(key());
        let batch = batch.filter(cluster_id.eq(cluster)).filter(condition).limit(limit).into_query();
        let row_key = Expr::tuple(key().map(|column| Expr::col(column.as_column_ref())));
        // The cluster is repeated, so that only its range of the table is read.
        let remove = self.delete_with_hidden::<E>().filter(cluster_id.eq(cluster));
        Ok(remove.filter(row_key.in_subquery(batch)).exec(&self.write_executor()).await?.rows_affected)
    }

    fn quarantined_removals(&self, token: &str) -> Select<Entity> {
        let removals_of_token = self.select::<Entity>().filter(Column::TokenIdentifier.eq(token));
        removals_of_token.filter(Column::State.eq(State::Quarantined))
    }

    pub(crate) fn quarantined_ids(&self, token: &str) -> SelectStatement {
        self.quarantined_removals(token).select_only().column(Column::ClusterId).into_query()
    }
}

/// Selects the times of the first and the last error of each group.
fn select_error_times(errors: Select<error_occurrence::Entity>) -> Select<error_occurrence::Entity> {
    use error_occurrence::Column;
    errors
        .select_only()
        .column(Column::GroupId)
        .column_as(Column::OccurredAt.min(), "first_at")
        .column_as(Column::OccurredAt.max(), "last_at")
        .filter(Column::GroupId.is_not_null())
        .group_by(Column::GroupId)
}

#[expect(clippy::disallowed_methods, reason = "clusters of all accounts are removed")]
impl SystemStore {
    /// Returns one cluster to be deleted of each account that has any.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_removal.due", skip_all)]
    pub async fn removals_due(&self) -> Result<Vec<DueRemoval>, StoreError> {
        let removals = Entity::find()
            .select_only()
            .column(Column::AccountId)
            .column_as(Column::ClusterId.min(), "cluster_id")
            .filter(Column::State.eq(State::Removing))
            // Repeats the condition of the partial index, so that the index is used.
            .filter(Expr::cust("cluster_removals.state <> 'removed'"))
            .group_by(Column::AccountId)
            .order_by_asc(Column::AccountId)
            .limit(ACCOUNTS);
        Ok(removals.into_model().all(&self.pools.reader).await?)
    }
}
