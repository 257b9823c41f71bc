//! Performance reports as `coiled.performance_report` stores them and `coiled.list_performance_reports` lists them.
//!
//! A report is a page that runs whatever stands in it, so it is shown apart from all that is signed in, see
//! `http/shown_report.rs`. It is taken in as it comes, and encrypted piece by piece: no more of it is held than that.

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

use super::asked::{Answer, Asked, Refusals, iso};
use crate::{
    auth::AuthError,
    blocking::blocking,
    http::{
        problem::{ErrorBody, Problem},
        shown_report,
    },
    seal::Sealed,
    store::{
        AccountStore, MAX_REPORTS_OF_USER, NewPerformanceReport, PerformanceReportSort, ReportReader,
        StoredReport,
        page::{End, PageRequest},
    },
};

/// Bytes of a report at the most.
const MAX_BYTES: u64 = 50 << 20;

/// Bytes of a body at the most: a report, and what stands round it.
const MAX_BODY: u64 = MAX_BYTES + (16 << 10);

/// How many times as long as for other bodies a report is waited for, which is larger than those.
const PATIENCE: u32 = 4;

/// Bytes of a piece of a report.
pub(super) const PIECE: usize = 256 << 10;

/// Reports that a list has at the most.
const MAX_LISTED: u64 = 1_000;

/// Values of a row of the list.
const VALUES: u64 = 8;

/// Characters of the name of a report that are kept.
pub(super) const MAX_NAME: usize = 200;

