//! What stands before the executor: whether a document may be executed at all, decided before any of it is.
//!
//! It knows the schema and no request: neither who asks nor how it was sent. Each step bounds the next one: the
//! text is counted before it is parsed, the parsed shape before it is validated, and what it could cost before it
//! is executed. apollo-compiler validates and coerces, since the executor's own validation lets a sixth of the
//! specification's cases pass; the executor then reads no text and validates nothing again.

mod cache;
mod convert;
mod cost;
mod diagnostics;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod lexical;
mod merging;
mod nested_variables;
mod persisted;
mod place;
mod refusal;
mod sharing;
mod structure;
mod values;
mod watching;

use std::sync::Arc;

use apollo_compiler::{
    ExecutableDocument, Node, Schema as CheckedSchema,
    executable::{Operation, OperationType},
    introspection,
    parser::Parser,
    request::coerce_variable_values,
    response::{JsonMap, JsonValue},
    validation::Valid,
};
use async_graphql::{Name, Request, ServerError, Variables, parser::types};
use serde_json::{Map, Value};

pub use self::persisted::PersistedDocuments;
use self::{cache::Cache, place::Places, refusal::Code};
pub(crate) use self::{diagnostics::MAX_ERRORS, persisted::Asked, sharing::Digest};
use crate::{
    blocking::blocking,
    graphql::{Merged, Schema},
};

/// Bytes of a document that is read where requests are answered. Larger ones take milliseconds.
const SMALL: usize = 4 << 10;

/// Decides what may be executed.
#[derive(Clone)]
pub(crate) struct Guard(Arc<Inner>);

struct Inner {
    schema: &'static Valid<CheckedSchema>,
    max_cost: u64,
    persisted: PersistedDocuments,
    cache: Cache<Checked>,
}

/// A document that is valid, whatever its variables are.
struct Checked {
    key: cache::Key,
    document: Valid<ExecutableDocument>,
    operation: Node<Operation>,
    places: Places,
    executable: types::ExecutableDocument,
    merged: Merged,
    /// The variable of a subscription that says from where it is resumed, and nothing else.
    cursor: Option<String>,
}

/// What may be executed.
pub(crate) struct Guarded {
    /// What is executed.
    pub(crate) template: Template,
    /// What kind of operation it is.
    pub(crate) kind: Kind,
    /// What it could cost, in fields of its answer.
    pub(crate) cost: u64,
}

/// The operation that is meant with the document's fragments, and the variables as the schema has them.
#[derive(Clone)]
pub(crate) struct Template {
    executable: types::ExecutableDocument,
    variables: Variables,
    merged: Merged,
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads once.
    Query,
    /// It changes something.
    Mutation,
    /// It reads again and again, as all do that have this digest: they differ in where they begin.
    Subscription(Digest),
}

impl Template {
    /// What the executor takes.
    pub(crate) fn into_request(self) -> Request {
        let Self { executable, variables, merged } = self;
        let mut request = Request::new("").variables(variables).data(merged);
        request.set_parsed_query(executable);
        request
    }
}

impl Guard {
    /// A guard of the schema, which lets pass what costs no more than `max_cost` and, if the operator wants it so,
    /// `persisted` documents only.
    pub(crate) fn new(max_cost: u64, persisted: PersistedDocuments) -> Self {
        Self(Arc::new(Inner { schema: Schema::checked(), max_cost, persisted, cache: Cache::default() }))
    }

    /// What one request may cost.
    pub(crate) fn max_cost(&self) -> u64 {
        self.0.max_cost
    }

    /// The document a request means, or none if it says nothing of one.
    pub(crate) fn find(&self, asked: Asked) -> Result<Option<String>, ServerError> {
        self.0.persisted.find(asked)
    }

    /// Checks a request. Its errors have a code each and no path.
    pub(crate) async fn check(
        &self,
        document: String,
        operation: Option<String>,
        variables: Map<String, Value>,
    ) -> Result<Guarded, Vec<ServerError>> {
        let checked = self.checked(document, operation).await?;
        let guarded = self.0.admit(&checked, variables).map_err(|error| vec![error])?;
        self.0.affordable(guarded.cost).map_err(|error| vec![error])?;
        Ok(guarded)
    }

    /// Checks a document of the server's own with variables that a client gave. What it costs is for the server to bound,
    /// which knows how long its pages are.
    pub(crate) async fn check_own(
        &self,
        document: &str,
        variables: Map<String, Value>,
    ) -> Result<Guarded, Vec<ServerError>> {
        let checked = self.checked(document.to_owned(), None).await?;
        self.0.admit(&checked, variables).map_err(|error| vec![error])
    }

