//! The conflict clauses of inserts.

use sea_orm::{
    EntityTrait, Iterable, PrimaryKeyToColumn,
    sea_query::{Alias, Expr, ExprTrait, OnConflict},
};

/// Keeps the existing row, for facts that never change.
pub(super) fn keep_existing_row<E: EntityTrait>() -> OnConflict {
    OnConflict::columns(keys::<E>()).do_nothing().to_owned()
}

/// Keeps the row of the report with the higher sequence, for values that are reported repeatedly.
pub(super) fn keep_newest_row<E: EntityTrait>(sequence: E::Column) -> OnConflict {
    let is_newer = Expr::col((Alias::new("excluded"), sequence)).gt(Expr::col((E::default(), sequence)));
    replace::<E>().action_and_where(is_newer).to_owned()
}

/// Keeps the new row, for values that were computed from the existing ones.
pub(super) fn replace<E: EntityTrait>() -> OnConflict {
    OnConflict::columns(keys::<E>()).update_columns(values::<E>()).to_owned()
}

/// Adds the new row to the existing one, for sums.
pub(super) fn add_to_row<E: EntityTrait>() -> OnConflict {
    let sum = |column: E::Column| {
        let existing = Expr::col((E::default(), column));
        (column, existing.add(Expr::col((Alias::new("excluded"), column))))
    };
    OnConflict::columns(keys::<E>()).values(values::<E>().map(sum)).to_owned()
}

fn keys<E: EntityTrait>() -> Vec<E::Column> {
    E::PrimaryKey::iter().map(PrimaryKeyToColumn::into_column).collect()
}

/// Returns the columns that are not in the primary key.
pub(super) fn values<E: EntityTrait>() -> impl Iterator<Item = E::Column> {
    let keys: Vec<String> = keys::<E>().iter().map(column_name).collect();
    E::Column::iter().filter(move |column| !keys.contains(&column_name(column)))
}

/// Returns the name of a column.
pub(super) fn column_name<C: sea_orm::Iden>(column: &C) -> String {
    column.unquoted().to_owned()
}
