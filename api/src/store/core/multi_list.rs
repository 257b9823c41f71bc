//! Several lists, read in one statement.

use sea_orm::{
    ConnectionTrait, DbBackend, EntityTrait, QuerySelect, QueryTrait, Select, Statement, Value,
    sea_query::{Alias, Expr, PostgresQueryBuilder, Query, SelectStatement, UnionType},
};

use super::{
    error::StoreError,
    page::{Page, PageRequest, Sort, into_page, is_ascending, projection_for, select_range},
    text::SqlBuilder,
};

/// Reads the same page of several lists in one statement. The pages are in the order of `selects`.
pub(crate) async fn fetch_pages<S: Sort>(
    connection: &impl ConnectionTrait,
    selects: Vec<Select<S::Entity>>,
    sort: S,
    request: &PageRequest,
) -> Result<Vec<Page<<S::Entity as EntityTrait>::Model>>, StoreError> {
    let mut found: Vec<Vec<_>> = selects.iter().map(|_| Vec::new()).collect();
    if selects.is_empty() {
        return Ok(Vec::new());
    }
    let backend = connection.get_database_backend();
    let part = projection_for(sort, request.row_columns);
    let columns = part.columns();
    let selects =
        selects.into_iter().map(|select| select_range(select.select_only(), sort, request)).collect();
    let kinds = group_by_shape(backend, selects);
    let order: Vec<usize> = kinds.iter().flat_map(|kind| &kind.lists).map(|(list, _)| *list).collect();
    let statement = statement(backend, kinds, &columns, request);
    for row in connection.query_all_raw(statement).await? {
        let number: i64 = row.try_get_by_index(columns.len())?;
        let model = (part.read)(&row)?;
        if let Some(list) = usize::try_from(number).ok().and_then(|number| order.get(number)) {
            found[*list].push((sort.key(&model), model));
        }
    }
    Ok(found
        .into_iter()
        .map(|mut rows| {
            // SQL guarantees an order within each page, not across the union.
            rows.sort_by(|(a, _), (b, _)| if is_ascending(sort, request) { a.cmp(b) } else { b.cmp(a) });
            into_page(rows, request)
        })
        .collect())
}

/// Returns the union of `arms`, which can each have an order and a limit of their own, or `None` without
/// arms. The union is in no particular order.
pub(crate) fn union_all(arms: impl IntoIterator<Item = SelectStatement>) -> Option<SelectStatement> {
    // SQLite allows a limit on an arm of a union only inside a subquery.
    let limited = |arm| Query::select().expr(Expr::cust("*")).from_subquery(arm, Alias::new("arm")).take();
    arms.into_iter().map(limited).reduce(|mut union, arm| union.union(UnionType::All, arm).take())
}

/// Lists whose statements differ only in their bound values.
struct StatementShape<E: EntityTrait> {
    /// The statement of the first list, without columns.
    select: Select<E>,
    /// The SQL text that all the lists share, without columns and values.
    text: String,
    /// The index of each list, with its bound values.
    lists: Vec<(usize, Vec<Value>)>,
}

/// Returns the statement that reads a page of each list. Its last column is the number of the row's
/// list, counted from 0 in the order of the text. So the text does not change with the order in which
/// lists of two kinds are requested, and its prepared statement can be reused.
fn statement<E: EntityTrait>(
    backend: DbBackend,
    kinds: Vec<StatementShape<E>>,
    columns: &[E::Column],
    request: &PageRequest,
) -> Statement {
    let mut text = SqlBuilder::new(backend);
    let mut written = 0;
    for StatementShape { select, lists, .. } in kinds {
        if written > 0 {
            text.push_sql(" UNION ALL ");
        }
        let page = select.columns(columns.iter().copied()).into_query();
        if lists.len() == 1 {
            // SQLite allows a limit on an arm of a union only inside a subquery.
            text.push_sql(&format!("SELECT page.*, CAST({written} AS BIGINT) FROM ("));
            text.select(&page);
        } else {
            write_lateral_join(&mut text, &page, &lists, written);
        }
        text.limit(request.limit + 1);
        text.push_sql(") AS page");
        written += lists.len();
    }
    text.statement()
}

/// Groups the lists by the SQL text that they share. On SQLite each list is a group of its own, since
/// SQLite has no LATERAL.
fn group_by_shape<E: EntityTrait>(backend: DbBackend, selects: Vec<Select<E>>) -> Vec<StatementShape<E>> {
    let alone = backend != DbBackend::Postgres || selects.len() == 1;
    let mut kinds: Vec<StatementShape<E>> = Vec::new();
    for (list, select) in selects.into_iter().enumerate() {
        if alone {
            kinds.push(StatementShape { select, text: String::new(), lists: vec![(list, Vec::new())] });
            continue;
        }
        let (text, values) = select.as_query().build(PostgresQueryBuilder);
        match kinds.iter_mut().find(|kind| kind.text == text) {
            Some(kind) => kind.lists.push((list, values.0)),
            None => kinds.push(StatementShape { select, text, lists: vec![(list, values.0)] }),
        }
    }
    kinds
}

/// Writes the beginning of a statement that reads `page` for each list of a kind. Values that differ
/// between the lists are replaced by columns of a VALUES list. The lists are numbered from `written`.
///
/// PostgreSQL plans the page once for all the lists. With one arm of a union per list, planning took
/// three times as long as reading.
fn write_lateral_join(
    text: &mut SqlBuilder,
    page: &SelectStatement,
    lists: &[(usize, Vec<Value>)],
    written: usize,
) {
    let (_, first) = &lists[0];
    // The parameters whose values differ between lists. A parameter that equals an earlier one in each
    // list uses the earlier one's column.
    let mut columns: Vec<usize> = Vec::new();
    let mut stand_in = |place: usize| {
        if lists.iter().all(|(_, values)| values[place] == first[place]) {
            return None;
        }
        let is_same = |column: &&usize| lists.iter().all(|(_, values)| values[place] == values[**column]);
        let known = columns.iter().find(is_same).copied();
        let column = known.unwrap_or_else(|| {
            columns.push(place);
            place
        });
        Some(format!("list.value_{column}"))
    };
    let stand_ins: Vec<Option<String>> = (0..first.len()).map(&mut stand_in).collect();
    text.push_sql("SELECT page.*, list.number FROM (");
    for (row, (_, values)) in lists.iter().enumerate() {
        text.push_sql(if row == 0 { "VALUES " } else { ", " });
        text.push_sql(&format!("(CAST({} AS BIGINT)", written + row));
        for column in &columns {
            text.push_sql(", ");
            text.value(values[*column].clone());
        }
        text.push_sql(")");
    }
    text.push_sql(") AS list (number");
    for column in &columns {
        text.push_sql(&format!(", value_{column}"));
    }
    text.push_sql(") CROSS JOIN LATERAL (");
    text.select_with(page, &stand_ins);
}
