//! Keyset pages: the one way lists are read.
//!
//! A page asks for one row more than it returns, to know whether there is a next one, and compares row
//! values, `(started_at, id) < (?, ?)`, which is a range of the index on SQLite and PostgreSQL alike.

use entity::{
    Listed, Positional,
    ids::{
        AlertDeliveryId, AlertId, AlertRuleId, ApiTokenId, AuditEntryId, ClientId, ClusterId, ComputationId,
        ErrorGroupId, ErrorOccurrenceId, EventId, FlagId, InvitationId, KeyTime, LogLineId,
        PerformanceReportId, SpanId, TaskGroupId, UserId, WorkerId,
    },
};
use sea_orm::{
    ConnectionTrait, DbErr, EntityTrait, IdenStatic, Iterable, Order, QueryFilter, QueryOrder, QueryResult,
    QuerySelect, QueryTrait, Select, Value,
    sea_query::{Alias, Expr, ExprTrait, Query, SelectStatement},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{error::StoreError, text::Text};

/// An order of a table's rows: columns that are never null, ending in the identifier, all in one direction.
pub trait Sort: Copy + Send + Sync {
    /// The table.
    type Entity: EntityTrait<Model: Positional>;

    /// What a cursor calls this order, so that it cannot be used with another.
    fn name(self) -> &'static str;

    /// The columns, in order.
    fn columns(self) -> Vec<<Self::Entity as EntityTrait>::Column>;

    /// Whether large values come first.
    fn descending(self) -> bool;

    /// Whether a key from outside has this order's parts.
    fn accepts(self, key: &Key) -> bool;

    /// Where a row stands in this order: one part per column.
    fn key(self, row: &<Self::Entity as EntityTrait>::Model) -> Key;
}

/// Where a row stands in an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(pub Vec<KeyPart>);

impl Key {
    /// Of a row with a time, among those of its cluster.
    pub(super) fn time_in_cluster(time: impl Into<KeyPart>, id: impl Into<KeyPart>) -> Self {
        Self(vec![time.into(), id.into()])
    }

    /// Of a row with a time, among those of all clusters, whose identifiers are apart only within one.
    pub(super) fn time_in_account(
        time: impl Into<KeyPart>,
        cluster: ClusterId,
        id: impl Into<KeyPart>,
    ) -> Self {
        Self(vec![time.into(), cluster.into(), id.into()])
    }

    /// Of a row with a time, among those that arrived.
    pub(super) fn arrival(
        arrived_at: i64,
        cluster: ClusterId,
        time: impl Into<KeyPart>,
        id: impl Into<KeyPart>,
    ) -> Self {
        Self(vec![KeyPart::Integer(arrived_at), cluster.into(), time.into(), id.into()])
    }

    /// Whether it has the parts of [`Self::time_in_cluster`]: cursors come from outside.
    pub(super) fn is_time_in_cluster(&self) -> bool {
        matches!(self.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    /// Whether it has the parts of [`Self::time_in_account`].
    pub(super) fn is_time_in_account(&self) -> bool {
        matches!(self.0[..], [KeyPart::Integer(_), KeyPart::Integer(_), KeyPart::Uuid(_)])
    }
}

/// One column's value in a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyPart {
    /// A number, or a time in milliseconds.
    Integer(i64),
    /// A number with a fraction that is not negative, so that its bits are ordered as it is. They come back exactly
    /// from a cursor.
    Real {
        /// The bits of the number.
        bits: i64,
    },
    /// An identifier.
    Uuid(Uuid),
}

impl KeyPart {
    /// A number that is not negative.
    #[must_use]
    pub fn real(number: f64) -> Self {
        // Nothing is added but the sign of a zero, which would count as a bit.
        Self::Real { bits: (number + 0.0).to_bits().cast_signed() }
    }

    /// Whether it can be one: cursors come from outside.
    #[must_use]
    pub fn is_real(self) -> bool {
        matches!(self, Self::Real { bits } if f64::from_bits(bits.cast_unsigned()) >= 0.0)
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
    PerformanceReportId
);

impl From<KeyPart> for Value {
    fn from(part: KeyPart) -> Self {
        match part {
            KeyPart::Integer(number) => number.into(),
            KeyPart::Real { bits } => f64::from_bits(bits.cast_unsigned()).into(),
            KeyPart::Uuid(uuid) => uuid.into(),
        }
    }
}

/// Which rows of an ordered list are wanted, and how much of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageRequest {
    /// At most this many.
    pub limit: u64,
    /// From which end of what lies between `after` and `before`.
    pub end: End,
    /// Only rows behind this one.
    pub after: Option<Key>,
    /// Only rows in front of this one.
    pub before: Option<Key>,
    /// How much of each row.
    pub extent: Extent,
}

impl PageRequest {
    /// At most so many rows from an end of the list.
    #[must_use]
    pub fn from(end: End, limit: u64) -> Self {
        Self { limit, end, after: None, before: None, extent: Extent::Whole }
    }
}

/// How much of each row is read. There are two, and not as many as there are selections of fields: each text of a statement
/// stays prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// What [`Positional::LISTED`] says, if it says something and the list can: those that are searched, and those ordered by
    /// what no row has, read all. The rest of each row is empty.
    Listed,
    /// All of it.
    Whole,
}

/// So many rows of an ordered list, behind so many others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// How many rows lie in front.
    pub offset: u64,
    /// At most this many.
    pub limit: u64,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Where the order begins.
    First,
    /// Where the order ends.
    Last,
}

