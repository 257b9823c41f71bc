//! Reading an export: page after page, each by statements that end before it is sent.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use async_graphql::{Response, ServerError, Value};
use entity::{
    fine_metric,
    ids::{AccountId, ClusterId, SpanId},
};
use serde_json::{Map, Value as Json};

use super::{
    catalog::{Export, Shape},
    column::Cell,
};
use crate::{
    auth::Viewer,
    blocking::blocking,
    clock::Clock,
    domain::{
        audit::Origin,
        fine_metric::{Cells, Labels, Unreadable},
    },
    graphql::{Caller, RateLimit, Schema, global_span_id},
    guard::Guard,
    store::{NO_SPAN, Store, StoreError},
};

/// Spans whose packed fine metrics are read at once.
const SPANS: u64 = 100;

/// Fine metrics of a page, if a single span does not have more.
const CELLS: usize = 4_000;

/// Where pages are read from.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) schema: Schema,
    pub(crate) guard: Guard,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    /// How long a page may take.
    pub(crate) timeout: Duration,
}

/// Why there is no next page.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// There is nothing that could have the list, or not for this viewer.
    NotFound,
    /// The parameters are wrong, or a page could not be read; the errors say which.
    Refused(Vec<ServerError>),
    /// The store cannot be read.
    Store(StoreError),
    /// A page took longer than it may.
    Timeout(Duration),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// An export that is read.
pub(crate) struct Reading {
    export: Arc<Export>,
    variables: Map<String, Json>,
    position: Position,
    /// Where it was asked for.
    origin: Origin,
}

/// Where the next page begins.
enum Position {
    /// At the beginning, or behind this cursor.
    Cursor(Option<String>),
    /// Behind this span, of which everything was told but what is still packed here.
    Span(ClusterId, Option<SpanId>, VecDeque<fine_metric::Model>),
    End,
}

/// Some rows.
pub(crate) struct Page(Rows);

enum Rows {
    Answered(Vec<Value>),
    FineMetrics(Vec<(Option<String>, Cells)>),
}

impl Reading {
    /// Begins to read: `of` names what has the list, `parameters` are the field's arguments.
    pub(crate) fn new(
        export: Arc<Export>,
        of: String,
        parameters: Map<String, Json>,
        origin: Origin,
    ) -> Self {
        let mut variables = parameters;
        variables.insert("_of".to_owned(), of.into());
        variables.insert("_first".to_owned(), export.page.into());
        Self { export, variables, position: Position::Cursor(None), origin }
    }

    /// The next page; none behind the last one. A page may be empty and not the last.
    pub(crate) async fn next(
        &mut self,
        source: &Source,
        viewer: &Viewer,
        left: RateLimit,
    ) -> Result<Option<Page>, ReadError> {
        let next = self.read(source, viewer, left);
        tokio::time::timeout(source.timeout, next).await.map_err(|_| ReadError::Timeout(source.timeout))?
    }

    async fn read(
        &mut self,
        source: &Source,
        viewer: &Viewer,
        left: RateLimit,
    ) -> Result<Option<Page>, ReadError> {
        match std::mem::replace(&mut self.position, Position::End) {
            Position::End => Ok(None),
            Position::Cursor(after) => self.answered(source, viewer, left, after).await.map(Some),
            Position::Span(cluster, after, packed) => {
                self.fine_metrics(source, viewer, cluster, after, packed).await
            }
        }
    }

