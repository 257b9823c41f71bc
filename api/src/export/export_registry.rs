//! The registry of exports: paths, parameters and columns. Everything is derived from the schema, so
//! that an export cannot differ from the field it is named after.

use std::{fmt::Write, sync::Arc};

use apollo_compiler::{
    ExecutableDocument, Schema as CheckedSchema,
    executable::{Selection, SelectionSet},
    schema::{ExtendedType, FieldDefinition},
    validation::Valid,
};

use super::{
    column::{Column, Kind},
    list::{FINE_METRICS, LISTS, List, ListParent},
};
use crate::{graphql::Schema, guard};

/// The maximum number of items of a list that has no pages but an argument `first`.
const UNPAGED: i32 = 1_000;

/// The arguments that the server sets itself.
const PAGING: [&str; 4] = ["first", "after", "last", "before"];

/// A list that can be exported.
#[derive(Debug)]
pub(crate) struct Export {
    /// The name of the export: the field's name in kebab case.
    pub(crate) name: String,
    /// The URL path, with `{id}` for the parent object unless that is the account.
    pub(crate) path: String,
    /// The description of the list in the schema.
    pub(crate) description: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) columns: Arc<[Column]>,
    pub(crate) parent: ListParent,
    /// The GraphQL document that queries a page.
    pub(super) document: String,
    pub(super) shape: Shape,
    pub(super) page_size: i32,
}

/// The method of reading a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Page by page, through a connection.
    Connection,
    /// All items at once.
    Whole,
    /// From the store. The document only resolves the cluster.
    FineMetrics,
}

/// A parameter of an export: an argument of the field.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// Its type in the schema.
    pub(crate) ty: String,
    pub(crate) required: bool,
    pub(crate) description: String,
    /// True if the value is written as JSON instead of plain text.
    pub(crate) is_json: bool,
    /// The default value.
    pub(crate) default: Option<DefaultValue>,
}

/// The default value of a parameter, in two forms.
#[derive(Debug)]
pub(crate) struct DefaultValue {
    /// In GraphQL syntax.
    graphql: String,
    /// In the syntax of the parameter: JSON or plain text.
    pub(crate) text: String,
}

/// Returns all exports of the schema.
pub(crate) fn exports() -> Vec<Arc<Export>> {
    LISTS.iter().map(|list| Arc::new(Export::new(Schema::validation_schema(), list))).collect()
}

impl Export {
    fn new(schema: &Valid<CheckedSchema>, list: &List) -> Self {
        let field = schema.type_field(list.parent.type_name(), list.field);
        let field = field.expect("the lists are fields of the schema");
        let shape = match list.field {
            FINE_METRICS => Shape::FineMetrics,
            _ if field.arguments.iter().any(|argument| argument.name == "after") => Shape::Connection,
            _ => Shape::Whole,
        };
        let parameters: Vec<Parameter> = field
            .arguments
            .iter()
            .filter(|argument| !PAGING.contains(&argument.name.as_str()))
            .map(|argument| Parameter::new(schema, argument))
            .collect();
        let document = build_document(list, field, shape, &parameters);
        let name = to_kebab_case(list.field);
        let path = match list.parent.segment() {
            None => format!("/api/v1/export/{name}"),
            Some(parents) => format!("/api/v1/export/{parents}/{{id}}/{name}"),
        };
        let columns = selected_columns(schema, &document, shape);
        let document = match shape {
            // The list of spans checks the period.
            Shape::FineMetrics => {
                "query($_of: ID!, $enqueuedIn: TimeRange) { of: cluster(id: $_of) { number \
                                   spans(first: 1, enqueuedIn: $enqueuedIn) { pageInfo { hasNextPage } } } }"
                    .to_owned()
            }
            _ => document,
        };
        Self {
            name,
            path,
            description: describe_list(field, shape),
            parameters,
            columns,
            parent: list.parent,
            document,
            shape,
            page_size: list.page_size,
        }
    }
}

impl Parameter {
    fn new(schema: &CheckedSchema, argument: &apollo_compiler::ast::InputValueDefinition) -> Self {
        let name = argument.ty.inner_named_type().as_str();
        let is_plain_text = match schema.types.get(name) {
            Some(ExtendedType::Enum(_)) => true,
            Some(ExtendedType::Scalar(_)) => !["BigInt", "Boolean", "Float", "Int", "JSON"].contains(&name),
            _ => false,
        };
        let is_json = argument.ty.is_list() || !is_plain_text;
        let default = argument.default_value.as_ref().map(|default| DefaultValue {
            graphql: one_line(Some(&default.to_string())),
            text: match guard::convert_constant(default)
                .and_then(|default| default.into_json().ok())
                .unwrap_or_default()
            {
                serde_json::Value::String(text) if !is_json => text,
                value => value.to_string(),
            },
        });
        Self {
            name: argument.name.to_string(),
            ty: argument.ty.to_string(),
            required: argument.ty.is_non_null() && default.is_none(),
            description: one_line(argument.description.as_deref()),
            is_json,
            default,
        }
    }
}

/// Returns the description of the list, including the limit that replaces the argument `first`.
fn describe_list(field: &FieldDefinition, shape: Shape) -> String {
    let mut description = one_line(field.description.as_deref());
    if is_bounded(field, shape) {
        write!(description, " At most {UNPAGED} rows.").expect("writing to a string succeeds");
    }
    description
}