/// Some rows of a list, in its order, with where each stands.
#[derive(Clone, Debug)]
pub struct Page<Row> {
    /// The rows.
    pub rows: Vec<(Key, Row)>,
    /// Whether rows are known to lie in front of these.
    pub has_previous: bool,
    /// Whether rows are known to lie behind these.
    pub has_next: bool,
    /// Where a search ended that is to go on there, if not at its last row in the direction it went.
    pub reached: Option<(End, Key)>,
}

impl<Row> Default for Page<Row> {
    fn default() -> Self {
        Self { rows: Vec::new(), has_previous: false, has_next: false, reached: None }
    }
}

impl<Row> Page<Row> {
    /// The rows, without where they stand.
    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// The column of a statement that says which place a row has among its like, counted from 1.
pub(super) const PLACE: &str = "place";

/// The rows of a statement with a column [`PLACE`] that have one of the first so many, in no particular order.
pub(super) fn first_places(ranked: SelectStatement, places: i64) -> SelectStatement {
    Query::select()
        .expr(Expr::cust("*"))
        .from_subquery(ranked, Alias::new("ranked"))
        .and_where(Expr::col(Alias::new(PLACE)).lte(places))
        .take()
}

/// Reads one page of what `select` selects, in one statement.
pub(super) async fn fetch<S: Sort>(
    connection: &impl ConnectionTrait,
    select: Select<S::Entity>,
    sort: S,
    request: &PageRequest,
) -> Result<Page<<S::Entity as EntityTrait>::Model>, StoreError> {
    let part = part(sort, request.extent);
    let mut text = Text::new(connection.get_database_backend());
    text.select(&range(part.of(select), sort, request).into_query());
    text.limit(request.limit + 1);
    let rows = connection.query_all_raw(text.statement()).await?;
    let with_key = |row| (part.read)(row).map(|row| (sort.key(&row), row));
    Ok(into_page(rows.iter().map(with_key).collect::<Result<_, _>>()?, request))
}

/// What is read of each row.
pub(super) struct Part<E: EntityTrait> {
    /// Only these columns, if not all.
    columns: Option<&'static [E::Column]>,
    pub(super) read: fn(&QueryResult) -> Result<E::Model, DbErr>,
}

/// The part that an extent means. An order by what lists do not show takes all.
pub(super) fn part<S: Sort>(sort: S, extent: Extent) -> Part<S::Entity> {
    if extent == Extent::Listed
        && let Some(Listed { columns, read }) = <S::Entity as EntityTrait>::Model::LISTED
        && sort
            .columns()
            .iter()
            .all(|of_sort| columns.iter().any(|column| column.as_str() == of_sort.as_str()))
    {
        Part { columns: Some(columns), read }
    } else {
        Part { columns: None, read: Positional::by_position }
    }
}

impl<E: EntityTrait> Part<E> {
    /// Its columns.
    pub(super) fn columns(&self) -> Vec<E::Column> {
        self.columns.map_or_else(|| E::Column::iter().collect(), <[_]>::to_vec)
    }

