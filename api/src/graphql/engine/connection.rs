//! Lists as Relay connections: one connection type, its paging arguments, and its cursors.

use std::{borrow::Cow, hash::Hash, sync::Arc};

use async_graphql::{
    Context, Object, ObjectType, OutputType, SelectionField, SimpleObject, TypeName, connection::EmptyFields,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::future::BoxFuture;

use super::{
    error::ApiError,
    json::WriteJson,
    loaders::{CountKey, PageKey, ParentList},
    projection::{FieldWriter, HasOverlappingFields, Inline, InlineList, SelectedField, WriteInline},
    scalar::BigInt,
    scope::AccountScope,
};
use crate::store::{
    AccountStore, StoreError,
    core::page::{Columns, End, Key, Page, PageRequest, Sort},
};

/// The default number of items on a page.
const DEFAULT_ITEMS: i32 = 20;

/// The maximum number of items on a page.
pub(crate) const MAX_ITEMS: i32 = 100;

/// The default number of items on a page, as an unsigned number.
pub(crate) const DEFAULT_PAGE_SIZE: u64 = DEFAULT_ITEMS.unsigned_abs() as u64;
/// The maximum number of items on a page, as an unsigned number.
pub(crate) const MAX_PAGE_SIZE: u64 = MAX_ITEMS.unsigned_abs() as u64;

/// The maximum number of items on a page of a list with long pages, see [`LONG_PAGE_FIELDS`].
pub(crate) const MAX_LONG_PAGE_SIZE: u64 = 500;

/// The fields of clusters that a page of up to [`MAX_LONG_PAGE_SIZE`] may select. The clusters' rows have
/// them, and they hold no lists.
pub(crate) const LONG_PAGE_FIELDS: [&str; 15] = [
    "__typename",
    "desiredState",
    "durationSeconds",
    "endedAt",
    "id",
    "idleSeconds",
    "idleSince",
    "lastSeenAt",
    "name",
    "number",
    "schedulerId",
    "startedAt",
    "state",
    "totals",
    "user",
];

/// The version of the format of cursors. A change of the format increments it, so that old cursors are
/// refused, not misread.
const CURSOR_VERSION: u8 = 1;

/// Returns the number of items that paging arguments request, or `None` if they request none.
///
/// # Errors
/// Returns the name of the invalid argument and the reason. A page has at most `max_items` items.
pub(crate) fn parse_page_limit(
    first: Option<i64>,
    last: Option<i64>,
    max_items: u64,
) -> Result<Option<u64>, (&'static str, String)> {
    let (argument, limit) = match (first, last) {
        (Some(_), Some(_)) => {
            return Err(("last", "only one of 'first' and 'last' can be given".to_owned()));
        }
        (None, None) => return Ok(None),
        (Some(first), None) => ("first", first),
        (None, Some(last)) => ("last", last),
    };
    let valid_limit = u64::try_from(limit).ok().filter(|limit| (1..=max_items).contains(limit));
    valid_limit.map(Some).ok_or_else(|| (argument, format!("must be between 1 and {max_items}, not {limit}")))
}

/// The paging arguments of a field, as received.
pub(crate) struct PageArguments {
    pub(crate) first: Option<i32>,
    pub(crate) after: Option<String>,
    pub(crate) last: Option<i32>,
    pub(crate) before: Option<String>,
}

/// The page to read, and the columns to read of each row.
pub(crate) struct RequestedPage {
    page: PageArguments,
    columns: Columns,
    is_long: bool,
}

impl From<PageArguments> for RequestedPage {
    fn from(page: PageArguments) -> Self {
        Self { page, columns: Columns::Full, is_long: false }
    }
}

impl RequestedPage {
    /// Returns the request for this page of a list in the order `sort`.
    pub(crate) fn request(self, scope: &AccountScope, sort: impl Sort) -> Result<PageRequest, ApiError> {
        let max_items = u64::from(scope.max_page.unsigned_abs());
        let max_items = if self.is_long { max_items.max(MAX_LONG_PAGE_SIZE) } else { max_items };
        Ok(PageRequest { row_columns: self.columns, ..self.page.request_up_to(max_items, sort)? })
    }

    /// Allows a long page if the selection of the list at `context` needs only [`LONG_PAGE_FIELDS`].
    pub(crate) fn allow_long_page(self, context: &Context<'_>) -> Self {
        Self { is_long: selects_only(context, &LONG_PAGE_FIELDS), ..self }
    }
}

impl PageArguments {
    /// Returns the page with only those columns that the selection of the list at `context` needs.
    pub(crate) fn with_summary_columns<Node: SummaryFields>(self, context: &Context<'_>) -> RequestedPage {
        let are_summaries_enough = selects_only(context, Node::FIELDS);
        let columns = if are_summaries_enough { Columns::Listed } else { Columns::Full };
        RequestedPage { page: self, columns, is_long: false }
    }

    /// Returns the request for this page of a list in the order `sort`, with all columns.
    pub(crate) fn request(self, scope: &AccountScope, sort: impl Sort) -> Result<PageRequest, ApiError> {
        self.request_up_to(scope.max_page.unsigned_abs().into(), sort)
    }

    /// Returns the request for this page, which has at most `max_items` items, of a list in the order `sort`.
    pub(crate) fn request_up_to(self, max_items: u64, sort: impl Sort) -> Result<PageRequest, ApiError> {
        let invalid = |(argument, reason)| ApiError::InvalidArgument { argument, reason };
        let limit = parse_page_limit(self.first.map(Into::into), self.last.map(Into::into), max_items);
        let limit = limit.map_err(invalid)?.unwrap_or(DEFAULT_PAGE_SIZE);
        let end = if self.last.is_some() { End::Last } else { End::First };
        let parse_key = |argument, cursor: Option<String>| {
            cursor
                .map(|cursor| decode_cursor(sort, &cursor).ok_or_else(|| invalid_cursor_error(argument)))
                .transpose()
        };
        Ok(PageRequest {
            limit,
            end,
            after: parse_key("after", self.after)?,
            before: parse_key("before", self.before)?,
            row_columns: Columns::Full,
        })
    }
}

/// A node whose lists mostly need only the columns that [`Columns::Listed`] reads.
pub(crate) trait SummaryFields {
    /// The fields of the node that need no other columns.
    const FIELDS: &'static [&'static str];
}

