//! Groups of similar errors, over all clusters of an account.

use std::collections::{BTreeMap, HashMap};

use entity::{
    Timestamp,
    error_group::{Column, Entity, Model, Origin, Status},
    error_occurrence,
    ids::{ClusterId, ErrorGroupId},
};
use sea_orm::{
    ColumnTrait, Condition, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Alias, Expr, ExprTrait, Func, OnConflict},
};

use super::error_status;
use crate::{
    bus::ChangeKinds,
    domain::{
        error_fingerprint::{Fingerprint, exception_of},
        error_status::ErrorStatus,
        histogram::Intervals,
        report::ErrorReport,
    },
    encryption::DecryptError,
    store::{
        clusters::cross_cluster::{TimeRange, remaining_range},
        core::{
            change_feed::next_change,
            composite_in::IsOneOf,
            error::StoreError,
            page::{Key, KeyPart, Page, PageRequest, Sort},
            read_rows::ReadSelect,
            row_encryption::AssociatedData,
            scoped::AccountStore,
            search::scan_page,
        },
    },
};

/// The sort orders of error groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorGroupSort {
    /// The group whose last error is the newest comes first.
    LastSeenFirst,
}

impl Sort for ErrorGroupSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "last_seen_at:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::LastSeenAt, Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.last_seen_at.into(), row.id.into()])
    }
}

/// A filter of error groups. A group must meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorGroupFilter {
    /// Only groups with an error on one of these clusters.
    pub clusters: Option<Vec<ClusterId>>,
    /// Only groups of this origin.
    pub origin: Option<Origin>,
    /// Only groups of one of these exception types.
    pub types: Option<Vec<String>>,
    /// The range of the last error.
    pub seen_in: TimeRange,
    /// Only groups with one of these statuses.
    pub statuses: Option<Vec<ErrorStatus>>,
}

impl ErrorGroupFilter {
    /// Returns true if it is known without the database that no group passes.
    pub(crate) fn is_of_no_cluster(&self) -> bool {
        self.clusters.as_ref().is_some_and(Vec::is_empty)
    }
}

/// The numbers of errors and clusters of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorGroupCounts {
    /// The number of errors.
    pub occurrences: i64,
    /// The number of clusters with an error of the group.
    pub clusters: i64,
}

impl AccountStore {
    /// Returns a page of the account's error groups that pass a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_group.page", skip_all)]
    pub async fn error_group_page(
        &self,
        filter: &ErrorGroupFilter,
        sort: ErrorGroupSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        if filter.is_of_no_cluster() {
            return Ok(Page::default());
        }
        let select = self
            .select_in_range(Column::LastSeenAt, remaining_range(filter.seen_in, sort.descending(), request));
        scan_page(&self.read_executor(), select, self.error_groups(filter), sort, request).await
    }

    /// Counts the error groups that pass a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_group.count", skip_all)]
    pub async fn error_group_count(&self, filter: &ErrorGroupFilter) -> Result<u64, StoreError> {
        if filter.is_of_no_cluster() {
            return Ok(0);
        }
        let groups = self
            .select_in_range::<Entity>(Column::LastSeenAt, filter.seen_in)
            .filter(self.error_groups(filter));
        Ok(groups.count(&self.read_executor()).await?)
    }

    /// Returns the groups among `ids` that pass the filter, and those that would pass it with another
    /// status, each in the order of their last changes.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_group.match", skip_all)]
    pub async fn match_error_groups(
        &self,
        filter: &ErrorGroupFilter,
        ids: &[ErrorGroupId],
    ) -> Result<(Vec<Model>, Vec<Model>), StoreError> {
        let with_any_status = ErrorGroupFilter { statuses: None, ..filter.clone() };
        let select = self.select_in_range::<Entity>(Column::LastSeenAt, filter.seen_in);
        let select = select.filter(self.error_groups(&with_any_status));
        let select = select.filter(Column::Id.is_one_of(ids.iter().copied()));
        let rows = select.order_by_asc(Column::ChangedAt).read_models(&self.read_executor()).await?;
        let has_status = |row: &Model| {
            let status = ErrorStatus::derive(row.status, row.resolved_until, row.last_seen_at);
            filter.statuses.as_ref().is_none_or(|statuses| statuses.contains(&status))
        };
        Ok(rows.into_iter().partition(has_status))
    }

