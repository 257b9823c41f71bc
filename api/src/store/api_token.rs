//! API tokens: found by their public identifier, together with whom they stand for; and the users' names.

use std::collections::HashMap;

use entity::{
    account,
    api_token::{Column, Entity, Model},
    ids::UserId,
    membership, user,
};
use sea_orm::{ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};

use super::{error::StoreError, identity::SystemStore, scoped::AccountStore};

/// A token's row with the account and user it stands for.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The token.
    pub token: Model,
    /// The account it opens.
    pub account: account::Model,
    /// The user it acts for.
    pub user: user::Model,
}

#[expect(clippy::disallowed_methods, reason = "a token is looked up before an account is known")]
impl SystemStore {
    /// The token with this public half, whatever its state.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.api_token.credentials", skip_all)]
    pub async fn credentials(&self, identifier: &str) -> Result<Option<Credentials>, StoreError> {
        let row = Entity::find()
            .filter(Column::Identifier.eq(identifier))
            .find_also_related(account::Entity)
            .find_also_related(user::Entity)
            .one(&self.pools.reader)
            .await?;
        Ok(row.and_then(|(token, account, user)| Some(Credentials { token, account: account?, user: user? })))
    }

    /// Adds a token.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the identifier is taken.
    pub async fn add_api_token(&self, token: Model) -> Result<(), StoreError> {
        token.into_active_model().reset_all().insert(&self.pools.writer).await?;
        Ok(())
    }
}

impl AccountStore {
    /// The members of the account among `ids`, in no particular order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.user.by_id", skip_all)]
    pub async fn users_by_id(&self, ids: &[UserId]) -> Result<HashMap<UserId, user::Model>, StoreError> {
        let members = self
            .select::<membership::Entity>()
            .filter(membership::Column::UserId.is_in(ids.iter().copied()))
            .find_also_related(user::Entity)
            .all(&self.reads())
            .await?;
        Ok(members.into_iter().filter_map(|(_, user)| user.map(|user| (user.id, user))).collect())
    }
}
