//! Decoding of rows by column position.

use std::ops::RangeFrom;

use sea_orm::{
    DbErr, EntityTrait, ModelTrait, QueryResult, TryGetable,
    sqlx::{Row, ValueRef},
};

/// A model decoded from a row that has all columns of its table, in their order. Looking up each column
/// of each row by name takes longer than any other step of reading a list.
pub trait DecodeByIndex: ModelTrait {
    /// The summary columns that most lists read, for tables where they are much smaller than the whole
    /// row.
    const LISTED: Option<Summary<Self>> = None;

    /// Decodes the row. Its columns come before any others.
    ///
    /// # Errors
    /// Returns an error if a column has another type.
    fn by_position(row: &QueryResult) -> Result<Self, DbErr> {
        Self::next_of(row, &mut (0..))
    }

    /// Decodes the model from the next columns of a row that contains the columns of several tables.
    ///
    /// # Errors
    /// Returns an error if a column has another type.
    fn next_of(row: &QueryResult, columns: &mut RangeFrom<usize>) -> Result<Self, DbErr>;
}

/// The summary columns of a row, with their decoder.
pub struct Summary<Model: ModelTrait> {
    /// The columns.
    pub columns: &'static [<Model::Entity as EntityTrait>::Column],
    /// Decodes a row of a statement that selects the columns, in their order, before any others. The
    /// other fields of the model are empty.
    pub read: fn(&QueryResult) -> Result<Model, DbErr>,
}

/// Decodes a nullable column. sea-orm formats an error for each null before it returns `None`, and many
/// rows have more nulls than values.
///
/// # Errors
/// Returns an error if the column has another type.
pub fn nullable<T: TryGetable>(row: &QueryResult, column: usize) -> Result<Option<T>, DbErr> {
    let is_null = if let Some(row) = row.try_as_pg_row() {
        row.try_get_raw(column).is_ok_and(|value| value.is_null())
    } else if let Some(row) = row.try_as_sqlite_row() {
        row.try_get_raw(column).is_ok_and(|value| value.is_null())
    } else {
        false
    };
    if is_null { Ok(None) } else { row.try_get_by_index(column) }
}

/// Decodes a column as the type of its field.
macro_rules! column {
    ($row:ident, $column:ident, Option) => {
        $crate::by_index::nullable($row, $column)
    };
    ($row:ident, $column:ident, $type:ident) => {
        $row.try_get_by_index($column)
    };
}

pub(crate) use column;

/// Implements [`DecodeByIndex`] for a model, with its summary columns and the values for the other fields.
macro_rules! positional {
    (
        $(#[$meta:meta])*
        pub struct Model {
            $($(#[$field_meta:meta])* pub $field:ident: $outer:ident $(<$inner:ty>)?),* $(,)?
        }
        $(
            summary_fields { $($column:ident $listed:ident),* $(,)? }
            empty_fields { $($empty_field:ident: $empty_value:expr),* $(,)? }
        )?
    ) => {
        $(#[$meta])*
        pub struct Model {
            $($(#[$field_meta])* pub $field: $outer $(<$inner>)?,)*
        }

        /// The decoders of the fields.
        struct FieldDecoders;

        impl FieldDecoders {
            $(
                fn $field(
                    row: &sea_orm::QueryResult,
                    column: usize,
                ) -> Result<$outer $(<$inner>)?, sea_orm::DbErr> {
                    $crate::by_index::column!(row, column, $outer)
                }
            )*
        }

        impl $crate::by_index::DecodeByIndex for Model {
            fn next_of(
                row: &sea_orm::QueryResult,
                columns: &mut std::ops::RangeFrom<usize>,
            ) -> Result<Self, sea_orm::DbErr> {
                // The range is endless.
                let mut next_column = || columns.next().unwrap_or(usize::MAX);
                Ok(Self { $($field: FieldDecoders::$field(row, next_column())?,)* })
            }

            $(
                const LISTED: Option<$crate::by_index::Summary<Self>> = Some($crate::by_index::Summary {
                    columns: &[$(Column::$column),*],
                    read: |row| {
                        let mut columns = 0..;
                        let mut next_column = || columns.next().unwrap_or(usize::MAX);
                        Ok(Self {
                            $($listed: FieldDecoders::$listed(row, next_column())?,)*
                            $($empty_field: $empty_value,)*
                        })
                    },
                });
            )?
        }
    };
}

pub(crate) use positional;
