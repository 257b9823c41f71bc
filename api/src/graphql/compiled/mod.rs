//! Compiled reads: queries of a known shape, whose rows become the JSON of the response without models and
//! without the executor. The plan of a query is compiled once and kept beside its checked document. The
//! executor defines the response, and resolves all other queries.

mod arguments;
mod cluster;
mod cluster_list;
mod connection;
mod parent_list;

use async_graphql::{
    Response, Variables,
    parser::types::{DocumentOperations, ExecutableDocument, Field, OperationType, SelectionSet},
};
use async_graphql_value::ConstValue;

use self::{cluster::ClusterRead, cluster_list::ClusterList};
use super::engine::{
    error::ApiError,
    json::NeedsExecutor,
    object_template::{Compilation, expand_fields},
};
use crate::store::AccountStore;

/// The plan of a query.
pub(crate) struct CompiledRead(Plan);

enum Plan {
    Cluster(ClusterRead),
    ClusterList(Box<ClusterList>),
}

/// The reason why a plan has no data.
enum Failure {
    /// The executor resolves the query: an argument is invalid, a list is filtered, or a statement failed
    /// whose error the executor reports.
    NeedsExecutor,
    /// The database failed.
    Error(ApiError),
}

impl From<NeedsExecutor> for Failure {
    fn from(_: NeedsExecutor) -> Self {
        Self::NeedsExecutor
    }
}

impl<E: Into<ApiError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl CompiledRead {
    /// Compiles a document in which no object field is selected twice under one response key. Returns `None`
    /// if the executor has to resolve it.
    pub(crate) fn compile(document: &ExecutableDocument) -> Option<Self> {
        let DocumentOperations::Single(operation) = &document.operations else { return None };
        let operation = &operation.node;
        if operation.ty != OperationType::Query || !operation.directives.is_empty() {
            return None;
        }
        let (selection, fragments) = (&operation.selection_set.node, &document.fragments);
        let list = ClusterList::compile(selection, &Compilation::new(fragments))
            .map(|list| Plan::ClusterList(Box::new(list)));
        let plan =
            list.or_else(|| ClusterRead::compile(selection, &Compilation::new(fragments)).map(Plan::Cluster));
        plan.map(Self)
    }

    /// Returns the response, or `None` if the executor has to resolve the query with these variables.
    pub(crate) async fn run(&self, store: &AccountStore, variables: &Variables) -> Option<Response> {
        let context = ReadContext { store, variables };
        let result = match &self.0 {
            Plan::Cluster(cluster) => cluster.run(context).await,
            Plan::ClusterList(list) => list.run(context).await,
        };
        match (result, &self.0) {
            (Ok(json), _) => Some(Response::new(ConstValue::Binary(json.into()))),
            (Err(Failure::Error(error)), Plan::ClusterList(list)) => {
                Some(Response::from_errors(vec![list.locate_error(error)]))
            }
            (Err(_), _) => None,
        }
    }
}

/// The account and the variables of a request.
#[derive(Clone, Copy)]
struct ReadContext<'a> {
    store: &'a AccountStore,
    variables: &'a Variables,
}

/// Returns the only field of a selection if it has this name.
fn find_only_field<'a>(
    selection: &'a SelectionSet,
    compilation: &Compilation<'a>,
    (type_name, name): (&str, &str),
) -> Option<(&'a str, &'a Field)> {
    let fields = expand_fields(selection, compilation, type_name)?;
    let [(key, field)] = fields[..] else { return None };
    (field.name.node == name).then_some((key, field))
}

#[cfg(test)]
mod tests;
