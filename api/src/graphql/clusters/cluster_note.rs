//! The GraphQL type and the mutation of the notes that users write about clusters.

use async_graphql::Object;
use chrono::{DateTime, Utc};
use entity::{
    audit_entry::Action,
    cluster_note::Model,
    ids::{ClusterId, UserId},
};

use super::cluster_tag::ClusterPayload;
use crate::graphql::{
    access::user::User,
    engine::{
        error::{ApiError, NullOnError},
        loaders::NotesKey,
        scope::AccountScope,
        user_error::{UserError, UserErrorCode},
    },
};

/// The maximum number of characters of the notes on a cluster.
const MAX_TEXT: usize = 10_000;

/// The notes that users wrote about a cluster.
pub(crate) struct ClusterNotes {
    scope: AccountScope,
    row: Model,
}

impl ClusterNotes {
    pub(crate) async fn find(scope: &AccountScope, cluster: ClusterId) -> Result<Option<Self>, ApiError> {
        let row = scope.loader.load_one(NotesKey(cluster)).await?;
        Ok(row.map(|row| Self { scope: scope.clone(), row }))
    }
}

/// The notes that users wrote about a cluster.
#[Object]
impl ClusterNotes {
    /// The text. Null, with the error code `KEY_MISSING` or `DAMAGED`, if it cannot be decrypted.
    async fn text(&self) -> NullOnError<String> {
        Some(self.scope.store.cluster_note_text(&self.row).map_err(ApiError::from))
    }

    /// The time of the last change, by the server's clock.
    async fn changed_at(&self) -> DateTime<Utc> {
        self.row.changed_at.0
    }

    /// The user who made the last change. Null if the user left the account.
    async fn changed_by(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.user_id).await
    }
}

pub(crate) async fn set_cluster_notes(
    scope: &AccountScope,
    user: UserId,
    cluster: ClusterId,
    text: &str,
) -> Result<ClusterPayload, ApiError> {
    let text = text.trim();
    if text.chars().count() > MAX_TEXT {
        let message = "must have at most 10,000 characters";
        let error = UserError::new("text", UserErrorCode::Invalid, message);
        return ClusterPayload::refused(scope, cluster, error).await;
    }
    let (action, now) = (Action::SetClusterNotes, scope.now.into());
    let owner = scope.required_owner(action);
    let outcome = scope.store.set_cluster_notes(cluster, owner, text.to_owned(), user, now).await?;
    ClusterPayload::from_outcome(scope, (action, cluster), outcome).await
}
