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

pub(crate) use self::convert::convert_constant;
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
    graphql::{CompiledRead, HasOverlappingFields, Schema},
};

/// The size in bytes up to which a document is read on the thread that serves requests. Larger ones take
/// milliseconds.
const MAX_INLINE_BYTES: usize = 4 << 10;

/// Checks requests before they are executed.
#[derive(Clone)]
pub(crate) struct Guard(Arc<Inner>);

struct Inner {
    schema: &'static Valid<CheckedSchema>,
    max_cost: u64,
    persisted: PersistedDocuments,
    cache: Cache<CheckedDocument>,
}

/// A document that is valid for any variables.
struct CheckedDocument {
    key: cache::Key,
    document: Valid<ExecutableDocument>,
    operation: Node<Operation>,
    line_index: LineIndex,
    executable: Arc<types::ExecutableDocument>,
    compiled: Option<Arc<CompiledRead>>,
    overlapping_fields: HasOverlappingFields,
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
    executable: Arc<types::ExecutableDocument>,
    /// The compiled form. None if the executor has to resolve the operation.
    compiled: Option<Arc<CompiledRead>>,
    variables: Variables,
    overlapping_fields: HasOverlappingFields,
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
    /// Returns the compiled form and the coerced variables. `None` if the executor has to resolve the
    /// operation.
    pub(crate) fn compiled(&self) -> Option<(&CompiledRead, &Variables)> {
        Some((self.compiled.as_deref()?, &self.variables))
    }

    /// Returns the request for the executor.
    pub(crate) fn into_request(self) -> Request {
        let Self { executable, compiled: _, variables, overlapping_fields } = self;
        let mut request = Request::new("").variables(variables).data(overlapping_fields);
        request.set_parsed_query(Arc::unwrap_or_clone(executable));
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
        let checked = self.load_document(document, operation).await?;
        let (request, variables) =
            self.0.prepare_request(&checked, variables).map_err(|error| vec![error])?;
        let CheckedDocument { document, operation, line_index, .. } = &*checked;
        arguments::check(self.0.schema, document, operation, &variables, line_index)
            .map_err(|error| vec![error])?;
        self.check_cost(request.price.points(0))?;
        Ok(request)
    }

    /// Returns an error if an operation costs more than one request may.
    pub(crate) fn check_cost(&self, points: u64) -> Result<(), Vec<ServerError>> {
        self.0.check_cost_limit(points).map_err(|error| vec![error])
    }

    /// Checks a document of the server itself with variables from a client. The cost limit does not
    /// apply: the server bounds the cost by the length of its pages.
    pub(crate) async fn check_own(
        &self,
        document: &str,
        variables: Map<String, Value>,
    ) -> Result<CheckedRequest, Vec<ServerError>> {
        let checked = self.load_document(document.to_owned(), None).await?;
        self.0.prepare_request(&checked, variables).map(|(request, _)| request).map_err(|error| vec![error])
    }

    /// Returns the checked document, from the cache if possible.
    async fn load_document(
        &self,
        document: String,
        operation: Option<String>,
    ) -> Result<Arc<CheckedDocument>, Vec<ServerError>> {
        token_limits::check(&document).map_err(|error| vec![error])?;
        let key = cache::document_key(&document, operation.as_deref());
        if let Some(checked) = self.0.cache.get(&key) {
            return Ok(checked);
        }
        let (inner, bytes) = (Arc::clone(&self.0), document.len());
        let check = move || inner.check_document(key, document, operation.as_deref());
        let checked = Arc::new(if bytes > MAX_INLINE_BYTES { run_blocking(check).await } else { check() }?);
        self.0.cache.put(key, Arc::clone(&checked), bytes);
        Ok(checked)
    }
}

