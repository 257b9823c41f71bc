//! What of all that is noticed an account does not want to be told.

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster_flag,
    cluster_flag::Kind,
    cluster_tag,
    flag_mute::{Column, Entity, Model},
    ids::UserId,
    list::TagPattern,
};
use sea_orm::{
    ActiveEnum, ColumnTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait, Query},
};
use serde_json::{Value, json};

use super::{error::StoreError, scoped::AccountStore, upsert::replace};
use crate::domain::audit::{Entry, Target, time_detail};

/// As many as anybody keeps track of.
pub const MAX_MUTES: u64 = 100;

/// Whether a row of `cluster_flags` is muted.
pub(super) fn muted(now: Timestamp) -> Expr {
    let column = |column: Column| Expr::col((Entity, column));
    let flag = |column: cluster_flag::Column| (cluster_flag::Entity, column);
    let tag = |column: cluster_tag::Column| Expr::col((cluster_tag::Entity, column));
    let tagged = Query::select()
        .expr(Expr::val(1))
        .from(cluster_tag::Entity)
        .and_where(tag(cluster_tag::Column::AccountId).equals(flag(cluster_flag::Column::AccountId)))
        .and_where(tag(cluster_tag::Column::ClusterId).equals(flag(cluster_flag::Column::ClusterId)))
        .and_where(tag(cluster_tag::Column::Key).equals((Entity, Column::TagKey)))
        .and_where(
            column(Column::AnyValue)
                .eq(true)
                .or(tag(cluster_tag::Column::Value).equals((Entity, Column::TagValue))),
        )
        .take();
    let mutes = Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        .and_where(column(Column::AccountId).equals(flag(cluster_flag::Column::AccountId)))
        .and_where(column(Column::Kind).equals(flag(cluster_flag::Column::Kind)))
        .and_where(column(Column::UntilKey).gt(now.timestamp_millis()))
        .and_where(column(Column::TagKey).eq("").or(Expr::exists(tagged)))
        .take();
    Expr::exists(mutes)
}

/// What is muted: one kind, of all clusters or of those with a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Muted {
    /// The kind.
    pub kind: Kind,
    /// The tag.
    pub tag: Option<TagPattern>,
}

impl Muted {
    /// What of it is written down.
    fn detail(&self) -> Value {
        json!({ "kind": self.kind.to_value(), "tag": self.tag.as_ref().map(|tag| json!([tag.key, tag.value])) })
    }

    fn key(&self) -> (String, bool, String) {
        match &self.tag {
            None => (String::new(), true, String::new()),
            Some(tag) => (tag.key.clone(), tag.value.is_none(), tag.value.clone().unwrap_or_default()),
        }
    }
}

impl AccountStore {
    /// What is muted at a moment in epoch milliseconds, by kind.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.flag_mute.all", skip_all)]
    pub async fn flag_mutes(&self, now_ms: i64) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::UntilKey.gt(now_ms));
        let select = select.order_by_asc(Column::Kind).order_by_asc(Column::TagKey);
        let select = select.order_by_asc(Column::AnyValue).order_by_asc(Column::TagValue);
        Ok(select.limit(MAX_MUTES).all(&self.reads()).await?)
    }

    /// Mutes until a time, or for ever, in place of what was said of the same before. Returns whether it did: not if
    /// there are too many.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.flag_mute.add", skip_all)]
    pub async fn mute_flag(
        &self,
        muted: Muted,
        until: Option<Timestamp>,
        user: UserId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write(move |store| {
            let muted = muted.clone();
            Box::pin(async move {
                let over = store.delete::<Entity>().filter(Column::UntilKey.lte(now.timestamp_millis()));
                over.exec(&store.writes()).await?;
                store.remove_mute(&muted).await?;
                if store.select::<Entity>().count(&store.writes()).await? >= MAX_MUTES {
                    return Ok(false);
                }
                let (tag_key, any_value, tag_value) = muted.key();
                let row = Model {
                    account_id: store.account_id(),
                    kind: muted.kind,
                    tag_key,
                    any_value,
                    tag_value,
                    until_key: until.map_or(cluster_flag::LASTS, |until| until.timestamp_millis()),
                    muted_at: now,
                    muted_by: user,
                };
                store.insert::<Entity>(vec![row], &replace::<Entity>()).await?;
                let mut detail = muted.detail();
                detail["until"] = time_detail(until);
                store.audit(Entry::done(Action::MuteFlag, Target::Account, detail)).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Mutes no more. Returns whether it was muted.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.flag_mute.remove", skip_all)]
    pub async fn unmute_flag(&self, muted: Muted) -> Result<bool, StoreError> {
        self.write(move |store| {
            let muted = muted.clone();
            Box::pin(async move {
                let was_muted = store.remove_mute(&muted).await?;
                if was_muted {
                    store.audit(Entry::done(Action::UnmuteFlag, Target::Account, muted.detail())).await?;
                }
                Ok(was_muted)
            })
        })
        .await
    }

    async fn remove_mute(&self, muted: &Muted) -> Result<bool, StoreError> {
        let (key, any, value) = muted.key();
        let delete = self
            .delete::<Entity>()
            .filter(Column::Kind.eq(muted.kind))
            .filter(Column::TagKey.eq(key))
            .filter(Column::AnyValue.eq(any))
            .filter(Column::TagValue.eq(value));
        Ok(delete.exec(&self.writes()).await?.rows_affected > 0)
    }
}
