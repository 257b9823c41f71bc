//! Statements whose rows are decoded by column position.

use entity::{DecodeByIndex, Row};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, QueryTrait, Select, Statement, TryGetable,
    sea_query::ValueType,
};

/// A connection that reads rows by column position.
pub(crate) trait ReadRows: ConnectionTrait {
    /// Runs a statement and decodes its rows. `decode` must have no side effects, because it may run twice
    /// for a row.
    fn read_rows<T: Send>(
        &self,
        statement: Statement,
        decode: impl Fn(&Row<'_>) -> Result<T, DbErr> + Send + Sync,
    ) -> impl Future<Output = Result<Vec<T>, DbErr>> + Send {
        async move {
            let rows = self.query_all_raw(statement).await?;
            rows.iter().map(|row| decode(&Row::Sqlx(row))).collect()
        }
    }
}

impl ReadRows for DatabaseTransaction {}

/// A statement that selects rows of one table.
pub(crate) trait ReadSelect<E: EntityTrait>: Sized {
    /// Reads whole rows of the table.
    fn read_models(
        self,
        connection: &impl ReadRows,
    ) -> impl Future<Output = Result<Vec<E::Model>, DbErr>> + Send
    where
        E::Model: DecodeByIndex;

    /// Reads the selected columns of each row as a tuple.
    fn read_tuples<T: ColumnTuple>(
        self,
        connection: &impl ReadRows,
    ) -> impl Future<Output = Result<Vec<T>, DbErr>> + Send;

    /// Reads the selected column of each row.
    fn read_column<T: TryGetable + ValueType + Send>(
        self,
        connection: &impl ReadRows,
    ) -> impl Future<Output = Result<Vec<T>, DbErr>> + Send;
}

impl<E: EntityTrait> ReadSelect<E> for Select<E> {
    fn read_models(
        self,
        connection: &impl ReadRows,
    ) -> impl Future<Output = Result<Vec<E::Model>, DbErr>> + Send
    where
        E::Model: DecodeByIndex,
    {
        connection.read_rows(self.build(connection.get_database_backend()), DecodeByIndex::by_position)
    }

    fn read_tuples<T: ColumnTuple>(
        self,
        connection: &impl ReadRows,
    ) -> impl Future<Output = Result<Vec<T>, DbErr>> + Send {
        connection.read_rows(self.build(connection.get_database_backend()), T::decode)
    }

    fn read_column<T: TryGetable + ValueType + Send>(
        self,
        connection: &impl ReadRows,
    ) -> impl Future<Output = Result<Vec<T>, DbErr>> + Send {
        connection.read_rows(self.build(connection.get_database_backend()), |row| row.get(0))
    }
}

/// The columns of a row as a tuple, in the order in which they are selected.
pub(crate) trait ColumnTuple: Sized + Send {
    fn decode(row: &Row<'_>) -> Result<Self, DbErr>;
}

macro_rules! column_tuple {
    ($($column:ident $index:literal),+) => {
        impl<$($column: TryGetable + ValueType + Send),+> ColumnTuple for ($($column,)+) {
            fn decode(row: &Row<'_>) -> Result<Self, DbErr> {
                Ok(($(row.get($index)?,)+))
            }
        }
    };
}

column_tuple!(A 0, B 1);
column_tuple!(A 0, B 1, C 2);
column_tuple!(A 0, B 1, C 2, D 3);
column_tuple!(A 0, B 1, C 2, D 3, E 4);
column_tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
column_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
column_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
column_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
