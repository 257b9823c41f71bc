//! The owner of a cluster, and the tokens that it is reported with. The first owner is the user with whose
//! credentials the first report was sent; a member may hand the cluster over.

use entity::{
    Timestamp, api_token,
    audit_entry::Action,
    cluster, cluster_removal,
    cluster_reporter::{Column, Entity, Model},
    ids::{ApiTokenId, ClusterId, UserId},
    usage_hour,
};
use sea_orm::{
    ColumnTrait, Condition, QueryFilter, QuerySelect,
    sea_query::{Expr, ExprTrait, Query, SubQueryStatement},
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    domain::audit::{Entry, Target},
    store::core::{error::StoreError, scoped::AccountStore, upsert::keep_existing_row},
};

/// The largest difference in milliseconds by which the stored time of the last report with a token may be
/// early.
pub(crate) const REPORTER_SEEN_MS: i64 = 60_000;

/// The outcome of handing a cluster over.
#[derive(Clone, Debug)]
pub enum HandOverOutcome {
    /// The cluster belongs to the user.
    Done(Box<cluster::Model>),
    /// The user is not a member of the account.
    NoMember,
    /// There is no such cluster.
    Missing,
}

/// The outcome of a change of an object by a user.
#[derive(Clone, Debug)]
pub enum ChangeOutcome<Row> {
    /// The change was made.
    Done(Box<Row>),
    /// The object belongs to another user than the change requires. Nothing was changed.
    NotOwner,
    /// There is no such object.
    Missing,
}

/// Returns the condition for reports with a token, or with a scheduler's token that was exchanged for it.
pub(crate) fn reported_with(token: &str) -> Condition {
    Condition::any().add(Column::TokenIdentifier.eq(token)).add(Column::ParentIdentifier.eq(token))
}

impl AccountStore {
    /// Returns the stage of the removal of a scheduler's cluster that a user owned. `None` if there is no
    /// such cluster that is hidden or removed.
    pub(crate) async fn removal_of_scheduler(
        &self,
        scheduler_id: &str,
        owner: UserId,
    ) -> Result<Option<cluster_removal::State>, StoreError> {
        let select = self
            .select::<cluster_removal::Entity>()
            .filter(cluster_removal::Column::SchedulerId.eq(scheduler_id))
            .filter(
                cluster_removal::Column::OwnerId.eq(owner).or(cluster_removal::Column::OwnerId.is_null()),
            );
        Ok(select
            .select_only()
            .column(cluster_removal::Column::State)
            .into_tuple()
            .one(&self.write_executor())
            .await?)
    }

    /// Locks the row of a cluster that a user changes now until the transaction ends, and records the
    /// change. `owner` is the user to whom the cluster must belong; `None` for any.
    pub(crate) async fn lock_cluster_of(
        &self,
        cluster: ClusterId,
        owner: Option<UserId>,
        now: Timestamp,
    ) -> Result<ChangeOutcome<cluster::Model>, StoreError> {
        let select = self.select::<cluster::Entity>().filter(cluster::Column::Id.eq(cluster));
        let Some(row) = select.lock_exclusive().one(&self.write_executor()).await? else {
            return Ok(ChangeOutcome::Missing);
        };
        if owner.is_some() && row.user_id != owner {
            return Ok(ChangeOutcome::NotOwner);
        }
        self.record_cluster_change(&row, now).await?;
        Ok(ChangeOutcome::Done(Box::new(row)))
    }

