//! The tags of clusters.

use std::collections::HashMap;

use entity::{
    audit_entry::Action,
    cluster,
    cluster_tag::{Column, Entity, Model},
    ids::ClusterId,
    list::TagPattern,
};
use sea_orm::{
    ColumnTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Condition, Expr, ExprTrait, Query, SelectStatement},
};
use serde_json::json;

use super::{error::StoreError, scoped::AccountStore, upsert::replace};
use crate::domain::{
    audit::{Entry, Target},
    tag::Tag,
};

/// Which tags clusters have to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagFilter {
    /// At least one of these.
    pub any: Option<Vec<TagPattern>>,
    /// Each of these.
    pub all: Vec<TagPattern>,
    /// None of these.
    pub none: Vec<TagPattern>,
}

impl TagFilter {
    /// What clusters are asked for that pass.
    pub(super) fn condition(&self) -> Condition {
        let mut condition = Condition::all();
        if let Some(any) = &self.any {
            condition = condition.add(Expr::exists(tags_of_cluster(any)));
        }
        for pattern in &self.all {
            condition = condition.add(Expr::exists(tags_of_cluster(std::slice::from_ref(pattern))));
        }
        if !self.none.is_empty() {
            condition = condition.add(Expr::not_exists(tags_of_cluster(&self.none)));
        }
        condition
    }
}

/// Those of a cluster's tags that are meant by one of some patterns.
fn tags_of_cluster(patterns: &[TagPattern]) -> SelectStatement {
    let column = |column: Column| Expr::col((Entity, column));
    let meant = patterns.iter().fold(Condition::any(), |any, pattern| {
        let key = column(Column::Key).eq(pattern.key.as_str());
        any.add(match &pattern.value {
            Some(value) => key.and(column(Column::Value).eq(value.as_str())),
            None => key,
        })
    });
    // A condition without parts would hold.
    let meant = if patterns.is_empty() { Condition::all().add(Expr::cust("1 = 0")) } else { meant };
    Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        .and_where(column(Column::AccountId).equals((cluster::Entity, cluster::Column::AccountId)))
        .and_where(column(Column::ClusterId).equals((cluster::Entity, cluster::Column::Id)))
        .cond_where(meant)
        .take()
}

impl AccountStore {
    /// The tags of each cluster, by key; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_tag.by_cluster", skip_all)]
    pub async fn cluster_tags(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Vec<Tag>>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_in(clusters.iter().copied()));
        let mut found: HashMap<ClusterId, Vec<Tag>> = HashMap::new();
        for row in select.order_by_asc(Column::ClusterId).all(&self.reads()).await? {
            found.entry(row.cluster_id).or_default().push(Tag::stored(row.key, row.value));
        }
        // Not by the database, whose order of texts depends on its language.
        for tags in found.values_mut() {
            tags.sort();
        }
        Ok(found)
    }

    /// Puts tags on a cluster in place of those it has; `None` when there is no such cluster.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.cluster_tag.set", skip_all)]
    pub async fn set_cluster_tags(
        &self,
        cluster: ClusterId,
        tags: Vec<Tag>,
    ) -> Result<Option<cluster::Model>, StoreError> {
        self.write(move |store| {
            let tags = tags.clone();
            Box::pin(async move {
                let Some(row) = store.cluster_to_write_on(cluster).await? else { return Ok(None) };
                store.delete::<Entity>().filter(Column::ClusterId.eq(cluster)).exec(&store.writes()).await?;
                let written = tags.iter().map(|tag| match tag.value() {
                    Some(value) => format!("{}={value}", tag.key()),
                    None => tag.key().to_owned(),
                });
                let detail = json!({ "tags": written.collect::<Vec<_>>() });
                let entry = Entry::done(Action::SetClusterTags, Target::Cluster(cluster), detail);
                store.audit(entry).await?;
                let rows = tags.into_iter().map(|tag| Model {
                    account_id: store.account_id(),
                    cluster_id: cluster,
                    key: tag.key().to_owned(),
                    value: tag.value().unwrap_or_default().to_owned(),
                });
                store.insert::<Entity>(rows.collect(), &replace::<Entity>()).await?;
                Ok(Some(row))
            })
        })
        .await
    }

    /// A cluster that people write on, held against others who do until the transaction ends.
    pub(super) async fn cluster_to_write_on(
        &self,
        cluster: ClusterId,
    ) -> Result<Option<cluster::Model>, StoreError> {
        let select = self.select::<cluster::Entity>().filter(cluster::Column::Id.eq(cluster));
        Ok(select.lock_exclusive().one(&self.writes()).await?)
    }
}
