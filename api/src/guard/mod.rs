//! Admission: decides whether a document may be executed, before any of it is.
//!
//! The module knows the schema but neither the caller nor the transport. Each step bounds the next one:
//! the text is counted before it is parsed, its shape is limited before it is validated, and its cost is
//! limited before it is executed. apollo-compiler validates and coerces, because the executor's own
//! validation wrongly accepts a sixth of the specification's cases; the executor then parses no text and
//! validates nothing again.

mod arguments;
mod cache;
mod convert;
mod cost;
mod diagnostics;
mod field_overlap;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod line_index;
mod nested_variables;
mod persisted;
mod refusal;
mod scan;
mod shape_limits;
mod subscription_key;
mod subscription_rules;
mod token_limits;
mod usage_rows;
mod values;

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

pub(crate) use self::convert::constant;
pub use self::persisted::PersistedDocuments;
use self::{cache::Cache, line_index::LineIndex, refusal::Code};
pub(crate) use self::{
    cost::AUDIT_ENTRY_COST,
    diagnostics::MAX_ERRORS,
    persisted::{DocumentSelector, KnownDocuments},
    subscription_key::Digest,
};
use crate::{
    blocking_work::run_blocking,
    graphql::{HasOverlappingFields, Schema},
};

/// The size in bytes up to which a document is read on the thread that serves requests. Larger ones take
/// milliseconds.
const SMALL: usize = 4 << 10;

/// Checks requests before they are executed.
#[derive(Clone)]
pub(crate) struct Guard(Arc<Inner>);

struct Inner {
    schema: &'static Valid<CheckedSchema>,
    max_cost: u64,
    persisted: PersistedDocuments,
    cache: Cache<Checked>,
}

/// A document that is valid for any variables.
struct Checked {
    key: cache::Key,
    document: Valid<ExecutableDocument>,
    operation: Node<Operation>,
    places: LineIndex,
    executable: types::ExecutableDocument,
    merged: HasOverlappingFields,
    /// The variable of a subscription that holds only its cursor.
    cursor: Option<String>,
    /// True if a selected field depends on the user.
    is_personal: bool,
}

/// A checked request, ready for execution.
pub(crate) struct CheckedRequest {
    /// The operation and its variables.
    pub(crate) template: Template,
    /// The kind of the operation.
    pub(crate) kind: Kind,
    /// The upper bound of its cost.
    pub(crate) price: Price,
    /// True if a selected field depends on the user, and not only on the role and the scopes.
    pub(crate) is_personal: bool,
}

/// The cost of an operation, known before any of it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Price(cost::Price);

impl Price {
    /// Returns true if the cost grows with the number of the account's clusters.
    pub(crate) fn depends_on_clusters(self) -> bool {
        self.0.scans > 0
    }

    /// Returns the cost in points, in an account with this many clusters.
    pub(crate) fn points(self, clusters: u64) -> u64 {
        self.0.fields.saturating_add(scan::points(self.0.scans, clusters))
    }
}

/// The selected operation with the document's fragments, and the coerced variables.
#[derive(Clone)]
pub(crate) struct Template {
    executable: types::ExecutableDocument,
    variables: Variables,
    merged: HasOverlappingFields,
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An operation that reads once.
    Query,
    /// An operation that changes data.
    Mutation,
    /// An operation that delivers payloads until it ends. Subscriptions with an equal digest differ only
    /// in their starting point.
    Subscription(Digest),
}

impl Template {
    /// Returns the request for the executor.
    pub(crate) fn into_request(self) -> Request {
        let Self { executable, variables, merged } = self;
        let mut request = Request::new("").variables(variables).data(merged);
        request.set_parsed_query(executable);
        request
    }
}

impl Guard {
    /// Creates a guard of the schema. It accepts operations that cost at most `max_cost` points and, if
    /// the operator configured it, only `persisted` documents.
    pub(crate) fn new(max_cost: u64, persisted: PersistedDocuments) -> Self {
        Self(Arc::new(Inner {
            schema: Schema::validation_schema(),
            max_cost,
            persisted,
            cache: Cache::default(),
        }))
    }

    /// Returns the limit of the cost of one request, in points.
    pub(crate) fn max_cost(&self) -> u64 {
        self.0.max_cost
    }

    /// Returns the document that a request selects. Returns None if the request selects none.
    pub(crate) fn find(&self, selector: DocumentSelector) -> Result<Option<String>, ServerError> {
        self.0.persisted.find(selector)
    }

    /// Checks a request. Each of its errors has a code and no path.
    pub(crate) async fn check(
        &self,
        document: String,
        operation: Option<String>,
        variables: Map<String, Value>,
    ) -> Result<CheckedRequest, Vec<ServerError>> {
        let checked = self.checked(document, operation).await?;
        let (guarded, variables) =
            self.0.prepare_request(&checked, variables).map_err(|error| vec![error])?;
        let Checked { document, operation, places, .. } = &*checked;
        arguments::check(self.0.schema, document, operation, &variables, places)
            .map_err(|error| vec![error])?;
        self.check_cost(guarded.price.points(0))?;
        Ok(guarded)
    }

    /// Returns an error if an operation costs more than one request may.
    pub(crate) fn check_cost(&self, points: u64) -> Result<(), Vec<ServerError>> {
        self.0.affordable(points).map_err(|error| vec![error])
    }

