//! GraphQL over HTTP around async-graphql's executor: JSON bodies only, queries only on GET, and the status
//! codes of the specification. GraphiQL, from our own files, for browsers.

use std::{panic::AssertUnwindSafe, sync::OnceLock};

use async_graphql::{Response as GraphQlResponse, ServerError, value};
use axum::{
    Json,
    body::Body,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use entity::api_token::Scope;
use futures::FutureExt;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tracing::Instrument;

use super::{
    address::Source,
    body::{self, Limits},
    budget::Taker,
    media_type::ranges,
    problem::{Problem, cut},
    state::AppState,
};
use crate::{
    auth::Viewer,
    domain::audit::Origin,
    graphql::{Caller, write_json},
    guard::{Asked, Guarded, MAX_ERRORS},
};

/// How large a query with its variables may be.
const LIMITS: Limits = Limits { sent: 1 << 20, inflated: 1 << 20 };

/// The media type the specification of GraphQL over HTTP adds.
const GRAPHQL_JSON: &str = "application/graphql-response+json";

/// A request's parameters, as the specification names them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameters {
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    document_id: Option<String>,
    #[serde(default)]
    operation_name: Option<String>,
    #[serde(default)]
    variables: Option<Map<String, Value>>,
    #[serde(default)]
    extensions: Option<Extensions>,
}

/// What is looked at of what the specification reserves for extensions.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Extensions {
    #[serde(default)]
    persisted_query: Option<PersistedQuery>,
}

/// A document by its hash, as Apollo's clients name it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PersistedQuery {
    sha256_hash: String,
}

/// The two media types an answer can have. They differ in the status of a request that could not be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediaType {
    GraphQl,
    Json,
}

pub(super) async fn post(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let taker = OnceLock::new();
    let response = answer(&headers, async {
        let announced = body::announced(&headers, LIMITS)?;
        // Nothing is held in memory for strangers.
        let viewer = signed_in(&state, &headers, origin, &taker).await?;
        let parameters = async {
            let json = announced.receive(body, state.body_patience).await?.json()?;
            if json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
                return Err(Problem::malformed("batches are not supported: send one operation a request"));
            }
            body::parse(&json)
        };
        execute(&state, viewer, origin, parameters, Allowed::Everything).await
    })
    .await;
    told(&state, &taker, response)
}

pub(super) async fn get(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let parameters = query.as_deref().unwrap_or_default();
    if parameters.is_empty() && accepts(&headers, "text/html") {
        return page();
    }
    let taker = OnceLock::new();
    let response = answer(&headers, async {
        let viewer = signed_in(&state, &headers, origin, &taker).await?;
        execute(&state, viewer, origin, async { from_query_string(parameters) }, Allowed::Queries).await
    })
    .await;
    told(&state, &taker, response)
}

/// One of the files of the GraphiQL page.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    let file = match name.as_str() {
        "graphiql.min.js" => (SCRIPT, include_bytes!("../../assets/graphiql/graphiql.min.js").as_slice()),
        "graphiql.min.css" => (STYLE, include_bytes!("../../assets/graphiql/graphiql.min.css").as_slice()),
        "graphiql-init.js" => (SCRIPT, include_bytes!("../../assets/graphiql/graphiql-init.js").as_slice()),
        "react.production.min.js" => {
            (SCRIPT, include_bytes!("../../assets/graphiql/react.production.min.js").as_slice())
        }
        "react-dom.production.min.js" => {
            (SCRIPT, include_bytes!("../../assets/graphiql/react-dom.production.min.js").as_slice())
        }
        _ => return Problem::not_found().into_response(),
    };
    let (content_type, bytes) = file;
    ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "max-age=3600")], bytes).into_response()
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

fn page() -> Response {
    let policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                  font-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'";
    (
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, policy)],
        include_str!("../../assets/graphiql/index.html"),
    )
        .into_response()
}

/// What the method allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Everything,
    Queries,
}

/// Why nothing of a request runs.
enum Refusal {
    /// It is no request, or came in the wrong way.
    Request(Problem),
    /// Its document or variables are wrong.
    Document(Vec<ServerError>),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Request(problem)
    }
}

