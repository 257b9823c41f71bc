//! `/reports/{id}`: a performance report, as Dask drew it.
//!
//! It is a page somebody else made, with scripts in it. Browsers are told to give it an origin of its own: it has no cookies of
//! this server, cannot ask it anything, and sends nothing anywhere. What Bokeh needs to draw is let in, and nothing else.

use axum::{
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use entity::{api_token::Scope, ids::PerformanceReportId};
use futures::stream;

use super::{
    address::Source, credentials::Credentials, form::parameter, page::Refused, problem::Problem,
    sign_in::to_sign_in, state::AppState,
};
use crate::{
    domain::slug::Slug,
    store::{AccountStore, ReportReader, StoreError},
};

/// What the page may do: run the scripts that stand in it and those of Bokeh, which makes functions of texts, and draw. It has
/// an origin of its own, leads nowhere and is framed by nobody.
const POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' https://cdn.bokeh.org; \
     style-src 'unsafe-inline' https://cdn.bokeh.org; img-src data: blob:; font-src data: https://cdn.bokeh.org; \
     form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
);

/// Where a report of an account is shown.
pub(super) fn path(account: &str, id: PerformanceReportId) -> String {
    format!("/reports/{id}?account={account}")
}

/// Shows a report. `account` says of which of one's accounts it is.
pub(super) async fn get(
    State(state): State<AppState>,
    Source(origin): Source,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let account = parameter(query.as_deref(), "account");
    let mut shown = Credentials::of(state.cookies, &headers)?;
    if !account.is_empty() {
        shown.account = Some(account.as_bytes().into());
    }
    let viewer = match state.viewer_with(&shown, Scope::Read).await {
        Ok(viewer) => viewer,
        // A browser that is not signed in comes back when it is.
        Err(problem) if headers.get(header::AUTHORIZATION).is_none() && problem.is_unauthenticated() => {
            let id: PerformanceReportId = id.parse().map_err(|_| Problem::not_found())?;
            let account: Slug = account.parse().map_err(|_| Problem::not_found())?;
            return Ok(to_sign_in(&path(account.as_str(), id)));
        }
        Err(problem) => return Err(problem.into()),
    };
    let missing = || Problem::missing("there is no such performance report");
    let id: PerformanceReportId = id.parse().map_err(|_| missing())?;
    let store = state.acting(&viewer, origin);
    let report = store.performance_report(ReportReader::of(&viewer), id).await?.ok_or_else(missing)?;
    let first = piece(&store, id, 0).await?;
    // Before anybody sees it: profiles and code stand in it.
    store.audit_reads().await?;
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
