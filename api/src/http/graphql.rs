//! GraphQL over HTTP around async-graphql's executor: JSON bodies only, queries only on GET, and the status
//! codes of the specification. GraphiQL, from our own files, for browsers.

use async_graphql::Response as GraphQlResponse;
use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use entity::api_token::Scope;
use serde_json::{Map, Value};

use super::{
    body::{self, Limits},
    media_type::ranges,
    operation::{Parameters, Refusal, Rendered, Way, errors, execute},
    problem::Problem,
    socket,
    state::AppState,
};
use crate::auth::Viewer;

/// How large a query with its variables may be.
const LIMITS: Limits = Limits { sent: 1 << 20, inflated: 1 << 20 };

/// The media type the specification of GraphQL over HTTP adds.
const GRAPHQL_JSON: &str = "application/graphql-response+json";

/// The two media types an answer can have. They differ in the status of a request that could not be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediaType {
    GraphQl,
    Json,
}

pub(super) async fn post(State(state): State<AppState>, headers: HeaderMap, body: Body) -> Response {
    answer(&headers, async {
        let announced = body::announced(&headers, LIMITS)?;
        // Nothing is held in memory for strangers.
        let viewer = signed_in(&state, &headers).await?;
        let parameters = async {
            let json = announced.receive(body, state.patience.body).await?.json()?;
            if json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
                return Err(Problem::malformed("batches are not supported: send one operation a request"));
            }
            body::parse(&json)
        };
        execute(&state, viewer, parameters, Way::Post).await
    })
    .await
}

pub(super) async fn get(State(state): State<AppState>, request: Request) -> Response {
    let (request, _) = request.into_parts();
    if socket::is_asked_for(&request.headers) {
        return socket::open(state, request);
    }
    let (headers, parameters) = (request.headers, request.uri.query().unwrap_or_default());
    if parameters.is_empty() && accepts(&headers, "text/html") {
        return page();
    }
    answer(&headers, async {
        let viewer = signed_in(&state, &headers).await?;
        execute(&state, viewer, async { from_query_string(parameters) }, Way::Get).await
    })
    .await
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

/// The viewer behind a request, who may ask and has not asked too much.
async fn signed_in(state: &AppState, headers: &HeaderMap) -> Result<Viewer, Problem> {
    let viewer = state.viewer(headers, Scope::Read).await?;
    state.query_budget.check(viewer.limit_key())?;
    Ok(viewer)
}

/// Writes the answer in the media type the client asked for.
async fn answer(
    headers: &HeaderMap,
    outcome: impl Future<Output = Result<GraphQlResponse, Refusal>>,
) -> Response {
    let Some(media_type) = media_type(headers) else {
        return Problem::not_acceptable(format!("answers are {GRAPHQL_JSON} or application/json"))
            .into_response();
    };
    let rendered = match outcome.await {
        Ok(response) => response.into(),
        Err(Refusal::Request(problem)) => {
            return typed(problem.with_body(Json(errors(&[(&problem).into()]))), media_type);
        }
        Err(refusal) => refusal.into(),
    };
    let response = match rendered {
        Rendered::Refused(wrong) => {
            let status = match media_type {
                MediaType::GraphQl => StatusCode::BAD_REQUEST,
                MediaType::Json => StatusCode::OK,
            };
            (status, Json(errors(&wrong))).into_response()
        }
        Rendered::Executed(json) => Body::from(Bytes::from(json)).into_response(),
    };
    typed(response, media_type)
}

fn typed(mut response: Response, media_type: MediaType) -> Response {
    let content_type = match media_type {
        MediaType::GraphQl => "application/graphql-response+json; charset=utf-8",
        MediaType::Json => "application/json; charset=utf-8",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
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
