//! Compiled reads: queries of a known shape, whose rows become the JSON of the response without models and
//! without the executor. The plan of a query is compiled once and kept beside its checked document. The
//! executor defines the response, and resolves all other queries.

mod cluster_list;
mod connection;

use async_graphql::{
    Response, Variables,
    parser::types::{DocumentOperations, ExecutableDocument, OperationType},
};
use async_graphql_value::{ConstValue, Value};

use self::cluster_list::ClusterList;
use super::engine::error::ApiError;
use crate::store::AccountStore;

/// The plan of a query.
pub(crate) struct CompiledRead(ClusterList);

/// The reason why a plan has no data.
enum Failure {
    /// The executor resolves the query: an argument is invalid, the list is filtered, or its count failed.
    NeedsExecutor,
    /// The database failed.
    Error(ApiError),
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
        ClusterList::compile(&operation.selection_set.node, &document.fragments).map(Self)
    }

    /// Returns the response, or `None` if the executor has to resolve the query with these variables.
    pub(crate) async fn run(&self, store: &AccountStore, variables: &Variables) -> Option<Response> {
        match self.0.run(store, variables).await {
            Ok(json) => Some(Response::new(ConstValue::Binary(json.into()))),
            Err(Failure::NeedsExecutor) => None,
            Err(Failure::Error(error)) => Some(Response::from_errors(vec![self.0.locate_error(error)])),
        }
    }
}

/// The value of an argument in the document.
enum Argument {
    /// A literal, or `None` for null and for an argument that is not given.
    Literal(Option<ConstValue>),
    /// A variable of this name.
    Variable(String),
}

impl Argument {
    /// Returns `None` for a value that contains variables.
    fn compile(value: Option<&Value>) -> Option<Self> {
        Some(match value {
            None => Self::Literal(None),
            Some(Value::Variable(name)) => Self::Variable(name.to_string()),
            Some(value) => {
                Self::Literal(Some(value.clone().into_const()?).filter(|value| *value != ConstValue::Null))
            }
        })
    }

    /// Returns the value, or `None` for null and for a variable that is not given.
    fn value<'a>(&'a self, variables: &'a Variables) -> Option<&'a ConstValue> {
        match self {
            Self::Literal(value) => value.as_ref(),
            Self::Variable(name) => variables.get(name.as_str()).filter(|value| **value != ConstValue::Null),
        }
    }

    /// Returns an integer of 32 bits.
    fn integer(&self, variables: &Variables) -> Result<Option<i32>, Failure> {
        let Some(value) = self.value(variables) else { return Ok(None) };
        let ConstValue::Number(number) = value else { return Err(Failure::NeedsExecutor) };
        let number = number.as_i64().and_then(|number| number.try_into().ok());
        number.map(Some).ok_or(Failure::NeedsExecutor)
    }

    fn text(&self, variables: &Variables) -> Result<Option<String>, Failure> {
        match self.value(variables) {
            None => Ok(None),
            Some(ConstValue::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Failure::NeedsExecutor),
        }
    }
}

#[cfg(test)]
mod tests;
