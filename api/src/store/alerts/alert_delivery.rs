//! The outbox of alert messages: written in the transaction of the alerts that they report, and sent until
//! they are delivered or given up.

use entity::{
    Timestamp, account,
    alert_delivery::{Channel, Column, Entity, Event, Model, NEVER_DUE_KEY, State},
    ids::{AccountId, AlertDeliveryId, AlertRuleId},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, PaginatorTrait, QueryFilter, Select,
    Statement,
    sea_query::{Expr, OnConflict},
};
use serde::{Deserialize, Serialize};

use crate::store::core::{
    error::StoreError,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    row_encryption::AssociatedData,
    scoped::AccountStore,
    system::SystemStore,
};

/// The orders messages can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertDeliverySort {
    /// The newest message comes first.
    NewestFirst,
}

impl Sort for AlertDeliverySort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "alert_delivery_created_at:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::CreatedAt, Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.created_at.into(), row.id.into()])
    }
}

/// The address and the content of a message. It has no `Debug` implementation, because addresses hold
/// secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct MessageContent {
    /// The address of the receiver.
    pub(crate) to: String,
    /// The subject of an e-mail.
    pub(crate) title: String,
    /// The body.
    pub(crate) body: String,
}

/// A message to be added to the outbox.
pub(crate) struct NewDelivery {
    pub(crate) id: AlertDeliveryId,
    pub(crate) channel: Channel,
    pub(crate) event: Event,
    /// The receiver, in the form that every member may read.
    pub(crate) target: String,
    pub(crate) content: MessageContent,
}

/// A message that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
pub struct DueDelivery {
    /// The account.
    pub account_id: AccountId,
    /// The message.
    pub id: AlertDeliveryId,
    /// The time at which it was due, in epoch milliseconds.
    pub due_key: i64,
}

/// The largest number of due messages that one query returns.
pub(crate) const MAX_DUE_DELIVERIES: u64 = 256;

fn row_name(account: AccountId, id: AlertDeliveryId) -> AssociatedData {
    AssociatedData::new("alert_deliveries", account, &[id.0.as_bytes()])
}

impl SystemStore {
    /// Returns the messages that are due now, of the accounts after `after`, at most
    /// `MAX_DUE_DELIVERIES`. They are ordered by account, and within an account the longest waiting
    /// message comes first. The index holds pending messages only, so that accounts without any cost
    /// nothing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert_delivery.due", skip_all)]
    pub async fn due_deliveries(
        &self,
        now: Timestamp,
        after: Option<AccountId>,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        let reader = &self.pools.reader;
        let sql = format!(
            "SELECT account_id, id, due_key FROM alert_deliveries
             WHERE due_key < {NEVER_DUE_KEY} AND due_key <= $1 AND account_id > $2
             ORDER BY account_id, due_key LIMIT {MAX_DUE_DELIVERIES}"
        );
        // No account has the nil UUID, which sorts before all others.
        let after = after.map_or_else(uuid::Uuid::nil, |account| account.0);
        let values = [now.timestamp_millis().into(), after.into()];
        let statement = Statement::from_sql_and_values(reader.get_database_backend(), sql, values);
        let rows = reader.query_all_raw(statement).await?;
        Ok(rows.iter().map(|row| DueDelivery::from_query_result(row, "")).collect::<Result<_, _>>()?)
    }

    /// Returns the short name of an account.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[expect(clippy::disallowed_methods, reason = "accounts belong to no account")]
    pub(crate) async fn account_slug(&self, id: AccountId) -> Result<Option<String>, StoreError> {
        let account = account::Entity::find_by_id(id).one(&self.pools.reader).await?;
        Ok(account.map(|account| account.slug))
    }
}

