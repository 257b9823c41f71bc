//! The use of encryption keys: the keys that ever encrypted a row, and the number of rows that each one
//! still encrypts.

use std::collections::BTreeMap;

use entity::{Timestamp, encryption_key};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DatabaseBackend, EntityTrait, IntoActiveModel, Statement,
    TransactionTrait,
};

use crate::store::core::{error::StoreError, system::SystemStore, upsert::keep_existing_row};

/// The tables with encrypted columns.
pub const ENCRYPTED_TABLES: [&str; 9] = [
    "error_occurrences",
    "code_snippets",
    "profiles",
    "log_lines",
    "error_groups",
    "cluster_notes",
    "alert_rules",
    "alert_deliveries",
    "performance_report_pieces",
];

/// The number of rows that a key encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The key's identifier. 0 for rows that are not encrypted.
    pub key_id: i64,
    /// The number of rows by table, in the order of [`ENCRYPTED_TABLES`].
    pub rows: [u64; ENCRYPTED_TABLES.len()],
}

impl KeyUse {
    /// Returns the number of rows of all tables.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rows.iter().sum()
    }
}

#[expect(clippy::disallowed_methods, reason = "keys belong to no account")]
impl SystemStore {
    /// Records that a key encrypts rows, unless it is already recorded.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn record_key(&self, id: i64, now: Timestamp) -> Result<(), StoreError> {
        let row = encryption_key::Model { id, first_used_at: now }.into_active_model().reset_all();
        let insert = encryption_key::Entity::insert_many([row])
            .on_conflict(keep_existing_row::<encryption_key::Entity>());
        insert.exec_without_returning(&self.pools.writer).await?;
        Ok(())
    }

    /// Returns the keys that ever encrypted a row, each with the time of its first use.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn known_keys(&self) -> Result<BTreeMap<i64, Timestamp>, StoreError> {
        let keys = encryption_key::Entity::find().all(&self.pools.reader).await?;
        Ok(keys.into_iter().map(|key| (key.id, key.first_used_at)).collect())
    }

    /// Deletes the record of a key that encrypts no row any more.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn forget_key(&self, id: i64) -> Result<(), StoreError> {
        encryption_key::Entity::delete_by_id(id).exec(&self.pools.writer).await?;
        Ok(())
    }

    /// Deletes the records of all keys. The caller ensures that no row is encrypted.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn forget_keys(&self) -> Result<(), StoreError> {
        encryption_key::Entity::delete_many().exec(&self.pools.writer).await?;
        Ok(())
    }

    /// Returns true if any row is encrypted.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn has_sealed_rows(&self) -> Result<bool, StoreError> {
        for table in ENCRYPTED_TABLES {
            let sql = format!("SELECT 1 FROM {table} WHERE key_id <> 0 LIMIT 1");
            let reader = &self.pools.reader;
            let statement = Statement::from_string(reader.get_database_backend(), sql);
            if reader.query_one_raw(statement).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Counts the rows by the key that encrypts them. The count reads the key of every row, which takes
    /// long in a large store.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn key_uses(&self) -> Result<Vec<KeyUse>, StoreError> {
        let transaction = self.pools.reader.begin().await?;
        let backend = transaction.get_database_backend();
        if backend == DatabaseBackend::Postgres {
            transaction.execute_unprepared("SET LOCAL statement_timeout = 0").await?;
        }
        let mut keys: BTreeMap<i64, KeyUse> = BTreeMap::new();
        for (table, name) in ENCRYPTED_TABLES.iter().enumerate() {
            let sql = format!("SELECT key_id, count(*) FROM {name} WHERE sealed IS NOT NULL GROUP BY key_id");
            for row in transaction.query_all_raw(Statement::from_string(backend, sql)).await? {
                let (key_id, rows): (i64, i64) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
                let rows = rows.unsigned_abs();
                keys.entry(key_id).or_insert(KeyUse { key_id, rows: [0; ENCRYPTED_TABLES.len()] }).rows
                    [table] = rows;
            }
        }
        transaction.commit().await?;
        Ok(keys.into_values().collect())
    }
}
