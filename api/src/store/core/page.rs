//! Keyset pagination, which every list uses.
//!
//! A page reads one row more than it returns, to learn if there is a next page. It compares row values,
//! `(started_at, id) < (?, ?)`, which is an index range on SQLite and PostgreSQL alike.

use entity::{
    DecodeByIndex, Row, Summary,
    ids::{
        AlertDeliveryId, AlertId, AlertRuleId, ApiTokenId, AuditEntryId, ClientId, ClusterId, ComputationId,
        ErrorGroupId, ErrorOccurrenceId, EventId, FlagId, InvitationId, KeyTime, LogLineId,
        PerformanceReportId, SavedViewId, SpanId, TaskGroupId, UserId, WorkerId,
    },
};
use sea_orm::{
    DbErr, EntityTrait, IdenStatic, Iterable, Order, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    Select, Value,
    sea_query::{Alias, Expr, ExprTrait, Query, SelectStatement},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{error::StoreError, read_rows::ReadRows, sql_builder::SqlBuilder};

/// A sort order of a table's rows: columns that are never null, the last one the identifier, all in the
/// same direction.
pub trait Sort: Copy + Send + Sync {
    /// The table.
    type Entity: EntityTrait<Model: DecodeByIndex>;

    /// Returns the name of the order in a cursor. A cursor of another order is refused.
    fn name(self) -> &'static str;

    /// Returns the columns, in order.
    fn columns(self) -> Vec<<Self::Entity as EntityTrait>::Column>;

    /// Returns true if large values come first.
    fn descending(self) -> bool;

    /// Returns true if a key that a client sent has the parts of this order.
    fn accepts(self, key: &Key) -> bool;

    /// Returns the position of a row in this order: one part per column.
    fn key(self, row: &<Self::Entity as EntityTrait>::Model) -> Key;
}

/// The position of a row in a sort order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(pub Vec<KeyPart>);

impl Key {
    /// The key of a row with a time, within its cluster.
    pub(crate) fn time_in_cluster(time: impl Into<KeyPart>, id: impl Into<KeyPart>) -> Self {
        Self(vec![time.into(), id.into()])
    }

    /// The key of a row with a time, over all clusters. Identifiers are unique only within a cluster, so
    /// the cluster is a part.
    pub(crate) fn time_in_account(
        time: impl Into<KeyPart>,
        cluster: ClusterId,
        id: impl Into<KeyPart>,
    ) -> Self {
        Self(vec![time.into(), cluster.into(), id.into()])
    }

    /// The key of a row with a time, in the order of arrival.
    pub(crate) fn arrival(
        arrived_at: i64,
        cluster: ClusterId,
        time: impl Into<KeyPart>,
        id: impl Into<KeyPart>,
    ) -> Self {
        Self(vec![KeyPart::Integer(arrived_at), cluster.into(), time.into(), id.into()])
    }

    /// Returns true if the key has the parts of [`Self::time_in_cluster`]. Clients can send any cursor.
    pub(crate) fn is_time_in_cluster(&self) -> bool {
        matches!(self.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    /// Returns true if the key has the parts of [`Self::time_in_account`].
    pub(crate) fn is_time_in_account(&self) -> bool {
        matches!(self.0[..], [KeyPart::Integer(_), KeyPart::Integer(_), KeyPart::Uuid(_)])
    }
}

/// The value of one column in a [`Key`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyPart {
    /// An integer, or a time in milliseconds since the epoch.
    Integer(i64),
    /// A non-negative number with a fraction. The bits of such numbers sort in the same order as the
    /// numbers, and a cursor returns them exactly.
    Real {
        /// The bits of the number.
        bits: i64,
    },
    /// A text, compared by its bytes.
    Text {
        /// The text.
        text: String,
    },
    /// An identifier.
    Uuid(Uuid),
}

impl KeyPart {
    /// Returns the key part for a non-negative number.
    #[must_use]
    pub fn real(number: f64) -> Self {
        // The addition only removes the sign of a negative zero, whose bit would change the order.
        Self::Real { bits: (number + 0.0).to_bits().cast_signed() }
    }

    /// Returns true if the bits are those of a non-negative number. Clients can send any cursor.
    #[must_use]
    pub fn is_real(&self) -> bool {
        matches!(self, Self::Real { bits } if f64::from_bits(bits.cast_unsigned()) >= 0.0)
    }

    /// Returns true for a text that both databases accept. Clients can send any cursor.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Text { text } if !text.contains('\0'))
    }
}

impl From<entity::Timestamp> for KeyPart {
    fn from(time: entity::Timestamp) -> Self {
        Self::Integer(time.timestamp_millis())
    }
}

impl From<KeyTime> for KeyPart {
    fn from(time: KeyTime) -> Self {
        Self::Integer(time.0)
    }
}

impl From<ClusterId> for KeyPart {
    fn from(id: ClusterId) -> Self {
        Self::Integer(id.0)
    }
}

macro_rules! uuid_key_part {
    ($($id:ident),+) => {$(
        impl From<$id> for KeyPart {
            fn from(id: $id) -> Self {
                Self::Uuid(id.0)
            }
        }
    )+};
}
uuid_key_part!(
    ComputationId,
    TaskGroupId,
    ErrorOccurrenceId,
    ErrorGroupId,
    EventId,
    LogLineId,
    WorkerId,
    ClientId,
    SpanId,
    ApiTokenId,
    AuditEntryId,
    InvitationId,
    UserId,
    FlagId,
    AlertRuleId,
    AlertId,
    AlertDeliveryId,
    PerformanceReportId,
    SavedViewId
);

impl From<KeyPart> for Value {
    fn from(part: KeyPart) -> Self {
        match part {
            KeyPart::Integer(number) => number.into(),
            KeyPart::Real { bits } => f64::from_bits(bits.cast_unsigned()).into(),
            KeyPart::Text { text } => text.into(),
            KeyPart::Uuid(uuid) => uuid.into(),
        }
    }
}

/// The rows of an ordered list that a page contains, and the columns read of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageRequest {
    /// The largest number of rows.
    pub limit: u64,
    /// The end of the range between `after` and `before` from which rows are taken.
    pub end: End,
    /// The position after which rows are taken. `None` for the start of the list.
    pub after: Option<Key>,
    /// The position before which rows are taken. `None` for the end of the list.
    pub before: Option<Key>,
    /// The columns read of each row.
    pub row_columns: Columns,
}

