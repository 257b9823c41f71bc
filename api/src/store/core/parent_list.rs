//! Lists that each parent of one kind has: the computations of a cluster, the task groups of a computation.

use entity::Row;
use sea_orm::{ColumnTrait, ColumnType, DbErr, EntityTrait, IdenStatic, Select};

use super::{
    error::StoreError,
    multi_list,
    page::{Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
};

/// The columns of the rows of a list in the order `S`.
type Column<S> = <<S as Sort>::Entity as EntityTrait>::Column;

/// An order of a list that each parent has.
pub(crate) trait ParentSort: Sort {
    /// The parent of a list.
    type Parent: Copy + Send + Sync;

    /// Selects the rows of a parent's list that pages like `request` can have.
    fn select_rows(
        self,
        store: &AccountStore,
        parent: Self::Parent,
        request: &PageRequest,
    ) -> Select<Self::Entity>;
}

impl AccountStore {
    /// Returns the same page of each parent's list, in the order of `parents`.
    pub(in crate::store) async fn parent_pages<S: ParentSort>(
        &self,
        parents: &[S::Parent],
        sort: S,
        request: &PageRequest,
    ) -> Result<Vec<Page<<S::Entity as EntityTrait>::Model>>, StoreError> {
        let selects = parents.iter().map(|parent| sort.select_rows(self, *parent, request)).collect();
        multi_list::fetch_pages(&self.read_executor(), selects, sort, request).await
    }

    /// Returns the same page of each parent's list, in the order of `parents`, as `decode` returns the rows.
    /// Their first columns are `columns`. `decode` must have no side effects, because it may run twice for a
    /// row.
    #[tracing::instrument(name = "store.parent_list.page_rows", skip_all)]
    pub(crate) async fn parent_page_rows<S: ParentSort, T: Send>(
        &self,
        parents: &[S::Parent],
        sort: S,
        request: &PageRequest,
        columns: &[Column<S>],
        decode: impl Fn(&Row<'_>) -> Result<T, DbErr> + Send + Sync,
    ) -> Result<Vec<Page<T>>, StoreError> {
        let selects = parents.iter().map(|parent| sort.select_rows(self, *parent, request)).collect();
        let (columns, key_columns) = with_key_columns(columns, sort);
        let decode_with_key = |row: &Row<'_>| {
            let key = key_columns.iter().map(|(position, is_uuid)| decode_key_part(row, *position, *is_uuid));
            let key = Key(key.collect::<Result<_, _>>()?);
            debug_assert!(sort.accepts(&key), "the order has a value that is no column: {key:?}");
            Ok((key, decode(row)?))
        };
        multi_list::fetch_page_rows(&self.read_executor(), selects, sort, request, &columns, decode_with_key)
            .await
    }
}

/// Adds the columns of an order that are missing. Returns also the positions of the order's columns, with
/// true for UUIDs.
fn with_key_columns<S: Sort>(columns: &[Column<S>], sort: S) -> (Vec<Column<S>>, Vec<(usize, bool)>) {
    let mut columns = columns.to_vec();
    let key_columns = sort.columns().into_iter().map(|column| {
        let position = columns.iter().position(|selected| selected.as_str() == column.as_str());
        let position = position.unwrap_or_else(|| {
            columns.push(column);
            columns.len() - 1
        });
        (position, *column.def().get_column_type() == ColumnType::Uuid)
    });
    let key_columns = key_columns.collect();
    (columns, key_columns)
}

fn decode_key_part(row: &Row<'_>, position: usize, is_uuid: bool) -> Result<KeyPart, DbErr> {
    if is_uuid { row.get(position).map(KeyPart::Uuid) } else { row.get(position).map(KeyPart::Integer) }
}
