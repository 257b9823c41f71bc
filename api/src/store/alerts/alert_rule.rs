//! The alert rules of an account.

use entity::{
    Timestamp,
    alert_rule::{Column, Entity, Model},
    audit_entry::Action,
    ids::{AccountId, AlertRuleId, UserId},
};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect};
use serde_json::json;

use crate::{
    domain::{
        alert::{Channels, MAX_RULES, RuleInput},
        audit::{Entry, Target},
    },
    store::core::{
        composite_in::IsOneOf,
        error::StoreError,
        page::{self, Key, KeyPart, Page, PageRequest, Sort},
        read_rows::ReadSelect,
        row_encryption::AssociatedData,
        scoped::AccountStore,
        system::SystemStore,
        upsert::replace,
    },
};

/// The orders rules can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertRuleSort {
    /// The oldest rule comes first.
    OldestFirst,
}

impl Sort for AlertRuleSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "alert_rule:asc"
    }

    /// Returns the identifier, which grows with the time of creation.
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

/// The author and the time of a change to a rule.
#[derive(Clone, Copy, Debug)]
pub struct ChangeAuthor {
    /// The user.
    pub user: UserId,
    /// The time.
    pub at: Timestamp,
}

fn row_name(account: AccountId, id: AlertRuleId) -> AssociatedData {
    AssociatedData::new("alert_rules", account, &[id.0.as_bytes()])
}

#[expect(clippy::disallowed_methods, reason = "the rules of all accounts are evaluated")]
impl SystemStore {
    /// Returns the next accounts after `after` that have an enabled rule, in the order of their
    /// identifiers, at most `limit`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.accounts", skip_all)]
    pub async fn accounts_with_alerts(
        &self,
        after: Option<AccountId>,
        limit: u64,
    ) -> Result<Vec<AccountId>, StoreError> {
        let mut select = Entity::find().select_only().column(Column::AccountId).distinct();
        if let Some(after) = after {
            select = select.filter(Column::AccountId.gt(after));
        }
        let select = select.filter(Column::Enabled.eq(true)).order_by_asc(Column::AccountId).limit(limit);
        Ok(select.into_tuple().all(&self.pools.reader).await?)
    }
}

impl AccountStore {
    /// Returns the enabled rules in the order of their creation, at most [`MAX_RULES`].
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.enabled", skip_all)]
    pub(crate) async fn enabled_alert_rules(&self) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Enabled.eq(true)).order_by_asc(Column::Id);
        Ok(select.limit(MAX_RULES).read_models(&self.read_executor()).await?)
    }

    /// Returns a page of the account's rules.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.page", skip_all)]
    pub async fn alert_rule_page(
        &self,
        sort: AlertRuleSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.read_executor(), self.select::<Entity>(), sort, request).await
    }

    /// Counts the account's rules.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.count", skip_all)]
    pub async fn alert_rule_count(&self) -> Result<u64, StoreError> {
        Ok(self.select::<Entity>().count(&self.read_executor()).await?)
    }

    /// Returns the rules that exist among `ids`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert_rule.by_id", skip_all)]
    pub async fn alert_rules_by_id(&self, ids: &[AlertRuleId]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Id.is_one_of(ids.iter().copied()));
        Ok(select.read_models(&self.read_executor()).await?)
    }

    /// Returns a rule and locks its row until the transaction ends.
    pub(crate) async fn lock_alert_rule(&self, id: AlertRuleId) -> Result<Option<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Id.eq(id)).lock_exclusive();
        Ok(select.one(&self.write_executor()).await?)
    }

    /// Decrypts the receivers of a rule.
    pub(crate) fn decrypt_alert_channels(&self, rule: &Model) -> Result<Channels, StoreError> {
        let plain = self.decrypt_row(&row_name(self.account_id(), rule.id), rule.key_id, &rule.sealed)?;
        serde_json::from_slice(&plain).map_err(|error| StoreError::damaged(&error))
    }

    /// Inserts or replaces a rule.
    pub(crate) async fn upsert_alert_rule(
        &self,
        id: AlertRuleId,
        input: RuleInput,
        channels: &Channels,
        created_at: Timestamp,
        author: ChangeAuthor,
    ) -> Result<Model, StoreError> {
        let plain = serde_json::to_vec(channels).expect("texts are JSON");
        let sealed = self.encrypt_bytes(&row_name(self.account_id(), id), &plain);
        let row = Model {
            account_id: self.account_id(),
            id,
            name: input.name,
            enabled: input.enabled,
            condition: input.condition,
            scope: input.scope,
            cool_down_seconds: input.cool_down_seconds,
            tells_end: input.sends_resolved,
            created_at,
            changed_at: author.at,
            changed_by: author.user,
            key_id: sealed.key_id,
            sealed: sealed.bytes,
        };
        self.insert::<Entity>(vec![row.clone()], &replace::<Entity>()).await?;
        Ok(row)
    }

    /// Deletes a rule with its alerts and messages. Returns false if there was no such rule.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.alert_rule.delete", skip_all)]
    pub async fn delete_alert_rule(&self, id: AlertRuleId) -> Result<bool, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let Some(rule) = store.lock_alert_rule(id).await? else { return Ok(false) };
                store.delete::<Entity>().filter(Column::Id.eq(id)).exec(&store.write_executor()).await?;
                let detail = json!({ "name": rule.name });
                store
                    .record_audit_entry(Entry::done(Action::DeleteAlertRule, Target::AlertRule(id), detail))
                    .await?;
                Ok(true)
            })
        })
        .await
    }
}
