//! Token requests of programs that no user has approved yet. They belong to no account until then.

use entity::{
    Timestamp,
    token_request::{Column, Entity, Model},
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
    TransactionTrait,
};

use crate::{
    domain::token_request::{PendingRequest, admit},
    store::core::{
        composite_in::IsOneOf, connect::IMMEDIATE_TRANSACTION, error::StoreError, scoped::AccountStore,
        system::SystemStore,
    },
};

#[expect(clippy::disallowed_methods, reason = "a token is requested before anybody has signed in")]
impl SystemStore {
    /// Stores a request if it is admitted, and deletes expired requests and those that are dropped for it.
    /// Returns false if the request was not stored.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is stored in that case.
    #[tracing::instrument(name = "store.token_request.add", skip_all)]
    pub async fn add_token_request(&self, request: Model) -> Result<bool, StoreError> {
        // An excessive request is refused without a transaction, so that it does not hold up writers.
        if requests_to_drop(&self.pools.reader, &request).await?.is_none() {
            return Ok(false);
        }
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let expired = Column::ExpiresAt.lte(request.created_at);
        Entity::delete_many().filter(expired).exec(&transaction).await?;
        let admitted = requests_to_drop(&transaction, &request).await?;
        let is_stored = admitted.is_some();
        if let Some(dropped) = admitted {
            if !dropped.is_empty() {
                let identifiers = Column::Identifier.is_one_of(dropped);
                Entity::delete_many().filter(identifiers).exec(&transaction).await?;
            }
            request.into_active_model().reset_all().insert(&transaction).await?;
        }
        transaction.commit().await?;
        Ok(is_stored)
    }

    /// Returns the request with this identifier if it has not expired.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.token_request.by_identifier", skip_all)]
    pub async fn token_request(&self, identifier: &str, now: Timestamp) -> Result<Option<Model>, StoreError> {
        let unexpired = Entity::find_by_id(identifier).filter(Column::ExpiresAt.gt(now));
        Ok(unexpired.one(&self.pools.reader).await?)
    }

    /// Deletes a request that nobody wants to approve.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.token_request.remove", skip_all)]
    pub async fn remove_token_request(&self, identifier: &str) -> Result<(), StoreError> {
        Entity::delete_by_id(identifier).exec(&self.pools.writer).await?;
        Ok(())
    }
}

/// Returns the requests that are dropped for a new one. `None` if it is refused.
#[expect(clippy::disallowed_methods, reason = "a token is requested before anybody has signed in")]
async fn requests_to_drop(
    connection: &impl ConnectionTrait,
    request: &Model,
) -> Result<Option<Vec<String>>, StoreError> {
    let columns = [Column::Identifier, Column::Address, Column::CreatedAt];
    let pending =
        Entity::find().select_only().columns(columns).filter(Column::ExpiresAt.gt(request.created_at));
    let rows: Vec<(String, String, Timestamp)> = pending.into_tuple().all(connection).await?;
    let pending = rows
        .into_iter()
        .map(|(identifier, address, created_at)| PendingRequest { identifier, address, created_at })
        .collect();
    Ok(admit(pending, &request.address))
}

impl AccountStore {
    /// Returns a pending request, as the transaction that is about to take it sees it.
    #[expect(clippy::disallowed_methods, reason = "a request belongs to no account until it is approved")]
    pub(crate) async fn pending_token_request(
        &self,
        identifier: &str,
        now: Timestamp,
    ) -> Result<Option<Model>, StoreError> {
        let unexpired = Entity::find_by_id(identifier).filter(Column::ExpiresAt.gt(now));
        Ok(unexpired.one(&self.write_executor()).await?)
    }

    /// Removes a request and returns it, so that the account can receive its token. Of several
    /// concurrent calls, one returns it.
    #[expect(clippy::disallowed_methods, reason = "a request belongs to no account until it is approved")]
    pub(crate) async fn take_token_request(
        &self,
        identifier: &str,
        now: Timestamp,
    ) -> Result<Option<Model>, StoreError> {
        let unexpired = Entity::find_by_id(identifier).filter(Column::ExpiresAt.gt(now));
        let Some(request) = unexpired.one(&self.write_executor()).await? else { return Ok(None) };
        let deletion = Entity::delete_by_id(identifier).exec(&self.write_executor()).await?;
        Ok((deletion.rows_affected == 1).then_some(request))
    }
}
