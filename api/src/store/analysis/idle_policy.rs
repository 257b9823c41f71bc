//! The account's policy for idle clusters.

use entity::{
    Timestamp,
    audit_entry::Action,
    idle_policy::{Column, Entity, Mode, Model},
    ids::UserId,
    json_columns::TagPatterns,
};
use sea_orm::{
    ActiveEnum, ColumnTrait,
    sea_query::{Expr, ExprTrait, Query, SubQueryStatement},
};
use serde_json::json;

use crate::{
    domain::{
        audit::{Entry, Target},
        idle_policy::IdlePolicy,
    },
    store::core::{error::StoreError, scoped::AccountStore, upsert::replace},
};

impl AccountStore {
    /// Returns the account's policy. `None` if the account has not set one.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.idle_policy.find", skip_all)]
    pub async fn idle_policy(&self) -> Result<Option<Model>, StoreError> {
        Ok(self.select::<Entity>().one(&self.read_executor()).await?)
    }

    /// Replaces the account's policy and writes an audit entry.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.idle_policy.set", skip_all)]
    pub async fn set_idle_policy(
        &self,
        policy: IdlePolicy,
        user: UserId,
        now: Timestamp,
    ) -> Result<Model, StoreError> {
        let row = Model {
            account_id: self.account_id(),
            mode: policy.mode,
            timeout_seconds: policy.timeout_seconds,
            warn_before_seconds: policy.warn_before_seconds,
            exempt_tags: TagPatterns(policy.exempt_tags),
            changed_at: now,
            user_id: user,
        };
        self.write(move |store| {
            let row = row.clone();
            Box::pin(async move {
                store.insert::<Entity>(vec![row.clone()], &replace::<Entity>()).await?;
                let exempt = row.exempt_tags.0.iter().map(|tag| json!([tag.key, tag.value]));
                let detail = json!({
                    "mode": row.mode.to_value(),
                    "timeout_seconds": row.timeout_seconds,
                    "warn_before_seconds": row.warn_before_seconds,
                    "exempt_tags": exempt.collect::<Vec<_>>(),
                });
                store.record_audit_entry(Entry::done(Action::SetIdlePolicy, Target::Account, detail)).await?;
                Ok(row)
            })
        })
        .await
    }

    /// The subquery for the number of seconds without work after which the policy warns about or stops a
    /// cluster. It is NULL if the account has no policy or only observes. The enclosing statement must not
    /// read `idle_policies`, because the columns here are not qualified.
    pub(crate) fn idle_due_seconds(&self) -> Expr {
        let due_seconds = Query::select()
            .expr(Expr::col(Column::TimeoutSeconds).sub(Expr::col(Column::WarnBeforeSeconds)))
            .from(Entity)
            .and_where(Column::AccountId.eq(self.account_id()))
            .and_where(Column::Mode.ne(Mode::Observe))
            .take();
        Expr::SubQuery(None, Box::new(SubQueryStatement::SelectStatement(due_seconds)))
    }
}
