//! Rows that are read by the places of their columns.

use std::ops::RangeFrom;

use sea_orm::{
    DbErr, EntityTrait, ModelTrait, QueryResult, TryGetable,
    sqlx::{Row, ValueRef},
};

/// A row of a statement that selects all columns of its table, in their order. Looking for each column of each row by
/// its name takes longer than anything else that is done to read a list.
pub trait Positional: ModelTrait {
    /// What most lists show of a row, where that is much less than all of it.
    const LISTED: Option<Listed<Self>> = None;

    /// Reads the row, whose columns come before any others.
    ///
    /// # Errors
    /// When a column has another type.
    fn by_position(row: &QueryResult) -> Result<Self, DbErr> {
        Self::next_of(row, &mut (0..))
    }

    /// Reads it from the next columns of a row that has those of several tables.
    ///
    /// # Errors
    /// When a column has another type.
    fn next_of(row: &QueryResult, columns: &mut RangeFrom<usize>) -> Result<Self, DbErr>;
}

/// A part of a row.
pub struct Listed<Model: ModelTrait> {
    /// Its columns.
    pub columns: &'static [<Model::Entity as EntityTrait>::Column],
    /// Reads a row of a statement that selects them, in their order, before any others. The rest of the model says nothing.
    pub read: fn(&QueryResult) -> Result<Model, DbErr>,
}

/// A column that may be null. sea-orm makes an error with a text of each null before it says that there is nothing, and many rows have
/// more nulls than values.
pub(crate) fn nullable<T: TryGetable>(row: &QueryResult, column: usize) -> Result<Option<T>, DbErr> {
    let is_null = if let Some(row) = row.try_as_pg_row() {
        row.try_get_raw(column).is_ok_and(|value| value.is_null())
    } else if let Some(row) = row.try_as_sqlite_row() {
        row.try_get_raw(column).is_ok_and(|value| value.is_null())
    } else {
        false
    };
    if is_null { Ok(None) } else { row.try_get_by_index(column) }
}

/// Reads a column as what its field is.
macro_rules! column {
    ($row:ident, $column:ident, Option) => {
        $crate::positional::nullable($row, $column)
    };
    ($row:ident, $column:ident, $other:ident) => {
        $row.try_get_by_index($column)
    };
}

pub(crate) use column;

/// Makes a model [`Positional`], and says what lists show of it, with what stands for the rest.
macro_rules! positional {
    (
        $(#[$meta:meta])*
        pub struct Model {
            $($(#[$of_field:meta])* pub $field:ident: $outer:ident $(<$inner:ty>)?),* $(,)?
        }
        $(
            lists show { $($column:ident $listed:ident),* $(,)? }
            and not { $($other:ident: $nothing:expr),* $(,)? }
        )?
    ) => {
        $(#[$meta])*
        pub struct Model {
            $($(#[$of_field])* pub $field: $outer $(<$inner>)?,)*
        }

        /// Reads each field from a column.
        struct Read;

        impl Read {
            $(
                fn $field(
                    row: &sea_orm::QueryResult,
                    column: usize,
                ) -> Result<$outer $(<$inner>)?, sea_orm::DbErr> {
                    $crate::positional::column!(row, column, $outer)
                }
            )*
        }

        impl $crate::positional::Positional for Model {
            fn next_of(
                row: &sea_orm::QueryResult,
                columns: &mut std::ops::RangeFrom<usize>,
            ) -> Result<Self, sea_orm::DbErr> {
                // The end is not reached.
                let mut next = || columns.next().unwrap_or(usize::MAX);
                Ok(Self { $($field: Read::$field(row, next())?,)* })
            }

            $(
                const LISTED: Option<$crate::positional::Listed<Self>> = Some($crate::positional::Listed {
                    columns: &[$(Column::$column),*],
                    read: |row| {
                        let mut columns = 0..;
                        let mut next = || columns.next().unwrap_or(usize::MAX);
                        Ok(Self { $($listed: Read::$listed(row, next())?,)* $($other: $nothing,)* })
                    },
                });
            )?
        }
    };
}

pub(crate) use positional;
