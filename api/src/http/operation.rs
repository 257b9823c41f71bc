//! One GraphQL operation, however it came: from its parameters, through the guard and what its sender may spend, to what
//! becomes of it.

use std::{panic::AssertUnwindSafe, sync::OnceLock};

use async_graphql::{Response as GraphQlResponse, ServerError, value};
use axum::http::StatusCode;
use entity::api_token::Scope;
use futures::FutureExt;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tracing::Instrument;

use super::{budget::Taker, credentials::Credentials, problem::Problem, state::AppState};
use crate::{
    auth::Viewer,
    domain::audit::Origin,
    graphql::{Caller, finish, written},
    guard::{Asked, Guarded, Kind},
    live::Subscription,
    metrics::{Operation, OperationKind, OperationOutcome},
};

/// A request's parameters, as the specification names them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parameters {
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    document_id: Option<String>,
    #[serde(default)]
    operation_name: Option<String>,
    #[serde(default)]
    variables: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "object")]
    extensions: Option<Extensions>,
}

/// What is looked at of what the specification reserves for extensions.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Extensions {
    #[serde(default)]
    persisted_query: Option<PersistedQuery>,
}

/// Reads an object as one, since a list would be taken for the values of its fields in their order.
fn object<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Extensions>, D::Error> {
    let fields = Option::<Map<String, Value>>::deserialize(json)?;
    fields.map(|fields| serde_json::from_value(fields.into()).map_err(D::Error::custom)).transpose()
}

/// A document by its hash, as Apollo's clients name it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PersistedQuery {
    sha256_hash: String,
}

impl Parameters {
    /// Whether they say which document is meant, in one of the ways there are.
    pub(super) fn name_a_document(&self) -> bool {
        let persisted = self.extensions.as_ref().is_some_and(|known| known.persisted_query.is_some());
        self.query.is_some() || self.document_id.is_some() || persisted
    }
}

/// How a request came, which says what it may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As a body, to be answered at once.
    Post,
    /// In an address, to be answered at once. A link could do that in a browser.
    Get,
    /// As a body, to be answered by events.
    PostForEvents,
    /// In an address, to be answered by events.
    GetForEvents,
    /// As a message on a socket.
    Socket,
}

impl Way {
    fn takes(self, kind: Kind) -> Result<(), Problem> {
        match (kind, self) {
            (Kind::Mutation, Self::Get | Self::GetForEvents) => Err(Problem::no_mutations_by_get()),
            (Kind::Subscription(_), Self::Get | Self::Post) => Err(Problem::not_acceptable(
                "subscriptions are answered over a WebSocket, or as text/event-stream if that is accepted",
            )),
            _ => Ok(()),
        }
    }
}

/// Who asks.
pub(super) struct Asker<'a> {
    viewer: Viewer,
    /// From where.
    origin: Origin,
    /// By whom what it costs is counted.
    taker: Taker,
    /// What they showed.
    shown: &'a Credentials,
}

impl<'a> Asker<'a> {
    /// Whoever showed these credentials, if they may ask and have not asked too much.
    /// Who takes from the budget is told in any case.
    pub(super) async fn signed_in(
        state: &AppState,
        shown: &'a Credentials,
        origin: Origin,
        known: &OnceLock<Taker>,
    ) -> Result<Self, Problem> {
        let viewer = state.viewer_with(shown, Scope::Read).await?;
        let taker = *known.get_or_init(|| Taker::new(viewer.limit_key(), origin.address));
        state.query_budget.check(taker)?;
        Ok(Self { viewer, origin, taker, shown })
    }
}

/// What becomes of a request.
pub(super) enum Outcome {
    /// It was answered.
    Answer(Box<GraphQlResponse>),
    /// It is answered again and again.
    Subscription(Box<Subscription>),
}

/// Why nothing of a request runs.
pub(super) enum Refusal {
    /// It is no request, came in the wrong way, or may not be made now.
    Request(Problem),
    /// Its document or variables are wrong.
    Document(Vec<ServerError>),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Request(problem)
    }
}

/// An answer, as clients read it.
pub(super) enum Rendered {
    /// Nothing ran, for these reasons.
    Refused(Vec<ServerError>),
    /// What came of it, as JSON.
    Executed(Utf8Bytes),
}

/// Carries an operation out, and counts what becomes of it.
pub(super) async fn execute(
    state: &AppState,
    asker: Asker<'_>,
    parameters: impl Future<Output = Result<Parameters, Problem>>,
    way: Way,
) -> Result<Outcome, Refusal> {
    let mut counted = state.metrics.graphql.begin();
    let outcome = carry_out(state, asker, parameters, way, &mut counted).await;
    counted.ended(ended(&outcome));
    outcome
}

