//! Re-encryption with the primary key of rows that an older key encrypts, or that are not encrypted.
//!
//! A table is traversed in the order of its primary key, some rows at a time. A row is replaced only if
//! its key has not changed since it was read, so ingest and other servers can continue meanwhile.

use std::collections::BTreeSet;

use entity::{
    alert_delivery, alert_rule, cluster_note, code_snippet, error_group, error_occurrence, ids::AccountId,
    log_line, performance_report_piece, profile,
};
use sea_orm::{
    EntityTrait, Iterable, PrimaryKeyToColumn, PrimaryKeyTrait, QueryFilter, QueryOrder, QuerySelect,
    TransactionTrait, Value,
    sea_query::{Expr, ExprTrait, IntoValueTuple},
};

use crate::{
    encryption::DecryptError,
    key_ring::KeyRing,
    store::core::{
        connect::IMMEDIATE_TRANSACTION,
        error::StoreError,
        row_encryption::{self, AssociatedData},
        system::SystemStore,
    },
};

/// The largest number of rows that one statement examines.
const MAX_EXAMINED: u64 = 1_000;

/// The largest number of rows that one transaction re-encrypts.
const BATCH: u64 = 100;

/// A position in a table: the primary key of the last row examined.
pub type Position = Vec<Value>;

/// The outcome of re-encrypting some rows of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReencryptedBatch {
    /// The position to continue from. `None` at the end of the table.
    pub next: Option<Position>,
    /// The number of rows that were re-encrypted.
    pub rows: u64,
    /// The number of rows that cannot be decrypted, because the key is missing or the row is damaged.
    pub unreadable: u64,
    /// The keys that are missing for some of these rows.
    pub missing: BTreeSet<i64>,
}

/// A table with an encrypted column.
trait SealedTable: EntityTrait {
    const KEY_ID: Self::Column;
    const SEALED: Self::Column;

    fn sealed(row: Self::Model) -> Option<(Key<Self>, i64, Vec<u8>)>;
}

type Key<E> = <<E as EntityTrait>::PrimaryKey as PrimaryKeyTrait>::ValueType;

macro_rules! sealed_table {
    ($($table:ident($($key:ident),+)),+ $(,)?) => {$(
        impl SealedTable for $table::Entity {
            const KEY_ID: Self::Column = $table::Column::KeyId;
            const SEALED: Self::Column = $table::Column::Sealed;

            fn sealed(row: Self::Model) -> Option<(Key<Self>, i64, Vec<u8>)> {
                let bytes: Option<Vec<u8>> = row.sealed.into();
                Some((($(row.$key),+), row.key_id, bytes?))
            }
        }
    )+};
}
sealed_table!(
    error_occurrence(account_id, cluster_id, id),
    code_snippet(account_id, hash),
    profile(account_id, cluster_id, started_at, id),
    log_line(account_id, cluster_id, logged_at, id),
    error_group(account_id, id),
    cluster_note(account_id, cluster_id),
    alert_rule(account_id, id),
    alert_delivery(account_id, id),
    performance_report_piece(account_id, report_id, position),
);

