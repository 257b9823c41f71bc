//! Performance reports as `coiled.performance_report` stores them and `coiled.list_performance_reports`
//! lists them.
//!
//! A report is an HTML page that runs any script within it, so it is shown apart from the user's
//! session, see `http/pages/report_page.rs`. The body is encrypted in pieces while it arrives: memory holds
//! no more than one piece in plain text.

use axum::{
    Json,
    body::Body,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use entity::{
    api_token::Scope,
    ids::PerformanceReportId,
    performance_report::{Model, Visibility},
};
use multer::{Constraints, Multipart, SizeLimit};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::request::{CoiledRequest, CoiledResponse, Refusals, iso};
use crate::{
    auth::AuthError,
    blocking_work::run_blocking,
    encryption::Encrypted,
    http::{
        extract::{
            body::{self, TooSlow},
            problem::{ErrorBody, Problem},
        },
        pages::report_page,
    },
    store::{
        AccountStore, MAX_REPORTS_OF_USER, NewPerformanceReport, PerformanceReportReader,
        PerformanceReportSort, UploadOutcome,
        core::page::{End, PageRequest},
    },
};

/// The size limit of a report, in bytes.
const MAX_BYTES: u64 = 50 << 20;

/// The size limit of a body, in bytes: a report and the form around it.
const MAX_BODY: u64 = MAX_BYTES + (16 << 10);

/// The body timeout as a multiple of the usual one, because reports are larger than other bodies.
const BODY_TIMEOUT_FACTOR: u32 = 4;

/// The number of bytes of a report that must arrive in each progress interval.
const MIN_PROGRESS: usize = 64 << 10;

/// The size of a piece, in bytes.
pub(super) const PIECE: usize = 256 << 10;

/// The number of reports in the list.
const MAX_LISTED: u64 = 1_000;

/// The number of values in a row of the list, for its cost.
const VALUES_PER_ROW: u64 = 8;

/// The number of characters of a report's name that are kept.
pub(super) const MAX_NAME: usize = 200;

/// The form that contains a report.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a form, which is read as a stream")]
pub(super) struct ReportForm {
    /// The page: HTML of at most 50 MiB. Of its file name, the part after the last slash is kept.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// The address of a report.
#[derive(Serialize, ToSchema)]
pub(super) struct ReportUrl {
    /// The URL, for a browser with a session.
    url: String,
}

/// A stored report.
#[derive(Serialize, ToSchema)]
pub(super) struct ReportRow {
    /// The identifier of the report, a UUID.
    id: String,
    /// The name of the uploaded file.
    filename: String,
    /// The URL, for a browser with a session.
    url: String,
    /// True if only its author and the users who may change the account see the report.
    private: bool,
    /// The user who stored the report. Null after the user left the account.
    user: Option<String>,
    /// The size of the report, in bytes.
    size: i64,
    /// The time when the report was stored, in ISO 8601.
    created: String,
}

/// Store a performance report
///
/// A `public` report is visible to all members of the account, a `private` one to its author and to the
/// users who may change the account. Both require a login. Reports are kept as long as profiles.
#[utoipa::path(
    post,
    path = "/api/v1/{workspace}/performance_reports/{kind}/",
    tag = "coiled",
    security(("token" = ["ingest"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("kind" = String, Path, description = "The visibility: `public` or `private`."),
    ),
    request_body(content = ReportForm, content_type = "multipart/form-data"),
    responses(
        (status = 201, description = "The report is stored.", body = ReportUrl),
        (status = 400, description = "The body is not a valid form, or has no part `file`.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `ingest` or `read`, belongs to another account, or the account refuses profiles.", body = ErrorBody),
        (status = 404, description = "The visibility is neither `public` nor `private`.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 409, description = "The user has already stored 100 reports.", body = ErrorBody),
        (status = 413, description = "The report is too large.", body = ErrorBody),
        (status = 415, description = "The body is not `multipart/form-data`.", body = ErrorBody),
        (status = 429, description = "The quota of points or bytes is used up. See `Retry-After`.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "Too many reports arrive at once, or the database is unavailable. See `Retry-After`.", body = ErrorBody),
        (status = 507, description = "The account's storage quota is used up. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(super) async fn store(
    request: CoiledRequest,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let visibility = match request.path("kind") {
        "public" => Visibility::Public,
        "private" => Visibility::Private,
        _ => return Err(Problem::not_found()),
    };
    if !request.caller.viewer.may(Scope::Ingest) {
        return Err(AuthError::MissingScope(Scope::Ingest).into());
    }
    let state = &request.state;
    state.report_admission.bytes.check(request.caller.limit_keys)?;
    let quotas = state.reports.quotas();
    if let Some(exceeded) = quotas.load_usage(&request.caller.viewer).await?.exceeded() {
        return Err(Problem::quota_exceeded(quotas.retry_after(&exceeded), exceeded.refusal()));
    }
    let _upload_slot =
        state.performance_report_slots.try_take(request.caller.viewer.holder()).map_err(|_| {
            state.query_limiter.charge_refusal(request.caller.limit_keys);
            Problem::unavailable("too many performance reports are being stored: try again later")
        })?;
    let id = PerformanceReportId(Uuid::now_v7());
    let seal = |position, piece| seal_piece(request.store.clone(), id, position, piece);
    let body = body::with_progress_timeout(body, MIN_PROGRESS, state.timeouts.body_progress_timeout);
    let result = tokio::time::timeout(
        BODY_TIMEOUT_FACTOR * state.timeouts.body_timeout,
        receive(&headers, body, seal),
    )
    .await;
    let Received { name, size, pieces } =
        result.unwrap_or_else(|_| Err(Problem::timeout())).inspect_err(|_| {
            // The failed upload occupied a slot that another one could have used.
            state.query_limiter.charge_refusal(request.caller.limit_keys);
        })?;
    state.report_admission.bytes.overdraw(request.caller.limit_keys, size);
    let new_report = NewPerformanceReport {
        id,
        user: request.caller.viewer.user_id(),
        name,
        visibility,
        size_bytes: i64::try_from(size).unwrap_or(i64::MAX),
        at: state.clock.timestamp(),
        pieces: pieces.into(),
    };
    match request.store.add_performance_report(new_report).await? {
        UploadOutcome::Stored(row) => {
            quotas.add(&request.caller.viewer, row.size_bytes, 0);
            let url = url(&request, &headers, row.id);
            Ok((StatusCode::CREATED, Json(ReportUrl { url })).into_response())
        }
        UploadOutcome::Refused => Err(Problem::forbidden(
            "REFUSED",
            "the account does not accept profiles, which performance reports contain",
        )),
        UploadOutcome::TooMany => Err(Problem::conflict(format!(
            "you have reached the limit of {MAX_REPORTS_OF_USER} stored performance reports"
        ))),
    }
}

/// A received report.
pub(super) struct Received<Piece> {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) pieces: Vec<Piece>,
}

/// Receives a report and encrypts each piece with its position while it arrives.
pub(super) async fn receive<Sealing: Future>(
    headers: &HeaderMap,
    body: Body,
    seal: impl Fn(usize, Vec<u8>) -> Sealing,
) -> Result<Received<Sealing::Output>, Problem> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let boundary = multer::parse_boundary(content_type.unwrap_or_default())
        .map_err(|_| Problem::unsupported_media_type("the Content-Type must be multipart/form-data"))?;
    let limits = SizeLimit::new().whole_stream(MAX_BODY).per_field(MAX_BYTES);
    let chunks = body.into_data_stream();
    let mut form = Multipart::with_constraints(chunks, boundary, Constraints::new().size_limit(limits));
    while let Some(mut field) = form.next_field().await.map_err(form_problem)? {
        if field.name() != Some("file") {
            continue;
        }
        let name = file_name(field.file_name().unwrap_or_default());
        let (mut pieces, mut piece, mut size) = (Vec::new(), Vec::with_capacity(PIECE), 0_u64);
        while let Some(mut chunk) = field.chunk().await.map_err(form_problem)? {
            size += chunk.len() as u64;
            while !chunk.is_empty() {
                piece.extend_from_slice(&chunk.split_to(chunk.len().min(PIECE - piece.len())));
                if piece.len() == PIECE {
                    let full_piece = std::mem::replace(&mut piece, Vec::with_capacity(PIECE));
                    pieces.push(seal(pieces.len(), full_piece).await);
                }
            }
        }
        if !piece.is_empty() {
            pieces.push(seal(pieces.len(), piece).await);
        }
        return Ok(Received { name, size, pieces });
    }
    Err(Problem::malformed("the form has no part 'file'"))
}

/// Encrypts a piece, on a thread for long work.
async fn seal_piece(
    store: AccountStore,
    id: PerformanceReportId,
    position: usize,
    piece: Vec<u8>,
) -> Encrypted {
    let position = i64::try_from(position).unwrap_or(i64::MAX);
    run_blocking(move || store.seal_performance_report_piece(id, position, &piece)).await
}

fn form_problem(error: multer::Error) -> Problem {
    use multer::Error::{FieldSizeExceeded, StreamReadFailed, StreamSizeExceeded};
    match error {
        FieldSizeExceeded { .. } | StreamSizeExceeded { .. } => {
            Problem::too_much(format!("the report is larger than {MAX_BYTES} bytes"))
        }
        StreamReadFailed(error) if TooSlow::caused(&*error) => Problem::timeout(),
        StreamReadFailed(_) => Problem::malformed("the body ended before it was complete"),
        error => Problem::malformed(format!("the body is not a valid multipart form: {error}")),
    }
}

/// Returns the part of a file name that is kept. The name may be a full path of another machine.
fn file_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|character| !character.is_control()).take(MAX_NAME).collect();
    if name.trim().is_empty() { "report.html".to_owned() } else { name }
}

/// List the performance reports of an account
#[utoipa::path(
    get,
    path = "/api/v1/{workspace}/performance_reports/all/",
    tag = "coiled",
    security(("token" = ["read"])),
    params(("workspace" = String, Path, description = "The account's short name.")),
    responses(
        (status = 200, description = "The latest 1,000 reports that the token's user may see, newest first.", body = [ReportRow]),
        Refusals,
    )
)]
pub(super) async fn list(request: CoiledRequest, headers: HeaderMap) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let page_request = PageRequest::from(End::First, MAX_LISTED);
            let (reader, sort) = (
                PerformanceReportReader::from_viewer(&request.caller.viewer),
                PerformanceReportSort::NewestFirst,
            );
            let page = request.store.performance_report_page(reader, sort, &page_request).await?;
            let rows: Vec<Model> = page.rows.into_iter().map(|(_, row)| row).collect();
            let users: Vec<_> = rows.iter().map(|row| row.user_id).collect();
            let users = request.store.users_by_id(&users).await?;
            let row = |row: Model| ReportRow {
                url: url(request, &headers, row.id),
                id: row.id.to_string(),
                private: row.visibility == Visibility::Private,
                user: users.get(&row.user_id).map(|user| user.name.clone()),
                size: row.size_bytes,
                created: iso(row.created_at.0),
                filename: row.name,
            };
            Ok(CoiledResponse::list(rows.into_iter().map(row).collect(), VALUES_PER_ROW))
        })
        .await
}

/// Returns the URL of a report: under the configured public URL, or under the host of the request.
fn url(request: &CoiledRequest, headers: &HeaderMap, id: PerformanceReportId) -> String {
    let (state, path) = (&request.state, report_page::path(&request.caller.viewer.account().slug, id));
    match (&state.site.public_url, headers.get(header::HOST).and_then(|host| host.to_str().ok())) {
        (Some(public), _) => public.url_of(&path),
        (None, Some(host)) => {
            let scheme = if state.site.cookies.secure { "https" } else { "http" };
            format!("{scheme}://{host}{path}")
        }
        (None, None) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_path_the_name_of_the_file_is_kept() {
        for (name, kept) in [
            ("dask-report.html", "dask-report.html"),
            ("/home/ada/work/my report.html", "my report.html"),
            ("C:\\work\\report.html", "report.html"),
            ("re\u{0}port\n.html", "report.html"),
            ("", "report.html"),
            ("reports/", "report.html"),
        ] {
            assert_eq!(file_name(name), kept, "{name}");
        }
        assert_eq!(file_name(&"é".repeat(500)), "é".repeat(MAX_NAME));
    }
}
