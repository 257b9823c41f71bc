//! `POST /api/v2/analytics/{workspace}/cluster/{id}/span/{identifier}`: the route to which the `coiled`
//! client reports the duration of a span's block.

use axum::{Json, body::Body, extract::State, http::HeaderMap};
use entity::ids::{ClusterId, SpanId};
use serde_json::{Map, Value};

use crate::{
    domain::{client_span::ClientSpanReport, section_bytes::SectionBytes},
    http::{
        extract::{
            body::{self, Limits},
            caller::Caller,
            origin::RequestOrigin,
            path::PathParams,
            problem::{ErrorBody, Problem},
        },
        server::state::AppState,
    },
};

/// The size limits of such a body. Callers may add keys of their own.
const LIMITS: Limits = Limits { sent: 2 << 20, inflated: 8 << 20 };

/// Store a client's record of a span
///
/// The span is identified by Dask's identifier, and the scheduler may report it later. The first record
/// is kept. Unknown keys are ignored, because an error would raise an exception in the client's program.
/// For the same reason, a span beyond the account's quota gets the same response, and is not stored.
#[utoipa::path(
    post,
    path = "/api/v2/analytics/{workspace}/cluster/{id}/span/{identifier}",
    tag = "coiled",
    security(("token" = ["ingest"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("identifier" = String, Path, description = "Dask's identifier of the span, a UUID."),
    ),
    request_body = ClientSpanReport,
    responses(
        (status = 200, description = "The span is stored, was stored before, or is not stored because the account does not accept data of tasks or has used up a quota.", body = Object),
        (status = 400, description = "A value of the body is invalid. `pointer` locates it.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `ingest`.", body = ErrorBody),
        (status = 404, description = "The account, the cluster or the identifier does not exist, or the token gives no access to it.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 409, description = "The cluster belongs to another user of the account.", body = ErrorBody),
        (status = 413, description = "The body is too large, either compressed or decompressed.", body = ErrorBody),
        (status = 415, description = "The body is not JSON, or has a content encoding other than gzip.", body = ErrorBody),
        (status = 429, description = "Too many requests with this token. See `Retry-After`.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The server or its database is overloaded or unavailable. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(crate) async fn post(
    State(state): State<AppState>,
    PathParams((workspace, cluster, span)): PathParams<(String, String, String)>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Map<String, Value>>, Problem> {
    // The program that opens a span has registered the plugin with the same token, so a reporter's
    // credentials apply.
    let caller = Caller::new(state.authenticate_reporter(&headers).await?, origin);
    state.report_admission.count(&caller.viewer, "requests")?;
    let (Ok(cluster), Ok(span), true) =
        (cluster.parse::<ClusterId>(), span.parse::<SpanId>(), workspace == caller.viewer.account().slug)
    else {
        return Err(Problem::not_found());
    };
    state.report_admission.bytes.check(caller.limit_keys)?;
    let received = body::check_headers(&headers, LIMITS)?.receive(body, state.timeouts.body_timeout).await?;
    state.report_admission.bytes.overdraw(caller.limit_keys, received.size());
    let _report_slot = state.report_admission.reserve(&caller.viewer)?;
    let measure = SectionBytes::count_client_span;
    let (report, bytes) = received.parse_measured(|_: &ClientSpanReport| Ok(()), measure).await?;
    state.client_spans.record(&caller.viewer, cluster, span, report, bytes).await?;
    Ok(Json(Map::new()))
}
