//! The tags of clusters, and filters by them.

use std::collections::HashMap;

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster,
    cluster_tag::{Column, Entity, Model},
    ids::{AccountId, ClusterId, UserId},
    json_columns::TagPattern,
};
use sea_orm::{
    ColumnTrait, QueryFilter, QueryOrder,
    sea_query::{Condition, Expr, ExprTrait, Query, SelectStatement},
};
use serde_json::json;

use super::cluster_owner::ChangeOutcome;
use crate::{
    domain::{
        audit::{Entry, Target},
        tag::Tag,
    },
    store::core::{
        composite_in::IsOneOf, error::StoreError, read_rows::ReadSelect, scoped::AccountStore,
        upsert::replace,
    },
};

/// A condition on the tags of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagFilter {
    /// At least one of these tags.
    pub any: Option<Vec<TagPattern>>,
    /// Each of these tags.
    pub all: Vec<TagPattern>,
    /// None of these tags.
    pub none: Vec<TagPattern>,
}

impl TagFilter {
    /// Returns the condition that a cluster of the account passes.
    pub(crate) fn condition(&self, account: AccountId) -> Condition {
        let mut condition = Condition::all();
        if let Some(any) = &self.any {
            condition = condition.add(Expr::exists(select_matching_tags(account, any)));
        }
        for pattern in &self.all {
            condition =
                condition.add(Expr::exists(select_matching_tags(account, std::slice::from_ref(pattern))));
        }
        if !self.none.is_empty() {
            condition = condition.add(Expr::not_exists(select_matching_tags(account, &self.none)));
        }
        condition
    }
}

/// Selects the tags of a cluster that match one of some patterns.
fn select_matching_tags(account: AccountId, patterns: &[TagPattern]) -> SelectStatement {
    let column = |column: Column| Expr::col((Entity, column));
    let condition = patterns.iter().fold(Condition::any(), |alternatives, pattern| {
        let key = column(Column::Key).eq(pattern.key.as_str());
        alternatives.add(match &pattern.value {
            Some(value) => key.and(column(Column::Value).eq(value.as_str())),
            None => key,
        })
    });
    // A condition without parts would be true.
    let condition =
        if patterns.is_empty() { Condition::all().add(Column::Key.is_one_of([""; 0])) } else { condition };
    Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        // Citus finds the node of a table that may have no row only by a constant value of the account.
        .and_where(column(Column::AccountId).eq(account.0))
        .and_where(column(Column::ClusterId).equals((cluster::Entity, cluster::Column::Id)))
        .cond_where(condition)
        .take()
}

impl AccountStore {
    /// Returns the tags of each cluster, sorted by key. Clusters without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_tag.by_cluster", skip_all)]
    pub async fn cluster_tags(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Vec<Tag>>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_one_of(clusters.iter().copied()));
        let mut tags_by_cluster: HashMap<ClusterId, Vec<Tag>> = HashMap::new();
        for row in select.order_by_asc(Column::ClusterId).read_models(&self.read_executor()).await? {
            tags_by_cluster.entry(row.cluster_id).or_default().push(Tag::stored(row.key, row.value));
        }
        // Sorted here, because the database's order of texts depends on its language.
        for tags in tags_by_cluster.values_mut() {
            tags.sort();
        }
        Ok(tags_by_cluster)
    }

    /// Returns the tags of one cluster.
    pub(crate) async fn tags_of_cluster(&self, cluster: ClusterId) -> Result<Vec<Tag>, StoreError> {
        Ok(self.cluster_tags(&[cluster]).await?.remove(&cluster).unwrap_or_default())
    }

    /// Replaces the tags of a cluster, which must belong to `owner` unless that is `None`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cluster_tag.set", skip_all)]
    pub async fn set_cluster_tags(
        &self,
        cluster: ClusterId,
        owner: Option<UserId>,
        tags: Vec<Tag>,
        now: Timestamp,
    ) -> Result<ChangeOutcome<cluster::Model>, StoreError> {
        self.write(move |store| {
            let tags = tags.clone();
            Box::pin(async move {
                let row = match store.lock_cluster_of(cluster, owner, now).await? {
                    ChangeOutcome::Done(row) => row,
                    refused => return Ok(refused),
                };
                store
                    .delete::<Entity>()
                    .filter(Column::ClusterId.eq(cluster))
                    .exec(&store.write_executor())
                    .await?;
                if row.idle_since.is_some() {
                    // An idle policy may have exempted the cluster for a tag that it no longer has.
                    store.restart_idle_count(cluster, now).await?;
                }
                let tag_texts = tags.iter().map(|tag| match tag.value() {
                    Some(value) => format!("{}={value}", tag.key()),
                    None => tag.key().to_owned(),
                });
                let detail = json!({ "tags": tag_texts.collect::<Vec<_>>() });
                let entry = Entry::done(Action::SetClusterTags, Target::Cluster(cluster), detail);
                store.record_audit_entry(entry).await?;
                let rows = tags.into_iter().map(|tag| Model {
                    account_id: store.account_id(),
                    cluster_id: cluster,
                    key: tag.key().to_owned(),
                    value: tag.value().unwrap_or_default().to_owned(),
                });
                store.insert::<Entity>(rows.collect(), &replace::<Entity>()).await?;
                Ok(ChangeOutcome::Done(row))
            })
        })
        .await
    }
}
