//! Errors that look alike, over all clusters of an account.

use std::collections::{BTreeMap, HashMap};

use entity::{
    Timestamp,
    error_group::{Column, Entity, Model, Origin, Status},
    error_occurrence,
    ids::{ClusterId, ErrorGroupId},
};
use sea_orm::{
    ColumnTrait, Condition, PaginatorTrait, QueryFilter, QuerySelect, QueryTrait,
    sea_query::{Alias, Expr, ExprTrait, Func, OnConflict},
};

use super::{
    account_list::{TimeRange, unsaid},
    error::StoreError,
    error_status,
    page::{Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    sealed::RowName,
    search::search,
};
use crate::{
    domain::{
        error_status::ErrorStatus,
        fingerprint::{Fingerprint, exception_of},
        report::ErrorReport,
        trend::Stretches,
    },
    seal::SealError,
};

/// The orders groups of errors can be listed in.
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

/// Which groups of errors are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorGroupFilter {
    /// With an error on one of these clusters, if they are named.
    pub clusters: Option<Vec<ClusterId>>,
    /// Whose failures.
    pub origin: Option<Origin>,
    /// Of one of these classes of exceptions.
    pub types: Option<Vec<String>>,
    /// Whose last error happened when.
    pub seen_in: TimeRange,
    /// Of which one of these is to be thought.
    pub statuses: Option<Vec<ErrorStatus>>,
}

/// How much there is of a group of errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorGroupCounts {
    /// Errors.
    pub occurrences: i64,
    /// Clusters they happened on.
    pub clusters: i64,
}

impl AccountStore {
    /// A page of the account's groups of errors that pass a filter.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_group.page", skip_all)]
    pub async fn error_group_page(
        &self,
        filter: &ErrorGroupFilter,
        sort: ErrorGroupSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.during(Column::LastSeenAt, unsaid(filter.seen_in, sort.descending(), request));
        search(&self.reads(), select, self.error_groups(filter), sort, request).await
    }

    /// How many groups of errors pass a filter.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_group.count", skip_all)]
    pub async fn error_group_count(&self, filter: &ErrorGroupFilter) -> Result<u64, StoreError> {
        let all = self.during::<Entity>(Column::LastSeenAt, filter.seen_in).filter(self.error_groups(filter));
        Ok(all.count(&self.reads()).await?)
    }

    fn error_groups(&self, filter: &ErrorGroupFilter) -> Condition {
        let ErrorGroupFilter { clusters, origin, types, seen_in: _, statuses } = filter;
        let is_one = |types: &Vec<String>| Column::ExceptionType.is_in(types.iter().map(String::as_str));
        Condition::all()
            .add_option(clusters.as_ref().map(|clusters| self.happened_on(clusters)))
            .add_option(origin.map(|origin| Column::Origin.eq(origin)))
            .add_option(types.as_ref().map(is_one))
            .add_option(statuses.as_deref().map(error_status::is_one))
    }

    /// Whether an error of a group happened on one of these clusters: by their errors, since a group may have any number on
    /// others.
    fn happened_on(&self, clusters: &[ClusterId]) -> Expr {
        let groups = self
            .select::<error_occurrence::Entity>()
            .select_only()
            .column(error_occurrence::Column::GroupId)
            .filter(error_occurrence::Column::ClusterId.is_in(clusters.iter().copied()));
        Column::Id.in_subquery(groups.into_query())
    }

    /// The groups that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_group.by_id", skip_all)]
    pub async fn error_groups_by_id(&self, ids: &[ErrorGroupId]) -> Result<Vec<Model>, StoreError> {
        Ok(self.select::<Entity>().filter(Column::Id.is_in(ids.iter().copied())).all(&self.reads()).await?)
    }

