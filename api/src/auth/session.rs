//! Browser sessions: from a cookie's secret to the signed-in user.

use std::sync::Arc;

use entity::{Timestamp, ids::UserId, session::Model, user};
use serde_json::json;

use super::{
    AuthError, Authenticator, Viewer,
    authenticator::VerifiedIdentity,
    credential::{Credential, SessionHash},
};
use crate::{
    clock::Clock,
    domain::{
        audit::{Actor, Origin},
        session::{SessionLifetimes, SessionSecret},
    },
    error::Chain,
    store::{StoreError, SystemStore, UserRef},
};

/// A signed-in browser. Only [`Sessions`] creates it, after it found the session.
#[derive(Clone)]
pub struct Session {
    secret: SessionSecret,
    row: Model,
    user: user::Model,
}

/// The manager of sessions.
#[derive(Clone)]
pub struct Sessions {
    store: SystemStore,
    clock: Arc<dyn Clock>,
    lifetimes: SessionLifetimes,
}

/// The method by which a user signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInMethod {
    /// By password.
    Password,
    /// By an OpenID provider.
    Oidc,
    /// By a link that works once.
    Link,
}

impl SignInMethod {
    fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Oidc => "oidc",
            Self::Link => "link",
        }
    }
}

impl Session {
    /// Returns the key under which the session is stored.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.row.id
    }

    /// Returns the signed-in user.
    #[must_use]
    pub fn user(&self) -> &user::Model {
        &self.user
    }

    /// Returns the end of the session, regardless of its use.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.row.expires_at
    }

    /// Returns the CSRF token for requests of the server's own pages.
    #[must_use]
    pub fn csrf_token(&self) -> String {
        self.secret.csrf_token()
    }

    /// Returns true if `token` is the session's CSRF token.
    #[must_use]
    pub fn csrf_matches(&self, token: &str) -> bool {
        self.secret.csrf_matches(token.as_bytes())
    }
}

impl Sessions {
    /// Returns a manager of the sessions in `store`, with these lifetimes.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>, lifetimes: SessionLifetimes) -> Self {
        Self { store, clock, lifetimes }
    }

    /// Starts a session of a user and returns its secret for the browser's cookie.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn start(
        &self,
        user: &user::Model,
        method: SignInMethod,
        origin: Origin,
    ) -> Result<SessionSecret, StoreError> {
        let (secret, now) = (SessionSecret::generate(&mut rand::rng()), self.clock.timestamp());
        let row = Model {
            id: secret.id(),
            user_id: user.id,
            created_at: now,
            used_at: now,
            expires_at: self.lifetimes.end(now),
        };
        let (actor, detail) = (Actor::in_browser(user, origin, now), json!({ "by": method.name() }));
        self.store.add_session(row, self.lifetimes.idle_since(now), &actor, detail).await?;
        Ok(secret)
    }

    /// Returns the session with this secret. `None` if no such session exists or it has ended.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn find(&self, secret: SessionSecret) -> Result<Option<Session>, StoreError> {
        let now = self.clock.timestamp();
        let Some((row, user)) = self.store.session(secret.id()).await? else { return Ok(None) };
        if self.lifetimes.is_over(&row, now) {
            return Ok(None);
        }
        if self.lifetimes.should_store_use(&row, now)
            && let Err(error) = self.store.record_session_use(row.id.clone(), now).await
        {
            // The request succeeds anyway, and a later one records the use.
            tracing::warn!(error = %Chain(&error), "failed to record the use of a session");
        }
        Ok(Some(Session { secret, row, user }))
    }

    /// Ends a session.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn end(&self, session: &Session) -> Result<(), StoreError> {
        self.store.end_session(session.row.id.clone()).await
    }

    /// Ends all sessions of the session's user.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn end_all(&self, session: &Session, origin: Origin) -> Result<(), StoreError> {
        let actor = Actor::in_browser(&session.user, origin, self.clock.timestamp());
        self.store.end_sessions(session.user.id, &actor).await.map(drop)
    }
}

impl Authenticator {
    /// Returns the viewer of the session with this `id` in `account`, for a link that a page of the session
    /// contains.
    ///
    /// # Errors
    /// Returns [`AuthError::NoSession`] if the session has ended, and the errors of [`Self::viewer_of`].
    pub async fn viewer_of_link(
        &self,
        sessions: &Sessions,
        id: Vec<u8>,
        account: &[u8],
    ) -> Result<Viewer, AuthError> {
        let (row, user) = sessions.store.session(id).await?.ok_or(AuthError::NoSession)?;
        if sessions.lifetimes.is_over(&row, sessions.clock.timestamp()) {
            return Err(AuthError::NoSession);
        }
        self.resolve_viewer(session_identity(user.id, &row), Some(account)).await
    }

    /// Returns the viewer of a session, in the requested account or in the user's default account.
    ///
    /// # Errors
    /// Returns [`AuthError::NoAccount`], or an error of the store.
    pub async fn viewer_of(&self, session: &Session, account: Option<&[u8]>) -> Result<Viewer, AuthError> {
        self.resolve_viewer(session_identity(session.user().id, &session.row), account).await
    }
}

/// Returns the identity of a session's user, without restrictions, until the session ends.
fn session_identity(user: UserId, session: &Model) -> VerifiedIdentity<'static> {
    // Every stored hash has 32 bytes. One of another length would become zeros, which identify no session:
    // the list of sessions would not mark the current one.
    let hash = session.id.as_slice().try_into().unwrap_or_default();
    VerifiedIdentity {
        credential: Credential::Session(SessionHash::new(hash)),
        user_ref: UserRef::User(user),
        accounts: None,
        scopes: None,
        expires_at: Some(session.expires_at),
    }
}
