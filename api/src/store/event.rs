//! Events, listed by cluster.

use std::collections::{BTreeMap, HashMap};

use entity::{
    event::{Column, Entity, Model},
    ids::ClusterId,
};
use sea_orm::{ColumnTrait, Condition, QueryFilter, QuerySelect};

use super::{
    error::StoreError,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    upsert::first_wins,
};
use crate::domain::report::EventReport;

/// The orders events can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventSort {
    /// The event that happened first comes first.
    OldestFirst,
}

impl Sort for EventSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "occurred_at:asc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::OccurredAt, Column::Id]
    }

    fn descending(self) -> bool {
        false
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![KeyPart::Integer(row.occurred_at.0), row.id.into()])
    }
}

/// Which events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventParent {
    /// Of which cluster.
    pub cluster: ClusterId,
    /// Published under one of these; none means under any.
    pub topics: Option<Vec<String>>,
}

impl EventParent {
    fn condition(&self) -> Condition {
        let of_cluster = Condition::all().add(Column::ClusterId.eq(self.cluster));
        match &self.topics {
            Some(topics) => of_cluster.add(Column::Topic.is_in(topics.iter().map(String::as_str))),
            None => of_cluster,
        }
    }
}

impl AccountStore {
    /// The same page of the events of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.event.pages", skip_all)]
    pub async fn event_pages(
        &self,
        parents: &[EventParent],
        sort: EventSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |parent: &EventParent| self.select::<Entity>().filter(parent.condition());
        page::fetch_each(&self.reads(), parents.iter().map(of).collect(), sort, request).await
    }

    /// How many events each parent has; parents without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.event.counts", skip_all)]
    pub async fn event_counts(
        &self,
        parents: &[EventParent],
    ) -> Result<HashMap<EventParent, i64>, StoreError> {
        // One statement for all clusters whose events are asked for in the same way.
        let mut alike: HashMap<&Option<Vec<String>>, Vec<&EventParent>> = HashMap::new();
        for parent in parents {
            alike.entry(&parent.topics).or_default().push(parent);
        }
        let mut counts = HashMap::new();
        for (topics, parents) in alike {
            let any = parents.iter().fold(Condition::any(), |any, parent| any.add(parent.condition()));
            let rows: Vec<(ClusterId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(any)
                .group_by(Column::ClusterId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            let parent = |cluster| EventParent { cluster, topics: topics.clone() };
            counts.extend(rows.into_iter().map(|(cluster, count)| (parent(cluster), count)));
        }
        Ok(counts)
    }

    /// Writes the events of a report.
    pub(crate) async fn record_events(
        &self,
        cluster: ClusterId,
        reports: &[EventReport],
    ) -> Result<(), StoreError> {
        // By key: transactions must lock in one order.
        let rows = reports.iter().map(|report| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            occurred_at: report.at.timestamp().into(),
            id: report.id,
            topic: report.topic.as_str().to_owned(),
            worker_id: report.worker_id,
            data: report.data.as_str().to_owned(),
        });
        let rows: BTreeMap<_, _> = rows.map(|row| ((row.occurred_at, row.id), row)).collect();
        self.insert::<Entity>(rows.into_values().collect(), &first_wins::<Entity>()).await?;
        Ok(())
    }
}