impl AccountStore {
    /// Returns a page of the account's messages, or of those of one rule.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert_delivery.page", skip_all)]
    pub async fn alert_delivery_page(
        &self,
        rule: Option<AlertRuleId>,
        sort: AlertDeliverySort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.read_executor(), self.deliveries(rule), sort, request).await
    }

    /// Returns the message with an identifier.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert_delivery.get", skip_all)]
    pub async fn alert_delivery(&self, id: AlertDeliveryId) -> Result<Option<Model>, StoreError> {
        Ok(self.select::<Entity>().filter(Column::Id.eq(id)).one(&self.read_executor()).await?)
    }

    /// Counts the account's messages, or those of one rule.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert_delivery.count", skip_all)]
    pub async fn alert_delivery_count(&self, rule: Option<AlertRuleId>) -> Result<u64, StoreError> {
        Ok(self.deliveries(rule).count(&self.read_executor()).await?)
    }

    fn deliveries(&self, rule: Option<AlertRuleId>) -> Select<Entity> {
        let select = self.select::<Entity>();
        match rule {
            Some(rule) => select.filter(Column::RuleId.eq(rule)),
            None => select,
        }
    }

    /// Adds messages of a rule to the outbox. They are due as soon as the transaction is committed.
    pub(crate) async fn enqueue_deliveries(
        &self,
        rule: AlertRuleId,
        deliveries: Vec<NewDelivery>,
        now: Timestamp,
    ) -> Result<Vec<Model>, StoreError> {
        let rows = deliveries.into_iter().map(|delivery| {
            let plain = serde_json::to_vec(&delivery.content).expect("texts are JSON");
            let sealed = self.encrypt_bytes(&row_name(self.account_id(), delivery.id), &plain);
            Model {
                account_id: self.account_id(),
                id: delivery.id,
                rule_id: rule,
                channel: delivery.channel,
                event: delivery.event,
                target: delivery.target,
                state: State::Pending,
                created_at: now,
                due_key: now.timestamp_millis(),
                attempts: 0,
                ended_at: None,
                last_error: None,
                key_id: sealed.key_id,
                sealed: sealed.bytes,
            }
        });
        let rows: Vec<Model> = rows.collect();
        self.insert::<Entity>(rows.clone(), &OnConflict::new().do_nothing().to_owned()).await?;
        Ok(rows)
    }

    /// Claims a message for sending. It is due again at `next_attempt_at` if no outcome is recorded,
    /// because the sender may die. `None` if another sender claimed it.
    pub(crate) async fn claim_delivery(
        &self,
        due: DueDelivery,
        next_attempt_at: impl Fn(i64) -> i64 + Send,
    ) -> Result<Option<Model>, StoreError> {
        let delivery =
            self.select::<Entity>().filter(Column::Id.eq(due.id)).one(&self.read_executor()).await?;
        let Some(row) = delivery.filter(|row| row.due_key == due.due_key) else { return Ok(None) };
        let attempts = row.attempts + 1;
        let update = self
            .update::<Entity>()
            .col_expr(Column::Attempts, Expr::val(attempts))
            .col_expr(Column::DueKey, Expr::val(next_attempt_at(attempts)))
            .filter(Column::Id.eq(due.id))
            .filter(Column::DueKey.eq(due.due_key))
            .filter(Column::Attempts.eq(row.attempts));
        let is_claimed = update.exec(&self.write_executor()).await?.rows_affected > 0;
        Ok(is_claimed.then(|| Model { attempts, due_key: next_attempt_at(attempts), ..row }))
    }

    /// Decrypts the address and the content of a message.
    pub(crate) fn decrypt_message(&self, row: &Model) -> Result<MessageContent, StoreError> {
        let plain = self.decrypt_row(&row_name(self.account_id(), row.id), row.key_id, &row.sealed)?;
        serde_json::from_slice(&plain).map_err(|error| StoreError::damaged(&error))
    }

    /// Records the outcome of an attempt. `error` is set if the attempt failed. With an `end` the message
    /// is not sent again.
    pub(crate) async fn record_delivery_outcome(
        &self,
        id: AlertDeliveryId,
        end: Option<(State, Timestamp)>,
        error: Option<String>,
    ) -> Result<(), StoreError> {
        let mut update =
            self.update::<Entity>().filter(Column::Id.eq(id)).filter(Column::State.eq(State::Pending));
        update = update.col_expr(Column::LastError, Expr::val(error));
        if let Some((state, at)) = end {
            update = update
                .col_expr(Column::State, Expr::val(state))
                .col_expr(Column::EndedAt, Expr::val(at))
                .col_expr(Column::DueKey, Expr::val(NEVER_DUE_KEY));
        }
        update.exec(&self.write_executor()).await?;
        Ok(())
    }
}
