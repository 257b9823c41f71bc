//! Lists, the way Relay pages them: the one connection all of them are.

use std::{borrow::Cow, hash::Hash, sync::Arc};

use async_graphql::{
    Context, Object, ObjectType, OutputType, SelectionField, SimpleObject, TypeName, connection::EmptyFields,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::future::BoxFuture;

use super::{
    error::ApiError,
    in_place::{Asked, InPlace, Items, Merged, Placed, Step},
    json::Leaf,
    loaders::{CountOf, PageOf, ParentList},
    scalar::BigInt,
    scope::AccountScope,
};
use crate::store::{
    AccountStore, StoreError,
    page::{End, Extent, Key, Page, PageRequest, Sort},
};

/// How many items a page has unless the query says.
const DEFAULT_LIMIT: i32 = 20;

/// How many items a page has at most.
pub(super) const MAX_LIMIT: i32 = 100;

/// The same for what reckons with them.
pub(crate) const DEFAULT_PAGE: u64 = DEFAULT_LIMIT.unsigned_abs() as u64;
/// The same for what reckons with them.
pub(crate) const MAX_PAGE: u64 = MAX_LIMIT.unsigned_abs() as u64;

/// Changes when cursors are written in another way, so that old ones are refused and not misread.
const CURSOR_VERSION: u8 = 1;

/// The paging arguments of a field, as they came.
pub(super) struct PageArguments {
    pub(super) first: Option<i32>,
    pub(super) after: Option<String>,
    pub(super) last: Option<i32>,
    pub(super) before: Option<String>,
}

/// A page that is asked for, and how much of its rows that takes.
pub(super) struct Wanted {
    page: PageArguments,
    extent: Extent,
}

impl From<PageArguments> for Wanted {
    fn from(page: PageArguments) -> Self {
        Self { page, extent: Extent::Whole }
    }
}

impl Wanted {
    /// Which page of a list in the order `sort` it is.
    pub(super) fn request(self, scope: &AccountScope, sort: impl Sort) -> Result<PageRequest, ApiError> {
        Ok(PageRequest { extent: self.extent, ..self.page.request(scope, sort)? })
    }
}

impl PageArguments {
    /// These, reading no more of each row than the list at `context` is asked for.
    pub(super) fn listed<Node: Listed>(self, context: &Context<'_>) -> Wanted {
        Wanted { page: self, extent: extent::<Node>(context) }
    }

    /// Which page of a list in the order `sort` these ask for.
    pub(super) fn request(self, scope: &AccountScope, sort: impl Sort) -> Result<PageRequest, ApiError> {
        let (argument, limit, end) = match (self.first, self.last) {
            (Some(_), Some(_)) => {
                return Err(ApiError::InvalidArgument {
                    argument: "last",
                    reason: "only one of 'first' and 'last' can be given".to_owned(),
                });
            }
            (first, None) => ("first", first.unwrap_or(DEFAULT_LIMIT), End::First),
            (None, Some(last)) => ("last", last, End::Last),
        };
        let most = scope.max_page;
        if !(1..=most).contains(&limit) {
            return Err(ApiError::InvalidArgument {
                argument,
                reason: format!("must be between 1 and {most}, not {limit}"),
            });
        }
        let key = |argument, cursor: Option<String>| {
            cursor.map(|cursor| read_cursor(sort, &cursor).ok_or_else(|| bad_cursor(argument))).transpose()
        };
        Ok(PageRequest {
            limit: limit.unsigned_abs().into(),
            end,
            after: key("after", self.after)?,
            before: key("before", self.before)?,
            extent: Extent::Whole,
        })
    }
}

/// An item that can be answered, as far as most lists ask, from what [`Extent::Listed`] reads of its row.
pub(super) trait Listed {
    /// The fields for which that is enough.
    const FIELDS: &'static [&'static str];
}

/// How much of each row it takes to answer what is selected of the list at `context`.
fn extent<Node: Listed>(context: &Context<'_>) -> Extent {
    // What is merged has to come from one statement: rows may be added between two.
    if context.data_opt::<Merged>().is_none_or(|merged| merged.0) {
        return Extent::Whole;
    }
    let is_listed =
        |field: SelectionField<'_>| field.name() == "__typename" || Node::FIELDS.contains(&field.name());
    let of_node = |field: SelectionField<'_>| field.selection_set().all(is_listed);
    let is_enough = context.field().selection_set().all(|field| match field.name() {
        "nodes" => of_node(field),
        "edges" => field.selection_set().filter(|field| field.name() == "node").all(of_node),
        _ => true,
    });
    if is_enough { Extent::Listed } else { Extent::Whole }
}

fn bad_cursor(argument: &'static str) -> ApiError {
    ApiError::InvalidArgument { argument, reason: "not a cursor of this list in this order".to_owned() }
}

pub(super) fn write_cursor(sort: impl Sort, key: &Key) -> String {
    write_place(sort.name(), key)
}

/// The same in the order with this name.
fn write_place(sort: &str, key: &Key) -> String {
    let cursor = serde_json::to_vec(&(CURSOR_VERSION, sort, key)).expect("numbers and text are JSON");
    URL_SAFE_NO_PAD.encode(cursor)
}