/// Returns true if the selection of the list at `context` needs only `fields` of its items.
fn selects_only(context: &Context<'_>, fields: &[&str]) -> bool {
    // Selections that have to be merged need one statement, because rows may be added between two statements.
    if context.data_opt::<HasOverlappingFields>().is_none_or(|overlapping| overlapping.0) {
        return false;
    }
    let is_allowed =
        |field: SelectionField<'_>| field.name() == "__typename" || fields.contains(&field.name());
    let selects_allowed = |field: SelectionField<'_>| field.selection_set().all(is_allowed);
    context.field().selection_set().all(|field| match field.name() {
        "nodes" => selects_allowed(field),
        "edges" => field.selection_set().filter(|field| field.name() == "node").all(selects_allowed),
        _ => true,
    })
}

fn invalid_cursor_error(argument: &'static str) -> ApiError {
    ApiError::InvalidArgument { argument, reason: "not a cursor of this list in this order".to_owned() }
}

pub(crate) fn cursor_for_key(sort: impl Sort, key: &Key) -> String {
    encode_cursor(sort.name(), key)
}

/// Returns the cursor of a key in the order with this name.
fn encode_cursor(sort: &str, key: &Key) -> String {
    let cursor = serde_json::to_vec(&(CURSOR_VERSION, sort, key)).expect("numbers and text are JSON");
    URL_SAFE_NO_PAD.encode(cursor)
}

