//! A GraphQL operation over any transport: reads its parameters, applies the guard and the rate limiter,
//! and executes it.

use std::panic::AssertUnwindSafe;

use async_graphql::{Response as GraphQlResponse, ServerError, value};
use axum::http::StatusCode;
use futures::FutureExt;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tracing::Instrument;

use crate::{
    auth::Viewer,
    error::INTERNAL,
    graphql::{ExecutionContext, finalize_response, serialize_response},
    guard::{CheckedRequest, DocumentSelector, Kind},
    http::{
        extract::{caller::Caller, credentials::Credentials, problem::Problem},
        server::state::AppState,
    },
    live::Subscription,
    metrics::{Operation, OperationKind, OperationOutcome},
};

/// The parameters of a request, with the names of the specification.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Parameters {
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    document_id: Option<String>,
    #[serde(default)]
    operation_name: Option<String>,
    #[serde(default)]
    variables: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "deserialize_object")]
    extensions: Option<Extensions>,
}

/// The supported fields of `extensions`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Extensions {
    #[serde(default)]
    persisted_query: Option<PersistedQuery>,
}

/// Deserializes an object. A list would be accepted as the values of its fields in order.
fn deserialize_object<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Extensions>, D::Error> {
    let fields = Option::<Map<String, Value>>::deserialize(json)?;
    fields.map(|fields| serde_json::from_value(fields.into()).map_err(D::Error::custom)).transpose()
}

/// A document by its hash, as Apollo's clients send it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PersistedQuery {
    sha256_hash: String,
}

impl Parameters {
    /// Returns true if the parameters select a document in one of the possible ways.
    pub(crate) fn has_document(&self) -> bool {
        let persisted =
            self.extensions.as_ref().is_some_and(|extensions| extensions.persisted_query.is_some());
        self.query.is_some() || self.document_id.is_some() || persisted
    }
}

/// The transport of a request, which determines the permitted kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A request body, with an immediate response.
    Post,
    /// A query string, with an immediate response. A link in a browser could send it.
    Get,
    /// A request body, with an event stream as the response.
    PostForEvents,
    /// A query string, with an event stream as the response.
    GetForEvents,
    /// A message on a WebSocket.
    Socket,
}

impl Transport {
    fn check_kind(self, kind: Kind) -> Result<(), Problem> {
        match (kind, self) {
            (Kind::Mutation, Self::Get | Self::GetForEvents) => Err(Problem::no_mutations_by_get()),
            (Kind::Subscription(_), Self::Get | Self::Post) => Err(Problem::not_acceptable(
                "subscriptions need a WebSocket, or a request with 'Accept: text/event-stream'",
            )),
            _ => Ok(()),
        }
    }
}

/// The result of an accepted operation.
pub(crate) enum Outcome {
    /// A single response, of a query or a mutation.
    Answer(Box<GraphQlResponse>, Kind),
    /// A stream of payloads.
    Subscription(Box<Subscription>),
}

/// The reason for rejecting a request before execution.
pub(crate) enum Refusal {
    /// The request is malformed, uses the wrong transport, or exceeds a limit.
    Request(Problem),
    /// The document or its variables are invalid.
    Document(Vec<ServerError>),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Request(problem)
    }
}

/// A result in the form that clients receive.
pub(crate) enum Rendered {
    /// Nothing was executed, because of these errors.
    Refused(Vec<ServerError>),
    /// The result of the execution, as JSON.
    Executed(Utf8Bytes),
}

/// Executes an operation and records its outcome in the metrics.
pub(crate) async fn execute(
    state: &AppState,
    caller: Caller,
    credentials: &Credentials,
    parameters: impl Future<Output = Result<Parameters, Problem>>,
    transport: Transport,
) -> Result<Outcome, Refusal> {
    let mut metrics = state.metrics.graphql.start_operation();
    // Boxed, because the panic handler would otherwise enlarge every request by the execution's future.
    let run = catch_panic(Box::pin(execute_checked(
        state,
        caller,
        credentials,
        parameters,
        transport,
        &mut metrics,
    )));
    let outcome = run.await.unwrap_or_else(|problem| Err(problem.into()));
    metrics.finish(outcome_of(&outcome));
    outcome
}

