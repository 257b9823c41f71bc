//! Code that called Dask: where it stands, and its text once per account.

use std::collections::{BTreeMap, BTreeSet};

use chrono::DateTime;
use entity::{
    Timestamp,
    code_snippet::{Column, Entity, Model},
    list,
};
use sea_orm::{
    ColumnTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Alias, Expr, ExprTrait, OnConflict},
};

use super::{error::StoreError, scoped::AccountStore, sealed::RowName};
use crate::{
    domain::{bounded::Digest, report::CodeStacks},
    seal::SealError,
};

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Hashes in one statement at the most.
const HASHES: usize = 512;

/// Frames of a report whose code is noted as used; a program has some hundred different ones at the most.
const MAX_TOUCHED: usize = 100_000;

/// The stacks of a report as they are stored.
pub(super) fn stacks(reported: &CodeStacks) -> list::CodeStacks {
    list::CodeStacks(reported.iter().map(|stack| stack.iter().map(list::CodeFrame::from).collect()).collect())
}

impl AccountStore {
    /// The snippets that exist among `hashes`, in no particular order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.code_snippet.by_hash", skip_all)]
    pub async fn snippets_by_hash(&self, hashes: &[String]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Hash.is_in(hashes));
        Ok(select.all(&self.reads()).await?)
    }

    /// The text of a snippet.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] when it cannot be decrypted.
    pub fn snippet_text(&self, row: &Model) -> Result<String, StoreError> {
        let plain = self.unseal(&self.snippet_row(&row.hash), row.key_id, &row.sealed)?;
        String::from_utf8(plain).map_err(|_| StoreError::Sealed(SealError::Damaged))
    }

    fn snippet_row(&self, hash: &str) -> RowName {
        RowName::new("code_snippets", self.account_id(), &[hash.as_bytes()])
    }

    /// Writes texts by their hashes. One that is there keeps its row, which then tells that it was used today.
    pub(crate) async fn record_code<'a>(
        &self,
        now: Timestamp,
        texts: impl Iterator<Item = (&'a Digest, &'a str)> + Send,
    ) -> Result<(), StoreError> {
        let last_used_at = day_of(now);
        // By hash: a statement must not meet a row twice, and transactions must lock in one order.
        let texts: BTreeMap<&Digest, &str> = texts.collect();
        let rows = texts.into_iter().map(|(hash, text)| {
            let sealed = self.seal(&self.snippet_row(hash.as_str()), text.as_bytes());
            Model {
                account_id: self.account_id(),
                hash: hash.as_str().to_owned(),
                last_used_at,
                key_id: sealed.key_id,
                sealed: sealed.bytes,
            }
        });
        // Once a day at the most, since the day's number does not grow before it is over.
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

    /// Notes that texts were used today, whose reporter brings each only once. On most days most of them are noted
    /// already, which is looked at without a lock.
    pub(crate) async fn touch_code<'a>(
        &self,
        now: Timestamp,
        hashes: impl Iterator<Item = &'a Digest> + Send,
    ) -> Result<(), StoreError> {
        let today = day_of(now);
        // By hash, as above.
        let hashes: BTreeSet<&str> = hashes.map(Digest::as_str).take(MAX_TOUCHED).collect();
        let hashes: Vec<&str> = hashes.into_iter().collect();
        for some in hashes.chunks(HASHES) {
            let older = || {
                let of_them = self.select::<Entity>().filter(Column::Hash.is_in(some.iter().copied()));
                let older = of_them.filter(Column::LastUsedAt.lt(today)).order_by_asc(Column::Hash);
                older.select_only().column(Column::Hash)
            };
            if older().into_tuple::<String>().one(&self.writes()).await?.is_none() {
                continue;
            }
            let locked: Vec<String> = older().lock_exclusive().into_tuple().all(&self.writes()).await?;
            let touched = self.update::<Entity>().col_expr(Column::LastUsedAt, Expr::val(today));
            touched.filter(Column::Hash.is_in(locked)).exec(&self.writes()).await?;
        }
        Ok(())
    }
}

/// The day of a time.
fn day_of(now: Timestamp) -> Timestamp {
    let day = now.timestamp_millis().div_euclid(DAY) * DAY;
    DateTime::from_timestamp_millis(day).map_or(now, Into::into)
}