impl From<Refusal> for Result<GraphQlResponse, Problem> {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Request(problem) => Err(problem),
            Refusal::Document(errors) => Ok(GraphQlResponse::from_errors(errors)),
        }
    }
}

/// The viewer behind a request, who may ask and has not asked too much.
async fn signed_in(
    state: &AppState,
    headers: &HeaderMap,
    origin: Origin,
    taker: &OnceLock<Taker>,
) -> Result<Viewer, Problem> {
    let viewer = state.viewer(headers, Scope::Read).await?;
    let known = taker.get_or_init(|| Taker::new(viewer.limit_key(), origin.address));
    state.query_budget.check(*known)?;
    Ok(viewer)
}

/// The answer, which says what is left to whoever signed in.
fn told(state: &AppState, taker: &OnceLock<Taker>, response: Response) -> Response {
    match taker.get() {
        Some(taker) => state.query_budget.tell(*taker, response),
        None => response,
    }
}

#[tracing::instrument(
    name = "graphql",
    skip_all,
    fields(operation = tracing::field::Empty, account = viewer.account().slug)
)]
async fn execute(
    state: &AppState,
    viewer: Viewer,
    origin: Origin,
    parameters: impl Future<Output = Result<Parameters, Problem>>,
    allowed: Allowed,
) -> Result<GraphQlResponse, Problem> {
    let taker = Taker::new(viewer.limit_key(), origin.address);
    let reading = state.query_budget.reading(taker);
    let guarded = match guarded(state, parameters, allowed).await {
        Ok(guarded) => guarded,
        Err(refusal) => return refusal.into(),
    };
    reading.accepted();
    let rate_limit = state.query_budget.take(taker, guarded.cost, state.clock.timestamp())?;
    let cost = value!({ "requested": guarded.cost, "limit": state.guard.max_cost() });
    let (schema, store) = (state.schema.clone(), state.store.clone());
    let caller = Caller { viewer, origin, rate_limit, now: state.clock.now() };
    let run = Box::pin(async move { schema.execute(guarded.request, caller, &store).await });
    let response = if guarded.is_query {
        tokio::time::timeout(state.query_timeout, unharmed(run))
            .await
            .map_err(|_| Problem::deadline(state.query_timeout))?
    } else {
        // A client that hangs up must not leave a change half made.
        let run = tokio::spawn(unharmed(run.in_current_span()));
        tokio::time::timeout(state.query_timeout, run)
            .await
            .map_err(|_| Problem::deadline_of_change(state.query_timeout))?
            .unwrap_or_else(|gone| Err(Problem::panicked(&gone)))
    };
    Ok(response?.extension("cost", cost))
}

/// What may be executed of a request.
async fn guarded(
    state: &AppState,
    parameters: impl Future<Output = Result<Parameters, Problem>>,
    allowed: Allowed,
) -> Result<Guarded, Refusal> {
    let Parameters { query, document_id, operation_name, variables, extensions } = parameters.await?;
    tracing::Span::current().record("operation", operation_name.as_deref());
    let hash = extensions.unwrap_or_default().persisted_query.map(|query| query.sha256_hash);
    let query = state.guard.find(Asked { document: query, id: document_id, hash });
    let query = query.map_err(|error| Refusal::Document(vec![error]))?;
    let query = query.ok_or_else(|| Problem::invalid("/query".to_owned(), "missing field `query`"))?;
    let guarded = state.guard.check(query, operation_name, variables.unwrap_or_default()).await;
    let guarded = guarded.map_err(Refusal::Document)?;
    if allowed == Allowed::Queries && !guarded.is_query {
        return Err(Problem::only_queries_by_get().into());
    }
    Ok(guarded)
}

/// What `run` answers, or the answer to a defect of it.
async fn unharmed<T>(run: impl Future<Output = T>) -> Result<T, Problem> {
    // What it shares with other requests is made to be left at any point: each of them may be cancelled.
    let run = AssertUnwindSafe(run).catch_unwind();
    run.await.map_err(|panic| Problem::panicked(panic.as_ref()))
}

