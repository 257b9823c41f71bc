//! The usage columns, which the tables of hours and days share.

use std::ops::RangeFrom;

use entity::{Row, usage_hour};
use sea_orm::DbErr;

use crate::domain::usage::Usage;

macro_rules! usage_columns {
    ($($field:ident),* $(,)?) => {
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
                row: &Row<'_>,
                columns: &mut RangeFrom<usize>,
            ) -> Result<Usage, DbErr> {
                // The range is endless.
                let mut next_column = || columns.next().unwrap_or(usize::MAX);
                let mut usage = Usage::default();
                $(
                    if self.$field {
                        usage.$field = row.get(next_column())?;
                    }
                )*
                let cut_rows: i64 = row.get(next_column())?;
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
    thread_us,
    unobserved_us,
    worker_us,
    memory_gib_us,
    compute_us,
    transfer_us,
    cpu_us,
    noncpu_us,
    serialize_us,
    spill_us,
    overhead_us,
    failed_us,
    idle_us,
    tasks,
    tasks_erred,
    retries,
    errors,
    bytes,
    spilled_bytes,
    workers,
}
