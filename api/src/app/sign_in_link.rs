//! Links with which users sign in once: for the first start, and for users without a password.

use std::sync::Arc;

use entity::{sign_in_link::Model, user};
use serde_json::json;

use super::account::AccountError;
use crate::{
    clock::Clock,
    domain::{
        audit::Actor,
        sign_in_link::{LinkSecret, link_end},
        slug::Slug,
    },
    store::{StoreError, SystemStore},
};

/// The creation and the use of links.
#[derive(Clone)]
pub struct SignInLinks {
    store: SystemStore,
    clock: Arc<dyn Clock>,
}

impl SignInLinks {
    /// Returns the links in `store`.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Creates a link for a user, whose previous link becomes invalid. Returns its secret, which is not
    /// stored.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the user does not exist.
    pub async fn create_for(&self, name: &Slug) -> Result<LinkSecret, AccountError> {
        let missing = || AccountError::Missing(format!("user '{name}'"));
        let user = self.store.user_by_name(name.as_str()).await?.ok_or_else(missing)?;
        Ok(self.create(&user).await?)
    }

    /// Creates a link for the first owner of an account. Returns `None` if there is no owner.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn create_for_first_owner(&self) -> Result<Option<LinkSecret>, StoreError> {
        match self.store.first_owner().await? {
            Some(owner) => self.create(&owner).await.map(Some),
            None => Ok(None),
        }
    }

    async fn create(&self, user: &user::Model) -> Result<LinkSecret, StoreError> {
        let (secret, now) = (LinkSecret::generate(&mut rand::rng()), self.clock.timestamp());
        let expires_at = link_end(now);
        let row = Model { id: secret.id(), user_id: user.id, created_at: now, expires_at };
        let detail = json!({ "expires_at": expires_at.0.to_rfc3339() });
        self.store.add_sign_in_link(row, &Actor::operator(now), detail).await?;
        Ok(secret)
    }

    /// Returns the user of a link, and makes the link invalid. Returns `None` for a link that is unknown,
    /// was used, or has expired.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn redeem(&self, secret: &LinkSecret) -> Result<Option<user::Model>, StoreError> {
        self.store.take_sign_in_link(secret.id(), self.clock.timestamp()).await
    }

    /// Makes all links invalid.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn invalidate_all(&self) -> Result<(), StoreError> {
        self.store.delete_all_sign_in_links().await
    }
}