    /// Checks a document of the server itself with variables from a client. The cost limit does not
    /// apply: the server bounds the cost by the length of its pages.
    pub(crate) async fn check_own(
        &self,
        document: &str,
        variables: Map<String, Value>,
    ) -> Result<CheckedRequest, Vec<ServerError>> {
        let checked = self.checked(document.to_owned(), None).await?;
        self.0.prepare_request(&checked, variables).map(|(guarded, _)| guarded).map_err(|error| vec![error])
    }

    /// Returns the checked document, from the cache if possible.
    async fn checked(
        &self,
        document: String,
        operation: Option<String>,
    ) -> Result<Arc<Checked>, Vec<ServerError>> {
        token_limits::check(&document).map_err(|error| vec![error])?;
        let key = cache::key(&document, operation.as_deref());
        if let Some(checked) = self.0.cache.get(&key) {
            return Ok(checked);
        }
        let (inner, bytes) = (Arc::clone(&self.0), document.len());
        let read = move || inner.read(key, document, operation.as_deref());
        let checked = Arc::new(if bytes > SMALL { run_blocking(read).await } else { read() }?);
        self.0.cache.put(key, Arc::clone(&checked), bytes);
        Ok(checked)
    }
}

impl Inner {
    /// Runs the checks that depend on the document alone.
    fn read(
        &self,
        key: cache::Key,
        document: String,
        operation: Option<&str>,
    ) -> Result<Checked, Vec<ServerError>> {
        let (places, mentions) = (LineIndex::new(&document), subscription_key::mentions(&document));
        // Deeper nesting was refused when the brackets were counted.
        let parsed = Parser::new().parse_ast(document, "document");
        let parsed = parsed.map_err(|wrong| diagnostics::parse_errors(&wrong.errors, &places))?;
        shape_limits::check(&parsed).map_err(|error| vec![error])?;
        let document = parsed
            .to_executable_validate(self.schema)
            .map_err(|wrong| diagnostics::validation_errors(&wrong.errors, &places))?;
        values::check_document(self.schema, &document, &places)
            .and_then(|()| nested_variables::check(self.schema, &document, &places))
            .map_err(|error| vec![error])?;
        let operation = operation_of(&document, operation).map_err(|error| vec![error])?;
        subscription_rules::check(self.schema, &document, &operation, &places)
            .map_err(|error| vec![error])?;
        let executable = convert::document(&document, &operation, &places, &[]);
        let merged = HasOverlappingFields(field_overlap::has_overlapping_fields(&document, &operation));
        let cursor = subscription_key::cursor_variable(&operation, &mentions);
        let is_personal = subscription_rules::is_personal(&document, &operation);
        Ok(Checked { key, document, operation, places, executable, merged, cursor, is_personal })
    }

    /// Runs the checks that depend on the variables. Also returns the coerced variables.
    fn prepare_request(
        &self,
        checked: &Checked,
        variables: Map<String, Value>,
    ) -> Result<(CheckedRequest, Valid<JsonMap>), ServerError> {
        let Checked { key, document, operation, places, executable, merged, cursor, is_personal } = checked;
        let kind = match operation.operation_type {
            OperationType::Query => Kind::Query,
            OperationType::Mutation => Kind::Mutation,
            OperationType::Subscription => {
                Kind::Subscription(subscription_key::digest(key, cursor.as_deref(), variables.clone()))
            }
        };
        let variables: JsonMap =
            variables.into_iter().map(|(name, value)| (name.into(), JsonValue::from(value))).collect();
        let coerced = coerce_variable_values(self.schema, operation, &variables).map_err(|wrong| {
            let message = without_value(wrong.message().to_string());
            refusal::at(Code::Input, message, places.position_of(wrong.location()))
        })?;
        values::check_variables(self.schema, operation, &coerced)?;
        let price = Price(cost::price_of(document, operation, &coerced));
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
        Ok((CheckedRequest { template, kind, price, is_personal: *is_personal }, coerced))
    }

    /// Returns an error if the cost exceeds the limit of one request.
    fn affordable(&self, cost: u64) -> Result<(), ServerError> {
        if cost <= self.max_cost {
            return Ok(());
        }
        let message = format!(
            "the query could cost {cost}, more than the limit of {}: request smaller pages or fewer fields",
            self.max_cost
        );
        let mut error = refusal::new(Code::CostLimit, message);
        let extensions = error.extensions.get_or_insert_default();
        extensions.set("cost", cost);
        extensions.set("limit", self.max_cost);
        Err(error)
    }
}

/// Returns the operation with this name, or the only one.
fn operation_of(
    document: &Valid<ExecutableDocument>,
    name: Option<&str>,
) -> Result<Node<Operation>, ServerError> {
    let operation = document.operations.get(name).map_err(|_| {
        let message = match name {
            Some(_) => "the document has no operation with the name in 'operationName'",
            None if document.operations.is_empty() => "the document has no operation",
            None => "the document has several operations: name one in 'operationName'",
        };
        refusal::new(Code::Operation, message)
    })?;
    introspection::check_max_depth(document, operation)
        .map_err(|_| refusal::new(Code::DepthLimit, "lists of the schema's parts nest more than 3 deep"))?;
    Ok(operation.clone())
}

/// Removes the value from a coercion error: the library repeats it, and it may be the whole request.
fn without_value(message: String) -> String {
    match (message.starts_with("could not coerce"), message.find(": "), message.rfind(" to type ")) {
        (true, Some(value), Some(ty)) if value < ty => format!("{}{}", &message[..value], &message[ty..]),
        _ => message,
    }
}
