//! Clusters with some of their columns: one, or a page in the default order. The statement of a page is
//! composed once for all accounts and positions, which are bound at each run.

use entity::{
    Row,
    cluster::{Column, Entity},
    ids::ClusterId,
};
use sea_orm::{
    ColumnTrait, DbErr, QueryFilter, QuerySelect, QueryTrait, Statement, Value, sea_query::Values,
};

use super::{cluster_filter::ClusterFilter, cluster_order::ClusterSort};
use crate::store::core::{
    error::StoreError,
    page::{self, End, Key, KeyPart, Page, PageRequest},
    read_rows::ReadRows,
    scoped::AccountStore,
    sql_builder::SqlBuilder,
};

/// The statement of a page without its limit. The account and the positions are bound when it runs.
pub(crate) struct ClusterPageStatement {
    sql: String,
    parameters: Vec<Parameter>,
    /// The number of selected columns. The columns of the order follow them.
    columns: usize,
}

/// A parameter of the statement.
enum Parameter {
    Account,
    /// A part of the position after which the page begins.
    After(usize),
    /// A part of the position before which the page ends.
    Before(usize),
}

/// The values that stand for the parts of the positions while the statement is composed. No other value of
/// the statement equals them.
const AFTER: [i64; 2] = [i64::MIN + 1, i64::MIN + 2];
const BEFORE: [i64; 2] = [i64::MIN + 3, i64::MIN + 4];

impl ClusterPageStatement {
    /// Returns the index of the statement for a request among the eight that differ in their text.
    pub(crate) fn variant(request: &PageRequest) -> usize {
        let bits = [request.after.is_some(), request.before.is_some(), request.end == End::Last];
        bits.into_iter().fold(0, |index, bit| 2 * index + usize::from(bit))
    }
}

impl AccountStore {
    /// Composes the statement for pages like `request`, with these columns. Returns `None` if it has a value
    /// that is neither the account nor part of a position, because it may differ for another account.
    pub(crate) fn compose_cluster_page(
        &self,
        columns: &[Column],
        request: &PageRequest,
    ) -> Option<ClusterPageStatement> {
        let position = |parts: [i64; 2]| Key(parts.map(KeyPart::Integer).to_vec());
        let request = PageRequest {
            after: request.after.is_some().then(|| position(AFTER)),
            before: request.before.is_some().then(|| position(BEFORE)),
            ..PageRequest::from(request.end, request.limit)
        };
        let selected = columns.iter().copied().chain([Column::StartedAt, Column::Id]);
        let select = self.filtered_clusters(&ClusterFilter::default()).select_only().columns(selected);
        let mut sql = SqlBuilder::new(self.backend());
        sql.push_select(&page::select_range(select, ClusterSort::NEWEST_FIRST, &request).into_query());
        let Statement { sql, values, .. } = sql.into_statement();
        let account = Value::from(self.account_id());
        let part =
            |parts: [i64; 2], value: &Value| parts.iter().position(|part| Value::from(*part) == *value);
        let parameter = |value: Value| match (part(AFTER, &value), part(BEFORE, &value)) {
            (Some(part), _) => Some(Parameter::After(part)),
            (None, Some(part)) => Some(Parameter::Before(part)),
            (None, None) => (value == account).then_some(Parameter::Account),
        };
        let parameters: Option<Vec<Parameter>> =
            values.into_iter().flat_map(|Values(values)| values).map(parameter).collect();
        debug_assert!(parameters.is_some(), "no compiled read has another value: {sql}");
        Some(ClusterPageStatement { sql, parameters: parameters?, columns: columns.len() })
    }

    /// Returns some columns of a cluster as `decode` returns them, or `None` if there is no such cluster.
    /// `decode` must have no side effects, because it may run twice.
    #[tracing::instrument(name = "store.cluster.row", skip_all)]
    pub(crate) async fn cluster_row<T: Send>(
        &self,
        id: ClusterId,
        columns: &[Column],
        decode: impl Fn(&Row<'_>) -> Result<T, DbErr> + Send + Sync,
    ) -> Result<Option<T>, StoreError> {
        // The identifier stands for an empty selection.
        let selected = columns.iter().copied().chain([Column::Id]);
        let select = self.select::<Entity>().select_only().columns(selected).filter(Column::Id.eq(id));
        let rows = self.read_executor().read_rows(select.build(self.backend()), decode).await?;
        Ok(rows.into_iter().next())
    }

    /// Reads a page of clusters by a statement for pages like `request`. `decode` must have no side effects,
    /// because it may run twice for a row.
    #[tracing::instrument(name = "store.cluster.page", skip_all)]
    pub(crate) async fn cluster_page_rows<T: Send>(
        &self,
        statement: &ClusterPageStatement,
        request: &PageRequest,
        decode: impl Fn(&Row<'_>) -> Result<T, DbErr> + Send + Sync,
    ) -> Result<Page<T>, StoreError> {
        let ClusterPageStatement { sql, parameters, columns } = statement;
        let part = |key: &Option<Key>, part: usize| match key.as_ref().and_then(|key| key.0.get(part)) {
            Some(part) => Value::from(part.clone()),
            None => Value::from(None::<i64>),
        };
        let value = |parameter: &Parameter| match parameter {
            Parameter::Account => self.account_id().into(),
            Parameter::After(index) => part(&request.after, *index),
            Parameter::Before(index) => part(&request.before, *index),
        };
        let values = Values(parameters.iter().map(value).collect());
        let sql = format!("{sql} LIMIT {}", request.limit + 1);
        let statement = Statement::from_sql_and_values(self.backend(), sql, values);
        let decode_with_key = |row: &Row<'_>| {
            let key = [row.get(*columns)?, row.get(columns + 1)?].map(KeyPart::Integer);
            Ok((Key(key.to_vec()), decode(row)?))
        };
        Ok(page::into_page(self.read_executor().read_rows(statement, decode_with_key).await?, request))
    }
}