impl PageRequest {
    /// Returns a request for at most `limit` whole rows from an end of the list.
    #[must_use]
    pub fn from(end: End, limit: u64) -> Self {
        Self { limit, end, after: None, before: None, row_columns: Columns::Full }
    }
}

/// The columns read of each row. There are two sets, and not one for each selection of fields, so that
/// the prepared statements stay few. Compiled reads select their own columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Columns {
    /// The summary columns of [`DecodeByIndex::LISTED`], if the table and the list support them. Lists that
    /// are searched, or sorted by a column outside the summary, read all columns. The other fields of
    /// each row are empty.
    Listed,
    /// All columns.
    Full,
}

/// A number of rows of an ordered list, after a number of skipped rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The number of rows to skip.
    pub offset: u64,
    /// The largest number of rows.
    pub limit: u64,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The start of the order.
    First,
    /// The end of the order.
    Last,
}

/// Some rows of a list, in its order, each with its position.
#[derive(Clone, Debug)]
pub struct Page<Row> {
    /// The rows.
    pub rows: Vec<(Key, Row)>,
    /// True if rows are known to exist before these.
    pub has_previous: bool,
    /// True if rows are known to exist after these.
    pub has_next: bool,
    /// The position at which a bounded search stopped and from which it continues. `None` if the next
    /// page continues from the last row found.
    pub resume_after: Option<(End, Key)>,
}

impl<Row> Default for Page<Row> {
    fn default() -> Self {
        Self { rows: Vec::new(), has_previous: false, has_next: false, resume_after: None }
    }
}