    async fn answered(
        &mut self,
        source: &Source,
        viewer: &Viewer,
        left: RateLimit,
        after: Option<String>,
    ) -> Result<Page, ReadError> {
        let mut variables = self.variables.clone();
        variables.insert("_after".to_owned(), after.into());
        let guarded = source.guard.check_own(&self.export.document, variables).await;
        let request = guarded.map_err(ReadError::Refused)?.template.into_request();
        let (viewer, origin, now) = (viewer.clone(), self.origin, source.clock.now());
        let caller = Caller { viewer, origin, rate_limit: left, now };
        let run = source.schema.execute_pages(request, caller, &source.store, self.export.page);
        let mut of = answer(run.await)?;
        let Value::Object(of) = &mut of else { return Err(ReadError::NotFound) };
        let rows = match self.export.shape {
            Shape::FineMetrics => {
                let number = of.get("number").and_then(|number| match number {
                    Value::Number(number) => number.as_i64(),
                    _ => None,
                });
                let cluster = ClusterId(number.ok_or(ReadError::NotFound)?);
                self.position = Position::Span(cluster, None, VecDeque::new());
                Vec::new()
            }
            Shape::Whole => items(of.swap_remove("list")),
            Shape::Connection => {
                let Some(Value::Object(mut list)) = of.swap_remove("list") else {
                    return Err(ReadError::NotFound);
                };
                if let Some(cursor) = next_cursor(list.get("pageInfo")) {
                    self.position = Position::Cursor(Some(cursor));
                }
                items(list.swap_remove("nodes"))
            }
        };
        Ok(Page(Rows::Answered(rows)))
    }

    async fn fine_metrics(
        &mut self,
        source: &Source,
        viewer: &Viewer,
        cluster: ClusterId,
        after: Option<SpanId>,
        mut packed: VecDeque<fine_metric::Model>,
    ) -> Result<Option<Page>, ReadError> {
        if packed.is_empty() {
            let store = source.store.for_viewer(viewer);
            packed = store.packed_fine_metrics(cluster, after, SPANS).await?.into();
        }
        let Some(last) = packed.back().map(|row| row.span_id) else { return Ok(None) };
        let unit = self.variables.get("unit").and_then(Json::as_str).map(str::to_owned);
        let account = viewer.account_id();
        let read = blocking(move || -> Result<_, Unreadable> {
            let rows = unpack(account, &mut packed, unit.as_deref())?;
            Ok((rows, packed))
        });
        let (rows, packed) = read.await.map_err(StoreError::from)?;
        self.position = Position::Span(cluster, Some(last), packed);
        Ok(Some(Page(Rows::FineMetrics(rows))))
    }
}

/// Reads what was packed of the first spans, until there are enough cells.
fn unpack(
    account: AccountId,
    packed: &mut VecDeque<fine_metric::Model>,
    unit: Option<&str>,
) -> Result<Vec<(Option<String>, Cells)>, Unreadable> {
    let (mut rows, mut cells) = (Vec::new(), 0);
    while let Some(row) = (cells < CELLS).then(|| packed.pop_front()).flatten() {
        let of_a_span = row.span_id != NO_SPAN;
        let span = of_a_span.then(|| global_span_id(account, row.cluster_id, row.span_id));
        // Labels are shared within a span alone: all of them together may be too many.
        let read = Labels::default().read(&row.cells, of_a_span)?.in_unit(unit);
        cells += read.len();
        rows.push((span, read));
    }
    Ok(rows)
}

/// What the document asked for, if nothing of it failed. What cannot be decrypted is null, here as in every answer.
fn answer(response: Response) -> Result<Value, ReadError> {
    let unsealed = |error: &ServerError| {
        let code = error.extensions.as_ref().and_then(|extensions| extensions.get("code"));
        matches!(code, Some(Value::String(code)) if code == "KEY_MISSING" || code == "DAMAGED")
    };
    let failed: Vec<_> = response.errors.into_iter().filter(|error| !unsealed(error)).collect();
    if !failed.is_empty() {
        return Err(ReadError::Refused(failed));
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

/// Where the next page begins, if there is one.
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
    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Rows::Answered(rows) => rows.len(),
            Rows::FineMetrics(rows) => rows.iter().map(|(_, cells)| cells.len()).sum(),
        }
    }

    /// What it costs, in points: a field of an answer is one, and so is a row that is no answer.
    pub(crate) fn cost(&self, export: &Export) -> u64 {
        let each = match &self.0 {
            Rows::Answered(_) => export.columns.len(),
            Rows::FineMetrics(_) => 1,
        };
        u64::try_from(self.len() * each).unwrap_or(u64::MAX)
    }

    /// Shows each row, a cell for each column.
    pub(super) fn each<E>(
        &self,
        export: &Export,
        mut row: impl FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.0 {
            Rows::Answered(rows) => rows.iter().try_for_each(|value| {
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