    /// Makes a member the owner of a cluster. From then on, reports of the cluster are accepted with the
    /// credentials of this user only. The cluster's usage counts for the new owner once its days are folded
    /// again.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cluster_owner.hand_over", skip_all)]
    pub async fn transfer_cluster(
        &self,
        cluster: ClusterId,
        user: UserId,
        now: Timestamp,
    ) -> Result<HandOverOutcome, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let ChangeOutcome::Done(row) = store.lock_cluster_of(cluster, None, now).await? else {
                    return Ok(HandOverOutcome::Missing);
                };
                let members = store.lock_members(&[user]).await?;
                if members.iter().all(|member| member.user_id != user) {
                    return Ok(HandOverOutcome::NoMember);
                }
                let detail = json!({
                    "before": row.user_id.map(|user| user.to_string()),
                    "after": user.to_string(),
                });
                let entry = Entry::done(Action::HandOverCluster, Target::Cluster(cluster), detail);
                store.record_audit_entry(entry).await?;
                store
                    .update::<cluster::Entity>()
                    .col_expr(cluster::Column::UserId, Expr::val(user))
                    .filter(cluster::Column::Id.eq(cluster))
                    .exec(&store.write_executor())
                    .await?;
                if row.user_id != Some(user) {
                    store.mark_usage_unfolded(cluster).await?;
                }
                Ok(HandOverOutcome::Done(Box::new(cluster::Model { user_id: Some(user), ..*row })))
            })
        })
        .await
    }

    /// Marks the days of a cluster's usage to be folded again, because the usage counts differently now.
    pub(crate) async fn mark_usage_unfolded(&self, cluster: ClusterId) -> Result<(), StoreError> {
        self.update_with_hidden::<usage_hour::Entity>()
            .col_expr(usage_hour::Column::Folded, Expr::val(false))
            .filter(usage_hour::Column::ClusterId.eq(cluster))
            .exec(&self.write_executor())
            .await?;
        Ok(())
    }

    /// Returns the last known time at which the statement's cluster was reported with a token, as a
    /// subquery for a column.
    pub(crate) fn reporter_seen_at_subquery(&self, token: Option<ApiTokenId>) -> Expr {
        let token = token.unwrap_or(ApiTokenId(Uuid::nil()));
        let last_seen = Query::select()
            .column(Column::LastSeenAt)
            .from(Entity)
            .and_where(Expr::col((Entity, Column::AccountId)).eq(self.account_id()))
            .and_where(Expr::col((Entity, Column::ClusterId)).equals((cluster::Entity, cluster::Column::Id)))
            .and_where(Expr::col((Entity, Column::TokenId)).eq(token))
            .take();
        Expr::SubQuery(None, Box::new(SubQueryStatement::SelectStatement(last_seen)))
    }

    /// Records that a cluster is reported with a token, at most once a minute. `seen_at` is the last known
    /// time of that.
    pub(crate) async fn record_reporter(
        &self,
        cluster: ClusterId,
        token: Option<ApiTokenId>,
        seen_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let is_known = seen_at
            .is_some_and(|seen_at| now.timestamp_millis() - seen_at.timestamp_millis() < REPORTER_SEEN_MS);
        let Some(token_id) = token.filter(|_| !is_known) else { return Ok(()) };
        if seen_at.is_some() {
            self.update::<Entity>()
                .col_expr(Column::LastSeenAt, Expr::val(now))
                .filter(Column::ClusterId.eq(cluster))
                .filter(Column::TokenId.eq(token_id))
                .exec(&self.write_executor())
                .await?;
            return Ok(());
        }
        let reporter = self.select::<api_token::Entity>().filter(api_token::Column::Id.eq(token_id));
        let reporter =
            reporter.select_only().columns([api_token::Column::Identifier, api_token::Column::ParentId]);
        let reporter: Option<(String, Option<ApiTokenId>)> =
            reporter.into_tuple().one(&self.write_executor()).await?;
        // The token was deleted while the report was processed.
        let Some((token_identifier, parent)) = reporter else { return Ok(()) };
        let parent_identifier = match parent {
            Some(parent) => {
                let parent = self.select::<api_token::Entity>().filter(api_token::Column::Id.eq(parent));
                let parent = parent.select_only().column(api_token::Column::Identifier);
                parent.into_tuple().one(&self.write_executor()).await?
            }
            None => None,
        };
        let row = Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            token_id,
            token_identifier,
            parent_identifier,
            first_seen_at: now,
            last_seen_at: now,
        };
        self.insert::<Entity>(vec![row], &keep_existing_row::<Entity>()).await?;
        Ok(())
    }
}
