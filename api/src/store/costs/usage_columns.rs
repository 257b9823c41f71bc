//! The usage columns, which the tables of hours and days share.

use std::ops::RangeFrom;

use entity::{by_index::nullable, usage_hour};
use sea_orm::{DbErr, QueryResult};

use crate::domain::usage::Usage;

/// Decodes a column as the type of its field.
macro_rules! column {
    ($row:ident, $column:expr, Option) => {
        nullable($row, $column)
    };
    ($row:ident, $column:expr, $type:ident) => {
        $row.try_get_by_index($column)
    };
}

macro_rules! usage_columns {
    ($($field:ident: $outer:ident $(<$inner:ty>)?),* $(,)?) => {
        /// Some of the usage columns. A statement that reads few of them is several times faster.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct UsageColumns {
            $(pub $field: bool,)*
        }

        impl UsageColumns {
            /// All columns.
            pub const ALL: Self = Self { $($field: true,)* };

            /// No columns.
            pub const NONE: Self = Self { $($field: false,)* };

            /// Returns the columns that are in one of the two sets.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self { $($field: self.$field || other.$field,)* }
            }

            /// Returns the names of the columns.
            pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
                let columns = [$((self.$field, stringify!($field)),)*];
                columns.into_iter().filter_map(|(is_included, name)| is_included.then_some(name))
            }

            /// Decodes the usage from the next columns of a row: these columns in their order, and the
            /// number of rows with a clamped value. The other fields are zero or unknown.
            pub(crate) fn decode(
                self,
                row: &QueryResult,
                columns: &mut RangeFrom<usize>,
            ) -> Result<Usage, DbErr> {
                // The range is endless.
                let mut next_column = || columns.next().unwrap_or(usize::MAX);
                let mut usage = Usage::default();
                $(
                    if self.$field {
                        usage.$field = column!(row, next_column(), $outer)?;
                    }
                )*
                let cut_rows: i64 = row.try_get_by_index(next_column())?;
                Ok(Usage { is_cut: cut_rows > 0, ..usage }.mark_saturated())
            }
        }

        impl From<&usage_hour::Model> for Usage {
            fn from(row: &usage_hour::Model) -> Self {
                let is_cut = row.is_cut || row.reported_compute_us.is_some();
                Self { $($field: row.$field,)* is_cut }
            }
        }
    };
}

usage_columns! {
    thread_us: i64,
    unobserved_us: i64,
    worker_us: i64,
    memory_gib_us: i64,
    compute_us: i64,
    transfer_us: i64,
    cpu_us: Option<i64>,
    noncpu_us: Option<i64>,
    serialize_us: Option<i64>,
    spill_us: Option<i64>,
    overhead_us: Option<i64>,
    failed_us: Option<i64>,
    idle_us: Option<i64>,
    tasks: i64,
    tasks_erred: i64,
    retries: i64,
    errors: i64,
    bytes: i64,
    spilled_bytes: i64,
    workers: i64,
}