    /// The statement that selects it.
    fn of(&self, select: Select<E>) -> Select<E> {
        match self.columns {
            Some(columns) => select.select_only().columns(columns.iter().copied()),
            None => select,
        }
    }
}

/// Reads a slice of what `select` selects, in one statement.
///
/// Where the slice begins is looked up first, which takes no more of the rows in front than their columns of the order: an
/// index has them, so that they are counted and not read.
pub(super) async fn fetch_slice<S: Sort>(
    connection: &impl ConnectionTrait,
    select: Select<S::Entity>,
    sort: S,
    Slice { offset, limit }: Slice,
) -> Result<Vec<<S::Entity as EntityTrait>::Model>, StoreError> {
    let from_start = PageRequest::from(End::First, limit);
    let mut slice = range(select.clone(), sort, &from_start);
    if offset > 0 {
        let mut first = range(select, sort, &from_start).into_query();
        first.clear_selects().exprs(columns(sort)).limit(1).offset(offset);
        let first = Expr::SubQuery(None, Box::new(first.into()));
        let row = Expr::tuple(columns(sort));
        slice = slice.filter(if sort.descending() { row.lte(first) } else { row.gte(first) });
    }
    let mut text = Text::new(connection.get_database_backend());
    text.select(&slice.into_query());
    text.limit(limit);
    let rows = connection.query_all_raw(text.statement()).await?;
    let rows = rows.iter().map(<S::Entity as EntityTrait>::Model::by_position);
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What [`fetch_by`] orders by.
const NUMBER: &str = "page_number";

/// Reads one page of rows that come in the order of a number, which the statement works out for each and which is not
/// negative, and then as `sort` says. The number comes first in their keys.
pub(super) async fn fetch_by<S: Sort>(
    connection: &impl ConnectionTrait,
    select: Select<S::Entity>,
    number: Expr,
    sort: S,
    request: &PageRequest,
) -> Result<Page<<S::Entity as EntityTrait>::Model>, StoreError> {
    let columns: Vec<Expr> = [number.clone()].into_iter().chain(columns(sort)).collect();
    // By its name, so that it is worked out once.
    let order = [Expr::col(Alias::new(NUMBER))].into_iter().chain(self::columns(sort)).collect();
    let select = range_of(select.expr_as(number, NUMBER), &columns, order, sort, request);
    let mut rows = Vec::new();
    let mut text = Text::new(connection.get_database_backend());
    text.select(&select.into_query());
    text.limit(request.limit + 1);
    for row in connection.query_all_raw(text.statement()).await? {
        let model = <S::Entity as EntityTrait>::Model::by_position(&row)?;
        let mut key = vec![KeyPart::real(row.try_get("", NUMBER)?)];
        key.extend(sort.key(&model).0);
        rows.push((Key(key), model));
    }
    Ok(into_page(rows, request))
}

fn columns<S: Sort>(sort: S) -> impl Iterator<Item = Expr> {
    sort.columns().into_iter().map(|column| Expr::col((S::Entity::default(), column)))
}

/// The rows of a page, and one more.
pub(super) fn window<S: Sort>(
    select: Select<S::Entity>,
    sort: S,
    request: &PageRequest,
) -> Select<S::Entity> {
    range(select, sort, request).limit(request.limit + 1)
}

/// The rows from where a page begins on, in the order of its statement.
pub(super) fn range<S: Sort>(select: Select<S::Entity>, sort: S, request: &PageRequest) -> Select<S::Entity> {
    let columns: Vec<Expr> = columns(sort).collect();
    range_of(select, &columns.clone(), columns, sort, request)
}

/// The same by what rows are compared by, which in the order they come in may have other names.
fn range_of<S: Sort>(
    mut select: Select<S::Entity>,
    columns: &[Expr],
    order_by: Vec<Expr>,
    sort: S,
    request: &PageRequest,
) -> Select<S::Entity> {
    let lies_behind = |key: &Key, descending: bool| {
        // What a key has beyond the columns tells which order it is of.
        let parts = key.0.iter().take(columns.len()).map(|part| Expr::val(*part));
        let (row, position) = (Expr::tuple(columns.iter().cloned()), Expr::tuple(parts));
        if descending { row.lt(position) } else { row.gt(position) }
    };
    if let Some(after) = &request.after {
        select = select.filter(lies_behind(after, sort.descending()));
    }
    if let Some(before) = &request.before {
        select = select.filter(lies_behind(before, !sort.descending()));
    }
    let order = if ascending_rows(sort, request) { Order::Asc } else { Order::Desc };
    order_by.into_iter().fold(select, |select, column| select.order_by(column, order.clone()))
}

/// Whether the statement asks for small values first: a last page is read backwards.
pub(super) fn ascending_rows<S: Sort>(sort: S, request: &PageRequest) -> bool {
    sort.descending() != (request.end == End::First)
}

pub(super) fn into_page<Row>(mut rows: Vec<(Key, Row)>, request: &PageRequest) -> Page<Row> {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    page_of(rows, request, more)
}

/// The page of rows that stand as they were read: from the end that was asked for. `more` tells whether there are
/// others behind them.
pub(super) fn page_of<Row>(mut rows: Vec<(Key, Row)>, request: &PageRequest, more: bool) -> Page<Row> {
    let (has_previous, has_next) = match request.end {
        End::First => (request.after.is_some(), more || request.before.is_some()),
        End::Last => {
            rows.reverse();
            (more || request.after.is_some(), request.before.is_some())
        }
    };
    Page { rows, has_previous, has_next, reached: None }
}
