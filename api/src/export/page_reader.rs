//! Reading the pages of an export. The statements of a page end before the page is sent.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use async_graphql::{Response, ServerError, Value};
use entity::{
    fine_metric,
    ids::{AccountId, ClusterId, SpanId},
};
use serde_json::{Map, Value as Json};

use super::{
    column::Cell,
    export_registry::{Export, Shape},
};
use crate::{
    auth::Viewer,
    blocking_work::run_blocking,
    clock::Clock,
    domain::{
        audit::Origin,
        fine_metric::{CellReader, Cells, ReadCellsError},
    },
    graphql::{ExecutionContext, RateLimit, Schema, global_span_id, parse_time_range},
    guard::Guard,
    store::{NO_SPAN, Store, StoreError},
};

/// The number of spans whose packed fine metrics are read at once.
const SPANS: u64 = 100;

/// The number of fine metrics per page, unless a single span has more.
const CELLS: usize = 4_000;

/// The dependencies for reading pages.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) schema: Schema,
    pub(crate) guard: Guard,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    /// The timeout for a page.
    pub(crate) timeout: Duration,
}

/// The reason why there is no next page.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The parent object does not exist, or the viewer may not see it.
    NotFound,
    /// A parameter is invalid, or the query of a page failed.
    Refused(Vec<ServerError>),
    /// The database failed.
    Store(StoreError),
    /// The page exceeded the timeout.
    Timeout(Duration),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The state of an export in progress.
pub(crate) struct ExportReader {
    export: Arc<Export>,
    variables: Map<String, Json>,
    position: Position,
    /// The origin of the request.
    origin: Origin,
}

/// The position of the next page.
enum Position {
    /// At the start, or after a cursor.
    Cursor(Option<String>),
    /// After a span. The packed fine metrics of spans up to it are still to be returned.
    Span(ClusterId, Option<SpanId>, VecDeque<fine_metric::Model>),
    End,
}

/// A page of rows.
pub(crate) struct Page(Rows);

enum Rows {
    ResponseRows(Vec<Value>),
    FineMetrics(Vec<(Option<String>, Cells)>),
}

impl ExportReader {
    /// Starts an export. `parent` identifies the parent object; `parameters` are the field's arguments.
    pub(crate) fn new(
        export: Arc<Export>,
        parent: String,
        parameters: Map<String, Json>,
        origin: Origin,
    ) -> Self {
        let mut variables = parameters;
        variables.insert("_of".to_owned(), parent.into());
        variables.insert("_first".to_owned(), export.page_size.into());
        Self { export, variables, position: Position::Cursor(None), origin }
    }

    /// Returns the next page. `None` after the last one. A page may be empty without being the last.
    pub(crate) async fn next_page(
        &mut self,
        source: &Source,
        viewer: &Viewer,
        rate_limit: RateLimit,
    ) -> Result<Option<Page>, ReadError> {
        let next = self.read(source, viewer, rate_limit);
        tokio::time::timeout(source.timeout, next).await.map_err(|_| ReadError::Timeout(source.timeout))?
    }

    async fn read(
        &mut self,
        source: &Source,
        viewer: &Viewer,
        rate_limit: RateLimit,
    ) -> Result<Option<Page>, ReadError> {
        match std::mem::replace(&mut self.position, Position::End) {
            Position::End => Ok(None),
            Position::Cursor(after) => {
                self.read_response_page(source, viewer, rate_limit, after).await.map(Some)
            }
            Position::Span(cluster, after, packed) => {
                self.read_fine_metrics(source, viewer, cluster, after, packed).await
            }
        }
    }

    async fn read_response_page(
        &mut self,
        source: &Source,
        viewer: &Viewer,
        rate_limit: RateLimit,
        after: Option<String>,
    ) -> Result<Page, ReadError> {
        let mut variables = self.variables.clone();
        variables.insert("_after".to_owned(), after.into());
        let check_result = source.guard.check_own(&self.export.document, variables).await;
        let request = check_result.map_err(ReadError::Refused)?.template.into_request();
        let (viewer, origin, now) = (viewer.clone(), self.origin, source.clock.now());
        let execution = ExecutionContext { viewer, origin, rate_limit, now };
        let page = source.schema.execute_pages(request, execution, &source.store, self.export.page_size);
        let mut parent = extract_parent(page.await)?;
        let Value::Object(parent) = &mut parent else { return Err(ReadError::NotFound) };
        let rows = match self.export.shape {
            Shape::FineMetrics => {
                let number = parent.get("number").and_then(|number| match number {
                    Value::Number(number) => number.as_i64(),
                    _ => None,
                });
                let cluster = ClusterId(number.ok_or(ReadError::NotFound)?);
                self.position = Position::Span(cluster, None, VecDeque::new());
                Vec::new()
            }
            Shape::Whole => items(parent.swap_remove("list")),
            Shape::Connection => {
                let Some(Value::Object(mut list)) = parent.swap_remove("list") else {
                    return Err(ReadError::NotFound);
                };
                if let Some(cursor) = next_cursor(list.get("pageInfo")) {
                    self.position = Position::Cursor(Some(cursor));
                }
                items(list.swap_remove("nodes"))
            }
        };
        Ok(Page(Rows::ResponseRows(rows)))
    }