/// Returns true if the list has no pages but an argument `first`.
fn is_bounded(field: &FieldDefinition, shape: Shape) -> bool {
    shape == Shape::Whole && field.arguments.iter().any(|argument| argument.name == "first")
}

/// Returns the document that queries a page of a list, with the parameters as variables. The names of
/// its own variables begin with an underscore.
fn build_document(list: &List, field: &FieldDefinition, shape: Shape, parameters: &[Parameter]) -> String {
    let mut variables = format!("$_of: {}", list.parent.identifier_type());
    let mut arguments = String::new();
    let mut add =
        |text: std::fmt::Arguments<'_>| arguments.write_fmt(text).expect("writing to a string succeeds");
    if shape == Shape::Connection {
        variables.push_str(", $_first: Int, $_after: String");
        add(format_args!("first: $_first, after: $_after "));
    } else if is_bounded(field, shape) {
        add(format_args!("first: {UNPAGED} "));
    }
    for Parameter { name, ty, default, .. } in parameters {
        let default = default.as_ref().map(|default| format!(" = {}", default.graphql)).unwrap_or_default();
        write!(variables, ", ${name}: {ty}{default}").expect("writing to a string succeeds");
        add(format_args!("{name}: ${name} "));
    }
    let arguments = if arguments.is_empty() { arguments } else { format!("({})", arguments.trim_end()) };
    let (field, columns) = (list.field, list.columns);
    let items = match shape {
        Shape::Connection => format!("pageInfo {{ hasNextPage endCursor }} nodes {{ {columns} }}"),
        Shape::Whole => columns.to_owned(),
        Shape::FineMetrics => format!("rows {{ {columns} }}"),
    };
    let parent = list.parent.select(&format!("list: {field}{arguments} {{ {items} }}"));
    format!("query({variables}) {{ of: {parent} }}")
}

/// Returns the columns that a document selects.
fn selected_columns(schema: &Valid<CheckedSchema>, document: &str, shape: Shape) -> Arc<[Column]> {
    let document = ExecutableDocument::parse_and_validate(schema, document, "export.graphql")
        .expect("the columns of a list are fields of its items");
    let operation = document.operations.get(None).expect("the document has one operation");
    let path: &[&str] = match shape {
        Shape::Connection => &["of", "list", "nodes"],
        Shape::Whole => &["of", "list"],
        Shape::FineMetrics => &["of", "list", "rows"],
    };
    let items = path.iter().try_fold(operation.selection_set.clone(), |set, key| child_selection(&set, key));
    let columns = Column::of(schema, &items.expect("the document selects these fields"));
    if shape != Shape::FineMetrics {
        return columns.into();
    }
    let span = "The global identifier of the span. Null without a span.";
    std::iter::once(Column::new("span.id", Kind::Name, true, span)).chain(columns).collect()
}

/// Returns the selection set of the field with this response key.
fn child_selection(set: &SelectionSet, key: &str) -> Option<SelectionSet> {
    set.selections.iter().find_map(|selection| match selection {
        Selection::Field(field) => (field.response_key() == key).then(|| field.selection_set.clone()),
        Selection::InlineFragment(fragment) => child_selection(&fragment.selection_set, key),
        Selection::FragmentSpread(_) => None,
    })
}

/// Converts a field name to kebab case: `taskGroups` becomes `task-groups`.
fn to_kebab_case(field: &str) -> String {
    field.chars().fold(String::new(), |mut name, letter| {
        if letter.is_ascii_uppercase() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
        name
    })
}

fn one_line(description: Option<&str>) -> String {
    description.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_connection_can_be_exported() {
        let schema = Schema::validation_schema();
        let mut missing = Vec::new();
        for (parent, definition) in &schema.types {
            let ExtendedType::Object(object) = definition else { continue };
            for (name, field) in &object.fields {
                let is_exported = LISTS
                    .iter()
                    .any(|list| list.parent.type_name() == parent.as_str() && list.field == name.as_str());
                if field.ty.inner_named_type().ends_with("Connection") && !is_exported {
                    missing.push(format!("{parent}.{name}"));
                }
            }
        }
        // A part of a computed result, which has no parent object that a URL could name, and the user's own
        // tokens, which `GET /api/v1/api-tokens/` lists.
        assert_eq!(missing, ["IdleBacktest.affectedComputations", "Viewer.tokens"]);
    }

    #[test]
    fn addresses_and_columns_are_told_apart() {
        let exports = exports();
        let paths: BTreeSet<_> = exports.iter().map(|export| export.path.as_str()).collect();
        assert_eq!(paths.len(), exports.len());
        assert!(paths.contains("/api/v1/export/clusters/{id}/task-groups"), "{paths:?}");
        for export in exports {
            let names: BTreeSet<_> = export.columns.iter().map(|column| column.name.as_str()).collect();
            assert_eq!(names.len(), export.columns.len(), "{}", export.path);
            let undescribed = export.columns.iter().find(|column| column.description.is_empty());
            assert!(undescribed.is_none(), "{}: {undescribed:?}", export.path);
            // A parameter must not share a name with a path parameter or with `format`.
            assert!(export.parameters.iter().all(|one| one.name != "format"), "{}", export.path);
        }
    }
}