    pub(crate) fn error_groups(&self, filter: &ErrorGroupFilter) -> Condition {
        let ErrorGroupFilter { clusters, origin, types, seen_in: _, statuses } = filter;
        let has_type =
            |types: &Vec<String>| Column::ExceptionType.is_one_of(types.iter().map(String::as_str));
        Condition::all()
            .add_option(clusters.as_ref().map(|clusters| self.happened_on(clusters)))
            .add_option(origin.map(|origin| Column::Origin.eq(origin)))
            .add_option(types.as_ref().map(has_type))
            .add_option(statuses.as_deref().map(error_status::has_any_status))
    }

    /// Returns the condition that an error of a group happened on one of these clusters. The statement
    /// reads the clusters' errors, because a group may have any number of errors on other clusters.
    fn happened_on(&self, clusters: &[ClusterId]) -> Expr {
        let groups = self
            .select::<error_occurrence::Entity>()
            .select_only()
            .column(error_occurrence::Column::GroupId)
            .filter(error_occurrence::Column::ClusterId.is_one_of(clusters.iter().copied()));
        Column::Id.in_subquery(groups.into_query())
    }

    /// Returns the groups that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_group.by_id", skip_all)]
    pub async fn error_groups_by_id(&self, ids: &[ErrorGroupId]) -> Result<Vec<Model>, StoreError> {
        Ok(self
            .select::<Entity>()
            .filter(Column::Id.is_one_of(ids.iter().copied()))
            .read_models(&self.read_executor())
            .await?)
    }

    /// Returns the numbers of errors and clusters of each group. Groups without errors are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_group.counts", skip_all)]
    pub async fn error_group_counts(
        &self,
        ids: &[ErrorGroupId],
    ) -> Result<HashMap<ErrorGroupId, ErrorGroupCounts>, StoreError> {
        let clusters = Expr::col(error_occurrence::Column::ClusterId).count_distinct();
        let rows: Vec<(ErrorGroupId, i64, i64)> = self
            .select::<error_occurrence::Entity>()
            .select_only()
            .column(error_occurrence::Column::GroupId)
            .column_as(error_occurrence::Column::Id.count(), "occurrences")
            .column_as(clusters, "clusters")
            .filter(error_occurrence::Column::GroupId.is_one_of(ids.iter().copied()))
            .group_by(error_occurrence::Column::GroupId)
            .read_tuples(&self.read_executor())
            .await?;
        let counts = rows.into_iter();
        Ok(counts
            .map(|(id, occurrences, clusters)| (id, ErrorGroupCounts { occurrences, clusters }))
            .collect())
    }

    /// Counts the errors of each group by interval of time. Intervals without errors are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.error_group.trends", skip_all)]
    pub async fn error_group_trends(
        &self,
        ids: &[ErrorGroupId],
        times: Intervals,
    ) -> Result<HashMap<ErrorGroupId, BTreeMap<i64, i64>>, StoreError> {
        use error_occurrence::Column;
        let number = Expr::col((error_occurrence::Entity, Column::OccurredAt))
            .add(times.step().offset())
            .div(times.step().length());
        let rows: Vec<(ErrorGroupId, i64, i64)> = self
            .select_in_range::<error_occurrence::Entity>(Column::OccurredAt, times.range())
            .select_only()
            .column(Column::GroupId)
            .expr_as(number, "number")
            .expr_as(Func::count(Expr::cust("*")), "occurrences")
            .filter(Column::GroupId.is_one_of(ids.iter().copied()))
            .group_by(Column::GroupId)
            // The second column of the selection: a repeated expression would bind its values a second time
            // and count as another one.
            .group_by(Expr::cust("2"))
            .read_tuples(&self.read_executor())
            .await?;
        let mut trends: HashMap<ErrorGroupId, BTreeMap<i64, i64>> = HashMap::new();
        for (group, number, occurrences) in rows {
            trends.entry(group).or_default().insert(number, occurrences);
        }
        Ok(trends)
    }

    /// Decrypts the title of a group: the message without the parts that differ between errors.
    ///
    /// # Errors
    /// Returns [`StoreError::Decryption`] if the text cannot be decrypted.
    pub fn error_group_title(&self, row: &Model) -> Result<String, StoreError> {
        let plain = self.decrypt_row(&self.error_group_row(row.id), row.key_id, &row.sealed)?;
        String::from_utf8(plain).map_err(|_| StoreError::Decryption(DecryptError::Damaged))
    }