    async fn read_fine_metrics(
        &mut self,
        source: &Source,
        viewer: &Viewer,
        cluster: ClusterId,
        after: Option<SpanId>,
        mut packed: VecDeque<fine_metric::Model>,
    ) -> Result<Option<Page>, ReadError> {
        if packed.is_empty() {
            let store = source.store.for_viewer(viewer);
            let enqueued_in = self.variables.get("enqueuedIn").and_then(parse_time_range).unwrap_or_default();
            packed = store.packed_fine_metrics(cluster, enqueued_in, after, SPANS).await?.into();
        }
        let Some(last) = packed.back().map(|row| row.span_id) else { return Ok(None) };
        let unit = self.variables.get("unit").and_then(Json::as_str).map(str::to_owned);
        let account = viewer.account_id();
        let result = run_blocking(move || -> Result<_, ReadCellsError> {
            let rows = unpack(account, &mut packed, unit.as_deref())?;
            Ok((rows, packed))
        });
        let (rows, packed) = result.await.map_err(StoreError::from)?;
        self.position = Position::Span(cluster, Some(last), packed);
        Ok(Some(Page(Rows::FineMetrics(rows))))
    }
}

/// Unpacks the fine metrics of the first spans, until there are enough cells.
fn unpack(
    account: AccountId,
    packed: &mut VecDeque<fine_metric::Model>,
    unit: Option<&str>,
) -> Result<Vec<(Option<String>, Cells)>, ReadCellsError> {
    let (mut rows, mut cells) = (Vec::new(), 0);
    while let Some(row) = (cells < CELLS).then(|| packed.pop_front()).flatten() {
        let has_span = row.span_id != NO_SPAN;
        let span = has_span.then(|| global_span_id(account, row.cluster_id, row.span_id));
        // Labels are shared only within a span, because all of them together may be too many.
        let span_cells = CellReader::default().read(&row.cells, has_span)?.in_unit(unit);
        cells += span_cells.len();
        rows.push((span, span_cells));
    }
    Ok(rows)
}

/// Returns the data of a response, or its errors. Values that cannot be decrypted are null, as in every
/// response.
fn extract_parent(response: Response) -> Result<Value, ReadError> {
    let is_decryption_error = |error: &ServerError| {
        let code = error.extensions.as_ref().and_then(|extensions| extensions.get("code"));
        matches!(code, Some(Value::String(code)) if code == "KEY_MISSING" || code == "DAMAGED")
    };
    let errors: Vec<_> = response.errors.into_iter().filter(|error| !is_decryption_error(error)).collect();
    if !errors.is_empty() {
        return Err(ReadError::Refused(errors));
    }
    match response.data {
        Value::Object(mut data) => Ok(data.swap_remove("of").unwrap_or_default()),
        _ => Err(ReadError::NotFound),
    }
}

fn items(list: Option<Value>) -> Vec<Value> {
    match list {
        Some(Value::List(items)) => items,
        _ => Vec::new(),
    }
}

/// Returns the cursor of the next page, if there is one.
fn next_cursor(page_info: Option<&Value>) -> Option<String> {
    match page_info? {
        Value::Object(info) if info.get("hasNextPage") == Some(&Value::Boolean(true)) => {
            match info.get("endCursor") {
                Some(Value::String(cursor)) => Some(cursor.clone()),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Page {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Rows::ResponseRows(rows) => rows.len(),
            Rows::FineMetrics(rows) => rows.iter().map(|(_, cells)| cells.len()).sum(),
        }
    }

    /// Returns the cost of the page in points: one per response field, and one per row of fine metrics.
    pub(crate) fn cost(&self, export: &Export) -> u64 {
        let cost_per_row = match &self.0 {
            Rows::ResponseRows(_) => export.columns.len(),
            Rows::FineMetrics(_) => 1,
        };
        u64::try_from(self.len() * cost_per_row).unwrap_or(u64::MAX)
    }

    /// Calls `row` with the cells of each row, one per column.
    pub(super) fn for_each_row<E>(
        &self,
        export: &Export,
        mut row: impl FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.0 {
            Rows::ResponseRows(rows) => rows.iter().try_for_each(|value| {
                let cells: Vec<_> = export.columns.iter().map(|column| column.cell(value)).collect();
                row(&cells)
            }),
            Rows::FineMetrics(rows) => rows.iter().try_for_each(|(span, cells)| {
                cells.iter().try_for_each(|((label, attributable), value)| {
                    row(&[
                        span.as_deref().map_or(Cell::Null, Cell::Text),
                        Cell::Text(&label.context),
                        label.function.as_deref().map_or(Cell::Null, Cell::Text),
                        Cell::Text(&label.activity),
                        Cell::Text(&label.unit),
                        Cell::Number(value),
                        Cell::Boolean(*attributable),
                    ])
                })
            }),
        }
    }
}
