//! What people wrote about clusters.

use async_graphql::Object;
use chrono::{DateTime, Utc};
use entity::{
    cluster_note::Model,
    ids::{ClusterId, UserId},
};

use super::{
    cluster_tag::ClusterPayload,
    error::{Alone, ApiError},
    loaders::NotesOf,
    scope::AccountScope,
    user::User,
    user_error::{UserError, UserErrorCode},
};

/// Characters of notes at the most.
const MAX_TEXT: usize = 10_000;

/// What people wrote about a cluster.
pub(super) struct ClusterNotes {
    scope: AccountScope,
    row: Model,
}

impl ClusterNotes {
    pub(super) async fn of(scope: &AccountScope, cluster: ClusterId) -> Result<Option<Self>, ApiError> {
        let row = scope.loader.load_one(NotesOf(cluster)).await?;
        Ok(row.map(|row| Self { scope: scope.clone(), row }))
    }
}

/// What people wrote about a cluster.
#[Object]
impl ClusterNotes {
    /// The text. Null, with an error, when the key it is encrypted with is lost.
    async fn text(&self) -> Alone<String> {
        Some(self.scope.store.cluster_note_text(&self.row).map_err(ApiError::from))
    }

    /// When it was last changed, by the server's clock.
    async fn changed_at(&self) -> DateTime<Utc> {
        self.row.changed_at.0
    }

    /// Who changed it last; null when the user left the account.
    async fn changed_by(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.user_id).await
    }
}

pub(super) async fn set_cluster_notes(
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
    let row = scope.store.set_cluster_notes(cluster, text.to_owned(), user, scope.now.into()).await?;
    Ok(ClusterPayload::done(scope, row.ok_or(ApiError::NotFound("cluster"))?))
}
