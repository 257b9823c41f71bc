//! The same page of several lists, read in one statement.

use sea_orm::{
    ConnectionTrait, DbBackend, EntityTrait, QuerySelect, QueryTrait, Select, Statement, Value,
    sea_query::{PostgresQueryBuilder, SelectStatement},
};

use super::{
    error::StoreError,
    page::{Page, PageRequest, Part, Sort, ascending_rows, into_page, part, range},
    text::Text,
};

/// Reads the same page of several lists in one statement; the answers stand in the order of `selects`.
pub(super) async fn fetch_each<S: Sort>(
    connection: &impl ConnectionTrait,
    selects: Vec<Select<S::Entity>>,
    sort: S,
    request: &PageRequest,
) -> Result<Vec<Page<<S::Entity as EntityTrait>::Model>>, StoreError> {
    let mut lists: Vec<Vec<_>> = selects.iter().map(|_| Vec::new()).collect();
    if selects.is_empty() {
        return Ok(Vec::new());
    }
    let part = part(sort, request.extent);
    let selects = selects.into_iter().map(|select| range(select.select_only(), sort, request)).collect();
    let statement = statement(connection.get_database_backend(), selects, &part, request);
    let behind_the_row = part.columns().len();
    for row in connection.query_all_raw(statement).await? {
        let list: i64 = row.try_get_by_index(behind_the_row)?;
        let model = (part.read)(&row)?;
        if let Some(rows) = usize::try_from(list).ok().and_then(|list| lists.get_mut(list)) {
            rows.push((sort.key(&model), model));
        }
    }
    Ok(lists
        .into_iter()
        .map(|mut rows| {
            // SQL promises an order for each page, not for all of them.
            rows.sort_by(|(a, _), (b, _)| if ascending_rows(sort, request) { a.cmp(b) } else { b.cmp(a) });
            into_page(rows, request)
        })
        .collect())
}

/// Lists that differ in nothing but values.
struct Kind<E: EntityTrait> {
    /// The first of them, without columns.
    select: Select<E>,
    /// How all of them read, without columns and values.
    text: String,
    /// Which they are, and the values of each.
    lists: Vec<(usize, Vec<Value>)>,
}

/// The statement that reads a page of each list and says behind each row of which one it is.
fn statement<E: EntityTrait>(
    backend: DbBackend,
    selects: Vec<Select<E>>,
    part: &Part<E>,
    request: &PageRequest,
) -> Statement {
    let mut text = Text::new(backend);
    for (arm, Kind { select, lists, .. }) in kinds(backend, selects).into_iter().enumerate() {
        if arm > 0 {
            text.words(" UNION ALL ");
        }
        let page = select.columns(part.columns()).into_query();
        match &lists[..] {
            [(list, _)] => {
                // SQLite allows a limit only at the end of a union, unless it is inside.
                text.words(&format!("SELECT page.*, CAST({list} AS BIGINT) FROM ("));
                text.select(&page);
            }
            lists => each_of_a_kind(&mut text, &page, lists),
        }
        text.limit(request.limit + 1);
        text.words(") AS page");
    }
    text.statement()
}

/// The lists by what they have in common. On SQLite each is by itself, since that does not know LATERAL.
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

/// The beginning of a statement that reads `page` for each list, with what differs between them in place of its values.
///
/// PostgreSQL plans that once. Planning an arm for each list took it three times as long as reading all of them.
fn each_of_a_kind(text: &mut Text, page: &SelectStatement, lists: &[(usize, Vec<Value>)]) {
    let (_, first) = &lists[0];
    // Places of a value that differ, but for those that have the same in each list as one before.
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
    for (row, (list, values)) in lists.iter().enumerate() {
        text.words(if row == 0 { "VALUES " } else { ", " });
        text.words(&format!("(CAST({list} AS BIGINT)"));
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
    text.select_with(page, |place| stand_ins.get(place).cloned().flatten());
}
