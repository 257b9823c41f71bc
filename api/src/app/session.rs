//! Browser sessions, as an operator manages them on the command line.

use entity::{Timestamp, session, user};

use super::account::{AccountError, Accounts};
use crate::domain::{audit::Actor, session::public_identifier, slug::Slug};

/// A browser session, without its secret.
#[derive(Clone, Debug)]
pub struct UserSession {
    /// The public identifier.
    pub identifier: String,
    /// The name of the user.
    pub user: String,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The time of the last use that was stored. A use within a few minutes of it is not stored.
    pub used_at: Timestamp,
    /// The end of the session, regardless of its use.
    pub expires_at: Timestamp,
}

impl Accounts {
    /// Returns the newest active sessions, optionally of one user.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the user does not exist.
    pub async fn sessions(&self, user: Option<&Slug>, limit: u64) -> Result<Vec<UserSession>, AccountError> {
        let user = match user {
            Some(user) => Some(self.user_id(user).await?),
            None => None,
        };
        let rows = self.store.sessions(user, self.clock.timestamp(), limit).await?;
        let to_user_session = |(session, user): (session::Model, user::Model)| UserSession {
            identifier: public_identifier(&session.id),
            user: user.name,
            created_at: session.created_at,
            used_at: session.used_at,
            expires_at: session.expires_at,
        };
        Ok(rows.into_iter().map(to_user_session).collect())
    }

    /// Ends the session with the public identifier `identifier`, if it belongs to `user`.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the user or the session does not exist.
    pub async fn end_session(&self, user: &Slug, identifier: &str) -> Result<(), AccountError> {
        let user_id = self.user_id(user).await?;
        let actor = Actor::operator(self.clock.timestamp());
        if self.store.end_session_of(user_id, identifier, &actor).await? {
            Ok(())
        } else {
            Err(AccountError::Missing(format!("session '{identifier}' of user '{user}'")))
        }
    }

    /// Ends all sessions of a user. Returns their number.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the user does not exist.
    pub async fn end_sessions(&self, user: &Slug) -> Result<u64, AccountError> {
        let user = self.user_id(user).await?;
        Ok(self.store.end_sessions(user, &Actor::operator(self.clock.timestamp())).await?)
    }
}