impl<Row> Page<Row> {
    /// Returns the rows without their positions.
    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// The column with the rank of a row within its group, counted from 1.
pub(crate) const RANK: &str = "place";

/// Selects the rows of a statement with a column [`RANK`] whose rank is at most `max_rank`, in no
/// particular order.
pub(crate) fn filter_top_ranked(ranked: SelectStatement, max_rank: i64) -> SelectStatement {
    Query::select()
        .expr(Expr::cust("*"))
        .from_subquery(ranked, Alias::new("ranked"))
        .and_where(Expr::col(Alias::new(RANK)).lte(max_rank))
        .take()
}

/// Reads one page of the rows of `select`, in one statement.
pub(crate) async fn fetch<S: Sort>(
    connection: &impl ReadRows,
    select: Select<S::Entity>,
    sort: S,
    request: &PageRequest,
) -> Result<Page<<S::Entity as EntityTrait>::Model>, StoreError> {
    let projection = projection_for(sort, request.row_columns);
    let mut sql = SqlBuilder::new(connection.get_database_backend());
    sql.push_select(&select_range(projection.apply_to(select), sort, request).into_query());
    sql.push_limit(request.limit + 1);
    let decode_with_key = |row: &Row<'_>| (projection.read)(row).map(|row| (sort.key(&row), row));
    Ok(into_page(connection.read_rows(sql.into_statement(), decode_with_key).await?, request))
}

/// The columns that a statement reads, with their decoder.
pub(crate) struct Projection<E: EntityTrait> {
    /// The columns. `None` for all.
    columns: Option<&'static [E::Column]>,
    pub(crate) read: fn(&Row<'_>) -> Result<E::Model, DbErr>,
}

/// Returns the columns for an extent. An order by a column outside the summary reads all columns.
pub(crate) fn projection_for<S: Sort>(sort: S, extent: Columns) -> Projection<S::Entity> {
    if extent == Columns::Listed
        && let Some(Summary { columns, read }) = <S::Entity as EntityTrait>::Model::LISTED
        && sort
            .columns()
            .iter()
            .all(|sort_column| columns.iter().any(|column| column.as_str() == sort_column.as_str()))
    {
        Projection { columns: Some(columns), read }
    } else {
        Projection { columns: None, read: DecodeByIndex::by_position }
    }
}

impl<E: EntityTrait> Projection<E> {
    /// Returns the columns in the order in which they are selected.
    pub(crate) fn columns(&self) -> Vec<E::Column> {
        self.columns.map_or_else(|| E::Column::iter().collect(), <[_]>::to_vec)
    }

