//! Groups of errors that look alike.

use async_graphql::{Enum, ID, Object};
use chrono::{DateTime, Utc};
use entity::{
    error_group::{self, Model},
    ids::ErrorGroupId,
};

use super::{
    connection::{Connection, PageArguments, connect},
    error::{ApiError, Unsealed},
    error_occurrence::ErrorOccurrence,
    error_status::ErrorGroupStatus,
    id::GlobalId,
    loaders::{CountsOf, RegressionOf},
    scalar::BigInt,
    scope::AccountScope,
    user::User,
};
use crate::{
    domain::error_status::ErrorStatus,
    store::{ErrorGroupCounts, ErrorParent, ErrorSort},
};

/// Errors that look alike, on all clusters of an account.
pub(super) struct ErrorGroup {
    scope: AccountScope,
    row: Model,
}

impl ErrorGroup {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(super) async fn find(scope: &AccountScope, id: ErrorGroupId) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    fn status_now(&self) -> ErrorStatus {
        ErrorStatus::of(self.row.status, self.row.resolved_until, self.row.last_seen_at)
    }

    async fn counts(&self) -> Result<ErrorGroupCounts, ApiError> {
        Ok(self.scope.loader.load_one(CountsOf(self.row.id)).await?.unwrap_or_default())
    }
}

/// Errors that look alike, on all clusters of the account: of the same exception, with the same message but for
/// the data in it, raised at the same place in the program.
#[Object]
impl ErrorGroup {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::ErrorGroup(self.row.account_id, self.row.id).into()
    }

    /// The exception's class, if it can be told.
    #[graphql(name = "type")]
    async fn exception_type(&self) -> Option<&str> {
        self.row.exception_type.as_deref()
    }

    /// The message; what differs from one error to the next is an ellipsis. Null, with an error, when the key it is
    /// encrypted with is lost.
    async fn title(&self) -> Unsealed<String> {
        Some(self.scope.store.error_group_title(&self.row).map_err(ApiError::from))
    }

    /// Whose failure it is.
    async fn origin(&self) -> ErrorOrigin {
        self.row.origin.into()
    }

    /// When the first of these errors happened, by the clock of its scheduler.
    async fn first_seen_at(&self) -> DateTime<Utc> {
        self.row.first_seen_at.0
    }

    /// When the last of these errors happened, by the clock of its scheduler.
    async fn last_seen_at(&self) -> DateTime<Utc> {
        self.row.last_seen_at.0
    }

    /// What is to be thought of it.
    async fn status(&self) -> ErrorGroupStatus {
        self.status_now().into()
    }

    /// When somebody last said what is to be thought of it, by the server's clock; null while nobody did.
    async fn status_changed_at(&self) -> Option<DateTime<Utc>> {
        self.row.status_changed_at.map(|at| at.0)
    }

    /// Who said it; null while nobody did, and when the user left the account.
    async fn status_changed_by(&self) -> Result<Option<User>, ApiError> {
        match self.row.status_changed_by {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// When the first of these errors happened after the group was resolved, by the clock of its scheduler; null unless
    /// the status is REGRESSED.
    async fn regressed_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        if self.status_now() != ErrorStatus::Regressed {
            return Ok(None);
        }
        let first = self.scope.loader.load_one(RegressionOf(self.row.id)).await?;
        // The errors themselves may be gone by their age.
        Ok(Some(first.unwrap_or(self.row.last_seen_at).0))
    }

    /// How many of these errors are stored.
    async fn occurrence_count(&self) -> Result<BigInt, ApiError> {
        Ok(BigInt(self.counts().await?.occurrences))
    }

    /// On how many clusters they happened.
    async fn cluster_count(&self) -> Result<BigInt, ApiError> {
        Ok(BigInt(self.counts().await?.clusters))
    }

    /// These errors, the newest first.
    async fn occurrences(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let parent = ErrorParent::Group(self.row.id);
        connect(&self.scope, parent, ErrorSort::NewestOfAllFirst, page, ErrorOccurrence::new).await
    }
}

/// Whose failure an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "error_group::Origin")]
pub(super) enum ErrorOrigin {
    /// The computation's own code raised it.
    User,
    /// Dask raised it: a worker was killed, a state was invalid.
    Dask,
}
