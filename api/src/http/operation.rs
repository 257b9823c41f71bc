//! One GraphQL operation, however it came: from its parameters, through the guard and what its sender may spend, to what
//! becomes of it.

use std::panic::AssertUnwindSafe;

use async_graphql::{Response as GraphQlResponse, ServerError, value};
use futures::FutureExt;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tracing::Instrument;

use super::{
    problem::{Problem, cut},
    state::AppState,
};
use crate::{
    auth::Viewer,
    graphql::write_json,
    guard::{Asked, Guarded, MAX_ERRORS},
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
    /// As a message on a socket.
    Socket,
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

#[tracing::instrument(
    name = "graphql",
    skip_all,
    fields(operation = tracing::field::Empty, account = viewer.account().slug)
)]
pub(super) async fn execute(
    state: &AppState,
    viewer: Viewer,
    parameters: impl Future<Output = Result<Parameters, Problem>>,
    way: Way,
) -> Result<GraphQlResponse, Refusal> {
    let reading = state.query_budget.reading(viewer.limit_key());
    let guarded = guarded(state, parameters, way).await?;
    reading.accepted();
    let left = state.query_budget.take(viewer.limit_key(), guarded.cost, state.clock.timestamp())?;
    let cost = value!({ "requested": guarded.cost, "limit": state.guard.max_cost() });
    let (schema, store, now) = (state.schema.clone(), state.store.clone(), state.clock.now());
    let run = Box::pin(async move { schema.execute(guarded.request, viewer, left, &store, now).await });
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
    if way == Way::Get && !guarded.is_query {
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

impl From<GraphQlResponse> for Rendered {
    fn from(mut response: GraphQlResponse) -> Self {
        // An error without a path stopped the request before anything ran: then there is no data, not null data.
        let refused =
            !response.errors.is_empty() && response.errors.iter().all(|error| error.path.is_empty());
        finish(&mut response.errors, if refused { "GRAPHQL_VALIDATION_FAILED" } else { "BAD_USER_INPUT" });
        if refused { Self::Refused(response.errors) } else { Self::Executed(text(written(&response))) }
    }
}

impl From<Refusal> for Rendered {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(match refusal {
            Refusal::Request(problem) => vec![(&problem).into()],
            Refusal::Document(mut errors) => {
                finish(&mut errors, "GRAPHQL_VALIDATION_FAILED");
                errors
            }
        })
    }
}

/// Keeps as many errors as are shown, each with no more text than is, and with a code.
fn finish(errors: &mut Vec<ServerError>, code: &str) {
    errors.truncate(MAX_ERRORS);
    for error in errors {
        error.message = cut(std::mem::take(&mut error.message));
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", code);
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

/// JSON that was written here, and so is a text.
fn text(json: Vec<u8>) -> Utf8Bytes {
    String::from_utf8(json).expect("JSON consists of texts").into()
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

/// The body of an answer to what was refused.
pub(super) fn errors(errors: &[ServerError]) -> Value {
    json!({ "errors": errors })
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

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