pub(crate) fn decode_cursor(sort: impl Sort, cursor: &str) -> Option<Key> {
    let json = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (version, name, key): (u8, Cow<'_, str>, Key) = serde_json::from_slice(&json).ok()?;
    (version == CURSOR_VERSION && name == sort.name() && sort.accepts(&key)).then_some(key)
}

/// A function that counts the items of a list. It is called only if the field is selected.
pub(crate) type TotalCountFn = Box<dyn Fn() -> BoxFuture<'static, Result<i64, ApiError>> + Send + Sync>;

/// Returns a function that counts the items with one statement.
pub(crate) fn total_count_by<Count>(count: impl Fn() -> Count + Send + Sync + 'static) -> TotalCountFn
where
    Count: Future<Output = Result<u64, StoreError>> + Send + 'static,
{
    Box::new(move || {
        let count = count();
        Box::pin(async move { Ok(i64::try_from(count.await?).unwrap_or(i64::MAX)) })
    })
}

/// A page of a list. `ListFields` holds the fields that only this list has.
pub(crate) struct Connection<Node, ListFields = EmptyFields> {
    edges: Vec<Edge<Node>>,
    has_previous_page: bool,
    has_next_page: bool,
    /// The position at which a search ended, if it differs from the first or last item.
    search_end: Option<(End, String)>,
    total: TotalCountFn,
    list_fields: ListFields,
}

/// An item and its key. Its cursor is written only if selected, because most queries select few cursors.
pub(crate) struct Edge<Node> {
    sort: &'static str,
    key: Key,
    node: Node,
}

impl<Node> Edge<Node> {
    fn cursor_text(&self) -> String {
        encode_cursor(self.sort, &self.key)
    }
}

/// Reads a page of a parent's list, in one batch with the same page of other parents' lists.
pub(crate) async fn load_connection<Parent, S, Row, Node>(
    scope: &AccountScope,
    parent: Parent,
    sort: S,
    page: impl Into<RequestedPage>,
    node: impl Fn(&AccountScope, Row) -> Node,
) -> Result<Connection<Node>, ApiError>
where
    AccountStore: ParentList<Parent, S, Row = Row>,
    Parent: Clone + Eq + Hash + Send + Sync + 'static,
    S: Sort + Eq + Hash + 'static,
    Row: Clone + Send + Sync + 'static,
{
    let request = page.into().request(scope, sort)?;
    let page =
        scope.loader.load_one(PageKey { parent: parent.clone(), sort, request }).await?.unwrap_or_default();
    let loader = Arc::clone(&scope.loader);
    let total = move || -> BoxFuture<'static, _> {
        let (loader, parent) = (Arc::clone(&loader), parent.clone());
        Box::pin(async move { Ok(loader.load_one(CountKey(parent, sort)).await?.unwrap_or_default()) })
    };
    Ok(Connection::new(page, sort, |row| node(scope, row), Box::new(total)))
}

impl<Node> Connection<Node> {
    /// Creates a connection from a page. `node` converts each row into a node.
    pub(crate) fn new<Row>(
        page: Page<Row>,
        sort: impl Sort,
        node: impl Fn(Row) -> Node,
        total: TotalCountFn,
    ) -> Self {
        Self {
            has_previous_page: page.has_previous,
            has_next_page: page.has_next,
            edges: page
                .rows
                .into_iter()
                .map(|(key, row)| Edge { sort: sort.name(), key, node: node(row) })
                .collect(),
            search_end: page.resume_after.map(|(end, key)| (end, cursor_for_key(sort, &key))),
            total,
            list_fields: EmptyFields,
        }
    }

    /// Adds fields to the page that only this list has.
    pub(crate) fn with_fields<ListFields>(self, list_fields: ListFields) -> Connection<Node, ListFields> {
        let Self { edges, has_previous_page, has_next_page, search_end, total, list_fields: EmptyFields } =
            self;
        Connection { edges, has_previous_page, has_next_page, search_end, total, list_fields }
    }
}

impl<Node: ObjectType, ListFields: ObjectType> TypeName for Connection<Node, ListFields> {
    fn type_name() -> Cow<'static, str> {
        format!("{}Connection", Node::type_name()).into()
    }
}

