//! The browser sessions of the viewer, and the mutation that ends one.

use async_graphql::{Context, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::session::Model;

use super::membership::require_own_credentials;
use crate::{
    auth::Credential,
    domain::session::public_identifier,
    graphql::{
        engine::{
            error::ApiError,
            projection::{InlineList, inline_fields},
            user_error::UserError,
        },
        schema::{self, RequestContext},
    },
};

/// A signed-in browser of the viewer, without its secret.
pub(crate) struct Session {
    row: Model,
    is_current: bool,
}

/// A signed-in browser of the viewer, without its secret.
#[Object]
impl Session {
    /// The identifier: 16 hexadecimal digits. It grants no access.
    async fn identifier(&self) -> String {
        public_identifier(&self.row.id)
    }

    /// The time of the sign-in, by the server's clock.
    async fn started_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// The time of the last use, by the server's clock, up to five minutes late.
    async fn last_used_at(&self) -> DateTime<Utc> {
        self.row.used_at.0
    }

    /// The time at which the session ends if it stays in use. A session that is not used ends earlier.
    async fn expires_at(&self) -> DateTime<Utc> {
        self.row.expires_at.0
    }

    /// True if the request came with this session.
    async fn is_current(&self) -> bool {
        self.is_current
    }
}

inline_fields! { Session: identifier, started_at, last_used_at, expires_at, is_current }

/// The outcome of `endSession`.
#[derive(SimpleObject)]
pub(crate) struct EndSessionPayload {
    /// The sessions of the viewer after the change.
    sessions: InlineList<Session>,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

/// Returns the sessions of the viewer, the newest first.
pub(crate) async fn load_sessions(context: &Context<'_>) -> Result<InlineList<Session>, ApiError> {
    let (user, RequestContext { viewer, scope, .. }) =
        (require_own_credentials(context)?, schema::request_context(context));
    let rows = user.sessions(scope.now.into()).await?.into_iter();
    let is_current = |row: &Model| match viewer.credential() {
        Credential::Session(hash) => hash.identifies(&row.id),
        Credential::ApiToken(_) | Credential::Jwt => false,
    };
    Ok(InlineList(rows.map(|row| Session { is_current: is_current(&row), row }).collect()))
}

pub(crate) async fn end_session(
    context: &Context<'_>,
    identifier: &str,
) -> Result<EndSessionPayload, ApiError> {
    let user = require_own_credentials(context)?;
    if !user.end_session(identifier, &schema::request_context(context).actor).await? {
        return Err(ApiError::NotFound("session"));
    }
    Ok(EndSessionPayload { sessions: load_sessions(context).await?, user_errors: Vec::new() })
}
