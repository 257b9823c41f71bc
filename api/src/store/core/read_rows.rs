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
        read_by_sqlx(self, statement, decode)
    }
}

impl ReadRows for DatabaseTransaction {}

/// Runs a statement by sqlx and decodes its rows.
pub(super) async fn read_by_sqlx<T>(
    connection: &(impl ConnectionTrait + ?Sized),
    statement: Statement,
    decode: impl Fn(&Row<'_>) -> Result<T, DbErr>,
) -> Result<Vec<T>, DbErr> {
    let rows = connection.query_all_raw(statement).await?;
    rows.iter().map(|row| decode(&Row::Sqlx(row))).collect()
}

/// A statement that selects rows of one table.
pub(crate) trait ReadSelect<E: EntityTrait>: QueryTrait + Sized {
    /// Reads whole rows of the table.
    fn read_models(
        self,
        connection: &impl ReadRows,
    ) -> impl Future<Output = Result<Vec<E::Model>, DbErr>> + Send
    where
        E::Model: DecodeByIndex,
    {
        connection.read_rows(self.build(connection.get_database_backend()), DecodeByIndex::by_position)
    }

    /// Reads the selected columns of each row as a tuple.
    fn read_tuples<T: ColumnTuple>(
        self,
        connection: &impl ReadRows,
    ) -> impl Future<Output = Result<Vec<T>, DbErr>> + Send {
        connection.read_rows(self.build(connection.get_database_backend()), T::decode)
    }

    /// Reads the selected column of each row.
    fn read_column<T: TryGetable + ValueType + Send>(
        self,
        connection: &impl ReadRows,
    ) -> impl Future<Output = Result<Vec<T>, DbErr>> + Send {
        connection.read_rows(self.build(connection.get_database_backend()), |row| row.get(0))
    }
}

impl<E: EntityTrait> ReadSelect<E> for Select<E> {}

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
