//! Which keys encrypt what: the keys that ever encrypted something, and the rows that each still holds.

use std::collections::BTreeMap;

use entity::{Timestamp, encryption_key};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DatabaseBackend, EntityTrait, IntoActiveModel, Statement,
    TransactionTrait,
};

use super::{error::StoreError, identity::SystemStore, upsert::first_wins};

/// The tables with something encrypted in them.
pub const SEALED_TABLES: [&str; 9] = [
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

/// How many rows are encrypted with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The key; 0 for rows that are not encrypted.
    pub key_id: i64,
    /// Rows by table, in the order of [`SEALED_TABLES`].
    pub rows: [u64; SEALED_TABLES.len()],
}

impl KeyUse {
    /// Rows of all tables.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rows.iter().sum()
    }
}

#[expect(clippy::disallowed_methods, reason = "keys belong to no account")]
impl SystemStore {
    /// Notes that a key encrypts, unless that is known.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn record_key(&self, id: i64, now: Timestamp) -> Result<(), StoreError> {
        let row = encryption_key::Model { id, first_used_at: now }.into_active_model().reset_all();
        let insert =
            encryption_key::Entity::insert_many([row]).on_conflict(first_wins::<encryption_key::Entity>());
        insert.exec_without_returning(&self.pools.writer).await?;
        Ok(())
    }

    /// The keys that ever encrypted something, and when each began to.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn known_keys(&self) -> Result<BTreeMap<i64, Timestamp>, StoreError> {
        let keys = encryption_key::Entity::find().all(&self.pools.reader).await?;
        Ok(keys.into_iter().map(|key| (key.id, key.first_used_at)).collect())
    }

    /// Forgets a key that encrypts nothing any more.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn forget_key(&self, id: i64) -> Result<(), StoreError> {
        encryption_key::Entity::delete_by_id(id).exec(&self.pools.writer).await?;
        Ok(())
    }

    /// Forgets all keys, when nothing is encrypted.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn forget_keys(&self) -> Result<(), StoreError> {
        encryption_key::Entity::delete_many().exec(&self.pools.writer).await?;
        Ok(())
    }

    /// Whether anything is encrypted.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn has_sealed_rows(&self) -> Result<bool, StoreError> {
        for table in SEALED_TABLES {
            let sql = format!("SELECT 1 FROM {table} WHERE key_id <> 0 LIMIT 1");
            let reader = &self.pools.reader;
            let statement = Statement::from_string(reader.get_database_backend(), sql);
            if reader.query_one_raw(statement).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Rows by the key they are encrypted with. It reads every row's key, which takes its time in a large store.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn key_uses(&self) -> Result<Vec<KeyUse>, StoreError> {
        let transaction = self.pools.reader.begin().await?;
        let backend = transaction.get_database_backend();
        if backend == DatabaseBackend::Postgres {
            transaction.execute_unprepared("SET LOCAL statement_timeout = 0").await?;
        }
        let mut keys: BTreeMap<i64, KeyUse> = BTreeMap::new();
        for (table, name) in SEALED_TABLES.iter().enumerate() {
            let sql = format!("SELECT key_id, count(*) FROM {name} WHERE sealed IS NOT NULL GROUP BY key_id");
            for row in transaction.query_all_raw(Statement::from_string(backend, sql)).await? {
                let (key_id, rows): (i64, i64) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
                let rows = rows.unsigned_abs();
                keys.entry(key_id).or_insert(KeyUse { key_id, rows: [0; SEALED_TABLES.len()] }).rows[table] =
                    rows;
            }
        }
        transaction.commit().await?;
        Ok(keys.into_values().collect())
    }
}
