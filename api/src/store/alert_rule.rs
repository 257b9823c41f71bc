//! Whom an account wants to be told of what.

use entity::{
    Timestamp,
    alert_rule::{Column, Entity, Model},
    audit_entry::Action,
    ids::{AccountId, AlertRuleId, UserId},
};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect};
use serde_json::json;

use super::{
    error::StoreError,
    identity::SystemStore,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    sealed::RowName,
    upsert::replace,
};
use crate::domain::{
    alert::{Channels, MAX_RULES, RuleWish},
    audit::{Entry, Target},
};

/// The orders rules can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertRuleSort {
    /// The rule that was made first comes first.
    OldestFirst,
}

impl Sort for AlertRuleSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "alert_rule:asc"
    }

    /// Identifiers grow with time.
    fn columns(self) -> Vec<Column> {
        vec![Column::Id]
    }

    fn descending(self) -> bool {
        false
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.id.into()])
    }
}

/// Who changes a rule, and when.
#[derive(Clone, Copy, Debug)]
pub struct By {
    /// Who.
    pub user: UserId,
    /// When.
    pub at: Timestamp,
}

fn row_name(account: AccountId, id: AlertRuleId) -> RowName {
    RowName::new("alert_rules", account, &[id.0.as_bytes()])
}

#[expect(clippy::disallowed_methods, reason = "rules of all accounts are looked at")]
impl SystemStore {
    /// The accounts that have a rule which is looked at, in their order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.accounts", skip_all)]
    pub async fn accounts_with_alerts(&self) -> Result<Vec<AccountId>, StoreError> {
        let select = Entity::find().select_only().column(Column::AccountId).distinct();
        let select = select.filter(Column::Enabled.eq(true)).order_by_asc(Column::AccountId);
        Ok(select.into_tuple().all(&self.pools.reader).await?)
    }
}

impl AccountStore {
    /// The rules that are looked at, in the order in which they were made.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.enabled", skip_all)]
    pub(crate) async fn enabled_alert_rules(&self) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Enabled.eq(true)).order_by_asc(Column::Id);
        Ok(select.limit(MAX_RULES).all(&self.reads()).await?)
    }

    /// A page of the account's rules.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.page", skip_all)]
    pub async fn alert_rule_page(
        &self,
        sort: AlertRuleSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.reads(), self.select::<Entity>(), sort, request).await
    }

    /// How many rules the account has.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.count", skip_all)]
    pub async fn alert_rule_count(&self) -> Result<u64, StoreError> {
        Ok(self.select::<Entity>().count(&self.reads()).await?)
    }

    /// The rules that exist among `ids`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.by_id", skip_all)]
    pub async fn alert_rules_by_id(&self, ids: &[AlertRuleId]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Id.is_in(ids.iter().copied()));
        Ok(select.all(&self.reads()).await?)
    }

    /// A rule, held against other writers until the transaction ends.
    pub(crate) async fn lock_alert_rule(&self, id: AlertRuleId) -> Result<Option<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Id.eq(id)).lock_exclusive();
        Ok(select.one(&self.writes()).await?)
    }

    /// Where a rule sends what it tells.
    pub(crate) fn alert_channels(&self, rule: &Model) -> Result<Channels, StoreError> {
        let plain = self.unseal(&row_name(self.account_id(), rule.id), rule.key_id, &rule.sealed)?;
        serde_json::from_slice(&plain).map_err(|error| StoreError::damaged(&error))
    }

    /// Writes a rule, in place of what it was if it was there.
    pub(crate) async fn put_alert_rule(
        &self,
        id: AlertRuleId,
        wish: RuleWish,
        channels: &Channels,
        created_at: Timestamp,
        by: By,
    ) -> Result<Model, StoreError> {
        let plain = serde_json::to_vec(channels).expect("texts are JSON");
        let sealed = self.seal(&row_name(self.account_id(), id), &plain);
        let row = Model {
            account_id: self.account_id(),
            id,
            name: wish.name,
            enabled: wish.enabled,
            condition: wish.condition,
            scope: wish.scope,
            cool_down_seconds: wish.cool_down_seconds,
            tells_end: wish.tells_end,
            created_at,
            changed_at: by.at,
            changed_by: by.user,
            key_id: sealed.key_id,
            sealed: sealed.bytes,
        };
        self.insert::<Entity>(vec![row.clone()], &replace::<Entity>()).await?;
        Ok(row)
    }

    /// Removes a rule, and with it what it told and was to tell. Returns whether there was one.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.alert_rule.delete", skip_all)]
    pub async fn delete_alert_rule(&self, id: AlertRuleId) -> Result<bool, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let Some(rule) = store.lock_alert_rule(id).await? else { return Ok(false) };
                store.delete::<Entity>().filter(Column::Id.eq(id)).exec(&store.writes()).await?;
                let detail = json!({ "name": rule.name });
                store.audit(Entry::done(Action::DeleteAlertRule, Target::AlertRule(id), detail)).await?;
                Ok(true)
            })
        })
        .await
    }
}
