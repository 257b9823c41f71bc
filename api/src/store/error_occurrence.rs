//! Errors, listed by cluster, by computation or over all clusters.

use std::collections::{BTreeMap, HashMap};

use entity::{
    error_group::Origin,
    error_occurrence::{Column, Entity, Model},
    ids::{ClusterId, ComputationId, ErrorGroupId, ErrorOccurrenceId},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, FromQueryResult, PaginatorTrait, QueryFilter, QuerySelect,
    QueryTrait, sea_query::Expr,
};
use serde::{Deserialize, Serialize};

use super::{
    account_list::{TimeRange, unsaid},
    arrival::Arrivals,
    cluster_filter::ClusterFilter,
    error::StoreError,
    lists,
    one_of::one_of,
    page::{self, Extent, Key, KeyPart, Page, PageRequest, Slice, Sort},
    scoped::AccountStore,
    sealed::RowName,
    search::search,
    upsert::first_wins,
};
use crate::{
    domain::{answer::ErrorKind, bounded::Text, fingerprint::Fingerprint, report::ErrorReport},
    seal::SealError,
};

/// The orders errors can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorSort {
    /// The error that happened last comes first: its identifier grows with time.
    NewestFirst,
    /// The same over several clusters, whose reporters make identifiers apart from each other.
    NewestOfAllFirst,
    /// The error that happened last by the schedulers' clocks comes first, over all clusters.
    LatestOfAllFirst,
    /// In the order in which they arrived.
    AsArrived,
}

impl Sort for ErrorSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        match self {
            Self::NewestFirst => "id:desc",
            Self::NewestOfAllFirst => "id,cluster_id:desc",
            Self::LatestOfAllFirst => "occurred_at,cluster_id:desc",
            Self::AsArrived => "arrived_at:asc",
        }
    }

    fn columns(self) -> Vec<Column> {
        match self {
            Self::NewestFirst => vec![Column::Id],
            Self::NewestOfAllFirst => vec![Column::Id, Column::ClusterId],
            Self::LatestOfAllFirst => vec![Column::OccurredAt, Column::ClusterId, Column::Id],
            Self::AsArrived => vec![Column::ArrivedAt, Column::ClusterId, Column::OccurredAt, Column::Id],
        }
    }

    fn descending(self) -> bool {
        self != Self::AsArrived
    }

    fn accepts(self, key: &Key) -> bool {
        match self {
            Self::NewestFirst => matches!(key.0[..], [KeyPart::Uuid(_)]),
            Self::NewestOfAllFirst => matches!(key.0[..], [KeyPart::Uuid(_), KeyPart::Integer(_)]),
            Self::LatestOfAllFirst => key.is_time_in_account(),
            // Streams have cursors of their own.
            Self::AsArrived => false,
        }
    }

    fn key(self, row: &Model) -> Key {
        match self {
            Self::NewestFirst => Key(vec![row.id.into()]),
            Self::NewestOfAllFirst => Key(vec![row.id.into(), row.cluster_id.into()]),
            Self::LatestOfAllFirst => Key::time_in_account(row.occurred_at, row.cluster_id, row.id),
            Self::AsArrived => Key::arrival(row.arrived_at, row.cluster_id, row.occurred_at, row.id),
        }
    }
}

/// Whose errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorParent {
    /// All of a cluster's.
    Cluster(ClusterId),
    /// Those of a computation.
    Computation(ClusterId, ComputationId),
    /// Those that look alike, on all clusters.
    Group(ErrorGroupId),
}

impl ErrorParent {
    fn condition(self) -> Condition {
        match self {
            Self::Cluster(cluster) => Condition::all().add(Column::ClusterId.eq(cluster)),
            Self::Computation(cluster, computation) => {
                Condition::all().add(Column::ClusterId.eq(cluster)).add(Column::ComputationId.eq(computation))
            }
            Self::Group(group) => Condition::all().add(Column::GroupId.eq(group)),
        }
    }
}

/// Which errors of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountErrors {
    /// Of which clusters.
    pub clusters: ClusterFilter,
    /// Happened when.
    pub at: TimeRange,
    /// Whose failures.
    pub origin: Option<Origin>,
    /// Of one of these classes of exceptions.
    pub types: Option<Vec<String>>,
}

/// How many errors are read in search of some words before the search has to be continued by a cursor: they are as long
/// as many lines of a log.
const ERRORS_PER_SEARCH: u64 = 500;

/// The texts of an error, which are encrypted where they lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorText {
    /// The exception's text.
    pub message: String,
    /// The traceback; empty when there is none.
    pub traceback: String,
}