impl SystemStore {
    /// Re-encrypts some rows of a table of [`crate::store::ENCRYPTED_TABLES`] with the primary key of the
    /// ring, starting after `after`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Rows that were re-encrypted before stay so.
    pub async fn reencrypt(
        &self,
        table: usize,
        keys: &KeyRing,
        after: Option<Position>,
    ) -> Result<ReencryptedBatch, StoreError> {
        match table {
            0 => self.reseal_in::<error_occurrence::Entity>(keys, after).await,
            1 => self.reseal_in::<code_snippet::Entity>(keys, after).await,
            2 => self.reseal_in::<profile::Entity>(keys, after).await,
            3 => self.reseal_in::<log_line::Entity>(keys, after).await,
            4 => self.reseal_in::<error_group::Entity>(keys, after).await,
            5 => self.reseal_in::<cluster_note::Entity>(keys, after).await,
            6 => self.reseal_in::<alert_rule::Entity>(keys, after).await,
            7 => self.reseal_in::<alert_delivery::Entity>(keys, after).await,
            _ => self.reseal_in::<performance_report_piece::Entity>(keys, after).await,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "rows of all accounts are re-encrypted")]
    async fn reseal_in<E: SealedTable>(
        &self,
        keys: &KeyRing,
        after: Option<Position>,
    ) -> Result<ReencryptedBatch, StoreError> {
        let primary = keys.keys().primary();
        let columns: Vec<E::Column> = E::PrimaryKey::iter().map(PrimaryKeyToColumn::into_column).collect();
        let row = || Expr::tuple(columns.iter().map(|column| Expr::col((E::default(), *column))));
        let key_tuple = |position: &[Value]| Expr::tuple(position.iter().cloned().map(Expr::val));
        let in_key_order = |mut select: sea_orm::Select<E>| {
            for column in &columns {
                select = select.order_by_asc(*column);
            }
            if let Some(after) = &after {
                select = select.filter(row().gt(key_tuple(after)));
            }
            select
        };

        // The primary keys are read without the other columns first: most rows need no change, and their
        // texts are large.
        let examined_keys: Vec<Key<E>> = in_key_order(E::find())
            .select_only()
            .columns(columns.iter().copied())
            .limit(MAX_EXAMINED)
            .into_tuple()
            .all(&self.pools.reader)
            .await?;
        let is_last_batch = (examined_keys.len() as u64) < MAX_EXAMINED;
        let Some(last_key) = examined_keys.into_iter().next_back() else {
            return Ok(ReencryptedBatch::default());
        };
        let last_key: Position = last_key.into_value_tuple().into_iter().collect();
        let rows = in_key_order(E::find())
            .filter(row().lte(key_tuple(&last_key)))
            .filter(Expr::col((E::default(), E::KEY_ID)).ne(primary))
            .filter(Expr::col((E::default(), E::SEALED)).is_not_null())
            .limit(BATCH)
            .all(&self.pools.reader)
            .await?;
        let end_reached = (rows.len() as u64) < BATCH;

        let mut resealed = ReencryptedBatch::default();
        let mut position = last_key;
        let mut updates = Vec::new();
        for (key, key_id, bytes) in rows.into_iter().filter_map(E::sealed) {
            let key: Position = key.into_value_tuple().into_iter().collect();
            let name = associated_data::<E>(&key);
            match row_encryption::decrypt_bytes(keys, &name, key_id, &bytes) {
                Ok(plain) => {
                    let encrypted = row_encryption::seal(keys, &name, &plain);
                    let update = E::update_many()
                        .col_expr(E::KEY_ID, Expr::val(encrypted.key_id))
                        .col_expr(E::SEALED, Expr::val(encrypted.bytes))
                        .filter(row().eq(key_tuple(&key)))
                        // The row is replaced only if it has not changed since it was read.
                        .filter(Expr::col((E::default(), E::KEY_ID)).eq(key_id));
                    updates.push(update);
                }
                Err(error) => {
                    resealed.unreadable += 1;
                    if let DecryptError::KeyMissing(id) = error {
                        resealed.missing.insert(id);
                    }
                }
            }
            if !end_reached {
                position = key;
            }
        }
        if !updates.is_empty() {
            let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
            for update in updates {
                resealed.rows += update.exec(&transaction).await?.rows_affected;
            }
            transaction.commit().await?;
        }
        resealed.next = (!(is_last_batch && end_reached)).then_some(position);
        Ok(resealed)
    }
}

/// Returns the associated data of a row: its table and its primary key.
fn associated_data<E: SealedTable>(key: &[Value]) -> AssociatedData {
    let mut account = AccountId(uuid::Uuid::nil());
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for (index, value) in key.iter().enumerate() {
        match value {
            Value::Uuid(Some(id)) if index == 0 => account = AccountId(*id),
            Value::Uuid(Some(id)) => parts.push(id.as_bytes().to_vec()),
            Value::BigInt(Some(number)) => parts.push(number.to_le_bytes().to_vec()),
            Value::String(Some(text)) => parts.push(text.as_bytes().to_vec()),
            _ => unreachable!("keys are made of identifiers, times and hashes"),
        }
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    AssociatedData::new(E::default().as_str(), account, &parts)
}
