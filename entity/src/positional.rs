//! Rows that are read by the places of their columns.

use sea_orm::{DbErr, ModelTrait, QueryResult};

/// A row of a statement that selects all columns of its table, in their order, before any others. Looking for each
/// column of each row by its name takes longer than anything else that is done to read a list.
pub trait Positional: ModelTrait {
    /// Reads the row.
    ///
    /// # Errors
    /// When a column has another type.
    fn by_position(row: &QueryResult) -> Result<Self, DbErr>;
}

/// Makes a model [`Positional`].
macro_rules! positional {
    (
        $(#[$meta:meta])*
        pub struct Model {
            $($(#[$of_field:meta])* pub $field:ident: $outer:ident $(<$inner:ty>)?),* $(,)?
        }
    ) => {
        $(#[$meta])*
        pub struct Model {
            $($(#[$of_field])* pub $field: $outer $(<$inner>)?,)*
        }

        impl $crate::positional::Positional for Model {
            fn by_position(row: &sea_orm::QueryResult) -> Result<Self, sea_orm::DbErr> {
                let mut columns = 0..;
                // The end is not reached.
                let mut next = || columns.next().unwrap_or(usize::MAX);
                Ok(Self { $($field: row.try_get_by_index(next())?,)* })
            }
        }
    };
}

pub(crate) use positional;
