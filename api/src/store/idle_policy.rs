//! What an account wants of clusters that have nothing to do.

use entity::{
    Timestamp,
    audit_entry::Action,
    idle_policy::{Entity, Model},
    ids::UserId,
    list::TagPatterns,
};
use sea_orm::ActiveEnum;
use serde_json::json;

use super::{error::StoreError, scoped::AccountStore, upsert::replace};
use crate::domain::{
    audit::{Entry, Target},
    idle_policy::IdlePolicy,
};

impl AccountStore {
    /// What the account said, if it said anything.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.idle_policy.find", skip_all)]
    pub async fn idle_policy(&self) -> Result<Option<Model>, StoreError> {
        Ok(self.select::<Entity>().one(&self.reads()).await?)
    }

    /// Says it, in place of what was said before.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
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
                store.audit(Entry::done(Action::SetIdlePolicy, Target::Account, detail)).await?;
                Ok(row)
            })
        })
        .await
    }
}
