//! Values of the schema's custom scalars and of `oneOf` input objects. The library checks the other
//! rules of the specification about values; these checks are left to the server, or missing in the
//! library.

use std::collections::HashSet;

use apollo_compiler::{
    ExecutableDocument, Node, Schema,
    ast::{Type, Value},
    executable::{Operation, Selection, SelectionSet},
    parser::SourceSpan,
    response::{JsonMap, JsonValue},
    schema::{ExtendedType, InputObjectType},
};
use async_graphql::ServerError;

use super::{
    convert,
    line_index::LineIndex,
    refusal::{self, Code},
};
use crate::graphql::check_scalar;

/// Checks the coerced variables of an operation.
pub(super) fn check_variables(
    schema: &Schema,
    operation: &Operation,
    variables: &JsonMap,
) -> Result<(), ServerError> {
    for variable in &operation.variables {
        if let Some(value) = variables.get(variable.name.as_str()) {
            check(schema, &variable.ty, value).map_err(|reason| {
                refusal::new(Code::Input, format!("variable '{}': {reason}", variable.name))
            })?;
        }
    }
    Ok(())
}

/// Checks the literal values of a document.
pub(super) fn check_document(
    schema: &Schema,
    document: &ExecutableDocument,
    line_index: &LineIndex,
) -> Result<(), ServerError> {
    for operation in document.operations.iter() {
        for variable in &operation.variables {
            if let Some(default) = &variable.default_value {
                check_literal(schema, &variable.ty, default)
                    .map_err(|error| error.refusal(&format!("variable '{}'", variable.name), line_index))?;
            }
        }
        check_selections(schema, &operation.selection_set, line_index)?;
    }
    document
        .fragments
        .values()
        .try_for_each(|fragment| check_selections(schema, &fragment.selection_set, line_index))
}

fn check_selections(schema: &Schema, set: &SelectionSet, line_index: &LineIndex) -> Result<(), ServerError> {
    for selection in &set.selections {
        match selection {
            Selection::Field(field) => {
                for argument in &field.arguments {
                    let definition =
                        field.definition.arguments.iter().find(|definition| definition.name == argument.name);
                    let result = definition
                        .map_or(Ok(()), |definition| check_literal(schema, &definition.ty, &argument.value));
                    result.map_err(|error| {
                        error.refusal(&format!("argument '{}'", argument.name), line_index)
                    })?;
                }
                check_selections(schema, &field.selection_set, line_index)?;
            }
            Selection::InlineFragment(fragment) => {
                check_selections(schema, &fragment.selection_set, line_index)?;
            }
            // Each fragment is checked at its definition.
            Selection::FragmentSpread(_) => {}
        }
    }
    Ok(())
}

/// The error of a value of the document, or of a value within it.
struct ValueError {
    reason: String,
    location: Option<SourceSpan>,
}

impl ValueError {
    fn new(reason: impl Into<String>, value: &Node<Value>) -> Self {
        Self { reason: reason.into(), location: value.location() }
    }

    fn refusal(self, subject: &str, line_index: &LineIndex) -> ServerError {
        refusal::at(
            Code::Validation,
            format!("{subject}: {}", self.reason),
            line_index.position_of(self.location),
        )
    }
}

fn check(schema: &Schema, ty: &Type, value: &JsonValue) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    if let Type::List(item) | Type::NonNullList(item) = ty {
        // A single value is coerced to a list.
        let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        return items.iter().try_for_each(|value| check(schema, item, value));
    }
    match schema.types.get(ty.inner_named_type()) {
        Some(ExtendedType::Scalar(scalar)) => check_scalar(&scalar.name, convert::convert_json(value)),
        Some(ExtendedType::InputObject(object)) => {
            let Some(fields) = value.as_object() else { return Ok(()) };
            one_of(object, fields.len(), fields.values().any(JsonValue::is_null))?;
            fields.iter().try_for_each(|(field, value)| match object.fields.get(field.as_str()) {
                Some(definition) => check(schema, &definition.ty, value)
                    .map_err(|reason| format!("field '{}': {reason}", field.as_str())),
                None => Ok(()),
            })
        }
        _ => Ok(()),
    }
}

/// Checks a literal value. Its variables are checked separately.
fn check_literal(schema: &Schema, ty: &Type, value: &Node<Value>) -> Result<(), ValueError> {
    if value.is_null() || value.as_variable().is_some() {
        return Ok(());
    }
    if let Type::List(item) | Type::NonNullList(item) = ty {
        let items = value.as_list().unwrap_or(std::slice::from_ref(value));
        return items.iter().try_for_each(|value| check_literal(schema, item, value));
    }
    match schema.types.get(ty.inner_named_type()) {
        Some(ExtendedType::Scalar(scalar)) => convert::convert_constant(value).map_or(Ok(()), |constant| {
            check_scalar(&scalar.name, constant).map_err(|reason| ValueError::new(reason, value))
        }),
        Some(ExtendedType::InputObject(object)) => {
            let Some(fields) = value.as_object() else { return Ok(()) };
            let mut unique_names = HashSet::new();
            if let Some((name, _)) = fields.iter().find(|(name, _)| !unique_names.insert(name)) {
                let reason = format!("field '{name}' is given more than once");
                return Err(ValueError { reason, location: name.location() });
            }
            one_of(object, fields.len(), fields.iter().any(|(_, value)| value.is_null()))
                .map_err(|reason| ValueError::new(reason, value))?;
            fields.iter().try_for_each(|(field, value)| match object.fields.get(field) {
                Some(definition) => check_literal(schema, &definition.ty, value).map_err(|error| {
                    ValueError { reason: format!("field '{field}': {}", error.reason), ..error }
                }),
                None => Ok(()),
            })
        }
        _ => Ok(()),
    }
}

/// Checks that a `oneOf` input object has exactly one field, and that the field is not null.
fn one_of(object: &InputObjectType, field_count: usize, has_null: bool) -> Result<(), String> {
    if object.directives.has("oneOf") && (field_count != 1 || has_null) {
        return Err(format!("exactly one field of '{}' must be given", object.name));
    }
    Ok(())
}