impl Inner {
    /// Runs the checks that depend on the document alone.
    fn check_document(
        &self,
        key: cache::Key,
        document: String,
        operation: Option<&str>,
    ) -> Result<CheckedDocument, Vec<ServerError>> {
        let (line_index, mentions) = (LineIndex::new(&document), subscription_key::mentions(&document));
        // `token_limits` has already refused deeper nesting.
        let parsed = Parser::new().parse_ast(document, "document");
        let parsed = parsed.map_err(|error| diagnostics::parse_errors(&error.errors, &line_index))?;
        shape_limits::check(&parsed).map_err(|error| vec![error])?;
        let document = parsed
            .to_executable_validate(self.schema)
            .map_err(|error| diagnostics::validation_errors(&error.errors, &line_index))?;
        values::check_document(self.schema, &document, &line_index)
            .and_then(|()| nested_variables::check(self.schema, &document, &line_index))
            .map_err(|error| vec![error])?;
        let operation = select_operation(&document, operation).map_err(|error| vec![error])?;
        subscription_rules::check(self.schema, &document, &operation, &line_index)
            .map_err(|error| vec![error])?;
        let executable = convert::convert_document(&document, &operation, &line_index, &[]);
        let overlapping_fields =
            HasOverlappingFields(field_overlap::has_overlapping_fields(&document, &operation));
        let compiled = if overlapping_fields.0 { None } else { CompiledRead::compile(&executable) };
        let cursor = subscription_key::cursor_variable(&operation, &mentions);
        let is_personal = subscription_rules::is_personal(&document, &operation);
        Ok(CheckedDocument {
            key,
            document,
            operation,
            line_index,
            executable: Arc::new(executable),
            compiled: compiled.map(Arc::new),
            overlapping_fields,
            cursor,
            is_personal,
        })
    }

    /// Runs the checks that depend on the variables. Also returns the coerced variables.
    fn prepare_request(
        &self,
        checked: &CheckedDocument,
        variables: Map<String, Value>,
    ) -> Result<(CheckedRequest, Valid<JsonMap>), ServerError> {
        let CheckedDocument {
            key,
            document,
            operation,
            line_index,
            executable,
            compiled,
            overlapping_fields,
            cursor,
            is_personal,
        } = checked;
        let kind = match operation.operation_type {
            OperationType::Query => Kind::Query,
            OperationType::Mutation => Kind::Mutation,
            OperationType::Subscription => {
                Kind::Subscription(subscription_key::digest(key, cursor.as_deref(), variables.clone()))
            }
        };
        let variables: JsonMap =
            variables.into_iter().map(|(name, value)| (name.into(), JsonValue::from(value))).collect();
        let coerced_variables =
            coerce_variable_values(self.schema, operation, &variables).map_err(|error| {
                let message = without_value(error.message().to_string());
                refusal::at(Code::Input, message, line_index.position_of(error.location()))
            })?;
        values::check_variables(self.schema, operation, &coerced_variables)?;
        let price = Price(cost::price_of(document, operation, &coerced_variables));
        let names = operation.variables.iter().map(|variable| variable.name.as_str());
        let absent_variables: Vec<&str> =
            names.filter(|name| !coerced_variables.contains_key(*name)).collect();
        let executable = if absent_variables.is_empty() {
            Arc::clone(executable)
        } else {
            Arc::new(convert::convert_document(document, operation, line_index, &absent_variables))
        };
        let mut variables = Variables::default();
        variables.extend(
            coerced_variables
                .iter()
                .map(|(name, value)| (Name::new(name.as_str()), convert::convert_json(value))),
        );
        let (compiled, overlapping_fields) = (compiled.clone(), *overlapping_fields);
        let template = Template { executable, compiled, variables, overlapping_fields };
        Ok((CheckedRequest { template, kind, price, is_personal: *is_personal }, coerced_variables))
    }

    /// Returns an error if the cost exceeds the limit of one request.
    fn check_cost_limit(&self, cost: u64) -> Result<(), ServerError> {
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
fn select_operation(
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
