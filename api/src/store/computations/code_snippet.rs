//! Code that called Dask: stacks as they are stored, and the text of each snippet once per account.

use std::collections::{BTreeMap, BTreeSet};

use chrono::DateTime;
use entity::{
    Timestamp,
    code_snippet::{Column, Entity, Model},
    json_columns,
};
use sea_orm::{
    ColumnTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Alias, Expr, ExprTrait, OnConflict},
};

use crate::{
    domain::{report::CodeStacks, validated::Digest},
    encryption::DecryptError,
    store::core::{
        composite_in::IsOneOf, error::StoreError, read_rows::ReadSelect, row_encryption::AssociatedData,
        scoped::AccountStore,
    },
};

/// The milliseconds of a day.
const DAY: i64 = 86_400_000;

/// The largest number of hashes in one statement.
const HASHES: usize = 512;

/// The largest number of a report's frames whose code is recorded as used. A program has a few hundred
/// distinct frames.
const MAX_TOUCHED: usize = 100_000;

/// Converts the stacks of a report to their stored form.
pub(crate) fn to_stored_stacks(reported: &CodeStacks) -> json_columns::CodeStacks {
    json_columns::CodeStacks(
        reported.iter().map(|stack| stack.iter().map(json_columns::CodeFrame::from).collect()).collect(),
    )
}

impl AccountStore {
    /// Returns the snippets that exist among `hashes`, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.code_snippet.by_hash", skip_all)]
    pub async fn snippets_by_hash(&self, hashes: &[String]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Hash.is_one_of(hashes));
        Ok(select.read_models(&self.read_executor()).await?)
    }

    /// Decrypts the text of a snippet.
    ///
    /// # Errors
    /// Returns [`StoreError::Decryption`] if the text cannot be decrypted.
    pub fn snippet_text(&self, row: &Model) -> Result<String, StoreError> {
        let plain = self.decrypt_row(&self.snippet_row(&row.hash), row.key_id, &row.sealed)?;
        String::from_utf8(plain).map_err(|_| StoreError::Decryption(DecryptError::Damaged))
    }

    fn snippet_row(&self, hash: &str) -> AssociatedData {
        AssociatedData::new("code_snippets", self.account_id(), &[hash.as_bytes()])
    }

    /// Writes texts by their hashes. An existing row is kept, and its day of last use is set to today.
    pub(crate) async fn record_code<'a>(
        &self,
        now: Timestamp,
        texts: impl Iterator<Item = (&'a Digest, &'a str)> + Send,
    ) -> Result<(), StoreError> {
        let last_used_at = day_of(now);
        // Sorted by hash: a statement must not write a row twice, and locks must be taken in one order.
        let texts: BTreeMap<&Digest, &str> = texts.collect();
        let rows = texts.into_iter().map(|(hash, text)| {
            let sealed = self.encrypt_bytes(&self.snippet_row(hash.as_str()), text.as_bytes());
            Model {
                account_id: self.account_id(),
                hash: hash.as_str().to_owned(),
                last_used_at,
                key_id: sealed.key_id,
                sealed: sealed.bytes,
            }
        });
        // A row changes at most once a day, because the condition is false on the day of its last use.
        let used_again = OnConflict::columns([Column::AccountId, Column::Hash])
            .update_column(Column::LastUsedAt)
            .action_and_where(
                Expr::col((Alias::new("excluded"), Column::LastUsedAt))
                    .gt(Expr::col((Entity, Column::LastUsedAt))),
            )
            .to_owned();
        self.insert::<Entity>(rows.collect(), &used_again).await?;
        Ok(())
    }

    /// Records that texts were used today which the reporter sends only once. On most days most of them are
    /// recorded already, which a read without locks finds out.
    pub(crate) async fn record_code_use<'a>(
        &self,
        now: Timestamp,
        hashes: impl Iterator<Item = &'a Digest> + Send,
    ) -> Result<(), StoreError> {
        let today = day_of(now);
        // Sorted by hash, for the reasons above.
        let hashes: BTreeSet<&str> = hashes.map(Digest::as_str).take(MAX_TOUCHED).collect();
        let hashes: Vec<&str> = hashes.into_iter().collect();
        for chunk in hashes.chunks(HASHES) {
            let select_unused_today = || {
                let snippets = self.select::<Entity>().filter(Column::Hash.is_one_of(chunk.iter().copied()));
                let select_unused_today =
                    snippets.filter(Column::LastUsedAt.lt(today)).order_by_asc(Column::Hash);
                select_unused_today.select_only().column(Column::Hash)
            };
            if select_unused_today().into_tuple::<String>().one(&self.write_executor()).await?.is_none() {
                continue;
            }
            let locked: Vec<String> =
                select_unused_today().lock_exclusive().into_tuple().all(&self.write_executor()).await?;
            let touched = self.update::<Entity>().col_expr(Column::LastUsedAt, Expr::val(today));
            touched.filter(Column::Hash.is_one_of(locked)).exec(&self.write_executor()).await?;
        }
        Ok(())
    }
}

/// Returns the beginning of a time's day.
fn day_of(now: Timestamp) -> Timestamp {
    let day = now.timestamp_millis().div_euclid(DAY) * DAY;
    DateTime::from_timestamp_millis(day).map_or(now, Into::into)
}
