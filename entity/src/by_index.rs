//! Decoding of rows by column position.

use std::ops::RangeFrom;

use rusqlite::types::ValueRef;
use sea_orm::{
    DbErr, EntityTrait, ModelTrait, QueryResult, TryGetable, Value,
    sea_query::{ArrayType, ValueType},
    sqlx::{
        Row as _, ValueRef as _,
        postgres::{PgValueFormat, PgValueRef, types::Oid},
    },
};
use uuid::Uuid;

/// A row of a statement's result.
pub enum Row<'a> {
    /// A row that sqlx read.
    Sqlx(&'a QueryResult),
    /// The current row of a statement on SQLite.
    Sqlite(&'a rusqlite::Row<'a>),
}

impl Row<'_> {
    /// Decodes a column. A nullable one is decoded as an `Option`.
    ///
    /// # Errors
    /// Returns an error if the column has another type or does not exist.
    pub fn get<T: TryGetable + ValueType>(&self, column: usize) -> Result<T, DbErr> {
        let value = match self {
            Self::Sqlx(row) => match decode_sqlx::<T>(row, column) {
                None => return row.try_get_by_index(column),
                value => value,
            },
            Self::Sqlite(row) => {
                let value = row.get_ref(column).map_err(|error| DbErr::Type(error.to_string()))?;
                decode_value(value, &T::array_type())
            }
        };
        let type_error = || DbErr::Type(format!("column {column} is not of the type {}", T::type_name()));
        value.and_then(|value| ValueType::try_from(value).ok()).ok_or_else(type_error)
    }
}

/// Decodes a column of a row that sqlx read. Returns `None` if sea-orm has to decode it. sea-orm looks a
/// column's type up several times, and formats an error for each null before it returns `None`.
fn decode_sqlx<T: TryGetable + ValueType>(row: &QueryResult, column: usize) -> Option<Value> {
    let is_null = if let Some(row) = row.try_as_pg_row() {
        let value = row.try_get_raw(column).ok()?;
        if !value.is_null() {
            return decode_postgres(&value, &T::array_type());
        }
        true
    } else {
        row.try_as_sqlite_row()?.try_get_raw(column).is_ok_and(|value| value.is_null())
    };
    (is_null && T::is_option()).then(|| decode_value(ValueRef::Null, &T::array_type()))?
}

/// The types of PostgreSQL whose binary format [`decode_postgres`] reads.
mod oid {
    use super::Oid;

    pub(super) const BOOL: Oid = Oid(16);
    pub(super) const BYTEA: Oid = Oid(17);
    pub(super) const INT8: Oid = Oid(20);
    pub(super) const INT4: Oid = Oid(23);
    pub(super) const TEXT: Oid = Oid(25);
    pub(super) const FLOAT8: Oid = Oid(701);
    pub(super) const VARCHAR: Oid = Oid(1043);
    pub(super) const UUID: Oid = Oid(2950);
}

/// Decodes a value that is not null for a field that is stored as `column_type`. Returns `None` if the value
/// is of another type or format.
fn decode_postgres(value: &PgValueRef<'_>, column_type: &ArrayType) -> Option<Value> {
    if value.format() != PgValueFormat::Binary {
        return None;
    }
    let (bytes, value_type) = (value.as_bytes().ok()?, value.type_info().oid()?);
    Some(match (column_type, value_type) {
        (ArrayType::BigInt, oid::INT8) => i64::from_be_bytes(bytes.try_into().ok()?).into(),
        (ArrayType::Int, oid::INT4) => i32::from_be_bytes(bytes.try_into().ok()?).into(),
        (ArrayType::Double, oid::FLOAT8) => f64::from_be_bytes(bytes.try_into().ok()?).into(),
        (ArrayType::Bool, oid::BOOL) => (*bytes.first()? != 0).into(),
        (ArrayType::String, oid::TEXT | oid::VARCHAR) => str::from_utf8(bytes).ok()?.into(),
        (ArrayType::Bytes, oid::BYTEA) => bytes.into(),
        (ArrayType::Uuid, oid::UUID) => Uuid::from_slice(bytes).ok()?.into(),
        _ => return None,
    })
}

/// Decodes a value for a field that is stored as `column_type`. Returns `None` if the value is of another
/// type.
fn decode_value(value: ValueRef<'_>, column_type: &ArrayType) -> Option<Value> {
    fn nullable<'a, T>(
        value: ValueRef<'a>,
        kind: impl FnOnce(Option<T>) -> Value,
        decode: impl FnOnce(ValueRef<'a>) -> Option<T>,
    ) -> Option<Value> {
        if value == ValueRef::Null { Some(kind(None)) } else { decode(value).map(|value| kind(Some(value))) }
    }
    match column_type {
        ArrayType::BigInt => nullable(value, Value::BigInt, |value| value.as_i64().ok()),
        ArrayType::Int => nullable(value, Value::Int, |value| value.as_i64().ok()?.try_into().ok()),
        ArrayType::Bool => nullable(value, Value::Bool, |value| Some(value.as_i64().ok()? != 0)),
        ArrayType::Double => nullable(value, Value::Double, |value| value.as_f64().ok()),
        ArrayType::String => nullable(value, Value::String, |value| Some(value.as_str().ok()?.to_owned())),
        ArrayType::Bytes => nullable(value, Value::Bytes, |value| Some(value.as_blob().ok()?.to_vec())),
        ArrayType::Uuid => nullable(value, Value::Uuid, |value| Uuid::from_slice(value.as_blob().ok()?).ok()),
        ArrayType::Json => {
            nullable(value, Value::Json, |value| serde_json::from_str(value.as_str().ok()?).ok())
        }
        _ => None,
    }
}

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
    fn by_position(row: &Row<'_>) -> Result<Self, DbErr> {
        Self::next_of(row, &mut (0..))
    }

    /// Decodes the model from the next columns of a row that contains the columns of several tables.
    ///
    /// # Errors
    /// Returns an error if a column has another type.
    fn next_of(row: &Row<'_>, columns: &mut RangeFrom<usize>) -> Result<Self, DbErr>;
}

/// The summary columns of a row, with their decoder.
pub struct Summary<Model: ModelTrait> {
    /// The columns.
    pub columns: &'static [<Model::Entity as EntityTrait>::Column],
    /// Decodes a row of a statement that selects the columns, in their order, before any others. The
    /// other fields of the model are empty.
    pub read: fn(&Row<'_>) -> Result<Model, DbErr>,
}

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

        impl $crate::by_index::DecodeByIndex for Model {
            fn next_of(
                row: &$crate::by_index::Row<'_>,
                columns: &mut std::ops::RangeFrom<usize>,
            ) -> Result<Self, sea_orm::DbErr> {
                // The range is endless.
                let mut next_column = || columns.next().unwrap_or(usize::MAX);
                Ok(Self { $($field: row.get(next_column())?,)* })
            }

            $(
                const LISTED: Option<$crate::by_index::Summary<Self>> = Some($crate::by_index::Summary {
                    columns: &[$(Column::$column),*],
                    read: |row| {
                        let mut columns = 0..;
                        let mut next_column = || columns.next().unwrap_or(usize::MAX);
                        Ok(Self {
                            $($listed: row.get(next_column())?,)*
                            $($empty_field: $empty_value,)*
                        })
                    },
                });
            )?
        }
    };
}

pub(crate) use positional;
