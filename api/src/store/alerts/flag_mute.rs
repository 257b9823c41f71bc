//! The kinds of flags that an account mutes.

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster_flag,
    cluster_flag::ClusterFlagKind,
    cluster_tag,
    flag_mute::{Column, Entity, Model},
    ids::{AccountId, UserId},
    json_columns::TagPattern,
};
use sea_orm::{
    ActiveEnum, ColumnTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait, Query},
};
use serde_json::{Value, json};

use crate::{
    domain::audit::{Entry, Target, time_detail},
    store::core::{error::StoreError, read_rows::ReadSelect, scoped::AccountStore, upsert::replace},
};

/// The largest number of mutes of an account. Members could not keep track of more.
pub const MAX_MUTES: u64 = 100;

/// Returns the condition that a row of `cluster_flags` of the account is muted.
pub(crate) fn is_muted_condition(account: AccountId, now: Timestamp) -> Expr {
    let column = |column: Column| Expr::col((Entity, column));
    let flag = |column: cluster_flag::Column| (cluster_flag::Entity, column);
    let tag = |column: cluster_tag::Column| Expr::col((cluster_tag::Entity, column));
    let tagged = Query::select()
        .expr(Expr::val(1))
        .from(cluster_tag::Entity)
        // Citus finds the node of a table that may have no row, such as one in an `OR`, only by a constant
        // value of the account.
        .and_where(tag(cluster_tag::Column::AccountId).eq(account.0))
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
        .and_where(column(Column::AccountId).eq(account.0))
        .and_where(column(Column::Kind).equals(flag(cluster_flag::Column::Kind)))
        .and_where(column(Column::UntilKey).gt(now.timestamp_millis()))
        .and_where(column(Column::TagKey).eq("").or(Expr::exists(tagged)))
        .take();
    Expr::exists(mutes)
}

/// The flags that a mute covers: one kind, of all clusters or of those with a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MuteTarget {
    /// The kind.
    pub kind: ClusterFlagKind,
    /// The tag that a cluster must have. `None` for all clusters.
    pub tag: Option<TagPattern>,
}

impl MuteTarget {
    /// Returns the details for the audit log.
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
    /// Returns the mutes that are active at a time in epoch milliseconds, by kind.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.flag_mute.all", skip_all)]
    pub async fn flag_mutes(&self, now_ms: i64) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::UntilKey.gt(now_ms));
        let select = select.order_by_asc(Column::Kind).order_by_asc(Column::TagKey);
        let select = select.order_by_asc(Column::AnyValue).order_by_asc(Column::TagValue);
        Ok(select.limit(MAX_MUTES).read_models(&self.read_executor()).await?)
    }

    /// Mutes flags until a time, or for ever if there is none. It replaces an earlier mute of the same
    /// flags. Returns false if there are too many mutes.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.flag_mute.add", skip_all)]
    pub async fn mute_flag(
        &self,
        muted: MuteTarget,
        until: Option<Timestamp>,
        user: UserId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write(move |store| {
            let muted = muted.clone();
            Box::pin(async move {
                let ended_mutes =
                    store.delete::<Entity>().filter(Column::UntilKey.lte(now.timestamp_millis()));
                ended_mutes.exec(&store.write_executor()).await?;
                let replaces = store.remove_mute(&muted).await?;
                if !replaces && store.select::<Entity>().count(&store.write_executor()).await? >= MAX_MUTES {
                    return Ok(false);
                }
                let (tag_key, any_value, tag_value) = muted.key();
                let row = Model {
                    account_id: store.account_id(),
                    kind: muted.kind,
                    tag_key,
                    any_value,
                    tag_value,
                    until_key: until.map_or(cluster_flag::NOT_ENDED_KEY, |until| until.timestamp_millis()),
                    muted_at: now,
                    muted_by: user,
                };
                store.insert::<Entity>(vec![row], &replace::<Entity>()).await?;
                let mut detail = muted.detail();
                detail["until"] = time_detail(until);
                store.record_audit_entry(Entry::done(Action::MuteFlag, Target::Account, detail)).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Ends a mute. Returns false if there was none.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.flag_mute.remove", skip_all)]
    pub async fn unmute_flag(&self, muted: MuteTarget) -> Result<bool, StoreError> {
        self.write(move |store| {
            let muted = muted.clone();
            Box::pin(async move {
                let was_muted = store.remove_mute(&muted).await?;
                if was_muted {
                    store
                        .record_audit_entry(Entry::done(Action::UnmuteFlag, Target::Account, muted.detail()))
                        .await?;
                }
                Ok(was_muted)
            })
        })
        .await
    }

    async fn remove_mute(&self, muted: &MuteTarget) -> Result<bool, StoreError> {
        let (key, is_any, value) = muted.key();
        let delete = self
            .delete::<Entity>()
            .filter(Column::Kind.eq(muted.kind))
            .filter(Column::TagKey.eq(key))
            .filter(Column::AnyValue.eq(is_any))
            .filter(Column::TagValue.eq(value));
        Ok(delete.exec(&self.write_executor()).await?.rows_affected > 0)
    }
}
