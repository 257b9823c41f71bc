//! The account's policy for the tokens that schedulers may use.

use entity::{
    Timestamp, api_token,
    audit_entry::Action,
    token_policy::{Entity, Model},
};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect};
use serde_json::json;

use crate::{
    domain::audit::{Entry, Target},
    store::core::{error::StoreError, scoped::AccountStore, upsert::replace},
};

impl AccountStore {
    /// Returns true if the account refuses scheduler tokens with more scopes than reporting.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.token_policy.refuses_broad", skip_all)]
    pub async fn refuses_broad_tokens(&self) -> Result<bool, StoreError> {
        let row = self.select::<Entity>().one(&self.read_executor()).await?;
        Ok(row.is_some_and(|row| row.refuses_broad_tokens))
    }

    /// Returns the time of the last use by a scheduler of a token with more scopes than reporting.
    /// `None` if there was none.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.token_policy.last_broad_use", skip_all)]
    pub async fn last_broad_use(&self) -> Result<Option<Timestamp>, StoreError> {
        let newest = self
            .select::<api_token::Entity>()
            .select_only()
            .column(api_token::Column::BroadUseAt)
            .filter(api_token::Column::BroadUseAt.is_not_null())
            .order_by_desc(api_token::Column::BroadUseAt);
        let broad_use_at: Option<Option<Timestamp>> =
            newest.limit(1).into_tuple().one(&self.read_executor()).await?;
        Ok(broad_use_at.flatten())
    }

    /// Sets the refusal of scheduler tokens with more scopes than reporting, and writes an audit entry.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.token_policy.set", skip_all)]
    pub async fn set_token_policy(&self, refuses_broad_tokens: bool) -> Result<(), StoreError> {
        let row = Model { account_id: self.account_id(), refuses_broad_tokens };
        self.write(move |store| {
            let row = row.clone();
            Box::pin(async move {
                store.insert::<Entity>(vec![row], &replace::<Entity>()).await?;
                let detail = json!({ "refuses_broad_tokens": refuses_broad_tokens });
                store.record_audit_entry(Entry::done(Action::SetTokenPolicy, Target::Account, detail)).await
            })
        })
        .await
    }
}
