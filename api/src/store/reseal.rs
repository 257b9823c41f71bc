//! Encrypting with today's key what lies under an older one, or under none.
//!
//! Tables are walked in the order of their primary keys, some rows at a time. A row is replaced only if it still
//! is what was read, so ingest and other servers can go on meanwhile.

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

use super::{
    connect::IMMEDIATE,
    error::StoreError,
    identity::SystemStore,
    sealed::{self, RowName},
};
use crate::{key_ring::KeyRing, seal::SealError};

/// Rows that are looked at in one statement at the most.
const LOOKED_AT: u64 = 1_000;

/// Rows that are encrypted in one transaction at the most.
const BATCH: u64 = 100;

/// Where a walk over a table stands: behind the row with this key.
pub type Position = Vec<Value>;

/// What became of some rows of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resealed {
    /// Where to go on; none at the end of the table.
    pub next: Option<Position>,
    /// Rows that are encrypted with today's key now.
    pub rows: u64,
    /// Rows that nobody can read, for want of the key or because they are damaged.
    pub unreadable: u64,
    /// The keys that some of these want for.
    pub missing: BTreeSet<i64>,
}

/// A table with something encrypted in each row.
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
    /// Encrypts some rows of a table of [`super::SEALED_TABLES`] with the key in front of the ring, beginning behind
    /// `after`.
    ///
    /// # Errors
    /// When the database does not answer; rows that were encrypted before stay so.
    pub async fn reseal(
        &self,
        table: usize,
        keys: &KeyRing,
        after: Option<Position>,
    ) -> Result<Resealed, StoreError> {
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

    #[expect(clippy::disallowed_methods, reason = "keys belong to no account, and so do the rows under them")]
    async fn reseal_in<E: SealedTable>(
        &self,
        keys: &KeyRing,
        after: Option<Position>,
    ) -> Result<Resealed, StoreError> {
        let primary = keys.keys().primary();
        let columns: Vec<E::Column> = E::PrimaryKey::iter().map(PrimaryKeyToColumn::into_column).collect();
        let row = || Expr::tuple(columns.iter().map(|column| Expr::col((E::default(), *column))));
        let at = |position: &[Value]| Expr::tuple(position.iter().cloned().map(Expr::val));
        let in_order = |mut select: sea_orm::Select<E>| {
            for column in &columns {
                select = select.order_by_asc(*column);
            }
            if let Some(after) = &after {
                select = select.filter(row().gt(at(after)));
            }
            select
        };

        // Keys alone first: most rows have nothing to be done, and their texts are large.
        let looked_at: Vec<Key<E>> = in_order(E::find())
            .select_only()
            .columns(columns.iter().copied())
            .limit(LOOKED_AT)
            .into_tuple()
            .all(&self.pools.reader)
            .await?;
        let whole_table = (looked_at.len() as u64) < LOOKED_AT;
        let Some(last) = looked_at.into_iter().next_back() else { return Ok(Resealed::default()) };
        let last: Position = last.into_value_tuple().into_iter().collect();
        let older = in_order(E::find())
            .filter(row().lte(at(&last)))
            .filter(Expr::col((E::default(), E::KEY_ID)).ne(primary))
            .filter(Expr::col((E::default(), E::SEALED)).is_not_null())
            .limit(BATCH)
            .all(&self.pools.reader)
            .await?;
        let end_reached = (older.len() as u64) < BATCH;

        let mut resealed = Resealed::default();
        let mut position = last;
        let mut updates = Vec::new();
        for (key, key_id, bytes) in older.into_iter().filter_map(E::sealed) {
            let key: Position = key.into_value_tuple().into_iter().collect();
            let name = row_name::<E>(&key);
            match sealed::open(keys, &name, key_id, &bytes) {
                Ok(plain) => {
                    let new = sealed::seal(keys, &name, &plain);
                    let update = E::update_many()
                        .col_expr(E::KEY_ID, Expr::val(new.key_id))
                        .col_expr(E::SEALED, Expr::val(new.bytes))
                        .filter(row().eq(at(&key)))
                        // If it is still what was read.
                        .filter(Expr::col((E::default(), E::KEY_ID)).eq(key_id));
                    updates.push(update);
                }
                Err(error) => {
                    resealed.unreadable += 1;
                    if let SealError::KeyMissing(id) = error {
                        resealed.missing.insert(id);
                    }
                }
            }
            if !end_reached {
                position = key;
            }
        }
        if !updates.is_empty() {
            let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
            for update in updates {
                resealed.rows += update.exec(&transaction).await?.rows_affected;
            }
            transaction.commit().await?;
        }
        resealed.next = (!(whole_table && end_reached)).then_some(position);
        Ok(resealed)
    }
}

/// What a row is bound to: its table and its primary key.
fn row_name<E: SealedTable>(key: &[Value]) -> RowName {
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
    RowName::new(E::default().as_str(), account, &parts)
}
