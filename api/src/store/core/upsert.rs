//! The conflict clauses of inserts.

use sea_orm::{
    EntityTrait, Iterable, PrimaryKeyToColumn,
    sea_query::{Alias, Expr, ExprTrait, OnConflict},
};

/// Keeps the existing row, for facts that never change.
pub(crate) fn keep_existing_row<E: EntityTrait>() -> OnConflict {
    OnConflict::columns(keys::<E>()).do_nothing().to_owned()
}

/// Keeps the row of the report with the higher sequence, for values that are reported repeatedly.
pub(crate) fn keep_newest_row<E: EntityTrait>(sequence: E::Column) -> OnConflict {
    let is_newer = Expr::col((Alias::new("excluded"), sequence)).gt(Expr::col((E::default(), sequence)));
    replace::<E>().action_and_where(is_newer).to_owned()
}

/// Keeps the new row, for values that were computed from the existing ones.
pub(crate) fn replace<E: EntityTrait>() -> OnConflict {
    let keys = keys::<E>();
    let is_key = |column: &E::Column| keys.iter().any(|key| column_name(key) == column_name(column));
    OnConflict::columns(keys.clone())
        .update_columns(E::Column::iter().filter(|column| !is_key(column)))
        .to_owned()
}

/// Adds the new values of these columns to those of the existing row, for sums.
pub(crate) fn add_to_row<E: EntityTrait>(columns: impl IntoIterator<Item = E::Column>) -> OnConflict {
    let sum = |column: E::Column| {
        let stored_value = Expr::col((E::default(), column));
        (column, stored_value.add(Expr::col((Alias::new("excluded"), column))))
    };
    OnConflict::columns(keys::<E>()).values(columns.into_iter().map(sum)).to_owned()
}

fn keys<E: EntityTrait>() -> Vec<E::Column> {
    E::PrimaryKey::iter().map(PrimaryKeyToColumn::into_column).collect()
}

fn column_name<C: sea_orm::Iden>(column: &C) -> String {
    column.unquoted().to_owned()
}