    /// How much there is of each group; one without errors is missing.
    ///
    /// # Errors
    /// When the database does not answer.
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
            .filter(error_occurrence::Column::GroupId.is_in(ids.iter().copied()))
            .group_by(error_occurrence::Column::GroupId)
            .into_tuple()
            .all(&self.reads())
            .await?;
        let counted = rows.into_iter();
        Ok(counted
            .map(|(id, occurrences, clusters)| (id, ErrorGroupCounts { occurrences, clusters }))
            .collect())
    }

    /// How many errors of each group happened in which of some stretches of time; where there were none, there is nothing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_group.trends", skip_all)]
    pub async fn error_group_trends(
        &self,
        ids: &[ErrorGroupId],
        times: Stretches,
    ) -> Result<HashMap<ErrorGroupId, BTreeMap<i64, i64>>, StoreError> {
        use error_occurrence::Column;
        let number = Expr::col((error_occurrence::Entity, Column::OccurredAt))
            .add(times.step().offset())
            .div(times.step().length());
        let rows: Vec<(ErrorGroupId, i64, i64)> = self
            .during::<error_occurrence::Entity>(Column::OccurredAt, times.range())
            .select_only()
            .column(Column::GroupId)
            .expr_as(number, "number")
            .expr_as(Func::count(Expr::cust("*")), "occurrences")
            .filter(Column::GroupId.is_in(ids.iter().copied()))
            .group_by(Column::GroupId)
            // The second of what is selected: written out, it would have values of its own.
            .group_by(Expr::cust("2"))
            .into_tuple()
            .all(&self.reads())
            .await?;
        let mut trends: HashMap<ErrorGroupId, BTreeMap<i64, i64>> = HashMap::new();
        for (group, number, occurrences) in rows {
            trends.entry(group).or_default().insert(number, occurrences);
        }
        Ok(trends)
    }

    /// The title of a group: the message without what differs from one error to the next.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] when it cannot be decrypted.
    pub fn error_group_title(&self, row: &Model) -> Result<String, StoreError> {
        let plain = self.unseal(&self.error_group_row(row.id), row.key_id, &row.sealed)?;
        String::from_utf8(plain).map_err(|_| StoreError::Sealed(SealError::Damaged))
    }

    fn error_group_row(&self, id: ErrorGroupId) -> RowName {
        RowName::new("error_groups", self.account_id(), &[id.0.as_bytes()])
    }

    /// Writes the groups that the errors of a report belong to. A group is only written when an error lies before
    /// its first or after its last one, because reports of all clusters meet here.
    pub(crate) async fn record_error_groups(&self, reports: &[ErrorReport]) -> Result<(), StoreError> {
        // By identifier: transactions must lock in one order.
        let mut groups: BTreeMap<ErrorGroupId, Seen> = BTreeMap::new();
        for report in reports {
            let (Fingerprint { group: id, title }, at) = (Fingerprint::of(report), report.at.timestamp());
            let group = groups.entry(id).or_insert(Seen { report, title, first: at, last: at });
            group.first = earlier(group.first, at);
            group.last = later(group.last, at);
        }
        if groups.is_empty() {
            return Ok(());
        }
        let known = self.select::<Entity>().filter(Column::Id.is_in(groups.keys().copied()));
        for row in known.all(&self.writes()).await? {
            let contains =
                |group: &mut Seen| row.first_seen_at.0 <= group.first.0 && group.last.0 <= row.last_seen_at.0;
            if groups.get_mut(&row.id).is_some_and(contains) {
                groups.remove(&row.id);
            }
        }
        let rows = groups.into_iter().map(|(id, group)| {
            let sealed = self.seal(&self.error_group_row(id), group.title.as_bytes());
            Model {
                account_id: self.account_id(),
                id,
                origin: group.report.origin.into(),
                exception_type: exception_of(group.report).map(str::to_owned),
                first_seen_at: group.first,
                last_seen_at: group.last,
                key_id: sealed.key_id,
                sealed: sealed.bytes,
                status: Status::Open,
                status_changed_at: None,
                status_changed_by: None,
                resolved_until: None,
            }
        });
        self.insert::<Entity>(rows.collect(), &widened()).await?;
        Ok(())
    }
}

/// The errors of a report that look alike.
struct Seen<'a> {
    /// One of them.
    report: &'a ErrorReport,
    title: String,
    first: Timestamp,
    last: Timestamp,
}

fn earlier(one: Timestamp, other: Timestamp) -> Timestamp {
    std::cmp::min(one.0, other.0).into()
}

fn later(one: Timestamp, other: Timestamp) -> Timestamp {
    std::cmp::max(one.0, other.0).into()
}

/// The row that is there comes to reach from the earlier to the later of both times. What else a group says is
/// part of its identifier.
fn widened() -> OnConflict {
    let there = |column: Column| Expr::col((Entity, column));
    let new = |column: Column| Expr::col((Alias::new("excluded"), column));
    let is_earlier = || new(Column::FirstSeenAt).lt(there(Column::FirstSeenAt));
    let is_later = || new(Column::LastSeenAt).gt(there(Column::LastSeenAt));
    let either = |condition: Expr, column: Column| Expr::case(condition, new(column)).finally(there(column));
    OnConflict::columns([Column::AccountId, Column::Id])
        .value(Column::FirstSeenAt, either(is_earlier(), Column::FirstSeenAt))
        .value(Column::LastSeenAt, either(is_later(), Column::LastSeenAt))
        .action_and_where(is_earlier().or(is_later()))
        .to_owned()
}
