//! Saved views: the shared ones of an account, and the private ones of each member.

use entity::{
    ids::{SavedViewId, UserId},
    saved_view::{Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, PaginatorTrait, QueryFilter, QuerySelect, Select, sea_query::ExprTrait,
};

use crate::store::core::{
    error::StoreError,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    upsert::replace,
};

/// The orders views can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SavedViewSort {
    /// The oldest view comes first.
    OldestFirst,
}

impl Sort for SavedViewSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "saved_view:asc"
    }

    /// Returns the identifier, which grows with the time of creation.
    fn columns(self) -> Vec<Column> {
        vec![Column::Id]
    }

    fn descending(self) -> bool {
        false
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.id.into()])
    }
}

/// The views that a member lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedViewFilter {
    /// The member, who sees shared views and their own.
    pub reader: UserId,
    /// Only views of this page.
    pub page: Option<String>,
    /// Only shared views, or only private ones.
    pub is_shared: Option<bool>,
}

impl AccountStore {
    /// Returns a page of the views that a member sees.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.saved_view.page", skip_all)]
    pub async fn saved_view_page(
        &self,
        filter: &SavedViewFilter,
        sort: SavedViewSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.read_executor(), self.filtered_views(filter), sort, request).await
    }

    /// Counts the views that a member sees.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.saved_view.count", skip_all)]
    pub async fn saved_view_count(&self, filter: &SavedViewFilter) -> Result<u64, StoreError> {
        Ok(self.filtered_views(filter).count(&self.read_executor()).await?)
    }

    /// Returns a view, if the member sees it.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.saved_view.get", skip_all)]
    pub async fn saved_view(&self, reader: UserId, id: SavedViewId) -> Result<Option<Model>, StoreError> {
        Ok(self.views_seen_by(reader).filter(Column::Id.eq(id)).one(&self.read_executor()).await?)
    }

    /// Returns a view, locked until the transaction ends, if the member sees it.
    pub(crate) async fn lock_saved_view(
        &self,
        reader: UserId,
        id: SavedViewId,
    ) -> Result<Option<Model>, StoreError> {
        let view = self.views_seen_by(reader).filter(Column::Id.eq(id)).lock_exclusive();
        Ok(view.one(&self.write_executor()).await?)
    }

    /// Counts the private views of a member, or the shared ones for `None`.
    pub(crate) async fn count_saved_views_of(&self, owner: Option<UserId>) -> Result<u64, StoreError> {
        let condition = match owner {
            Some(owner) => Column::OwnerId.eq(owner),
            None => Column::OwnerId.is_null(),
        };
        Ok(self.select::<Entity>().filter(condition).count(&self.write_executor()).await?)
    }

    /// Inserts or replaces a view.
    pub(crate) async fn upsert_saved_view(&self, view: Model) -> Result<(), StoreError> {
        self.insert::<Entity>(vec![view], &replace::<Entity>()).await?;
        Ok(())
    }

    /// Deletes a view.
    pub(crate) async fn delete_saved_view(&self, id: SavedViewId) -> Result<(), StoreError> {
        self.delete::<Entity>().filter(Column::Id.eq(id)).exec(&self.write_executor()).await?;
        Ok(())
    }

    fn views_seen_by(&self, reader: UserId) -> Select<Entity> {
        self.select::<Entity>().filter(Column::OwnerId.is_null().or(Column::OwnerId.eq(reader)))
    }

    fn filtered_views(&self, filter: &SavedViewFilter) -> Select<Entity> {
        let is_of_page = filter.page.as_deref().map(|page| Column::Page.eq(page));
        let is_shared = filter.is_shared.map(|is_shared| {
            if is_shared { Column::OwnerId.is_null() } else { Column::OwnerId.is_not_null() }
        });
        self.views_seen_by(filter.reader)
            .filter(Condition::all().add_option(is_of_page).add_option(is_shared))
    }
}
