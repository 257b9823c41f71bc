//! The prices of an account's resources.

use entity::{
    audit_entry::Action,
    cost_rate::{Column, Entity, Model},
};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect, sea_query::OnConflict};
use serde_json::json;

use crate::{
    domain::{
        audit::{DayNumber, Entry, Target},
        cost::Rate,
    },
    store::core::{error::StoreError, read_rows::ReadSelect, scoped::AccountStore},
};

/// The largest number of rates that are read, which no account exceeds.
const MAX_RATES: u64 = 1_000;

impl AccountStore {
    /// Returns the account's rates, the first day first.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cost_rate.all", skip_all)]
    pub async fn cost_rates(&self) -> Result<Vec<Rate>, StoreError> {
        let rows = self
            .select::<Entity>()
            .order_by_asc(Column::ValidFrom)
            .limit(MAX_RATES)
            .read_models(&self.read_executor())
            .await?;
        Ok(rows
            .into_iter()
            .map(|row| Rate {
                valid_from: row.valid_from,
                currency: row.currency,
                per_thread_hour: row.per_thread_hour,
                per_gib_hour: row.per_gib_hour,
                per_worker_hour: row.per_worker_hour,
            })
            .collect())
    }

    /// Sets the rate that is valid from its first day on. It replaces a rate that begins on the same day.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cost_rate.set", skip_all)]
    pub async fn set_cost_rate(&self, rate: &Rate) -> Result<(), StoreError> {
        let row = Model {
            account_id: self.account_id(),
            valid_from: rate.valid_from,
            currency: rate.currency.clone(),
            per_thread_hour: rate.per_thread_hour,
            per_gib_hour: rate.per_gib_hour,
            per_worker_hour: rate.per_worker_hour,
        };
        let replace = OnConflict::columns([Column::AccountId, Column::ValidFrom])
            .update_columns([
                Column::Currency,
                Column::PerThreadHour,
                Column::PerGibHour,
                Column::PerWorkerHour,
            ])
            .to_owned();
        self.write(move |store| {
            let (row, replace) = (row.clone(), replace.clone());
            Box::pin(async move {
                let detail = json!({
                    "valid_from": DayNumber(row.valid_from).to_string(),
                    "currency": row.currency,
                    "per_thread_hour": row.per_thread_hour,
                    "per_gib_hour": row.per_gib_hour,
                    "per_worker_hour": row.per_worker_hour,
                });
                store.insert::<Entity>(vec![row], &replace).await?;
                store.record_audit_entry(Entry::done(Action::SetCostRate, Target::Account, detail)).await
            })
        })
        .await
    }

    /// Deletes the rate that begins on a day. Returns false if there was none.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cost_rate.delete", skip_all)]
    pub async fn delete_cost_rate(&self, valid_from: i64) -> Result<bool, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let delete = store.delete::<Entity>().filter(Column::ValidFrom.eq(valid_from));
                let deleted = delete.exec(&store.write_executor()).await?.rows_affected > 0;
                if deleted {
                    let detail = json!({ "valid_from": DayNumber(valid_from).to_string() });
                    store
                        .record_audit_entry(Entry::done(Action::DeleteCostRate, Target::Account, detail))
                        .await?;
                }
                Ok(deleted)
            })
        })
        .await
    }
}