impl AccountStore {
    /// A page of the errors of all clusters that a filter passes. With `words` of those whose texts can be read and contain
    /// them, in any case of letters: so many at the most are read then.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.page", skip_all)]
    pub async fn account_error_page(
        &self,
        of: &AccountErrors,
        words: Option<&str>,
        sort: ErrorSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.during(Column::OccurredAt, unsaid(of.at, sort.descending(), request));
        let condition = self.account_errors(of);
        let Some(words) = words.map(str::to_lowercase) else {
            return search(&self.reads(), select, condition, sort, request).await;
        };
        // The texts are what is searched.
        let errors = PageRequest { limit: ERRORS_PER_SEARCH, extent: Extent::Whole, ..request.clone() };
        let page = search(&self.reads(), select, condition, sort, &errors).await?;
        // What cannot be read is not what was searched for.
        Ok(page.search(request, |row| self.error_contains(row, &words)))
    }

    /// A slice of the errors of all clusters that a filter passes, those that happened last first. With a `cluster` of that
    /// one alone, where those that were told of last come first.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.slice", skip_all)]
    pub async fn error_slice(
        &self,
        of: &AccountErrors,
        cluster: Option<ClusterId>,
        slice: Slice,
    ) -> Result<Vec<Model>, StoreError> {
        let select = self.during::<Entity>(Column::OccurredAt, of.at).filter(self.account_errors(of));
        let (select, sort) = match cluster {
            Some(cluster) => (select.filter(Column::ClusterId.eq(cluster)), ErrorSort::NewestFirst),
            None => (select, ErrorSort::LatestOfAllFirst),
        };
        page::fetch_slice(&self.reads(), select, sort, slice).await
    }

    /// Whether the texts of an error can be read and contain some words, which are in lower case.
    pub(crate) fn error_contains(&self, row: &Model, words: &str) -> bool {
        let text = self.error_text(row).unwrap_or_default();
        [text.message, text.traceback].iter().any(|text| text.to_lowercase().contains(words))
    }

    /// Errors that arrived, in that order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.arrived", skip_all)]
    pub async fn arrived_errors(
        &self,
        of: &AccountErrors,
        arrivals: &[Arrivals],
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let columns = (Column::ArrivedAt, Column::ClusterId, Column::OccurredAt, Column::Id);
        self.as_arrived(arrivals, columns, self.account_errors(of), ErrorSort::AsArrived, limit).await
    }

    /// How many errors of all clusters a filter passes.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.count", skip_all)]
    pub async fn account_error_count(&self, of: &AccountErrors) -> Result<u64, StoreError> {
        let all = self.during::<Entity>(Column::OccurredAt, of.at).filter(self.account_errors(of));
        Ok(all.count(&self.reads()).await?)
    }

    fn account_errors(&self, of: &AccountErrors) -> Condition {
        let is_one = |types: &Vec<String>| Column::ExceptionType.is_in(types.iter().map(String::as_str));
        Condition::all()
            .add_option(of.origin.map(|origin| Column::Origin.eq(origin)))
            .add_option(of.types.as_ref().map(is_one))
            .add_option(self.of_clusters(&of.clusters, Column::ClusterId))
    }

    /// The same page of the errors of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.pages", skip_all)]
    pub async fn error_pages(
        &self,
        parents: &[ErrorParent],
        sort: ErrorSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |parent: &ErrorParent| self.select::<Entity>().filter(parent.condition());
        lists::fetch_each(&self.reads(), parents.iter().map(of).collect(), sort, request).await
    }