/// A page of a list, by Relay's specification of cursor connections.
///
/// `first` or `last` sets the maximum number of items, from 1 to 100 unless the argument states another
/// limit. Both at once, numbers out of this range, and cursors of another list or order are errors with the
/// code `BAD_USER_INPUT`. Some fields examine a limited number of items for one page, as their descriptions
/// state. Such a page may hold fewer items than requested, or none. `hasNextPage` (with `last`:
/// `hasPreviousPage`) is true while there are more items to examine, and `endCursor` (with `last`:
/// `startCursor`) is the position to continue from. One query may request at most 50 pages of lists that
/// search all clusters, of logs with `match`, or of task groups with a filter or an order.
#[Object(name_type)]
impl<Node: WriteInline + 'static, ListFields: ObjectType> Connection<Node, ListFields> {
    /// The items with their cursors.
    async fn edges(&self) -> InlineList<&Edge<Node>> {
        InlineList(self.edges.iter().collect())
    }

    /// The items without their cursors.
    async fn nodes(&self) -> InlineList<&Node> {
        InlineList(self.edges.iter().map(|edge| &edge.node).collect())
    }

    /// The position of this page in the list.
    async fn page_info(&self) -> PageInfo {
        let search_end_cursor =
            |at| self.search_end.iter().find(|(end, _)| *end == at).map(|(_, cursor)| cursor.clone());
        PageInfo {
            has_next_page: self.has_next_page,
            has_previous_page: self.has_previous_page,
            start_cursor: search_end_cursor(End::Last).or_else(|| Some(self.edges.first()?.cursor_text())),
            end_cursor: search_end_cursor(End::First).or_else(|| Some(self.edges.last()?.cursor_text())),
        }
    }

    /// The number of items in the whole list. Counted only if selected.
    async fn total_count(&self) -> Result<BigInt, ApiError> {
        (self.total)().await.map(BigInt)
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn list_fields(&self) -> &ListFields {
        &self.list_fields
    }
}

impl<Node: OutputType> TypeName for Edge<Node> {
    fn type_name() -> Cow<'static, str> {
        format!("{}Edge", Node::type_name()).into()
    }
}

/// An item of a list with its cursor.
#[Object(name_type)]
impl<Node: WriteInline + 'static> Edge<Node> {
    /// The position of the item in the list, for the arguments `after` and `before`.
    async fn cursor(&self) -> String {
        self.cursor_text()
    }

    /// The item.
    async fn node(&self) -> Inline<&Node> {
        Inline(&self.node)
    }
}

impl<Node: WriteInline + 'static> WriteInline for Edge<Node> {
    fn field_writer(selected: &SelectedField<'_, '_>) -> Option<FieldWriter<Self>> {
        if selected.has_name("cursor") {
            return Some(Box::new(|edge, _, json| edge.cursor_text().write_json(json)));
        }
        if selected.has_name("node") {
            let projection = selected.project_selection::<Node>()?;
            return Some(Box::new(move |edge, context, json| projection.write(&edge.node, context, json)));
        }
        None
    }
}

/// The position of a page in its list.
#[derive(SimpleObject)]
struct PageInfo {
    /// True if items are known to follow this page, or are left to examine.
    has_next_page: bool,
    /// True if items are known to precede this page, or are left to examine.
    has_previous_page: bool,
    /// The cursor of the first item, or the position at which a search from the end stopped. Null if the
    /// page is empty and no search stopped.
    start_cursor: Option<String>,
    /// The cursor of the last item, or the position at which a search from the start stopped. Null if
    /// the page is empty and no search stopped.
    end_cursor: Option<String>,
}
