//! `GET /api/v1/clusters/{id}/profile`: the profile of a cluster as a file of a profile viewer.

use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};

use super::export::FORMAT;
use crate::{
    export::{ProfileFormat, ProfileRequest},
    http::{
        extract::{
            caller::Caller,
            credentials::Credentials,
            origin::RequestOrigin,
            path::PathParams,
            problem::{ErrorBody, Problem},
        },
        server::state::AppState,
    },
};

/// The parameter for the share of the samples below which nodes are left out.
const MIN_SHARE: &str = "minShare";

/// The parameter for a function whose samples are selected. It may be given several times.
const FUNCTION: &str = "function";

/// The parameter for a worker whose samples are selected. It may be given several times.
const WORKER: &str = "worker";

/// Export the profile of a cluster
///
/// The statistical profile of a period as one file, for speedscope or for `pprof` and the programs that read
/// its format. The values are numbers of samples. It has at most 20,000 nodes, those with the most samples.
/// The samples in other nodes have the function `(omitted)`. At most the newest 200 windows are merged. If
/// windows are left out, the name of the profile says so.
#[utoipa::path(
    get,
    path = "/api/v1/clusters/{id}/profile",
    operation_id = "export_cluster_profile",
    tag = "export",
    security(("token" = ["read"])),
    params(
        ("id" = String, Path, description = "The cluster's global identifier, or its number."),
        ("format" = Option<String>, Query, description = "`speedscope` or `pprof`. Default: `speedscope`."),
        ("from" = Option<String>, Query, description = "The start of the period, by the scheduler's clock. Default: the cluster's start."),
        ("to" = Option<String>, Query, description = "The end of the period, exclusive. Default: now."),
        ("minShare" = Option<f64>, Query, description = "The minimum share of the samples that a node needs to be included, 0 to 1. Default: 0."),
        ("function" = Option<Vec<String>>, Query, description = "Only samples in tasks of this function, by its prefix. It may be given up to 100 times. Default: all samples."),
        ("worker" = Option<Vec<String>>, Query, description = "Only samples on this worker, by its global identifier or UUID. It may be given up to 100 times. Default: all samples."),
    ),
    responses(
        (status = 200, description = "The file.", content((Object = "application/json"), (String = "application/octet-stream"))),
        (status = 400, description = "A parameter is invalid. The message names it.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `read`.", body = ErrorBody),
        (status = 404, description = "The cluster does not exist, the token gives no access to it, or it has no profile in the period.", body = ErrorBody),
        (status = 429, description = "The quota of points is used up. See `Retry-After`.", body = ErrorBody),
        (status = 500, description = "The profile cannot be decrypted (`KEY_MISSING`, `DAMAGED`), or an internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The server or its database is overloaded or unavailable. See `Retry-After`.", body = ErrorBody),
        (status = 504, description = "The profile took too long. Request a shorter period.", body = ErrorBody),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    PathParams(id): PathParams<String>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let credentials = Credentials::of(&state.site.cookies, &headers)?;
    let caller = Caller::admit(&state, &credentials, origin).await?;
    let Caller { viewer, origin, limit_keys } = caller;
    let refusal_charge = state.query_limiter.begin_reading(limit_keys);
    let (format, parameters) = parameters(&query.unwrap_or_default())?;
    let request = ProfileRequest::new(&state.exports, id, parameters).await?;
    refusal_charge.accept();
    let cost = request.cost();
    let rate_limit = state.query_limiter.take(limit_keys, cost, state.clock.timestamp())?;
    let time_charge = state.query_limiter.begin_operation(limit_keys, cost);
    // Boxed, because the future of a query would enlarge that of the route.
    let read = Box::pin(request.read(&state.exports, viewer, origin, rate_limit));
    let profile = time_charge.time().count(read).await?;
    time_charge.finish();
    let profile = profile.ok_or_else(|| Problem::missing("the cluster has no profile in this period"))?;
    let (file, name) = profile.encode(format).await;
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(format.content_type())),
        (header::CONTENT_DISPOSITION, HeaderValue::try_from(disposition).expect("the name is ASCII")),
        (header::VARY, HeaderValue::from_static("Authorization")),
    ];
    Ok(state.query_limiter.set_headers(limit_keys, (headers, file).into_response()))
}

/// Parses the parameters: the format, and the arguments of the query.
fn parameters(query: &str) -> Result<(ProfileFormat, Map<String, Value>), Problem> {
    let mut format = None;
    let (mut parameters, mut functions, mut workers) = (Map::new(), Vec::new(), Vec::new());
    for (name, text) in form_urlencoded::parse(query.as_bytes()) {
        let is_repeated = match &*name {
            FORMAT => {
                let named = ProfileFormat::ALL.into_iter().find(|format| format.name() == text);
                let named =
                    named.ok_or_else(|| Problem::parameter(FORMAT, "must be 'speedscope' or 'pprof'"))?;
                format.replace(named).is_some()
            }
            "from" | "to" => parameters.insert(name.to_string(), text.into_owned().into()).is_some(),
            MIN_SHARE => {
                let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
                let share =
                    share.ok_or_else(|| Problem::parameter(MIN_SHARE, "must be a number from 0 to 1"))?;
                parameters.insert(MIN_SHARE.to_owned(), share.into()).is_some()
            }
            FUNCTION => {
                functions.push(Value::String(text.into_owned()));
                false
            }
            WORKER => {
                workers.push(Value::String(text.into_owned()));
                false
            }
            _ => {
                let reason = "is not a parameter of this file; its parameters are format, from, to, minShare, function, worker";
                return Err(Problem::parameter(&name, reason));
            }
        };
        if is_repeated {
            return Err(Problem::parameter(&name, "can be given only once"));
        }
    }
    parameters.entry(MIN_SHARE).or_insert_with(|| 0.0.into());
    for (name, values) in [("functions", functions), ("workers", workers)] {
        if !values.is_empty() {
            parameters.insert(name.to_owned(), values.into());
        }
    }
    Ok((format.unwrap_or(ProfileFormat::ALL[0]), parameters))
}
