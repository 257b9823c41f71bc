//! Errors, listed by cluster, by computation, by group or over all clusters.

use std::collections::{BTreeMap, HashMap};

use entity::{
    error_group::Origin,
    error_occurrence::{Column, Entity, Model},
    ids::{ClusterId, ComputationId, ErrorGroupId, ErrorOccurrenceId},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, FromQueryResult, PaginatorTrait, QueryFilter, QuerySelect,
    QueryTrait, Select, sea_query::Expr,
};
use serde::{Deserialize, Serialize};

use crate::{
    domain::{
        answer::ErrorKind,
        error_fingerprint::Fingerprint,
        report::{ErrorReport, SourceExcerpt},
        validated::{Count, Text},
    },
    encryption::DecryptError,
    store::{
        clusters::{
            cluster_filter::ClusterFilter,
            cross_cluster::{TimeRange, lies_in, remaining_range},
        },
        core::{
            change_feed::PendingChanges,
            composite_in::{IsOneOf, one_of},
            error::StoreError,
            page::{self, Columns, Key, KeyPart, Page, PageRequest, Slice, Sort},
            parent_list::ParentSort,
            read_rows::ReadSelect,
            row_encryption::AssociatedData,
            scoped::AccountStore,
            search::scan_page,
            upsert::keep_existing_row,
        },
    },
};

/// The orders errors can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorSort {
    /// The newest error comes first, by identifier, which grows with time.
    NewestFirst,
    /// The newest error comes first, over several clusters, whose reporters generate identifiers
    /// independently.
    NewestOfAllFirst,
    /// The latest error by the schedulers' clocks comes first, over all clusters.
    LatestOfAllFirst,
    /// Errors in the order of their arrival.
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

/// The owner of a list of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorParent {
    /// The errors of a cluster that occurred in a period.
    Cluster(ClusterId, TimeRange),
    /// The errors of a computation.
    Computation(ClusterId, ComputationId),
    /// The errors of a group, on all clusters.
    Group(ErrorGroupId),
}

impl ErrorParent {
    fn condition(self) -> Condition {
        match self {
            Self::Cluster(cluster, at) => lies_in(Column::OccurredAt, at).add(Column::ClusterId.eq(cluster)),
            Self::Computation(cluster, computation) => {
                Condition::all().add(Column::ClusterId.eq(cluster)).add(Column::ComputationId.eq(computation))
            }
            Self::Group(group) => Condition::all().add(Column::GroupId.eq(group)),
        }
    }
}

impl ParentSort for ErrorSort {
    type Parent = ErrorParent;

    fn select_rows(self, store: &AccountStore, parent: ErrorParent, _: &PageRequest) -> Select<Entity> {
        store.select::<Entity>().filter(parent.condition())
    }
}

/// A filter of the errors of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountErrors {
    /// Only errors on clusters that pass this filter.
    pub clusters: ClusterFilter,
    /// The range of the errors' times.
    pub at: TimeRange,
    /// Only errors of this origin.
    pub origin: Option<Origin>,
    /// Only errors of one of these exception types.
    pub types: Option<Vec<String>>,
}

/// The largest number of errors that one page of a text search reads before a cursor must continue it. An
/// error is about as long as many log lines.
const ERRORS_PER_SEARCH: u64 = 500;

/// The texts of an error, which are stored encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorText {
    /// The exception's text.
    pub message: String,
    /// The traceback. Empty if there is none.
    pub traceback: String,
    /// The source around the failing line. `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceText>,
}

/// Lines of a source file around the line at which a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceText {
    /// The path of the file.
    pub file: String,
    /// The number of the failing line.
    pub line: i64,
    /// The number of the first of `lines`.
    pub first_line: i64,
    /// The texts of the lines.
    pub lines: Vec<String>,
}

impl From<&SourceExcerpt> for SourceText {
    fn from(excerpt: &SourceExcerpt) -> Self {
        Self {
            file: excerpt.file.as_str().to_owned(),
            line: excerpt.line.get(),
            first_line: excerpt.first_line.get(),
            lines: excerpt.lines.iter().map(|line| line.as_str().to_owned()).collect(),
        }
    }
}

impl AccountStore {
    /// Returns a page of the errors of all clusters that pass a filter. With `search_text` it returns only
    /// errors whose texts can be decrypted and contain it in upper or lower case, and reads at most 500
    /// errors.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.page", skip_all)]
    pub async fn account_error_page(
        &self,
        filter: &AccountErrors,
        search_text: Option<&str>,
        sort: ErrorSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select =
            self.select_in_range(Column::OccurredAt, remaining_range(filter.at, sort.descending(), request));
        let condition = self.account_errors(filter);
        let Some(search_text) = search_text.map(str::to_lowercase) else {
            return scan_page(&self.read_executor(), select, condition, sort, request).await;
        };
        // The search needs the texts, which a list does not read.
        let errors = PageRequest { limit: ERRORS_PER_SEARCH, row_columns: Columns::Full, ..request.clone() };
        let page = scan_page(&self.read_executor(), select, condition, sort, &errors).await?;
        // An error whose texts cannot be decrypted does not match.
        Ok(page.search(request, |row| self.error_contains(row, &search_text)))
    }

