//! From what a browser's cookie holds to whoever signed in there.

use std::sync::Arc;

use entity::{Timestamp, session::Model, user};
use serde_json::json;

use super::{AuthError, Authenticator, Viewer, authenticator::Admission, credential::Credential};
use crate::{
    clock::Clock,
    domain::{
        audit::{Actor, Origin},
        session::{SessionLife, SessionSecret},
    },
    error::Chain,
    store::{StoreError, SystemStore, Whose},
};

/// Somebody whose browser is signed in. Only [`Sessions`] makes it, after the session was found.
#[derive(Clone)]
pub struct Session {
    secret: SessionSecret,
    row: Model,
    user: user::Model,
}

/// Begins, finds and ends sessions.
#[derive(Clone)]
pub struct Sessions {
    store: SystemStore,
    clock: Arc<dyn Clock>,
    life: SessionLife,
}

/// How somebody proved who they are before a session began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By their password.
    Password,
    /// By what an OpenID provider says.
    Oidc,
}

impl Proof {
    fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Oidc => "oidc",
        }
    }
}

impl Session {
    /// What it is stored under.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.row.id
    }

    /// Who signed in.
    #[must_use]
    pub fn user(&self) -> &user::Model {
        &self.user
    }

    /// When it ends, however much it is used.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.row.expires_at
    }

    /// What requests of our own pages send along.
    #[must_use]
    pub fn csrf_token(&self) -> String {
        self.secret.csrf_token()
    }

    /// Whether a text is that.
    #[must_use]
    pub fn csrf_matches(&self, sent: &str) -> bool {
        self.secret.csrf_matches(sent.as_bytes())
    }
}

impl Sessions {
    /// Sessions in `store`, which last as `life` says.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>, life: SessionLife) -> Self {
        Self { store, clock, life }
    }

    /// Begins a session of somebody who proved who they are, and returns what their browser proves it with.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn begin(
        &self,
        user: &user::Model,
        proof: Proof,
        origin: Origin,
    ) -> Result<SessionSecret, StoreError> {
        let (secret, now) = (SessionSecret::generate(&mut rand::rng()), self.clock.timestamp());
        let row = Model {
            id: secret.id(),
            user_id: user.id,
            created_at: now,
            used_at: now,
            expires_at: self.life.end(now),
        };
        let (by, detail) = (Actor::in_browser(user, origin, now), json!({ "by": proof.name() }));
        self.store.add_session(row, self.life.idle_since(now), &by, detail).await?;
        Ok(secret)
    }

    /// The session of what a browser shows, unless it is over.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn find(&self, secret: SessionSecret) -> Result<Option<Session>, StoreError> {
        let now = self.clock.timestamp();
        let Some((row, user)) = self.store.session(secret.id()).await? else { return Ok(None) };
        if self.life.is_over(&row, now) {
            return Ok(None);
        }
        if self.life.is_to_be_noted(&row, now)
            && let Err(error) = self.store.note_use_of_session(row.id.clone(), now).await
        {
            // The request is good all the same, and one of the next will write it down.
            tracing::warn!(error = %Chain(&error), "the use of a session could not be written down");
        }
        Ok(Some(Session { secret, row, user }))
    }

    /// Ends a session.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn end(&self, session: &Session) -> Result<(), StoreError> {
        self.store.end_session(session.row.id.clone()).await
    }

    /// Ends all sessions of whoever has one.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn end_all(&self, session: &Session, origin: Origin) -> Result<(), StoreError> {
        let by = Actor::in_browser(&session.user, origin, self.clock.timestamp());
        self.store.end_sessions(session.user.id, &by).await
    }
}

impl Authenticator {
    /// The viewer whom a session stands for, in the account that is asked for or the user's default one.
    ///
    /// # Errors
    /// [`AuthError::NoAccount`], or the store's.
    pub async fn viewer_of(&self, session: &Session, account: Option<&[u8]>) -> Result<Viewer, AuthError> {
        let admission = Admission {
            credential: Credential::Session,
            whose: Whose::User(session.user().id),
            accounts: None,
            scopes: None,
            expires_at: Some(session.expires_at()),
        };
        self.admit(admission, account).await
    }
}