/// What a report is sent as.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a form, which is read as it comes")]
pub(super) struct ReportForm {
    /// The page, HTML of at most 50 MiB. Of its file name what stands behind the last slash is kept.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// Where a report is shown.
#[derive(Serialize, ToSchema)]
pub(super) struct ReportUrl {
    /// The address, for a browser that is signed in.
    url: String,
}

/// A report that was stored.
#[derive(Serialize, ToSchema)]
pub(super) struct ReportRow {
    /// What names it, a UUID.
    id: String,
    /// The name of the file it was.
    filename: String,
    /// Where it is shown, for a browser that is signed in.
    url: String,
    /// Whether only who stored it and those who may change the account see it.
    private: bool,
    /// Who stored it; null when the user left the account.
    user: Option<String>,
    /// How large it is, in bytes.
    size: i64,
    /// When it was stored: ISO 8601.
    created: String,
}

/// Store a performance report
///
/// `public` reports are seen by all members of the account, `private` ones by who stored them and by those who may change the
/// account: nobody sees either without signing in. They are kept as long as profiles.
#[utoipa::path(
    post,
    path = "/api/v1/{workspace}/performance_reports/{kind}/",
    tag = "coiled",
    security(("token" = ["ingest"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("kind" = String, Path, description = "`public` or `private`."),
    ),
    request_body(content = ReportForm, content_type = "multipart/form-data"),
    responses(
        (status = 201, description = "It is stored.", body = ReportUrl),
        (status = 400, description = "The body is no form, or has no file in it.", body = ErrorBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `ingest` or `read`, is for another account, or the account refuses profiles.", body = ErrorBody),
        (status = 404, description = "The kind is neither of both.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 409, description = "The user has stored 100 reports already.", body = ErrorBody),
        (status = 413, description = "The report is too large.", body = ErrorBody),
        (status = 415, description = "No form of several parts.", body = ErrorBody),
        (status = 429, description = "Too many points or bytes were spent; see Retry-After.", body = ErrorBody),
        (status = 500, description = "A defect of the server; `reference` stands in its log.", body = ErrorBody),
        (status = 503, description = "Too many reports arrive at once, or the store is away; see Retry-After.", body = ErrorBody),
    )
)]
pub(super) async fn store(asked: Asked, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    let visibility = match asked.path("kind") {
        "public" => Visibility::Public,
        "private" => Visibility::Private,
        _ => return Err(Problem::not_found()),
    };
    if !asked.viewer.may(Scope::Ingest) {
        return Err(AuthError::MissingScope(Scope::Ingest).into());
    }
    let state = &asked.state;
    state.report_budget.check(asked.taker())?;
    let _place = state.performance_reports_under_way.try_acquire().map_err(|_| {
        Problem::unavailable("too many performance reports are being stored, try again later")
    })?;
    let id = PerformanceReportId(Uuid::now_v7());
    let seal = |position, piece| sealed(asked.store.clone(), id, position, piece);
    let received = tokio::time::timeout(PATIENCE * state.patience.body, receive(&headers, body, seal));
    let Received { name, size, pieces } = received.await.map_err(|_| Problem::timeout())??;
    state.report_budget.overdraw(asked.taker(), size);
    let new = NewPerformanceReport {
        id,
        user: asked.viewer.user_id(),
        name,
        visibility,
        size_bytes: i64::try_from(size).unwrap_or(i64::MAX),
        at: state.clock.timestamp(),
        pieces: pieces.into(),
    };
    match asked.store.add_performance_report(new).await? {
        StoredReport::Stored(row) => {
            let url = url(&asked, &headers, row.id);
            Ok((StatusCode::CREATED, Json(ReportUrl { url })).into_response())
        }
        StoredReport::Refused => Err(Problem::forbidden(
            "REFUSED",
            "the account does not accept profiles, which stand in performance reports",
        )),
        StoredReport::TooMany => Err(Problem::conflict(format!(
            "you have stored {MAX_REPORTS_OF_USER} performance reports, as many as anybody may"
        ))),
    }
}

/// A report that arrived.
pub(super) struct Received<Piece> {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) pieces: Vec<Piece>,
}

/// Takes a report in, and seals it as it comes: each piece with its place.
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
    while let Some(mut field) = form.next_field().await.map_err(refused)? {
        if field.name() != Some("file") {
            continue;
        }
        let name = file_name(field.file_name().unwrap_or_default());
        let (mut pieces, mut piece, mut size) = (Vec::new(), Vec::with_capacity(PIECE), 0_u64);
        while let Some(mut chunk) = field.chunk().await.map_err(refused)? {
            size += chunk.len() as u64;
            while !chunk.is_empty() {
                piece.extend_from_slice(&chunk.split_to(chunk.len().min(PIECE - piece.len())));
                if piece.len() == PIECE {
                    let whole = std::mem::replace(&mut piece, Vec::with_capacity(PIECE));
                    pieces.push(seal(pieces.len(), whole).await);
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

/// Encrypts a piece, on a thread where it may take its time.
async fn sealed(store: AccountStore, id: PerformanceReportId, position: usize, piece: Vec<u8>) -> Sealed {
    let position = i64::try_from(position).unwrap_or(i64::MAX);
    blocking(move || store.seal_performance_report_piece(id, position, &piece)).await
}

fn refused(error: multer::Error) -> Problem {
    use multer::Error::{FieldSizeExceeded, StreamReadFailed, StreamSizeExceeded};
    match error {
        FieldSizeExceeded { .. } | StreamSizeExceeded { .. } => {
            Problem::too_much(format!("the report is larger than {MAX_BYTES} bytes"))
        }
        StreamReadFailed(_) => Problem::malformed("the body ended before it was complete"),
        error => Problem::malformed(format!("the body is no form of several parts: {error}")),
    }
}

/// What of the name of a file is kept, which may be a whole path of another machine.
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
        (status = 200, description = "The last 1,000 that the token's user may see, the newest first.", body = [ReportRow]),
        Refusals,
    )
)]
pub(super) async fn list(asked: Asked, headers: HeaderMap) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let request = PageRequest::from(End::First, MAX_LISTED);
            let (reader, sort) = (ReportReader::of(&asked.viewer), PerformanceReportSort::NewestFirst);
            let page = asked.store.performance_report_page(reader, sort, &request).await?;
            let rows: Vec<Model> = page.rows.into_iter().map(|(_, row)| row).collect();
            let users: Vec<_> = rows.iter().map(|row| row.user_id).collect();
            let users = asked.store.users_by_id(&users).await?;
            let row = |row: Model| ReportRow {
                url: url(asked, &headers, row.id),
                id: row.id.to_string(),
                private: row.visibility == Visibility::Private,
                user: users.get(&row.user_id).map(|user| user.name.clone()),
                size: row.size_bytes,
                created: iso(row.created_at.0),
                filename: row.name,
            };
            Ok(Answer::list(rows.into_iter().map(row).collect(), VALUES))
        })
        .await
}

/// Where a report is shown: under the name of the server that it was told, or else the one that was asked.
fn url(asked: &Asked, headers: &HeaderMap, id: PerformanceReportId) -> String {
    let (state, path) = (&asked.state, shown_report::path(&asked.viewer.account().slug, id));
    match (&state.public_url, headers.get(header::HOST).and_then(|host| host.to_str().ok())) {
        (Some(public), _) => format!("{public}{path}"),
        (None, Some(host)) => {
            let scheme = if state.cookies.secure { "https" } else { "http" };
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
