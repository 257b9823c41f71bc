//! Pages of rows that no index finds. A bounded number of rows is examined in order, so a page may end
//! before it is full. It then returns the position at which the search stopped, and the next page
//! continues from there.

use sea_orm::{
    Condition, ConnectionTrait, EntityTrait, FromQueryResult, Order, QueryTrait, Select,
    sea_query::{Alias, Expr, ExprTrait, Func, Query, SelectStatement, WindowStatement},
};

use super::{
    error::StoreError,
    page::{self, End, Key, Page, PageRequest, RANK, Sort},
    read_rows::ReadRows,
};

/// The largest number of rows examined for one page.
pub const ROWS_PER_SEARCH: u64 = 10_000;

/// The column with 1 for a row that passes the condition, and 0 for others.
const PASSES: &str = "passes";

/// A bounded search for the rows of a page.
pub(crate) struct BoundedScan<S> {
    /// The rows to examine, each with its [`RANK`] in its list.
    pub(crate) rows: SelectStatement,
    /// The number of rows examined of each list. The rows with a higher [`RANK`] are unknown.
    pub(crate) scan_limit: u64,
    pub(crate) sort: S,
}

/// Reads a page of the rows of `select` that pass `condition`, in one statement that examines at most
/// [`ROWS_PER_SEARCH`] rows.
pub(crate) async fn scan_page<S: Sort>(
    connection: &impl ReadRows,
    select: Select<S::Entity>,
    condition: Condition,
    sort: S,
    request: &PageRequest,
) -> Result<Page<<S::Entity as EntityTrait>::Model>, StoreError> {
    if condition.is_empty() {
        return page::fetch(connection, select, sort, request).await;
    }
    let rows = numbered(select, sort, ROWS_PER_SEARCH, request);
    BoundedScan { rows, scan_limit: ROWS_PER_SEARCH, sort }.page(connection, condition, request).await
}

/// Selects the first `scan_limit` rows of a list, numbered in their order.
pub(crate) fn numbered<S: Sort>(
    select: Select<S::Entity>,
    sort: S,
    scan_limit: u64,
    request: &PageRequest,
) -> SelectStatement {
    // `window` adds one row to the limit.
    let scan_request = PageRequest { limit: scan_limit - 1, ..request.clone() };
    let mut rows = page::window(select, sort, &scan_request).into_query();
    rows.expr_window_as(Func::cust("ROW_NUMBER"), page_order(sort, request), Alias::new(RANK));
    rows
}

/// Returns the window with the order in which the rows of a page are read.
pub(crate) fn page_order<S: Sort>(sort: S, request: &PageRequest) -> WindowStatement {
    let mut window = WindowStatement::new();
    for column in sort.columns() {
        window.order_by((S::Entity::default(), column), direction(sort, request));
    }
    window
}

fn direction<S: Sort>(sort: S, request: &PageRequest) -> Order {
    if page::is_ascending(sort, request) { Order::Asc } else { Order::Desc }
}

impl<S: Sort> BoundedScan<S> {
    /// Reads the page of the rows that pass `condition`.
    pub(crate) async fn page(
        self,
        connection: &impl ConnectionTrait,
        condition: Condition,
        request: &PageRequest,
    ) -> Result<Page<<S::Entity as EntityTrait>::Model>, StoreError> {
        let Self { scan_limit, sort, .. } = self;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let (mut matches, mut has_more, mut scan_end) = (Vec::new(), false, None);
        for row in connection.query_all(&self.statement(condition, request)).await? {
            let model = <S::Entity as EntityTrait>::Model::from_query_result(&row, "")?;
            let (rank, passes): (i64, i32) = (row.try_get("", RANK)?, row.try_get("", PASSES)?);
            let key = sort.key(&model);
            if passes == 1 {
                if matches.len() == limit {
                    has_more = true;
                    break;
                }
                matches.push((key.clone(), model));
            }
            if u64::try_from(rank).is_ok_and(|rank| rank == scan_limit) {
                scan_end = Some((request.end, key));
                break;
            }
        }
        let page = page::build_page(matches, request, has_more || scan_end.is_some());
        Ok(Page { resume_after: scan_end, ..page })
    }

    /// Returns the statement for the rows that pass and for the last row examined. The limit leaves out the
    /// last row examined only if the page is full.
    fn statement(self, condition: Condition, request: &PageRequest) -> SelectStatement {
        let Self { rows, scan_limit, sort } = self;
        let condition = if condition.is_empty() { condition.add(Expr::cust("1 = 1")) } else { condition };
        let passes = Expr::case(condition.clone(), Expr::cust("1")).finally(Expr::cust("0"));
        let is_last = Expr::col(Alias::new(RANK)).eq(i64::try_from(scan_limit).unwrap_or(i64::MAX));
        let mut statement = Query::select();
        statement
            .expr(Expr::cust("*"))
            .expr_as(passes, Alias::new(PASSES))
            // The subquery has the name of the table, so that the columns of the condition refer to it.
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
    /// Returns the first rows of a longer page that pass a test that SQL cannot express, as a page of
    /// the length in `request`.
    pub(crate) fn search(self, request: &PageRequest, passes: impl Fn(&Row) -> bool) -> Self {
        let is_forward = request.end == End::First;
        let has_unread = if is_forward { self.has_next } else { self.has_previous };
        let mut rows = self.rows;
        if !is_forward {
            rows.reverse();
        }
        let last_key: Option<Key> =
            self.resume_after.map(|(_, key)| key).or_else(|| rows.last().map(|(key, _)| key.clone()));
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let mut passing = rows.into_iter().filter(|(_, row)| passes(row));
        let matches: Vec<_> = passing.by_ref().take(limit).collect();
        let has_more = passing.next().is_some();
        let page = page::build_page(matches, request, has_more || has_unread);
        Self {
            resume_after: last_key.filter(|_| has_unread && !has_more).map(|key| (request.end, key)),
            ..page
        }
    }
}