    /// How many errors each parent has; parents without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.counts", skip_all)]
    pub async fn error_counts(
        &self,
        parents: &[ErrorParent],
    ) -> Result<HashMap<ErrorParent, i64>, StoreError> {
        let mut counts = HashMap::new();
        let (mut groups, mut clusters, mut computations) = (Vec::new(), Vec::new(), Vec::new());
        for parent in parents {
            match parent {
                ErrorParent::Group(group) => groups.push(*group),
                ErrorParent::Cluster(cluster) => clusters.push(*cluster),
                ErrorParent::Computation(cluster, computation) => computations.push((*cluster, *computation)),
            }
        }
        if !groups.is_empty() {
            let counted = self.error_group_counts(&groups).await?.into_iter();
            counts.extend(counted.map(|(group, counts)| (ErrorParent::Group(group), counts.occurrences)));
        }
        if !clusters.is_empty() {
            let rows: Vec<(ClusterId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_in(clusters))
                .group_by(Column::ClusterId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            counts.extend(rows.into_iter().map(|(cluster, count)| (ErrorParent::Cluster(cluster), count)));
        }
        if !computations.is_empty() {
            let rows: Vec<(ClusterId, ComputationId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column(Column::ComputationId)
                .column_as(Column::Id.count(), "count")
                .filter(one_of(Column::ClusterId, Column::ComputationId, &computations))
                .group_by(Column::ClusterId)
                .group_by(Column::ComputationId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            counts.extend(rows.into_iter().map(|(cluster, computation, count)| {
                (ErrorParent::Computation(cluster, computation), count)
            }));
        }
        Ok(counts)
    }

    /// The commonest kinds of errors of each cluster, at most `limit` of each origin, the commonest first; clusters
    /// without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.kinds", skip_all)]
    pub async fn error_kinds(
        &self,
        clusters: &[ClusterId],
        limit: i64,
    ) -> Result<HashMap<ClusterId, Vec<ErrorKind>>, StoreError> {
        let of_origin = "CAST(SUM(COUNT(*)) OVER (PARTITION BY cluster_id, origin) AS bigint)";
        let place = "ROW_NUMBER() OVER (PARTITION BY cluster_id, origin ORDER BY COUNT(*) DESC, group_id)";
        let kinds = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::Origin, Column::GroupId])
            .column_as(Column::ExceptionType.max(), "exception_type")
            .column_as(Column::Id.count(), "count")
            .expr_as(Expr::cust(of_origin), "of_origin")
            .expr_as(Expr::cust(place), page::PLACE)
            .filter(Column::ClusterId.is_in(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .group_by(Column::Origin)
            .group_by(Column::GroupId);
        let mut found: HashMap<ClusterId, Vec<ErrorKind>> = HashMap::new();
        for row in self.reads().query_all(&page::first_places(kinds.into_query(), limit)).await? {
            let row = KindRow::from_query_result(&row, "")?;
            found.entry(row.cluster_id).or_default().push(ErrorKind {
                origin: row.origin,
                group: row.group_id,
                exception_type: row.exception_type,
                count: row.count,
                of_origin: row.of_origin,
            });
        }
        for kinds in found.values_mut() {
            kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.count), kind.group));
        }
        Ok(found)
    }

    /// The error with this identifier.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.get", skip_all)]
    pub async fn error(
        &self,
        cluster: ClusterId,
        id: ErrorOccurrenceId,
    ) -> Result<Option<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster)).filter(Column::Id.eq(id));
        Ok(select.one(&self.reads()).await?)
    }

    /// The texts of an error.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] when they cannot be decrypted.
    pub fn error_text(&self, row: &Model) -> Result<ErrorText, StoreError> {
        let Some(sealed) = &row.sealed else { return Ok(ErrorText::default()) };
        let plain = self.unseal(&self.error_row(row.cluster_id, row.id), row.key_id, sealed)?;
        serde_json::from_slice(&plain).map_err(|_| StoreError::Sealed(SealError::Damaged))
    }

    fn error_row(&self, cluster: ClusterId, id: ErrorOccurrenceId) -> RowName {
        let key: [&[u8]; 2] = [&cluster.0.to_le_bytes(), id.0.as_bytes()];
        RowName::new("error_occurrences", self.account_id(), &key)
    }

    /// Writes the errors of a report.
    pub(crate) async fn record_errors(
        &self,
        cluster: ClusterId,
        arrival: i64,
        reports: &[ErrorReport],
    ) -> Result<(), StoreError> {
        // By identifier: transactions must lock in one order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.id, report)).collect();
        let rows = reports.values().map(|report| {
            let text = ErrorText {
                message: report.message.as_str().to_owned(),
                traceback: report.traceback.as_str().to_owned(),
            };
            let plain = serde_json::to_vec(&text).expect("two texts are always JSON");
            let sealed = self.seal(&self.error_row(cluster, report.id), &plain);
            Model {
                account_id: self.account_id(),
                cluster_id: cluster,
                id: report.id,
                computation_id: report.computation_id,
                task_group_id: report.task_group_id,
                occurred_at: report.at.timestamp(),
                key: report.key.as_str().to_owned(),
                exception_type: report.exception_type.clone().map(Text::into_string),
                worker: report.worker.clone().map(Text::into_string),
                origin: report.origin.into(),
                retries: report.retries.get(),
                span_id: report.span_id,
                worker_id: report.worker_id,
                group_id: Some(Fingerprint::of(report).group),
                key_id: sealed.key_id,
                sealed: Some(sealed.bytes),
                arrived_at: arrival,
            }
        });
        self.insert::<Entity>(rows.collect(), &first_wins::<Entity>()).await?;
        Ok(())
    }
}

/// A kind of errors of a cluster.
#[derive(Debug, FromQueryResult)]
struct KindRow {
    cluster_id: ClusterId,
    origin: Origin,
    group_id: Option<ErrorGroupId>,
    exception_type: Option<String>,
    count: i64,
    of_origin: i64,
}
