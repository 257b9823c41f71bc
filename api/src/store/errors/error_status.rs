//! The triage status of error groups.

use std::collections::{HashMap, HashSet};

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster,
    error_group::{Column, Entity, Model, Status},
    error_occurrence,
    ids::{ErrorGroupId, UserId},
};
use sea_orm::{
    ActiveEnum, ColumnTrait, Condition, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Alias, Expr, ExprTrait, JoinType, Query},
};
use serde_json::json;

use crate::{
    bus::ChangeKinds,
    domain::{
        audit::{Entry, Target},
        error_status::ErrorStatus,
    },
    store::{
        clusters::cluster_owner::ChangeOutcome,
        core::{
            change_feed::next_change, composite_in::IsOneOf, error::StoreError, read_rows::ReadSelect,
            scoped::AccountStore,
        },
    },
};

/// The limit of a group's newest errors that are examined for their clusters.
const MAX_EXAMINED_ERRORS: u64 = 1_000;

/// The name of the subquery of a group's newest errors.
const NEWEST: &str = "newest";

/// Returns the condition that a group has one of `statuses`.
pub(crate) fn has_any_status(statuses: &[ErrorStatus]) -> Condition {
    // The first condition is true for no group, so that an empty list does not match all groups.
    let never = Condition::any().add(Column::Status.is_one_of([""; 0]));
    let all_statuses =
        [ErrorStatus::Open, ErrorStatus::Regressed, ErrorStatus::Resolved, ErrorStatus::Ignored];
    all_statuses
        .into_iter()
        .filter(|status| statuses.contains(status))
        .fold(never, |alternatives, status| alternatives.add(has_status(status)))
}

/// Returns the condition that a group has a status, by the rules of [`ErrorStatus::derive`].
fn has_status(status: ErrorStatus) -> Expr {
    let is_stored_as = |status: Status| Column::Status.eq(status);
    let (last_seen_at, resolved_until) =
        (Expr::col((Entity, Column::LastSeenAt)), Expr::col((Entity, Column::ResolvedUntil)));
    match status {
        ErrorStatus::Open => is_stored_as(Status::Open),
        ErrorStatus::Ignored => is_stored_as(Status::Ignored),
        ErrorStatus::Regressed => is_stored_as(Status::Resolved).and(last_seen_at.gt(resolved_until)),
        ErrorStatus::Resolved => is_stored_as(Status::Resolved).and(last_seen_at.lte(resolved_until)),
    }
}

impl AccountStore {
    /// Sets the status of a group of errors, and notifies subscribers. One of the group's newest errors must
    /// have happened on a cluster of `owner`, unless that is `None`; see [`Self::error_groups_of_user`].
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.error_status.set", skip_all)]
    pub async fn set_error_status(
        &self,
        group: ErrorGroupId,
        status: Status,
        (user, owner): (UserId, Option<UserId>),
        now: Timestamp,
    ) -> Result<ChangeOutcome<Model>, StoreError> {
        // Errors have the times of schedulers' clocks. The resolution covers errors of a clock that is
        // fast, too.
        let last_seen_at = || Expr::col((Entity, Column::LastSeenAt));
        let resolved_until = match status {
            Status::Resolved => {
                Expr::case(last_seen_at().gt(now), last_seen_at()).finally(Expr::val(now)).into()
            }
            Status::Open | Status::Ignored => Expr::val(Option::<Timestamp>::None),
        };
        self.write(move |store| {
            let update = store
                .update::<Entity>()
                .col_expr(Column::Status, Expr::val(status))
                .col_expr(Column::StatusChangedAt, Expr::val(now))
                .col_expr(Column::StatusChangedBy, Expr::val(user))
                .col_expr(Column::ResolvedUntil, resolved_until.clone())
                .col_expr(Column::ChangedAt, next_change(Column::ChangedAt, now))
                .filter(Column::Id.eq(group));
            Box::pin(async move {
                let is_permitted = match owner {
                    Some(owner) => store.error_groups_of_user(owner, &[group]).await?.contains(&group),
                    None => true,
                };
                if is_permitted && update.exec(&store.write_executor()).await?.rows_affected > 0 {
                    let detail = json!({ "status": status.to_value() });
                    let entry = Entry::done(Action::SetErrorGroupStatus, Target::ErrorGroup(group), detail);
                    store.record_audit_entry(entry).await?;
                    store.announce_account(ChangeKinds::ERROR_GROUPS);
                }
                let select = store.select::<Entity>().filter(Column::Id.eq(group));
                Ok(match select.one(&store.write_executor()).await? {
                    Some(row) if is_permitted => ChangeOutcome::Done(Box::new(row)),
                    Some(_) => ChangeOutcome::NotOwner,
                    None => ChangeOutcome::Missing,
                })
            })
        })
        .await
    }