    /// Returns a slice of the errors of all clusters that pass a filter, the latest first. With a `cluster`
    /// it returns only that cluster's errors, the newest identifier first.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.slice", skip_all)]
    pub async fn error_slice(
        &self,
        filter: &AccountErrors,
        cluster: Option<ClusterId>,
        slice: Slice,
    ) -> Result<Vec<Model>, StoreError> {
        let select =
            self.select_in_range::<Entity>(Column::OccurredAt, filter.at).filter(self.account_errors(filter));
        let (select, sort) = match cluster {
            Some(cluster) => (select.filter(Column::ClusterId.eq(cluster)), ErrorSort::NewestFirst),
            None => (select, ErrorSort::LatestOfAllFirst),
        };
        page::fetch_slice(&self.read_executor(), select, sort, slice).await
    }

    /// Returns true if the texts of an error can be decrypted and contain `search_text`, which must be
    /// in lower case.
    pub(crate) fn error_contains(&self, row: &Model, search_text: &str) -> bool {
        let text = self.decrypt_error_text(row).unwrap_or_default();
        [text.message, text.traceback].iter().any(|text| text.to_lowercase().contains(search_text))
    }

    /// Returns errors in the order of their arrival.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.arrived", skip_all)]
    pub async fn arrived_errors(
        &self,
        filter: &AccountErrors,
        arrivals: &[PendingChanges],
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let columns = (Column::ArrivedAt, Column::ClusterId, Column::OccurredAt, Column::Id);
        self.fetch_in_arrival_order(
            arrivals,
            columns,
            self.account_errors(filter),
            ErrorSort::AsArrived,
            limit,
        )
        .await
    }

    /// Counts the errors of all clusters that pass a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.count", skip_all)]
    pub async fn account_error_count(&self, filter: &AccountErrors) -> Result<u64, StoreError> {
        let errors =
            self.select_in_range::<Entity>(Column::OccurredAt, filter.at).filter(self.account_errors(filter));
        Ok(errors.count(&self.read_executor()).await?)
    }

    fn account_errors(&self, filter: &AccountErrors) -> Condition {
        let has_type =
            |types: &Vec<String>| Column::ExceptionType.is_one_of(types.iter().map(String::as_str));
        Condition::all()
            .add_option(filter.origin.map(|origin| Column::Origin.eq(origin)))
            .add_option(filter.types.as_ref().map(has_type))
            .add_option(self.cluster_condition(&filter.clusters, Column::ClusterId))
    }

    /// Returns the same page of the errors of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.pages", skip_all)]
    pub async fn error_pages(
        &self,
        parents: &[ErrorParent],
        sort: ErrorSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        self.parent_pages(parents, sort, request).await
    }

    /// Counts the errors of each parent. Parents without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.counts", skip_all)]
    pub async fn error_counts(
        &self,
        parents: &[ErrorParent],
    ) -> Result<HashMap<ErrorParent, i64>, StoreError> {
        let mut counts = HashMap::new();
        let (mut groups, mut computations) = (Vec::new(), Vec::new());
        let mut periods: HashMap<TimeRange, Vec<ClusterId>> = HashMap::new();
        for parent in parents {
            match parent {
                ErrorParent::Group(group) => groups.push(*group),
                ErrorParent::Cluster(cluster, at) => periods.entry(*at).or_default().push(*cluster),
                ErrorParent::Computation(cluster, computation) => computations.push((*cluster, *computation)),
            }
        }
        if !groups.is_empty() {
            let group_counts = self.error_group_counts(&groups).await?.into_iter();
            counts
                .extend(group_counts.map(|(group, counts)| (ErrorParent::Group(group), counts.occurrences)));
        }
        for (at, clusters) in periods {
            let rows: Vec<(ClusterId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_one_of(clusters))
                .filter(lies_in(Column::OccurredAt, at))
                .group_by(Column::ClusterId)
                .read_tuples(&self.read_executor())
                .await?;
            let with_parent = |(cluster, count)| (ErrorParent::Cluster(cluster, at), count);
            counts.extend(rows.into_iter().map(with_parent));
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
                .read_tuples(&self.read_executor())
                .await?;
            counts.extend(rows.into_iter().map(|(cluster, computation, count)| {
                (ErrorParent::Computation(cluster, computation), count)
            }));
        }
        Ok(counts)
    }

