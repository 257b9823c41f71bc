//! `/reports/{id}`: a performance report, as Dask drew it.
//!
//! It is a page somebody else made, with scripts in it. Browsers are told to give it an origin of its own: it has no cookies of
//! this server, cannot ask it anything, and sends nothing anywhere. What Bokeh needs to draw is let in, and nothing else.

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use entity::ids::PerformanceReportId;
use futures::stream;

use super::{
    address::Source, named::Named, page::Refused, problem::Problem, state::AppState, visitor::Visitor,
};
use crate::store::{AccountStore, ReportReader, StoreError};

/// What the page may do: run the scripts that stand in it and those of Bokeh, which makes functions of texts, and draw. It has
/// an origin of its own, leads nowhere and is framed by nobody.
const POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' https://cdn.bokeh.org; \
     style-src 'unsafe-inline' https://cdn.bokeh.org; img-src data: blob:; font-src data: https://cdn.bokeh.org; \
     form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
);

/// Points that showing a report costs besides its bytes.
const SHOWING: u64 = 1_000;

/// Bytes that are decrypted and sent for one point.
const BYTES_FOR_A_POINT: u64 = 1_024;

/// Where a report of an account is shown.
pub(super) fn path(account: &str, id: PerformanceReportId) -> String {
    format!("/reports/{id}?account={account}")
}

/// Shows a report. `account` says of which of one's accounts it is.
pub(super) async fn get(
    State(state): State<AppState>,
    Source(origin): Source,
    Named(id): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let missing = || Problem::missing("there is no such performance report");
    let id: PerformanceReportId = id.parse().map_err(|_| missing())?;
    let visitor = Visitor::at(&state, origin, &headers, &format!("/reports/{id}"), query.as_deref()).await?;
    let Visitor { viewer, store, taker } = match visitor {
        Ok(visitor) => visitor,
        Err(to_sign_in) => return Ok(to_sign_in),
    };
    let report = store.performance_report(ReportReader::of(&viewer), id).await?.ok_or_else(missing)?;
    let first = piece(&store, id, 0).await?;
    // Before anybody sees it: profiles and code stand in it.
    store.audit_reads().await?;
    let size = u64::try_from(report.size_bytes).unwrap_or(0);
    state.query_budget.overdraw(taker, SHOWING + size / BYTES_FOR_A_POINT);
    let length = HeaderValue::from(report.size_bytes);
    let pieces = stream::try_unfold((store, first, 1), move |(store, piece, position)| async move {
        let Some(piece) = piece else { return Ok(None) };
        let next = self::piece(&store, id, position).await.inspect_err(|problem| {
            tracing::warn!(reason = problem.message(), "a performance report was cut off");
        })?;
        Ok::<_, Problem>(Some((piece, (store, next, position + 1))))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_LENGTH, length),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
            HeaderValue::from_static("same-origin"),
        ),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

async fn piece(
    store: &AccountStore,
    id: PerformanceReportId,
    position: i64,
) -> Result<Option<Vec<u8>>, Problem> {
    match store.performance_report_piece(id, position).await {
        Err(StoreError::Sealed(_)) => {
            Err(Problem::conflict("the key that the performance report is encrypted with is lost"))
        }
        read => Ok(read?),
    }
}
