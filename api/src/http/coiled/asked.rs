//! A question of the client: who asks it, of which account, and what answering it costs.

use axum::{
    Json,
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
    response::{IntoResponse, Response},
};
use chrono::{DateTime, SecondsFormat, Utc};
use entity::{
    api_token::Scope,
    audit_entry::Action,
    cluster,
    ids::{ClusterId, UserId},
};
use serde::Serialize;
use utoipa::IntoResponses;

use super::paging;
use crate::{
    auth::{AuthError, Viewer},
    http::{
        address::Source,
        budget::Taker,
        credentials::Credentials,
        form::parameter,
        problem::{ErrorBody, Problem},
        state::AppState,
        visitor::Visitor,
    },
    store::{AccountStore, StoreError, page::Slice},
};

/// The word the client has in the place of an account's short name when it knows none.
pub(super) const NO_WORKSPACE: &str = "None";

/// Points that a question costs besides what is answered.
const QUESTION: u64 = 100;

/// A question of somebody who may read the account that the address names.
pub(super) struct Asked {
    pub(super) state: AppState,
    pub(super) viewer: Viewer,
    /// The account, as one who acts in it sees it: what is decrypted of code is written down.
    pub(super) store: AccountStore,
    taker: Taker,
    path: Vec<(String, String)>,
    query: Option<String>,
}

/// What a question of somebody who reads may be answered instead, whatever it is about.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it describes answers, and is none")]
pub(super) enum Refusals {
    /// No valid token.
    #[response(status = 401)]
    Unauthenticated(ErrorBody),
    /// The token lacks the scope `read`, or is for another account.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// Too many points were spent; see Retry-After.
    #[response(status = 429)]
    RateLimited(ErrorBody),
    /// A defect of the server; `reference` stands in its log.
    #[response(status = 500)]
    Defect(ErrorBody),
    /// The store is away; see Retry-After.
    #[response(status = 503)]
    Unavailable(ErrorBody),
    /// It took too long.
    #[response(status = 504)]
    Deadline(ErrorBody),
}

/// An answer, and what it costs in points: one for each value, as for the fields of GraphQL.
pub(super) struct Answer<T> {
    pub(super) body: T,
    pub(super) cost: u64,
}

impl<T> Answer<T> {
    /// An answer that is no list.
    pub(super) fn one(body: T) -> Self {
        Self { body, cost: 0 }
    }
}

impl<T> Answer<Vec<T>> {
    /// A list whose rows have so many values each.
    pub(super) fn list(rows: Vec<T>, values: u64) -> Self {
        Self { cost: values * rows.len() as u64, body: rows }
    }

    /// The same, of rows that lie behind others.
    pub(super) fn slice(rows: Vec<T>, values: u64, slice: Slice) -> Self {
        let Self { body, cost } = Self::list(rows, values);
        Self { body, cost: cost + paging::cost(slice) }
    }
}

impl FromRequestParts<AppState> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let Ok(Source(origin)) = Source::from_request_parts(parts, state).await;
        // What is no text names no account.
        let path = RawPathParams::from_request_parts(parts, state).await.map_err(|_| Problem::not_found())?;
        let path: Vec<(String, String)> =
            path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut shown = Credentials::of(state.cookies, &parts.headers)?;
        let workspace = in_path(&path, "workspace");
        if workspace != NO_WORKSPACE {
            let named = shown.account.replace(workspace.as_bytes().into());
            if named.is_some_and(|named| *named != *workspace.as_bytes()) {
                return Err(AuthError::NoAccount.into());
            }
        }
        let viewer = state.viewer_with(&shown, Scope::Read).await?;
        let Visitor { viewer, store, taker } = Visitor::admitted(state, viewer, origin)?;
        let query = parts.uri.query().map(str::to_owned);
        Ok(Self { state: state.clone(), viewer, store, taker, path, query })
    }
}

impl Asked {
    /// From whose buckets it is paid.
    pub(super) fn taker(&self) -> Taker {
        self.taker
    }

    /// What the path names under a name.
    pub(super) fn path(&self, name: &str) -> &str {
        in_path(&self.path, name)
    }

