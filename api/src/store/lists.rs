//! The same page of several lists, read in one statement.

use sea_orm::{
    ConnectionTrait, DbBackend, EntityTrait, QuerySelect, QueryTrait, Select, Statement, Value,
    sea_query::{PostgresQueryBuilder, SelectStatement},
};

use super::{
    error::StoreError,
    page::{Page, PageRequest, Sort, ascending_rows, into_page, part, range},
    text::Text,
};

/// Reads the same page of several lists in one statement; the answers stand in the order of `selects`.
pub(super) async fn fetch_each<S: Sort>(
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
    let part = part(sort, request.extent);
    let columns = part.columns();
    let selects = selects.into_iter().map(|select| range(select.select_only(), sort, request)).collect();
    let kinds = kinds(backend, selects);
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
            // SQL promises an order for each page, not for all of them.
            rows.sort_by(|(a, _), (b, _)| if ascending_rows(sort, request) { a.cmp(b) } else { b.cmp(a) });
            into_page(rows, request)
        })
        .collect())
}

/// Lists whose statements differ in nothing but the values that are bound.
struct Kind<E: EntityTrait> {
    /// The first of them, without columns.
    select: Select<E>,
    /// How all of them read, without columns and values.
    text: String,
    /// Which they are, and the values of each.
    lists: Vec<(usize, Vec<Value>)>,
}

/// The statement that reads a page of each list, and says behind each row of which one it is, counted from 0 as they are written. So the
/// text, which stays prepared, does not change with the order in which lists of two kinds are asked for.
fn statement<E: EntityTrait>(
    backend: DbBackend,
    kinds: Vec<Kind<E>>,
    columns: &[E::Column],
    request: &PageRequest,
) -> Statement {
    let mut text = Text::new(backend);
    let mut written = 0;
    for Kind { select, lists, .. } in kinds {
        if written > 0 {
            text.words(" UNION ALL ");
        }
        let page = select.columns(columns.iter().copied()).into_query();
        if lists.len() == 1 {
            // SQLite allows a limit only at the end of a union, unless it is inside.
            text.words(&format!("SELECT page.*, CAST({written} AS BIGINT) FROM ("));
            text.select(&page);
        } else {
            each_of_a_kind(&mut text, &page, &lists, written);
        }
        text.limit(request.limit + 1);
        text.words(") AS page");
        written += lists.len();
    }
    text.statement()
}

/// The lists by what their statements have in common. On SQLite each is by itself, since that does not know LATERAL.
fn kinds<E: EntityTrait>(backend: DbBackend, selects: Vec<Select<E>>) -> Vec<Kind<E>> {
    let alone = backend != DbBackend::Postgres || selects.len() == 1;
    let mut kinds: Vec<Kind<E>> = Vec::new();
    for (list, select) in selects.into_iter().enumerate() {
        if alone {
            kinds.push(Kind { select, text: String::new(), lists: vec![(list, Vec::new())] });
            continue;
        }
        let (text, values) = select.as_query().build(PostgresQueryBuilder);
        match kinds.iter_mut().find(|kind| kind.text == text) {
            Some(kind) => kind.lists.push((list, values.0)),
            None => kinds.push(Kind { select, text, lists: vec![(list, values.0)] }),
        }
    }
    kinds
}

/// The beginning of a statement that reads `page` for each list, with what differs between them in place of its values. They are
/// counted on from `written`.
///
/// PostgreSQL plans the page once for all of them. With an arm for each, planning took three times as long as reading.
fn each_of_a_kind(text: &mut Text, page: &SelectStatement, lists: &[(usize, Vec<Value>)], written: usize) {
    let (_, first) = &lists[0];
    // The places whose values differ between lists; one that has the same value as an earlier place in each list uses its column.
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
    text.words("SELECT page.*, list.number FROM (");
    for (row, (_, values)) in lists.iter().enumerate() {
        text.words(if row == 0 { "VALUES " } else { ", " });
        text.words(&format!("(CAST({} AS BIGINT)", written + row));
        for column in &columns {
            text.words(", ");
            text.value(values[*column].clone());
        }
        text.words(")");
    }
    text.words(") AS list (number");
    for column in &columns {
        text.words(&format!(", value_{column}"));
    }
    text.words(") CROSS JOIN LATERAL (");
    text.select_with(page, &stand_ins);
}
