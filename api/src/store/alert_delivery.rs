//! Messages to receivers: written with what they tell, and sent until they arrive or are given up.

use entity::{
    Timestamp, account,
    alert_delivery::{Channel, Column, DONE, Entity, Event, Model, State},
    ids::{AccountId, AlertDeliveryId, AlertRuleId},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, PaginatorTrait, QueryFilter, Select,
    Statement,
    sea_query::{Expr, OnConflict},
};
use serde::{Deserialize, Serialize};

use super::{
    error::StoreError,
    identity::SystemStore,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    sealed::RowName,
};

/// The orders messages can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertDeliverySort {
    /// The message that was written last comes first.
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

/// Where a message goes, and what it says. It has no `Debug`: addresses hold secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Letter {
    /// The address.
    pub(crate) to: String,
    /// The subject of an e-mail.
    pub(crate) title: String,
    /// The body.
    pub(crate) body: String,
}

/// A message that is to be written.
pub(crate) struct NewDelivery {
    pub(crate) id: AlertDeliveryId,
    pub(crate) channel: Channel,
    pub(crate) event: Event,
    /// Whom it is for, as everybody may read it.
    pub(crate) target: String,
    pub(crate) letter: Letter,
}

/// A message that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
pub struct DueDelivery {
    /// Whose.
    pub account_id: AccountId,
    /// Which.
    pub id: AlertDeliveryId,
    /// When it was due, in epoch milliseconds.
    pub due_key: i64,
}

fn row_name(account: AccountId, id: AlertDeliveryId) -> RowName {
    RowName::new("alert_deliveries", account, &[id.0.as_bytes()])
}

impl SystemStore {
    /// Messages that are to be sent now, those that have waited longest first.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert_delivery.due", skip_all)]
    pub async fn due_deliveries(&self, now: Timestamp, limit: u64) -> Result<Vec<DueDelivery>, StoreError> {
        let reader = &self.pools.reader;
        // To SQLite the words `CROSS JOIN` say that accounts come first, which the index begins with.
        let sql = format!(
            "SELECT d.account_id, d.id, d.due_key FROM accounts a CROSS JOIN alert_deliveries d
             WHERE d.account_id = a.id AND d.due_key <= $1 ORDER BY d.due_key LIMIT {limit}"
        );
        let values = [now.timestamp_millis().into()];
        let due = Statement::from_sql_and_values(reader.get_database_backend(), sql, values);
        let rows = reader.query_all_raw(due).await?;
        Ok(rows.iter().map(|row| DueDelivery::from_query_result(row, "")).collect::<Result<_, _>>()?)
    }

    /// The short name of an account.
    ///
    /// # Errors
    /// When the database does not answer.
    #[expect(clippy::disallowed_methods, reason = "accounts belong to no account")]
    pub(crate) async fn account_slug(&self, id: AccountId) -> Result<Option<String>, StoreError> {
        let account = account::Entity::find_by_id(id).one(&self.pools.reader).await?;
        Ok(account.map(|account| account.slug))
    }
}

impl AccountStore {
    /// A page of the account's messages, or of those of one rule.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert_delivery.page", skip_all)]
    pub async fn alert_delivery_page(
        &self,
        rule: Option<AlertRuleId>,
        sort: AlertDeliverySort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.reads(), self.deliveries(rule), sort, request).await
    }

    /// How many of them there are.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert_delivery.count", skip_all)]
    pub async fn alert_delivery_count(&self, rule: Option<AlertRuleId>) -> Result<u64, StoreError> {
        Ok(self.deliveries(rule).count(&self.reads()).await?)
    }

    fn deliveries(&self, rule: Option<AlertRuleId>) -> Select<Entity> {
        let select = self.select::<Entity>();
        match rule {
            Some(rule) => select.filter(Column::RuleId.eq(rule)),
            None => select,
        }
    }

    /// Writes messages of a rule, to be sent as soon as the transaction is stored.
    pub(crate) async fn add_deliveries(
        &self,
        rule: AlertRuleId,
        deliveries: Vec<NewDelivery>,
        now: Timestamp,
    ) -> Result<Vec<Model>, StoreError> {
        let rows = deliveries.into_iter().map(|new| {
            let plain = serde_json::to_vec(&new.letter).expect("texts are JSON");
            let sealed = self.seal(&row_name(self.account_id(), new.id), &plain);
            Model {
                account_id: self.account_id(),
                id: new.id,
                rule_id: rule,
                channel: new.channel,
                event: new.event,
                target: new.target,
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

    /// Takes a message to be sent, which is due again at `next` if nothing is heard of it: the sender may die. None if
    /// another took it.
    pub(crate) async fn claim_delivery(
        &self,
        due: DueDelivery,
        next: impl Fn(i64) -> i64 + Send,
    ) -> Result<Option<Model>, StoreError> {
        let found = self.select::<Entity>().filter(Column::Id.eq(due.id)).one(&self.reads()).await?;
        let Some(row) = found.filter(|row| row.due_key == due.due_key) else { return Ok(None) };
        let attempts = row.attempts + 1;
        let update = self
            .update::<Entity>()
            .col_expr(Column::Attempts, Expr::val(attempts))
            .col_expr(Column::DueKey, Expr::val(next(attempts)))
            .filter(Column::Id.eq(due.id))
            .filter(Column::DueKey.eq(due.due_key))
            .filter(Column::Attempts.eq(row.attempts));
        let taken = update.exec(&self.writes()).await?.rows_affected > 0;
        Ok(taken.then(|| Model { attempts, due_key: next(attempts), ..row }))
    }

    /// Where a message goes and what it says.
    pub(crate) fn letter(&self, row: &Model) -> Result<Letter, StoreError> {
        let plain = self.unseal(&row_name(self.account_id(), row.id), row.key_id, &row.sealed)?;
        serde_json::from_slice(&plain).map_err(|error| StoreError::damaged(&error))
    }

    /// Writes down that a message arrived, or why it did not; with an `end` it is not sent again.
    pub(crate) async fn note_delivery(
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
                .col_expr(Column::DueKey, Expr::val(DONE));
        }
        update.exec(&self.writes()).await?;
        Ok(())
    }
}