/// What became of an operation, as operators see it.
fn ended(outcome: &Result<Outcome, Refusal>) -> OperationOutcome {
    let code = |error: &ServerError| match error.extensions.as_ref().and_then(|known| known.get("code")) {
        Some(async_graphql::Value::String(code)) => code.clone(),
        _ => String::new(),
    };
    match outcome {
        Ok(Outcome::Subscription(_)) => OperationOutcome::Ok,
        Ok(Outcome::Answer(response)) => {
            let codes: Vec<String> = response.errors.iter().map(code).collect();
            if codes.is_empty() {
                OperationOutcome::Ok
            } else if codes.iter().any(|code| code == "INTERNAL_SERVER_ERROR") {
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
    fields(operation = tracing::field::Empty, account = asker.viewer.account().slug)
)]
async fn carry_out(
    state: &AppState,
    asker: Asker<'_>,
    parameters: impl Future<Output = Result<Parameters, Problem>>,
    way: Way,
    counted: &mut Operation,
) -> Result<Outcome, Refusal> {
    let Asker { viewer, origin, taker, shown } = asker;
    let reading = state.query_budget.reading(taker);
    let guarded = guarded(state, parameters, way).await?;
    reading.accepted();
    let kind = match guarded.kind {
        Kind::Query => OperationKind::Query,
        Kind::Mutation => OperationKind::Mutation,
        Kind::Subscription(_) => OperationKind::Subscription,
    };
    counted.is(kind);
    let left = state.query_budget.take(taker, guarded.cost, state.clock.timestamp())?;
    counted.costs(guarded.cost);
    if let Kind::Subscription(_) = guarded.kind {
        let pass = state.admit(viewer, shown);
        let begun =
            tokio::time::timeout(state.query_timeout, state.live.subscribe(&pass, guarded, origin, left))
                .await
                .map_err(|_| Problem::deadline(state.query_timeout))?;
        return begun
            .map(|subscription| Outcome::Subscription(Box::new(subscription)))
            .map_err(Refusal::Document);
    }
    let cost = value!({ "requested": guarded.cost, "limit": state.guard.max_cost() });
    let is_query = guarded.kind == Kind::Query;
    let request = guarded.template.into_request();
    let (schema, store) = (state.schema.clone(), state.store.clone());
    let caller = Caller { viewer, origin, rate_limit: left, now: state.clock.now() };
    let run = Box::pin(async move { schema.execute(request, caller, &store).await });
    let response = if is_query {
        let answered = state.store.within(state.query_timeout, unharmed(run)).await;
        answered.ok_or_else(|| Problem::deadline(state.query_timeout))?
    } else {
        // A client that hangs up must not leave a change half made.
        let run = tokio::spawn(unharmed(run.in_current_span()));
        tokio::time::timeout(state.query_timeout, run)
            .await
            .map_err(|_| Problem::deadline_of_change(state.query_timeout))?
            .unwrap_or_else(|gone| Err(Problem::panicked(&gone)))
    };
    Ok(Outcome::Answer(Box::new(response?.extension("cost", cost))))
}

/// What may be executed of a request.
async fn guarded(
    state: &AppState,
    parameters: impl Future<Output = Result<Parameters, Problem>>,
    way: Way,
) -> Result<Guarded, Refusal> {
    let Parameters { query, document_id, operation_name, variables, extensions } = parameters.await?;
    tracing::Span::current().record("operation", operation_name.as_deref());
    let hash = extensions.unwrap_or_default().persisted_query.map(|query| query.sha256_hash);
    let query = state.guard.find(Asked { document: query, id: document_id, hash });
    let query = query.map_err(|error| Refusal::Document(vec![error]))?;
    let query = query.ok_or_else(|| Problem::invalid("/query".to_owned(), "missing field `query`"))?;
    let guarded = state.guard.check(query, operation_name, variables.unwrap_or_default()).await;
    let guarded = guarded.map_err(Refusal::Document)?;
    way.takes(guarded.kind)?;
    Ok(guarded)
}

/// What `run` answers, or the answer to a defect of it.
async fn unharmed<T>(run: impl Future<Output = T>) -> Result<T, Problem> {
    // What it shares with other requests is made to be left at any point: each of them may be cancelled.
    let run = AssertUnwindSafe(run).catch_unwind();
    run.await.map_err(|panic| Problem::panicked(panic.as_ref()))
}

impl From<GraphQlResponse> for Rendered {
    fn from(mut response: GraphQlResponse) -> Self {
        if finish(&mut response) {
            return Self::Refused(response.errors);
        }
        let json = String::from_utf8(written(&response)).expect("JSON consists of texts");
        Self::Executed(json.into())
    }
}

impl From<Refusal> for Rendered {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Request(problem) => Self::Refused(vec![(&problem).into()]),
            Refusal::Document(errors) => {
                let mut response = GraphQlResponse::from_errors(errors);
                finish(&mut response);
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

/// The body of an answer to what was refused.
pub(super) fn errors(errors: &[ServerError]) -> Value {
    json!({ "errors": errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_with_a_reference_and_not_with_its_message() {
        let problem = unharmed(async { panic!("geheim") }).await.map(|(): ()| ()).expect_err("it panics");
        assert_eq!(problem.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let answer = errors(&[(&problem).into()]);
        let error = &answer["errors"][0];
        assert_eq!(error["extensions"]["code"], "INTERNAL", "{answer}");
        assert!(error["extensions"]["reference"].is_string(), "{answer}");
        assert!(!answer.to_string().contains("geheim"), "{answer}");
    }
}
