//! The columns of an export: names, kinds and descriptions, derived from the schema.

use apollo_compiler::{
    Schema,
    ast::Type,
    executable::{Field, Selection, SelectionSet},
    schema::ExtendedType,
};
use async_graphql::Value;

/// A column of an export.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// The path of schema fields to the value, separated by dots.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// True if a row may have no value.
    pub(crate) nullable: bool,
    /// The description of the field in the schema, preceded by those of its parent fields.
    pub(crate) description: String,
    /// The response keys on the path to the value.
    path: Vec<String>,
}

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An ID or an enum value.
    Name,
    /// Free text from people and programs.
    Text,
    /// A list of free texts.
    Texts,
    /// A whole number.
    Integer,
    /// A floating-point number.
    Number,
    /// A boolean.
    Boolean,
    /// A point in time, in milliseconds.
    Time,
    /// A day in UTC.
    Day,
    /// Any other value, written as JSON.
    Json,
}

impl Kind {
    /// Returns the kind's name in the documentation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Name | Self::Text => "text",
            Self::Texts => "list of texts",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Time => "time",
            Self::Day => "day",
            Self::Json => "JSON",
        }
    }

    fn of(schema: &Schema, ty: &Type) -> Self {
        let name = ty.inner_named_type().as_str();
        match (schema.types.get(name), ty.is_list(), name) {
            (Some(ExtendedType::Scalar(_)), true, "String") => Self::Texts,
            (_, true, _) => Self::Json,
            (Some(ExtendedType::Enum(_)), ..) | (_, _, "ID") => Self::Name,
            (_, _, "String") => Self::Text,
            (_, _, "Int" | "BigInt") => Self::Integer,
            (_, _, "Float") => Self::Number,
            (_, _, "Boolean") => Self::Boolean,
            (_, _, "DateTime") => Self::Time,
            (_, _, "Date") => Self::Day,
            _ => Self::Json,
        }
    }
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    /// A text, an enum value, or a time or day in the schema's format.
    Text(&'a str),
    Texts(Vec<&'a str>),
    Integer(i64),
    Number(f64),
    Boolean(bool),
    Json(String),
}

impl Column {
    /// Returns a column that is not a field of the schema.
    pub(super) fn new(name: &str, kind: Kind, nullable: bool, description: &str) -> Self {
        Self { name: name.to_owned(), kind, nullable, description: description.to_owned(), path: Vec::new() }
    }

    /// Returns the leaves of a selection set, in order. Lists of objects count as leaves, and so do
    /// objects of several possible types.
    pub(super) fn of(schema: &Schema, selections: &SelectionSet) -> Vec<Self> {
        let mut columns = Vec::new();
        let root = Self::new("", Kind::Json, false, "");
        root.add_below(schema, selections, &mut columns);
        columns
    }

    fn add_below(&self, schema: &Schema, selections: &SelectionSet, columns: &mut Vec<Self>) {
        for selection in &selections.selections {
            let Selection::Field(field) = selection else { continue };
            let column = self.below(schema, field);
            let ty = schema.types.get(field.ty().inner_named_type());
            let is_object = matches!(ty, Some(ExtendedType::Object(_)));
            if field.ty().is_list() || !is_object {
                columns.push(column);
            } else {
                column.add_below(schema, &field.selection_set, columns);
            }
        }
    }

    /// Returns the column of a field below this one.
    fn below(&self, schema: &Schema, field: &Field) -> Self {
        let mut path = self.path.clone();
        path.push(field.response_key().to_string());
        let described = field.definition.description.as_deref().unwrap_or_default();
        let described = described.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            name: path.join("."),
            kind: Kind::of(schema, field.ty()),
            nullable: self.nullable || !field.ty().is_non_null(),
            description: format!("{} {described}", self.description).trim().to_owned(),
            path,
        }
    }

    /// Returns the column's value in a row of a GraphQL response.
    pub(super) fn cell<'a>(&self, row: &'a Value) -> Cell<'a> {
        let value = self.path.iter().try_fold(row, |value, name| match value {
            Value::Object(fields) => fields.get(name.as_str()),
            _ => None,
        });
        match (self.kind, value) {
            (_, None | Some(Value::Null)) => Cell::Null,
            (Kind::Texts, Some(Value::List(items))) => Cell::Texts(items.iter().filter_map(text).collect()),
            (Kind::Integer, Some(Value::Number(number))) => number.as_i64().map_or(Cell::Null, Cell::Integer),
            (Kind::Number, Some(Value::Number(number))) => number.as_f64().map_or(Cell::Null, Cell::Number),
            (Kind::Boolean, Some(Value::Boolean(value))) => Cell::Boolean(*value),
            (Kind::Json, Some(value)) => serde_json::to_string(value).map_or(Cell::Null, Cell::Json),
            (_, Some(value)) => text(value).map_or(Cell::Null, Cell::Text),
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Enum(name) => Some(name.as_str()),
        _ => None,
    }
}