    /// Returns the most frequent error groups of each cluster, at most `limit` of each origin, the most
    /// frequent first. Clusters without errors are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.kinds", skip_all)]
    pub async fn error_kinds(
        &self,
        clusters: &[ClusterId],
        limit: i64,
    ) -> Result<HashMap<ClusterId, Vec<ErrorKind>>, StoreError> {
        let origin_count = "CAST(SUM(COUNT(*)) OVER (PARTITION BY cluster_id, origin) AS bigint)";
        let rank = "ROW_NUMBER() OVER (PARTITION BY cluster_id, origin ORDER BY COUNT(*) DESC, group_id)";
        let kinds = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::Origin, Column::GroupId])
            .column_as(Column::ExceptionType.max(), "exception_type")
            .column_as(Column::Id.count(), "count")
            .expr_as(Expr::cust(origin_count), "of_origin")
            .expr_as(Expr::cust(rank), page::RANK)
            .filter(Column::ClusterId.is_one_of(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .group_by(Column::Origin)
            .group_by(Column::GroupId);
        let mut kinds_by_cluster: HashMap<ClusterId, Vec<ErrorKind>> = HashMap::new();
        for row in self.read_executor().query_all(&page::filter_top_ranked(kinds.into_query(), limit)).await?
        {
            let row = KindRow::from_query_result(&row, "")?;
            kinds_by_cluster.entry(row.cluster_id).or_default().push(ErrorKind {
                origin: row.origin,
                group: row.group_id,
                exception_type: row.exception_type,
                count: row.count,
                origin_count: row.of_origin,
            });
        }
        for kinds in kinds_by_cluster.values_mut() {
            kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.count), kind.group));
        }
        Ok(kinds_by_cluster)
    }

    /// Returns the error with this identifier.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.get", skip_all)]
    pub async fn error(
        &self,
        cluster: ClusterId,
        id: ErrorOccurrenceId,
    ) -> Result<Option<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster)).filter(Column::Id.eq(id));
        Ok(select.one(&self.read_executor()).await?)
    }

    /// Decrypts the texts of an error.
    ///
    /// # Errors
    /// Returns [`StoreError::Decryption`] if the texts cannot be decrypted.
    pub fn decrypt_error_text(&self, row: &Model) -> Result<ErrorText, StoreError> {
        let Some(sealed) = &row.sealed else { return Ok(ErrorText::default()) };
        let plain = self.decrypt_row(&self.error_row(row.cluster_id, row.id), row.key_id, sealed)?;
        serde_json::from_slice(&plain).map_err(|_| StoreError::Decryption(DecryptError::Damaged))
    }

    fn error_row(&self, cluster: ClusterId, id: ErrorOccurrenceId) -> AssociatedData {
        let key: [&[u8]; 2] = [&cluster.0.to_le_bytes(), id.0.as_bytes()];
        AssociatedData::new("error_occurrences", self.account_id(), &key)
    }

    /// Writes the errors of a report.
    pub(crate) async fn record_errors(
        &self,
        cluster: ClusterId,
        arrival: i64,
        reports: &[ErrorReport],
    ) -> Result<(), StoreError> {
        // Sorted by identifier, because locks must be taken in one order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.id, report)).collect();
        let rows = reports.values().map(|report| {
            let text = ErrorText {
                message: report.message.as_str().to_owned(),
                traceback: report.traceback.as_str().to_owned(),
                source: report.source.as_ref().map(Into::into),
            };
            let plain = serde_json::to_vec(&text).expect("two texts are always JSON");
            let sealed = self.encrypt_bytes(&self.error_row(cluster, report.id), &plain);
            Model {
                account_id: self.account_id(),
                cluster_id: cluster,
                id: report.id,
                number: report.number.map(Count::get),
                computation_id: report.computation_id,
                task_group_id: report.task_group_id,
                occurred_at: report.at.timestamp(),
                key: report.key.as_str().to_owned(),
                exception_type: report.exception_type.clone().map(Text::into_string),
                worker: report.worker.clone().map(Text::into_string),
                origin: report.origin().into(),
                retries: report.retries.get(),
                span_id: report.span_id,
                worker_id: report.worker_id,
                group_id: Some(Fingerprint::of(report).group),
                key_id: sealed.key_id,
                sealed: Some(sealed.bytes),
                arrived_at: arrival,
            }
        });
        self.insert::<Entity>(rows.collect(), &keep_existing_row::<Entity>()).await?;
        Ok(())
    }
}

/// One group of errors of a cluster, with its counts.
#[derive(Debug, FromQueryResult)]
struct KindRow {
    cluster_id: ClusterId,
    origin: Origin,
    group_id: Option<ErrorGroupId>,
    exception_type: Option<String>,
    count: i64,
    of_origin: i64,
}
