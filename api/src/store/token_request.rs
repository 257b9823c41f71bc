//! Tokens that programs asked for and nobody has made theirs yet. They belong to no account until then.

use entity::{
    Timestamp,
    token_request::{Column, Entity, Model},
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, TransactionTrait,
};

use super::{connect::IMMEDIATE, error::StoreError, identity::SystemStore, scoped::AccountStore};

/// Requests that wait at one time at the most: in all, and from one address.
const MAX_WAITING: u64 = 1_000;
const MAX_WAITING_OF_ADDRESS: u64 = 20;

#[expect(clippy::disallowed_methods, reason = "nobody has signed in yet who asks for a token")]
impl SystemStore {
    /// Keeps a request, unless too many wait already. What has expired is removed. Returns whether it is kept.
    ///
    /// # Errors
    /// When the database does not answer; nothing is kept then.
    #[tracing::instrument(name = "store.token_request.add", skip_all)]
    pub async fn add_token_request(&self, request: Model) -> Result<bool, StoreError> {
        // Whoever asks too often is told so without a place among the writers.
        if !fits(&self.pools.reader, &request).await? {
            return Ok(false);
        }
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let expired = Column::ExpiresAt.lte(request.created_at);
        Entity::delete_many().filter(expired).exec(&transaction).await?;
        let fits = fits(&transaction, &request).await?;
        if fits {
            request.into_active_model().reset_all().insert(&transaction).await?;
        }
        transaction.commit().await?;
        Ok(fits)
    }

    /// The request of an identifier, if it has not expired.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.token_request.by_identifier", skip_all)]
    pub async fn token_request(&self, identifier: &str, now: Timestamp) -> Result<Option<Model>, StoreError> {
        let waits = Entity::find_by_id(identifier).filter(Column::ExpiresAt.gt(now));
        Ok(waits.one(&self.pools.reader).await?)
    }

    /// Removes a request: nobody wants it.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.token_request.remove", skip_all)]
    pub async fn remove_token_request(&self, identifier: &str) -> Result<(), StoreError> {
        Entity::delete_by_id(identifier).exec(&self.pools.writer).await?;
        Ok(())
    }
}

/// Whether few enough wait for one more.
#[expect(clippy::disallowed_methods, reason = "nobody has signed in yet who asks for a token")]
async fn fits(connection: &impl ConnectionTrait, request: &Model) -> Result<bool, StoreError> {
    let waits = Entity::find().filter(Column::ExpiresAt.gt(request.created_at));
    let of_address = waits.clone().filter(Column::Address.eq(request.address.as_str()));
    Ok(waits.count(connection).await? < MAX_WAITING
        && of_address.count(connection).await? < MAX_WAITING_OF_ADDRESS)
}

impl AccountStore {
    /// Takes a request out, for the account to have what it asked for. Of several who try one gets it.
    #[expect(clippy::disallowed_methods, reason = "it belongs to no account before somebody takes it")]
    pub(crate) async fn take_token_request(
        &self,
        identifier: &str,
        now: Timestamp,
    ) -> Result<Option<Model>, StoreError> {
        let waits = Entity::find_by_id(identifier).filter(Column::ExpiresAt.gt(now));
        let Some(request) = waits.one(&self.writes()).await? else { return Ok(None) };
        let taken = Entity::delete_by_id(identifier).exec(&self.writes()).await?;
        Ok((taken.rows_affected == 1).then_some(request))
    }
}
