//! The audit log of an account. An entry is added in the transaction of the action that it records. No code
//! here changes or deletes an entry, and such code does not compile.

use chrono::TimeDelta;
use entity::{
    Timestamp,
    audit_entry::{Action, Column, Entity, Model, Outcome},
    ids::{AuditEntryId, UserId},
};
use sea_orm::{ColumnTrait, PaginatorTrait, QueryFilter, QuerySelect, Select};

use crate::{
    domain::audit::Target,
    store::core::{
        composite_in::IsOneOf,
        error::StoreError,
        page::{self, Key, KeyPart, Page, PageRequest, Sort},
        scoped::AccountStore,
    },
};

/// The orders entries can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuditSort {
    /// The newest entry comes first.
    NewestFirst,
}

impl Sort for AuditSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "audit_happened_at:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::HappenedAt, Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.happened_at.into(), row.id.into()])
    }
}

/// A filter of entries. An entry must meet every condition that is set.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Only this action.
    pub action: Option<Action>,
    /// Only this outcome.
    pub outcome: Option<Outcome>,
    /// Only actions of this user.
    pub user: Option<UserId>,
    /// Only actions on one of these targets.
    pub targets: Option<Vec<Target>>,
    /// Only actions at this time or later.
    pub since: Option<Timestamp>,
    /// Only actions before this time.
    pub until: Option<Timestamp>,
}

impl AccountStore {
    /// Returns the targets of all entries of an action within `interval` of `now`, with repetitions. Later
    /// times are included, because the clocks of several servers differ.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub(crate) async fn action_targets_within(
        &self,
        action: Action,
        now: Timestamp,
        interval: TimeDelta,
    ) -> Result<Vec<String>, StoreError> {
        let entries = self
            .select::<Entity>()
            .select_only()
            .column(Column::Target)
            .filter(Column::Action.eq(action))
            .filter(Column::HappenedAt.gt(Timestamp::from(now.0 - interval)))
            .filter(Column::HappenedAt.lt(Timestamp::from(now.0 + interval)));
        Ok(entries.into_tuple().all(&self.write_executor()).await?)
    }

    /// Returns a page of the audit log.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.audit_entry.page", skip_all)]
    pub async fn audit_page(
        &self,
        filter: &AuditFilter,
        sort: AuditSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.read_executor(), self.audit_entries(filter), sort, request).await
    }

    /// Returns the entry with an identifier.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.audit_entry.get", skip_all)]
    pub async fn audit_entry(&self, id: AuditEntryId) -> Result<Option<Model>, StoreError> {
        Ok(self.select::<Entity>().filter(Column::Id.eq(id)).one(&self.read_executor()).await?)
    }

    /// Counts the entries that pass a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.audit_entry.count", skip_all)]
    pub async fn audit_count(&self, filter: &AuditFilter) -> Result<u64, StoreError> {
        Ok(self.audit_entries(filter).count(&self.read_executor()).await?)
    }

    fn audit_entries(&self, filter: &AuditFilter) -> Select<Entity> {
        let targets = filter.targets.as_ref().map(|targets| targets.iter().map(Target::to_string));
        let conditions = [
            filter.action.map(|action| Column::Action.eq(action)),
            filter.outcome.map(|outcome| Column::Outcome.eq(outcome)),
            filter.user.map(|user| Column::UserId.eq(user)),
            targets.map(|targets| Column::Target.is_one_of(targets)),
            filter.since.map(|since| Column::HappenedAt.gte(since)),
            filter.until.map(|until| Column::HappenedAt.lt(until)),
        ];
        conditions.into_iter().flatten().fold(self.select::<Entity>(), QueryFilter::filter)
    }
}