    /// Restricts a statement to the columns.
    fn apply_to(&self, select: Select<E>) -> Select<E> {
        match self.columns {
            Some(columns) => select.select_only().columns(columns.iter().copied()),
            None => select,
        }
    }
}

/// Reads a slice of the rows of `select`, in one statement.
///
/// A subquery looks up the start of the slice first. It reads only the sort columns of the skipped rows,
/// which an index has, so these rows are counted without being read.
pub(crate) async fn fetch_slice<S: Sort>(
    connection: &impl ReadRows,
    select: Select<S::Entity>,
    sort: S,
    Slice { offset, limit }: Slice,
) -> Result<Vec<<S::Entity as EntityTrait>::Model>, StoreError> {
    let from_start = PageRequest::from(End::First, limit);
    let mut slice = select_range(select.clone(), sort, &from_start);
    if offset > 0 {
        let mut start_query = select_range(select, sort, &from_start).into_query();
        start_query.clear_selects().exprs(columns(sort)).limit(1).offset(offset);
        let start = Expr::SubQuery(None, Box::new(start_query.into()));
        let row = Expr::tuple(columns(sort));
        slice = slice.filter(if sort.descending() { row.lte(start) } else { row.gte(start) });
    }
    let mut sql = SqlBuilder::new(connection.get_database_backend());
    sql.push_select(&slice.into_query());
    sql.push_limit(limit);
    Ok(connection.read_rows(sql.into_statement(), DecodeByIndex::by_position).await?)
}

/// The name of the column that [`fetch_by_value`] sorts by.
const COMPUTED: &str = "page_value";

/// A value that a statement computes for each row, to sort by.
pub(crate) enum ComputedValue {
    /// A number that is not negative.
    Number(Expr),
    /// A text that is compared by its bytes.
    Text(Expr),
}

/// Reads one page of rows sorted by a value, which the statement computes for each row, and then by `sort`.
/// The value is the first part of their keys.
pub(crate) async fn fetch_by_value<S: Sort>(
    connection: &impl ReadRows,
    select: Select<S::Entity>,
    value: ComputedValue,
    sort: S,
    request: &PageRequest,
) -> Result<Page<<S::Entity as EntityTrait>::Model>, StoreError> {
    let (is_text, value) = match value {
        ComputedValue::Number(value) => (false, value),
        ComputedValue::Text(value) => (true, value),
    };
    let columns: Vec<Expr> = [value.clone()].into_iter().chain(columns(sort)).collect();
    // The order refers to the value by its name, so that it is computed once.
    let order = [Expr::col(Alias::new(COMPUTED))].into_iter().chain(self::columns(sort)).collect();
    let select = select_range_by(select.expr_as(value, COMPUTED), &columns, order, sort, request);
    let mut sql = SqlBuilder::new(connection.get_database_backend());
    sql.push_select(&select.into_query());
    sql.push_limit(request.limit + 1);
    let decode_with_key = |row: &Row<'_>| {
        let mut columns = 0..;
        let model = <S::Entity as EntityTrait>::Model::next_of(row, &mut columns)?;
        let value = if is_text {
            KeyPart::Text { text: row.get(columns.start)? }
        } else {
            KeyPart::real(row.get(columns.start)?)
        };
        let mut key = vec![value];
        key.extend(sort.key(&model).0);
        Ok((Key(key), model))
    };
    Ok(into_page(connection.read_rows(sql.into_statement(), decode_with_key).await?, request))
}

fn columns<S: Sort>(sort: S) -> impl Iterator<Item = Expr> {
    sort.columns().into_iter().map(|column| Expr::col((S::Entity::default(), column)))
}

/// The rows of a page and one more.
pub(crate) fn window<S: Sort>(
    select: Select<S::Entity>,
    sort: S,
    request: &PageRequest,
) -> Select<S::Entity> {
    select_range(select, sort, request).limit(request.limit + 1)
}

/// The rows from the start of a page, in the order of its statement.
pub(crate) fn select_range<S: Sort>(
    select: Select<S::Entity>,
    sort: S,
    request: &PageRequest,
) -> Select<S::Entity> {
    let columns: Vec<Expr> = columns(sort).collect();
    select_range_by(select, &columns.clone(), columns, sort, request)
}

/// The same as [`select_range`], with separate columns for the comparison and for the order, since the same
/// value may have a different name in ORDER BY.
fn select_range_by<S: Sort>(
    mut select: Select<S::Entity>,
    columns: &[Expr],
    order_by: Vec<Expr>,
    sort: S,
    request: &PageRequest,
) -> Select<S::Entity> {
    let lies_behind = |key: &Key, descending: bool| {
        // Parts of a key beyond the columns only identify the order that the key belongs to.
        let parts = key.0.iter().take(columns.len()).map(|part| Expr::val(part.clone()));
        let (row, position) = (Expr::tuple(columns.iter().cloned()), Expr::tuple(parts));
        if descending { row.lt(position) } else { row.gt(position) }
    };
    if let Some(after) = &request.after {
        select = select.filter(lies_behind(after, sort.descending()));
    }
    if let Some(before) = &request.before {
        select = select.filter(lies_behind(before, !sort.descending()));
    }
    let order = if is_ascending(sort, request) { Order::Asc } else { Order::Desc };
    order_by.into_iter().fold(select, |select, column| select.order_by(column, order.clone()))
}

/// Returns true if the statement sorts in ascending order. A last page is read backwards.
pub(crate) fn is_ascending<S: Sort>(sort: S, request: &PageRequest) -> bool {
    sort.descending() != (request.end == End::First)
}

pub(crate) fn into_page<Row>(mut rows: Vec<(Key, Row)>, request: &PageRequest) -> Page<Row> {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    build_page(rows, request, has_more)
}

/// Returns the page of rows in the order in which they were read, from the requested end. `has_more` is
/// true if rows follow them in that order.
pub(crate) fn build_page<Row>(mut rows: Vec<(Key, Row)>, request: &PageRequest, has_more: bool) -> Page<Row> {
    let (has_previous, has_next) = match request.end {
        End::First => (request.after.is_some(), has_more || request.before.is_some()),
        End::Last => {
            rows.reverse();
            (has_more || request.after.is_some(), request.before.is_some())
        }
    };
    Page { rows, has_previous, has_next, resume_after: None }
}