/// Returns the outcome of an operation for the metrics.
fn outcome_of(outcome: &Result<Outcome, Refusal>) -> OperationOutcome {
    let code =
        |error: &ServerError| match error.extensions.as_ref().and_then(|extensions| extensions.get("code")) {
            Some(async_graphql::Value::String(code)) => code.clone(),
            _ => String::new(),
        };
    match outcome {
        Ok(Outcome::Subscription(_)) => OperationOutcome::Ok,
        Ok(Outcome::Answer(response, _)) => {
            let codes: Vec<String> = response.errors.iter().map(code).collect();
            if codes.is_empty() {
                OperationOutcome::Ok
            } else if codes.iter().any(|code| code == INTERNAL) {
                OperationOutcome::Failed
            } else if codes.iter().any(|code| code == "UNAVAILABLE") {
                OperationOutcome::Unavailable
            } else {
                OperationOutcome::Errors
            }
        }
        Err(Refusal::Document(_)) => OperationOutcome::Refused,
        Err(Refusal::Request(problem)) => match problem.status() {
            StatusCode::TOO_MANY_REQUESTS => OperationOutcome::RateLimited,
            StatusCode::GATEWAY_TIMEOUT => OperationOutcome::Timeout,
            StatusCode::SERVICE_UNAVAILABLE => OperationOutcome::Unavailable,
            status if status.is_server_error() => OperationOutcome::Failed,
            _ => OperationOutcome::Refused,
        },
    }
}

#[tracing::instrument(
    name = "graphql",
    skip_all,
    fields(operation = tracing::field::Empty, account = caller.viewer.account().slug)
)]
async fn execute_checked(
    state: &AppState,
    caller: Caller,
    credentials: &Credentials,
    parameters: impl Future<Output = Result<Parameters, Problem>>,
    transport: Transport,
    metrics: &mut Operation,
) -> Result<Outcome, Refusal> {
    let Caller { viewer, origin, limit_keys } = caller;
    let reading = state.query_limiter.begin_reading(limit_keys);
    let checked = check_request(state, parameters, transport).await?;
    let kind = match checked.kind {
        Kind::Query => OperationKind::Query,
        Kind::Mutation => OperationKind::Mutation,
        Kind::Subscription(_) => OperationKind::Subscription,
    };
    metrics.set_kind(kind);
    let price = price_in_account(state, &viewer, &checked).await?;
    reading.accept();
    let rate_limit = state.query_limiter.take(limit_keys, price, state.clock.timestamp())?;
    metrics.add_cost(price);
    if let Kind::Subscription(_) = checked.kind {
        let session = state.open_session(viewer, credentials);
        let result = tokio::time::timeout(
            state.operations.timeout,
            state.live.subscribe(&session, checked, origin, rate_limit),
        )
        .await
        .map_err(|_| Problem::deadline(state.operations.timeout))?;
        return result
            .map(|subscription| Outcome::Subscription(Box::new(subscription)))
            .map_err(Refusal::Document);
    }
    let is_query = checked.kind == Kind::Query;
    let template = checked.template;
    let (schema, store) = (state.operations.schema.clone(), state.store.clone());
    let execution = ExecutionContext { viewer, origin, rate_limit, now: state.clock.now() };
    // The slot is reserved only now, because a request that waits for its body, and a subscription, need
    // none.
    let slot = state.operations.slots.take(execution.viewer.holder(), state.operations.timeout).await;
    let _slot = slot.map_err(|_| {
        state.query_limiter.charge_refusal(limit_keys);
        Problem::unavailable("too many concurrent queries with these credentials: wait until some finish")
    })?;
    let running = state.query_limiter.begin_operation(limit_keys, price);
    let time = running.time().clone();
    let run = Box::pin(async move { time.count(schema.execute_template(template, execution, &store)).await });
    let response = if is_query {
        let result = state.store.with_timeout(state.operations.timeout, catch_panic(run)).await;
        result.ok_or_else(|| Problem::deadline(state.operations.timeout))?
    } else {
        // A mutation runs in its own task: a client that disconnects must not interrupt it.
        let run = tokio::spawn(catch_panic(run.in_current_span()));
        tokio::time::timeout(state.operations.timeout, run)
            .await
            .map_err(|_| Problem::mutation_deadline(state.operations.timeout))?
            .unwrap_or_else(|error| Err(Problem::panicked(&error)))
    };
    let added_cost = running.finish();
    let (requested, limit) = (price, state.operations.guard.max_cost());
    let cost = if added_cost == 0 {
        value!({ "requested": requested, "limit": limit })
    } else {
        value!({ "requested": requested, "limit": limit, "added": added_cost })
    };
    let kind = if is_query { Kind::Query } else { Kind::Mutation };
    Ok(Outcome::Answer(Box::new(response?.extension("cost", cost)), kind))
}

