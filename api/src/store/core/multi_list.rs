//! Several lists, read in one statement.

use entity::Row;
use sea_orm::{
    DbBackend, DbErr, EntityTrait, QuerySelect, QueryTrait, Select, Statement, Value,
    sea_query::{Alias, Expr, PostgresQueryBuilder, Query, SelectStatement, UnionType},
};

use super::{
    error::StoreError,
    page::{Key, Page, PageRequest, Sort, into_page, is_ascending, projection_for, select_range},
    read_rows::ReadRows,
    sql_builder::SqlBuilder,
};

/// Reads the same page of several lists in one statement. The pages are in the order of `selects`.
pub(crate) async fn fetch_pages<S: Sort>(
    connection: &impl ReadRows,
    selects: Vec<Select<S::Entity>>,
    sort: S,
    request: &PageRequest,
) -> Result<Vec<Page<<S::Entity as EntityTrait>::Model>>, StoreError> {
    let projection = projection_for(sort, request.row_columns);
    let decode_with_key = |row: &Row<'_>| (projection.read)(row).map(|row| (sort.key(&row), row));
    fetch_page_rows(connection, selects, sort, request, &projection.columns(), decode_with_key).await
}

/// Reads the same page of several lists in one statement, with these columns of each row. `decode` returns
/// the position of a row in the order `sort` as well. The pages are in the order of `selects`.
pub(crate) async fn fetch_page_rows<S: Sort, T: Send>(
    connection: &impl ReadRows,
    selects: Vec<Select<S::Entity>>,
    sort: S,
    request: &PageRequest,
    columns: &[<S::Entity as EntityTrait>::Column],
    decode: impl Fn(&Row<'_>) -> Result<(Key, T), DbErr> + Send + Sync,
) -> Result<Vec<Page<T>>, StoreError> {
    let mut lists: Vec<Vec<_>> = selects.iter().map(|_| Vec::new()).collect();
    if selects.is_empty() {
        return Ok(Vec::new());
    }
    let backend = connection.get_database_backend();
    let selects =
        selects.into_iter().map(|select| select_range(select.select_only(), sort, request)).collect();
    let shapes = group_by_shape(backend, selects);
    let order: Vec<usize> = shapes.iter().flat_map(|shape| &shape.lists).map(|(list, _)| *list).collect();
    let statement = statement(backend, shapes, columns, request);
    let decode_with_list = |row: &Row<'_>| Ok((row.get::<i64>(columns.len())?, decode(row)?));
    for (number, row) in connection.read_rows(statement, decode_with_list).await? {
        if let Some(list) = usize::try_from(number).ok().and_then(|number| order.get(number)) {
            lists[*list].push(row);
        }
    }
    Ok(lists
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
    sql: String,
    /// The index of each list, with its bound values.
    lists: Vec<(usize, Vec<Value>)>,
}

/// Returns the statement that reads a page of each list. Its last column is the number of the row's
/// list, counted from 0 in the order of the SQL text. So the text does not change with the order in which
/// lists of two shapes are requested, and its prepared statement can be reused.
fn statement<E: EntityTrait>(
    backend: DbBackend,
    shapes: Vec<StatementShape<E>>,
    columns: &[E::Column],
    request: &PageRequest,
) -> Statement {
    let mut sql = SqlBuilder::new(backend);
    let mut written_lists = 0;
    for StatementShape { select, lists, .. } in shapes {
        if written_lists > 0 {
            sql.push_sql(" UNION ALL ");
        }
        let page = select.columns(columns.iter().copied()).into_query();
        if lists.len() == 1 {
            // SQLite allows a limit on an arm of a union only inside a subquery.
            sql.push_sql(&format!("SELECT page.*, CAST({written_lists} AS BIGINT) FROM ("));
            sql.push_select(&page);
        } else {
            push_lateral_join(&mut sql, &page, &lists, written_lists);
        }
        sql.push_limit(request.limit + 1);
        sql.push_sql(") AS page");
        written_lists += lists.len();
    }
    sql.into_statement()
}

/// Groups the lists by the SQL text that they share. On SQLite each list is a group of its own, since
/// SQLite has no LATERAL.
fn group_by_shape<E: EntityTrait>(backend: DbBackend, selects: Vec<Select<E>>) -> Vec<StatementShape<E>> {
    let is_separate = backend != DbBackend::Postgres || selects.len() == 1;
    let mut shapes: Vec<StatementShape<E>> = Vec::new();
    for (list, select) in selects.into_iter().enumerate() {
        if is_separate {
            shapes.push(StatementShape { select, sql: String::new(), lists: vec![(list, Vec::new())] });
            continue;
        }
        let (sql, values) = select.as_query().build(PostgresQueryBuilder);
        match shapes.iter_mut().find(|shape| shape.sql == sql) {
            Some(shape) => shape.lists.push((list, values.0)),
            None => shapes.push(StatementShape { select, sql, lists: vec![(list, values.0)] }),
        }
    }
    shapes
}

/// Appends the beginning of a statement that reads `page` for each list of a shape. Columns of a VALUES
/// list replace the values that differ between the lists. The lists are numbered from `first_number`.
///
/// PostgreSQL plans the page once for all the lists. With one arm of a union per list, planning took
/// three times as long as reading.
fn push_lateral_join(
    sql: &mut SqlBuilder,
    page: &SelectStatement,
    lists: &[(usize, Vec<Value>)],
    first_number: usize,
) {
    let (_, first_values) = &lists[0];
    // The parameters whose values differ between lists. A parameter that equals an earlier one in each
    // list uses the earlier one's column.
    let mut columns: Vec<usize> = Vec::new();
    let mut replace_parameter = |index: usize| {
        if lists.iter().all(|(_, values)| values[index] == first_values[index]) {
            return None;
        }
        let has_equal_values =
            |column: &&usize| lists.iter().all(|(_, values)| values[index] == values[**column]);
        let equal_column = columns.iter().find(has_equal_values).copied();
        let column = equal_column.unwrap_or_else(|| {
            columns.push(index);
            index
        });
        Some(format!("list.value_{column}"))
    };
    let replacements: Vec<Option<String>> = (0..first_values.len()).map(&mut replace_parameter).collect();
    sql.push_sql("SELECT page.*, list.number FROM (");
    for (row, (_, values)) in lists.iter().enumerate() {
        sql.push_sql(if row == 0 { "VALUES " } else { ", " });
        sql.push_sql(&format!("(CAST({} AS BIGINT)", first_number + row));
        for column in &columns {
            sql.push_sql(", ");
            sql.push_parameter(values[*column].clone());
        }
        sql.push_sql(")");
    }
    sql.push_sql(") AS list (number");
    for column in &columns {
        sql.push_sql(&format!(", value_{column}"));
    }
    sql.push_sql(") CROSS JOIN LATERAL (");
    sql.push_select_with_replacements(page, &replacements);
}
