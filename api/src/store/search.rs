//! Pages of rows that no index finds: rows are looked at in order, so many at the most, and a page may end before it is
//! full. It tells then how far it came, and the next one goes on from there.

use sea_orm::{
    Condition, ConnectionTrait, EntityTrait, FromQueryResult, Order, QueryTrait, Select,
    sea_query::{Alias, Expr, ExprTrait, Func, Query, SelectStatement, WindowStatement},
};

use super::{
    error::StoreError,
    page::{self, End, Key, PLACE, Page, PageRequest, Sort},
};

/// How many rows are looked at for one page at the most.
pub const ROWS_PER_SEARCH: u64 = 10_000;

/// The column that tells whether a row passes the condition.
const PASSES: &str = "passes";

/// Rows in the order of a page, some of which are wanted.
pub(super) struct Walk<S> {
    /// The rows, each with its [`PLACE`] among those of its list.
    pub(super) rows: SelectStatement,
    /// How many rows of each list are looked at: at the row with this place, it is not known what follows.
    pub(super) most: u64,
    pub(super) sort: S,
}

/// Reads a page of those rows of `select` that pass `condition`, in one statement that looks at no more than
/// [`ROWS_PER_SEARCH`] rows.
pub(super) async fn search<S: Sort>(
    connection: &impl ConnectionTrait,
    select: Select<S::Entity>,
    condition: Condition,
    sort: S,
    request: &PageRequest,
) -> Result<Page<<S::Entity as EntityTrait>::Model>, StoreError> {
    if condition.is_empty() {
        return page::fetch(connection, select, sort, request).await;
    }
    let rows = numbered(select, sort, ROWS_PER_SEARCH, request);
    Walk { rows, most: ROWS_PER_SEARCH, sort }.page(connection, condition, request).await
}

/// The first so many rows of a list, with their places.
pub(super) fn numbered<S: Sort>(
    select: Select<S::Entity>,
    sort: S,
    most: u64,
    request: &PageRequest,
) -> SelectStatement {
    // What a page asks for is one row more.
    let looked_at = PageRequest { limit: most - 1, ..request.clone() };
    let mut rows = page::window(select, sort, &looked_at).into_query();
    rows.expr_window_as(Func::cust("ROW_NUMBER"), in_order(sort, request), Alias::new(PLACE));
    rows
}

/// The order in which the rows of a page are read.
pub(super) fn in_order<S: Sort>(sort: S, request: &PageRequest) -> WindowStatement {
    let mut window = WindowStatement::new();
    for column in sort.columns() {
        window.order_by((S::Entity::default(), column), direction(sort, request));
    }
    window
}

fn direction<S: Sort>(sort: S, request: &PageRequest) -> Order {
    if page::ascending_rows(sort, request) { Order::Asc } else { Order::Desc }
}

impl<S: Sort> Walk<S> {
    /// The page of what passes `condition`.
    pub(super) async fn page(
        self,
        connection: &impl ConnectionTrait,
        condition: Condition,
        request: &PageRequest,
    ) -> Result<Page<<S::Entity as EntityTrait>::Model>, StoreError> {
        let Self { most, sort, .. } = self;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let (mut found, mut more, mut reached) = (Vec::new(), false, None);
        for row in connection.query_all(&self.statement(condition, request)).await? {
            let model = <S::Entity as EntityTrait>::Model::from_query_result(&row, "")?;
            let (place, passes): (i64, i32) = (row.try_get("", PLACE)?, row.try_get("", PASSES)?);
            let key = sort.key(&model);
            if passes == 1 {
                if found.len() == limit {
                    more = true;
                    break;
                }
                found.push((key.clone(), model));
            }
            if u64::try_from(place).is_ok_and(|place| place == most) {
                reached = Some((request.end, key));
                break;
            }
        }
        let page = page::page_of(found, request, more || reached.is_some());
        Ok(Page { reached, ..page })
    }

    /// The rows that pass, and those behind which nothing is known. Of both there are no more before the first of these
    /// than the page has.
    fn statement(self, condition: Condition, request: &PageRequest) -> SelectStatement {
        let Self { rows, most, sort } = self;
        let condition = if condition.is_empty() { condition.add(Expr::cust("1 = 1")) } else { condition };
        let passes = Expr::case(condition.clone(), Expr::cust("1")).finally(Expr::cust("0"));
        let is_last = Expr::col(Alias::new(PLACE)).eq(i64::try_from(most).unwrap_or(i64::MAX));
        let mut statement = Query::select();
        statement
            .expr(Expr::cust("*"))
            .expr_as(passes, Alias::new(PASSES))
            // Under the table's own name, so that its columns are those of the condition.
            .from_subquery(rows, S::Entity::default())
            .cond_where(Condition::any().add(condition).add(is_last))
            .limit(request.limit + 1);
        for column in sort.columns() {
            statement.order_by((S::Entity::default(), column), direction(sort, request));
        }
        statement
    }
}

impl<Row> Page<Row> {
    /// The first rows of a longer page that pass a test of which the database knows nothing, as a page of the length that
    /// `request` asks for.
    pub(super) fn search(self, request: &PageRequest, passes: impl Fn(&Row) -> bool) -> Self {
        let forwards = request.end == End::First;
        let unread = if forwards { self.has_next } else { self.has_previous };
        let mut rows = self.rows;
        if !forwards {
            rows.reverse();
        }
        let last: Option<Key> =
            self.reached.map(|(_, key)| key).or_else(|| rows.last().map(|(key, _)| key.clone()));
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let mut passing = rows.into_iter().filter(|(_, row)| passes(row));
        let found: Vec<_> = passing.by_ref().take(limit).collect();
        let more = passing.next().is_some();
        let page = page::page_of(found, request, more || unread);
        Self { reached: last.filter(|_| unread && !more).map(|key| (request.end, key)), ..page }
    }
}