pub(super) fn read_cursor(sort: impl Sort, cursor: &str) -> Option<Key> {
    let json = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (version, name, key): (u8, Cow<'_, str>, Key) = serde_json::from_slice(&json).ok()?;
    (version == CURSOR_VERSION && name == sort.name() && sort.accepts(&key)).then_some(key)
}

/// How many items there are, asked only when the field is selected.
pub(super) type TotalCount = Box<dyn Fn() -> BoxFuture<'static, Result<i64, ApiError>> + Send + Sync>;

/// A total count by one statement.
pub(super) fn counted<Count>(count: impl Fn() -> Count + Send + Sync + 'static) -> TotalCount
where
    Count: Future<Output = Result<u64, StoreError>> + Send + 'static,
{
    Box::new(move || {
        let count = count();
        Box::pin(async move { Ok(i64::try_from(count.await?).unwrap_or(i64::MAX)) })
    })
}

/// A page of a list, with the fields of `More` besides those all lists have.
pub(super) struct Connection<Node, More = EmptyFields> {
    edges: Vec<Edge<Node>>,
    has_previous_page: bool,
    has_next_page: bool,
    /// Where a search ended, if that is not where its first or last item stands.
    reached: Option<(End, String)>,
    total: TotalCount,
    more: More,
}

/// An item and where it stands: its cursor is written when it is asked for, which of most items it is not.
pub(super) struct Edge<Node> {
    sort: &'static str,
    key: Key,
    node: Node,
}

impl<Node> Edge<Node> {
    fn place(&self) -> String {
        write_place(self.sort, &self.key)
    }
}

/// A page of a parent's list, read together with the same page of other parents' lists.
pub(super) async fn connect<Parent, S, Row, Node>(
    scope: &AccountScope,
    parent: Parent,
    sort: S,
    page: impl Into<Wanted>,
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
        scope.loader.load_one(PageOf { parent: parent.clone(), sort, request }).await?.unwrap_or_default();
    let loader = Arc::clone(&scope.loader);
    let total = move || -> BoxFuture<'static, _> {
        let (loader, parent) = (Arc::clone(&loader), parent.clone());
        Box::pin(async move { Ok(loader.load_one(CountOf(parent, sort)).await?.unwrap_or_default()) })
    };
    Ok(Connection::new(page, sort, |row| node(scope, row), Box::new(total)))
}

impl<Node> Connection<Node> {
    /// The page as a connection: `node` makes a node of each row.
    pub(super) fn new<Row>(
        page: Page<Row>,
        sort: impl Sort,
        node: impl Fn(Row) -> Node,
        total: TotalCount,
    ) -> Self {
        Self {
            has_previous_page: page.has_previous,
            has_next_page: page.has_next,
            edges: page
                .rows
                .into_iter()
                .map(|(key, row)| Edge { sort: sort.name(), key, node: node(row) })
                .collect(),
            reached: page.reached.map(|(end, key)| (end, write_cursor(sort, &key))),
            total,
            more: EmptyFields,
        }
    }

    /// The same page with fields of its own.
    pub(super) fn with<More>(self, more: More) -> Connection<Node, More> {
        let Self { edges, has_previous_page, has_next_page, reached, total, more: EmptyFields } = self;
        Connection { edges, has_previous_page, has_next_page, reached, total, more }
    }
}

impl<Node: ObjectType, More: ObjectType> TypeName for Connection<Node, More> {
    fn type_name() -> Cow<'static, str> {
        format!("{}Connection", Node::type_name()).into()
    }
}

/// A page of a list, paged as Relay's cursor connections.
#[Object(name_type)]
impl<Node: InPlace + 'static, More: ObjectType> Connection<Node, More> {
    /// The items with their cursors.
    async fn edges(&self) -> Items<&Edge<Node>> {
        Items(self.edges.iter().collect())
    }

    /// The items without their cursors.
    async fn nodes(&self) -> Items<&Node> {
        Items(self.edges.iter().map(|edge| &edge.node).collect())
    }

    /// Where this page stands in the list.
    async fn page_info(&self) -> PageInfo {
        let reached = |at| self.reached.iter().find(|(end, _)| *end == at).map(|(_, cursor)| cursor.clone());
        PageInfo {
            has_next_page: self.has_next_page,
            has_previous_page: self.has_previous_page,
            start_cursor: reached(End::Last).or_else(|| Some(self.edges.first()?.place())),
            end_cursor: reached(End::First).or_else(|| Some(self.edges.last()?.place())),
        }
    }

    /// How many items the whole list has. Counted only when asked for.
    async fn total_count(&self) -> Result<BigInt, ApiError> {
        (self.total)().await.map(BigInt)
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "what the macro makes of it awaits it")]
    async fn more(&self) -> &More {
        &self.more
    }
}

impl<Node: OutputType> TypeName for Edge<Node> {
    fn type_name() -> Cow<'static, str> {
        format!("{}Edge", Node::type_name()).into()
    }
}

/// An item of a list with its cursor.
#[Object(name_type)]
impl<Node: InPlace + 'static> Edge<Node> {
    /// Where the item stands: give it as `after` or `before` to page on from here.
    async fn cursor(&self) -> String {
        self.place()
    }

    /// The item.
    async fn node(&self) -> Placed<&Node> {
        Placed(&self.node)
    }
}

impl<Node: InPlace + 'static> InPlace for Edge<Node> {
    fn step(asked: &Asked<'_, '_>) -> Option<Step<Self>> {
        if asked.is("cursor") {
            return Some(Box::new(|edge, _, json| edge.place().put(json)));
        }
        if asked.is("node") {
            let plan = asked.inside::<Node>()?;
            return Some(Box::new(move |edge, context, json| plan.write(&edge.node, context, json)));
        }
        None
    }
}

/// Where a page stands in its list.
#[derive(SimpleObject)]
struct PageInfo {
    /// Whether items are known to follow this page.
    has_next_page: bool,
    /// Whether items are known to lie before this page.
    has_previous_page: bool,
    /// The first item's cursor; null when the page is empty.
    start_cursor: Option<String>,
    /// The last item's cursor; null when the page is empty.
    end_cursor: Option<String>,
}
