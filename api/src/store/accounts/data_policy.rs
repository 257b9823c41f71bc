//! The classes of data that an account accepts, and the retention of each.

use entity::{
    audit_entry::Action,
    data_policy::{Column, DataClass, Entity, Model},
};
use sea_orm::{
    ActiveEnum, ColumnTrait, Condition, QueryFilter,
    sea_query::{Expr, Func, Query, SubQueryStatement},
};
use serde_json::json;

use crate::{
    domain::{
        audit::{Entry, Target},
        data_class::Accepted,
    },
    store::core::{error::StoreError, read_rows::ReadSelect, scoped::AccountStore, upsert::replace},
};

/// Returns the accepted classes, from the value of the column [`AccountStore::refused`].
pub(crate) fn accepted(refused: Option<&str>) -> Accepted {
    let classes = refused.unwrap_or_default().split(',');
    Accepted::all_but(classes.filter_map(|class| DataClass::try_from_value(&class.to_owned()).ok()))
}

impl AccountStore {
    /// Returns the account's policies. A class without a policy has no row.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.data_policy.all", skip_all)]
    pub async fn data_policies(&self) -> Result<Vec<Model>, StoreError> {
        Ok(self.select::<Entity>().read_models(&self.read_executor()).await?)
    }

    /// Returns the classes of data that the account accepts.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.data_policy.accepted", skip_all)]
    pub async fn accepted(&self) -> Result<Accepted, StoreError> {
        let refused = self.select::<Entity>().filter(Column::Accepted.eq(false));
        let rows = refused.read_models(&self.read_executor()).await?;
        Ok(Accepted::all_but(rows.into_iter().map(|row| row.data_class)))
    }

    /// Returns the classes that the account refuses, separated by commas, as a subquery for a column. The
    /// statement must select from another table.
    pub(crate) fn refused(&self) -> Expr {
        let refused = Query::select()
            .expr(Func::cust("string_agg").args([Expr::col(Column::DataClass), Expr::val(",")]))
            .from(Entity)
            .cond_where(
                Condition::all().add(Column::AccountId.eq(self.account_id())).add(Column::Accepted.eq(false)),
            )
            .take();
        Expr::SubQuery(None, Box::new(SubQueryStatement::SelectStatement(refused)))
    }

    /// Sets whether the account accepts a class of data, and the number of days that it keeps the data.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.data_policy.set", skip_all)]
    pub async fn set_data_policy(
        &self,
        class: DataClass,
        accepted: bool,
        retention_days: Option<i64>,
    ) -> Result<Model, StoreError> {
        let row = Model { account_id: self.account_id(), data_class: class, accepted, retention_days };
        self.write(move |store| {
            let row = row.clone();
            Box::pin(async move {
                store.insert::<Entity>(vec![row.clone()], &replace::<Entity>()).await?;
                let detail = json!({
                    "class": row.data_class.to_value(),
                    "accepted": row.accepted,
                    "retention_days": row.retention_days,
                });
                store.record_audit_entry(Entry::done(Action::SetDataPolicy, Target::Account, detail)).await?;
                Ok(row)
            })
        })
        .await
    }
}