    fn error_group_row(&self, id: ErrorGroupId) -> AssociatedData {
        AssociatedData::new("error_groups", self.account_id(), &[id.0.as_bytes()])
    }

    /// Writes the groups of a report's errors, and notifies subscribers.
    pub(crate) async fn record_error_groups(
        &self,
        reports: &[ErrorReport],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // Sorted by identifier, because locks must be taken in one order.
        let mut groups: BTreeMap<ErrorGroupId, ReportedGroup> = BTreeMap::new();
        for report in reports {
            let (Fingerprint { group: id, title }, at) = (Fingerprint::of(report), report.at.timestamp());
            let group = groups.entry(id).or_insert(ReportedGroup {
                report,
                title,
                first_seen_at: at,
                last_seen_at: at,
            });
            group.first_seen_at = earlier(group.first_seen_at, at);
            group.last_seen_at = later(group.last_seen_at, at);
        }
        if groups.is_empty() {
            return Ok(());
        }
        let rows = groups.into_iter().map(|(id, group)| {
            let sealed = self.encrypt_bytes(&self.error_group_row(id), group.title.as_bytes());
            Model {
                account_id: self.account_id(),
                id,
                origin: group.report.origin().into(),
                exception_type: exception_of(group.report).map(str::to_owned),
                first_seen_at: group.first_seen_at,
                last_seen_at: group.last_seen_at,
                key_id: sealed.key_id,
                sealed: sealed.bytes,
                status: Status::Open,
                status_changed_at: None,
                status_changed_by: None,
                resolved_until: None,
                hidden_at: None,
                changed_at: Some(now.timestamp_millis()),
            }
        });
        self.insert::<Entity>(rows.collect(), &widen_times(now)).await?;
        self.announce_account(ChangeKinds::ERROR_GROUPS);
        Ok(())
    }

    /// Shows a group of errors, sets the times of its first and last error, and notifies subscribers.
    pub(crate) async fn set_error_times(
        &self,
        id: ErrorGroupId,
        (first, last): (Timestamp, Timestamp),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.update_with_hidden::<Entity>()
            .col_expr(Column::FirstSeenAt, Expr::val(first))
            .col_expr(Column::LastSeenAt, Expr::val(last))
            .col_expr(Column::HiddenAt, Expr::val(Option::<Timestamp>::None))
            .col_expr(Column::ChangedAt, next_change(Column::ChangedAt, now))
            .filter(Column::Id.eq(id))
            .exec(&self.write_executor())
            .await?;
        self.announce_account(ChangeKinds::ERROR_GROUPS);
        Ok(())
    }
}

/// The errors of a report that belong to one group.
struct ReportedGroup<'a> {
    /// One of the errors.
    report: &'a ErrorReport,
    title: String,
    first_seen_at: Timestamp,
    last_seen_at: Timestamp,
}

fn earlier(a: Timestamp, b: Timestamp) -> Timestamp {
    std::cmp::min(a.0, b.0).into()
}

fn later(a: Timestamp, b: Timestamp) -> Timestamp {
    std::cmp::max(a.0, b.0).into()
}

/// Returns the update of an existing row: the times are widened to include the new ones, or replaced by
/// them if the group was hidden. The other values determine the identifier, so they are equal.
fn widen_times(now: Timestamp) -> OnConflict {
    let stored_value = |column: Column| Expr::col((Entity, column));
    let new_value = |column: Column| Expr::col((Alias::new("excluded"), column));
    let is_hidden = || stored_value(Column::HiddenAt).is_not_null();
    let is_earlier = || new_value(Column::FirstSeenAt).lt(stored_value(Column::FirstSeenAt)).or(is_hidden());
    let is_later = || new_value(Column::LastSeenAt).gt(stored_value(Column::LastSeenAt)).or(is_hidden());
    let new_value_if = |condition: Expr, column: Column| {
        Expr::case(condition, new_value(column)).finally(stored_value(column))
    };
    OnConflict::columns([Column::AccountId, Column::Id])
        .value(Column::FirstSeenAt, new_value_if(is_earlier(), Column::FirstSeenAt))
        .value(Column::LastSeenAt, new_value_if(is_later(), Column::LastSeenAt))
        .value(Column::HiddenAt, Expr::val(Option::<Timestamp>::None))
        .value(Column::ChangedAt, next_change(Column::ChangedAt, now))
        .to_owned()
}