    /// Returns those of the groups of which one of the newest 1,000 errors happened on a cluster that
    /// belongs to `user`. A group may have any number of errors, so that older ones are not examined.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_status.of_user", skip_all)]
    pub async fn error_groups_of_user(
        &self,
        user: UserId,
        groups: &[ErrorGroupId],
    ) -> Result<HashSet<ErrorGroupId>, StoreError> {
        use error_occurrence::Column::{ClusterId, GroupId, Id};
        let newest = self
            .select_with_hidden::<error_occurrence::Entity>()
            .select_only()
            .column(ClusterId)
            .filter(Expr::col((error_occurrence::Entity, GroupId)).equals((Entity, Column::Id)))
            .order_by_desc(Id)
            .order_by_desc(ClusterId)
            .limit(MAX_EXAMINED_ERRORS);
        // Errors of a group often happened on few clusters.
        let clusters = Query::select()
            .distinct()
            .column(ClusterId)
            .from_subquery(newest.into_query(), Alias::new("errors"))
            .take();
        let newest_cluster = Expr::col((Alias::new(NEWEST), ClusterId));
        let mut clusters_of_user = self
            .select::<cluster::Entity>()
            .select_only()
            .expr(Expr::val(1))
            .filter(cluster::Column::UserId.eq(user));
        let is_newest_cluster = Expr::col((cluster::Entity, cluster::Column::Id)).eq(newest_cluster);
        QuerySelect::query(&mut clusters_of_user).join_subquery(
            JoinType::InnerJoin,
            clusters,
            Alias::new(NEWEST),
            is_newest_cluster,
        );
        let groups_of_user = self
            .select::<Entity>()
            .select_only()
            .column(Column::Id)
            .filter(Column::Id.is_one_of(groups.iter().copied()))
            .filter(Expr::exists(clusters_of_user.into_query()));
        let groups_of_user: Vec<ErrorGroupId> = groups_of_user.read_column(&self.read_executor()).await?;
        Ok(groups_of_user.into_iter().collect())
    }

    /// Returns the time of the first error of each group after the group was resolved. Groups without one
    /// are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_status.regressions", skip_all)]
    pub async fn error_regressions(
        &self,
        groups: &[ErrorGroupId],
    ) -> Result<HashMap<ErrorGroupId, Timestamp>, StoreError> {
        use error_occurrence::Column::{AccountId, GroupId, OccurredAt};
        let occurrence = |column: error_occurrence::Column| Expr::col((error_occurrence::Entity, column));
        let is_in_group = occurrence(AccountId)
            .equals((Entity, Column::AccountId))
            .and(occurrence(GroupId).equals((Entity, Column::Id)));
        let mut select = self
            .select::<error_occurrence::Entity>()
            .select_only()
            .column(GroupId)
            .column_as(OccurredAt.min(), "since")
            .filter(GroupId.is_one_of(groups.iter().copied()))
            .filter(occurrence(OccurredAt).gt(Expr::col((Entity, Column::ResolvedUntil))))
            .group_by(GroupId);
        QuerySelect::query(&mut select).inner_join(Entity, is_in_group);
        let rows: Vec<(ErrorGroupId, Timestamp)> = select.read_tuples(&self.read_executor()).await?;
        Ok(rows.into_iter().collect())
    }
}
