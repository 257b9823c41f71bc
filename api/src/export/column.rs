//! Columns: which there are, what is in them, and what the schema says of them.

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
    /// The names of the schema's fields that lead to the value, with dots between them.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Whether a row may have no value.
    pub(crate) nullable: bool,
    /// What the schema says of the field, and before it of those it lies in.
    pub(crate) description: String,
    /// The fields that lead to the value.
    path: Vec<String>,
}

/// What is in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier, or a name of the schema's own.
    Name,
    /// What people and programs wrote.
    Text,
    /// Such texts.
    Texts,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// Yes or no.
    Boolean,
    /// A moment, to the millisecond.
    Time,
    /// A day in UTC.
    Day,
    /// Anything else, written as JSON.
    Json,
}

impl Kind {
    /// What it is called in the documents.
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
    /// A text, a name, or a time or a day as the schema writes them.
    Text(&'a str),
    Texts(Vec<&'a str>),
    Integer(i64),
    Number(f64),
    Boolean(bool),
    Json(String),
}

impl Column {
    /// A column that is no field of the schema.
    pub(super) fn new(name: &str, kind: Kind, nullable: bool, description: &str) -> Self {
        Self { name: name.to_owned(), kind, nullable, description: description.to_owned(), path: Vec::new() }
    }

    /// The leaves of a selection, in its order. Lists of objects are leaves themselves, and so are objects that may be of
    /// several types.
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

    /// The column of a field of this one's values.
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

    /// The value of a row that the executor answered.
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