/// Returns the cost of an operation in its account, in points. Returns an error if it exceeds the limit
/// of one request.
async fn price_in_account(
    state: &AppState,
    viewer: &Viewer,
    checked: &CheckedRequest,
) -> Result<u64, Refusal> {
    if !checked.price.depends_on_clusters() {
        return Ok(checked.price.points(0));
    }
    let account = state.store.for_viewer(viewer);
    let cluster_count = state.operations.account_sizes.clusters(&account);
    let clusters = state.store.with_timeout(state.operations.timeout, cluster_count).await;
    let clusters =
        clusters.ok_or_else(|| Problem::deadline(state.operations.timeout))?.map_err(Problem::from)?;
    let points = checked.price.points(clusters);
    state.operations.guard.check_cost(points).map_err(Refusal::Document)?;
    Ok(points)
}

/// Reads and checks the operation of a request.
async fn check_request(
    state: &AppState,
    parameters: impl Future<Output = Result<Parameters, Problem>>,
    transport: Transport,
) -> Result<CheckedRequest, Refusal> {
    let Parameters { query, document_id, operation_name, variables, extensions } = parameters.await?;
    tracing::Span::current().record("operation", operation_name.as_deref());
    let hash = extensions.unwrap_or_default().persisted_query.map(|query| query.sha256_hash);
    let query = state.operations.guard.find(DocumentSelector { document: query, id: document_id, hash });
    let query = query.map_err(|error| Refusal::Document(vec![error]))?;
    let query = query.ok_or_else(|| Problem::invalid("/query".to_owned(), "missing field `query`"))?;
    let checked = state.operations.guard.check(query, operation_name, variables.unwrap_or_default()).await;
    let checked = checked.map_err(Refusal::Document)?;
    transport.check_kind(checked.kind)?;
    Ok(checked)
}

/// Runs a future, and converts a panic to an error.
async fn catch_panic<T>(run: impl Future<Output = T>) -> Result<T, Problem> {
    // The state shared with other requests stays consistent at any interruption, because each request
    // may be cancelled.
    let run = AssertUnwindSafe(run).catch_unwind();
    run.await.map_err(|panic| Problem::panicked(panic.as_ref()))
}

impl From<GraphQlResponse> for Rendered {
    fn from(mut response: GraphQlResponse) -> Self {
        if finalize_response(&mut response) {
            return Self::Refused(response.errors);
        }
        let json = String::from_utf8(serialize_response(&response)).expect("JSON consists of texts");
        Self::Executed(json.into())
    }
}

impl From<Refusal> for Rendered {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Request(problem) => Self::Refused(vec![(&problem).into()]),
            Refusal::Document(errors) => {
                let mut response = GraphQlResponse::from_errors(errors);
                finalize_response(&mut response);
                Self::Refused(response.errors)
            }
        }
    }
}

impl From<&Problem> for ServerError {
    fn from(problem: &Problem) -> Self {
        let mut error = Self::new(problem.message(), None);
        let extensions = error.extensions.get_or_insert_default();
        extensions.set("code", problem.code());
        if let Some(reference) = problem.reference() {
            extensions.set("reference", reference.to_string());
        }
        error
    }
}

/// Returns the response body of a rejected request.
pub(crate) fn errors(errors: &[ServerError]) -> Value {
    json!({ "errors": errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_with_a_reference_and_not_with_its_message() {
        let problem = catch_panic(async { panic!("geheim") }).await.map(|(): ()| ()).expect_err("it panics");
        assert_eq!(problem.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let answer = errors(&[(&problem).into()]);
        let error = &answer["errors"][0];
        assert_eq!(error["extensions"]["code"], "INTERNAL_SERVER_ERROR", "{answer}");
        assert!(error["extensions"]["reference"].is_string(), "{answer}");
        assert!(!answer.to_string().contains("geheim"), "{answer}");
    }
}