    /// A parameter of the question; none if it is not given, or empty.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        Some(parameter(self.query.as_deref(), name)).filter(|text| !text.is_empty())
    }

    /// Answers it, and takes what that costs.
    pub(super) async fn answer<T: Serialize>(
        self,
        answer: impl AsyncFnOnce(&Self) -> Result<Answer<T>, Problem>,
    ) -> Result<Response, Problem> {
        let Self { state, taker, store, .. } = &self;
        let reading = state.query_budget.reading(*taker);
        let answering = tokio::time::timeout(state.query_timeout, async {
            let answer = answer(&self).await?;
            // Before anybody sees it. What cannot be written down is not told.
            store.audit_reads().await?;
            Ok::<_, Problem>(answer)
        });
        let Answer { body, cost } = answering.await.map_err(|_| Problem::deadline(state.query_timeout))??;
        reading.accepted();
        state.query_budget.charge(*taker, QUESTION + cost, state.clock.timestamp());
        Ok(state.query_budget.tell(*taker, Json(body).into_response()))
    }

    /// The cluster with a number, as a path or a parameter has it.
    pub(super) async fn cluster(&self, number: &str) -> Result<cluster::Model, Problem> {
        let id: ClusterId = number.parse().map_err(|_| no_cluster())?;
        self.store.clusters_by_id(&[id]).await?.pop().ok_or_else(no_cluster)
    }

    /// The users whose clusters are meant by the parameter `user`: the one of that name, or nobody. All if it is not given.
    pub(super) async fn users(&self) -> Result<Option<Vec<UserId>>, Problem> {
        let Some(name) = self.parameter("user") else { return Ok(None) };
        if name == self.viewer.user().name {
            return Ok(Some(vec![self.viewer.user_id()]));
        }
        Ok(Some(self.store.member_named(&name).await?.into_iter().collect()))
    }

    /// From when on something is meant, in milliseconds, by the parameter `since`, which is an age in seconds.
    pub(super) fn since(&self) -> Result<Option<i64>, Problem> {
        let Some(text) = self.parameter("since") else { return Ok(None) };
        let seconds = text.parse().ok().filter(|seconds| (0.0..=MAX_AGE).contains(seconds));
        let seconds: f64 = seconds.ok_or_else(|| {
            Problem::parameter("since", "must be an age in seconds, from 0 to 10,000,000,000")
        })?;
        #[expect(clippy::cast_possible_truncation, reason = "it is bounded")]
        let age = (seconds * 1e3).round() as i64;
        Ok(Some(self.state.clock.timestamp().timestamp_millis() - age))
    }

    /// Refuses whose credentials are not for changes, which is written down as when a mutation is refused.
    pub(super) async fn may_change(&self, action: Action) -> Result<(), Problem> {
        let Err(refusal) = self.viewer.require(Scope::Admin) else { return Ok(()) };
        self.state.schema.refused(&self.viewer, &self.store, action, self.state.clock.now()).await?;
        Err(refusal.into())
    }
}

fn in_path<'a>(path: &'a [(String, String)], name: &str) -> &'a str {
    path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// Some centuries, in seconds.
const MAX_AGE: f64 = 1e10;

/// What the client says in words of its own: it looks for `not found`.
pub(super) fn no_cluster() -> Problem {
    Problem::missing("cluster not found")
}

/// More was asked for than is read at once, which is no defect.
pub(super) fn bounded(error: StoreError) -> Problem {
    match error {
        StoreError::TooMuch(what) => Problem::parameters(what),
        error => error.into(),
    }
}

/// What was decrypted; none if its key is lost.
pub(super) fn unless_sealed<T>(opened: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match opened {
        Err(StoreError::Sealed(_)) => Ok(None),
        opened => opened.map(Some),
    }
}

/// A time as `datetime.fromisoformat` of every Python reads it.
pub(super) fn iso(at: impl Into<DateTime<Utc>>) -> String {
    at.into().to_rfc3339_opts(SecondsFormat::Millis, false)
}