/// Writes the answer in the media type the client asked for.
async fn answer(
    headers: &HeaderMap,
    outcome: impl Future<Output = Result<GraphQlResponse, Problem>>,
) -> Response {
    let Some(media_type) = media_type(headers) else {
        return Problem::not_acceptable(format!("answers are {GRAPHQL_JSON} or application/json"))
            .into_response();
    };
    let mut response = match outcome.await {
        Ok(response) => executed(response, media_type),
        Err(problem) => problem.with_body(Json(errors(&problem))),
    };
    let content_type = match media_type {
        MediaType::GraphQl => "application/graphql-response+json; charset=utf-8",
        MediaType::Json => "application/json; charset=utf-8",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn executed(mut response: GraphQlResponse, media_type: MediaType) -> Response {
    // An error without a path stopped the request before anything ran: then there is no data, not null data.
    let refused = !response.errors.is_empty() && response.errors.iter().all(|error| error.path.is_empty());
    response.errors.truncate(MAX_ERRORS);
    for error in &mut response.errors {
        error.message = cut(std::mem::take(&mut error.message));
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", if refused { "GRAPHQL_VALIDATION_FAILED" } else { "BAD_USER_INPUT" });
        }
    }
    let status =
        if refused && media_type == MediaType::GraphQl { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    if refused {
        return (status, Json(json!({ "errors": response.errors }))).into_response();
    }
    (status, written(&response)).into_response()
}

/// The answer as the executor would write it, with what stands in it as JSON already.
fn written(response: &GraphQlResponse) -> Vec<u8> {
    let mut json = b"{\"data\":".to_vec();
    write_json(&response.data, &mut json);
    if !response.extensions.is_empty() {
        json.extend_from_slice(b",\"extensions\":");
        append(&response.extensions, &mut json);
    }
    if !response.errors.is_empty() {
        json.extend_from_slice(b",\"errors\":");
        append(&response.errors, &mut json);
    }
    json.push(b'}');
    json
}

fn append(value: &impl serde::Serialize, json: &mut Vec<u8>) {
    // It consists of texts and numbers, and memory does not refuse.
    let _ = serde_json::to_writer(json, value);
}

fn errors(problem: &Problem) -> Value {
    let mut extensions = json!({ "code": problem.code() });
    if let Some(reference) = problem.reference() {
        extensions["reference"] = reference.to_string().into();
    }
    json!({ "errors": [{ "message": problem.message(), "extensions": extensions }] })
}

fn from_query_string(query: &str) -> Result<Parameters, Problem> {
    let mut parameters = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let value = match &*name {
            "query" | "operationName" | "documentId" => Value::String(value.into_owned()),
            "variables" | "extensions" => serde_json::from_str(&value).map_err(|_| {
                Problem::invalid(format!("/{name}"), format!("'{name}' must be a JSON object"))
            })?,
            _ => continue,
        };
        parameters.insert(name.into_owned(), value);
    }
    body::parse(Value::Object(parameters).to_string().as_bytes())
}

/// The first of our media types the client lists; JSON when it lists none or anything goes.
fn media_type(headers: &HeaderMap) -> Option<MediaType> {
    let Some(accept) = headers.get(header::ACCEPT) else { return Some(MediaType::Json) };
    let accept = accept.to_str().ok()?;
    ranges(accept).find_map(|range| match range.as_str() {
        GRAPHQL_JSON => Some(MediaType::GraphQl),
        "application/json" | "application/*" | "*/*" => Some(MediaType::Json),
        _ => None,
    })
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| ranges(accept).any(|range| range == media_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_with_a_reference_and_not_with_its_message() {
        let problem = unharmed(async { panic!("geheim") }).await.map(|(): ()| ()).expect_err("it panics");
        let answer = errors(&problem);
        let error = &answer["errors"][0];
        assert_eq!(error["extensions"]["code"], "INTERNAL", "{answer}");
        assert!(error["extensions"]["reference"].is_string(), "{answer}");
        assert!(!answer.to_string().contains("geheim"), "{answer}");
        assert_eq!(problem.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