    /// The document, read now or before.
    async fn checked(
        &self,
        document: String,
        operation: Option<String>,
    ) -> Result<Arc<Checked>, Vec<ServerError>> {
        lexical::check(&document).map_err(|error| vec![error])?;
        let key = cache::key(&document, operation.as_deref());
        if let Some(checked) = self.0.cache.get(&key) {
            return Ok(checked);
        }
        let (inner, bytes) = (Arc::clone(&self.0), document.len());
        let read = move || inner.read(key, document, operation.as_deref());
        let checked = Arc::new(if bytes > SMALL { blocking(read).await } else { read() }?);
        self.0.cache.put(key, Arc::clone(&checked), bytes);
        Ok(checked)
    }
}

impl Inner {
    /// Checks what depends on the document alone.
    fn read(
        &self,
        key: cache::Key,
        document: String,
        operation: Option<&str>,
    ) -> Result<Checked, Vec<ServerError>> {
        let (places, mentions) = (Places::new(&document), sharing::mentions(&document));
        // What is nested deeper was refused by its brackets.
        let parsed = Parser::new().parse_ast(document, "document");
        let parsed = parsed.map_err(|wrong| diagnostics::of_text(&wrong.errors, &places))?;
        structure::check(&parsed).map_err(|error| vec![error])?;
        let document = parsed
            .to_executable_validate(self.schema)
            .map_err(|wrong| diagnostics::of_document(&wrong.errors, &places))?;
        values::check_document(self.schema, &document, &places)
            .and_then(|()| nested_variables::check(self.schema, &document, &places))
            .map_err(|error| vec![error])?;
        let operation = operation_of(&document, operation).map_err(|error| vec![error])?;
        watching::check(self.schema, &document, &operation, &places).map_err(|error| vec![error])?;
        let executable = convert::document(&document, &operation, &places, &[]);
        let merged = Merged(merging::merges(&document, &operation));
        let cursor = sharing::cursor_variable(&operation, &mentions);
        Ok(Checked { key, document, operation, places, executable, merged, cursor })
    }

    /// Checks what depends on the variables.
    fn admit(&self, checked: &Checked, variables: Map<String, Value>) -> Result<Guarded, ServerError> {
        let Checked { key, document, operation, places, executable, merged, cursor } = checked;
        let kind = match operation.operation_type {
            OperationType::Query => Kind::Query,
            OperationType::Mutation => Kind::Mutation,
            OperationType::Subscription => {
                Kind::Subscription(sharing::digest(key, cursor.as_deref(), variables.clone()))
            }
        };
        let variables: JsonMap =
            variables.into_iter().map(|(name, value)| (name.into(), JsonValue::from(value))).collect();
        let coerced = coerce_variable_values(self.schema, operation, &variables).map_err(|wrong| {
            let message = without_value(wrong.message().to_string());
            refusal::at(Code::Input, message, places.of(wrong.location()))
        })?;
        values::check_variables(self.schema, operation, &coerced)?;
        let cost = cost::of(document, operation, &coerced);
        let names = operation.variables.iter().map(|variable| variable.name.as_str());
        let absent: Vec<&str> = names.filter(|name| !coerced.contains_key(*name)).collect();
        let executable = if absent.is_empty() {
            executable.clone()
        } else {
            convert::document(document, operation, places, &absent)
        };
        let mut variables = Variables::default();
        variables
            .extend(coerced.iter().map(|(name, value)| (Name::new(name.as_str()), convert::json(value))));
        let template = Template { executable, variables, merged: *merged };
        Ok(Guarded { template, kind, cost })
    }

    /// Refuses what costs more than one request may.
    fn affordable(&self, cost: u64) -> Result<(), ServerError> {
        if cost <= self.max_cost {
            return Ok(());
        }
        let message = format!(
            "the query could cost {cost}, more than the limit of {}: ask for smaller pages or fewer fields",
            self.max_cost
        );
        let mut error = refusal::new(Code::CostLimit, message);
        let extensions = error.extensions.get_or_insert_default();
        extensions.set("cost", cost);
        extensions.set("limit", self.max_cost);
        Err(error)
    }
}

/// The operation that is meant.
fn operation_of(
    document: &Valid<ExecutableDocument>,
    name: Option<&str>,
) -> Result<Node<Operation>, ServerError> {
    let operation = document.operations.get(name).map_err(|_| {
        let message = match name {
            Some(_) => "the document has no operation of the name in 'operationName'",
            None if document.operations.is_empty() => "the document has no operation",
            None => "the document has several operations: name one in 'operationName'",
        };
        refusal::new(Code::Operation, message)
    })?;
    introspection::check_max_depth(document, operation)
        .map_err(|_| refusal::new(Code::DepthLimit, "lists of the schema's parts nest more than 3 deep"))?;
    Ok(operation.clone())
}

/// The library repeats a value that does not fit, which may be all that was sent.
fn without_value(message: String) -> String {
    match (message.starts_with("could not coerce"), message.find(": "), message.rfind(" to type ")) {
        (true, Some(value), Some(ty)) if value < ty => format!("{}{}", &message[..value], &message[ty..]),
        _ => message,
    }
}
