//! Converts checked documents of the library to documents of the executor. The executor parses no text:
//! if two parsers disagreed, it would execute a document that was not checked.

use std::collections::HashMap;

use apollo_compiler::{
    ExecutableDocument, Name as CheckedName, Node,
    ast::{Argument, Directive, DirectiveList, OperationType, Type, Value},
    executable::{Operation, Selection, SelectionSet},
    response::JsonValue,
};
use async_graphql::{
    Name, Pos, Positioned,
    parser::types::{self, BaseType, DocumentOperations},
};
use async_graphql_value::{ConstValue, Number, Value as ExecutableValue};

use super::line_index::LineIndex;

/// Converts one operation and the fragments of its document. An argument with an absent variable
/// is left out, so that its default applies; the executor would read it as null.
pub(super) fn convert_document(
    document: &ExecutableDocument,
    operation: &Operation,
    line_index: &LineIndex,
    absent_variables: &[&str],
) -> types::ExecutableDocument {
    let convert = Convert { line_index, absent_variables };
    types::ExecutableDocument {
        operations: DocumentOperations::Single(convert.operation(operation)),
        fragments: document
            .fragments
            .values()
            .map(|fragment| {
                let definition = types::FragmentDefinition {
                    type_condition: convert.condition(fragment.type_condition()),
                    directives: convert.directives(&fragment.directives),
                    selection_set: convert.selections(&fragment.selection_set),
                };
                (Name::new(&*fragment.name), convert.positioned(fragment, definition))
            })
            .collect::<HashMap<_, _>>(),
    }
}

/// Converts a value without variables. Returns None if it has some.
pub(crate) fn convert_constant(value: &Value) -> Option<ConstValue> {
    convert_value(value, &|_| true)?.into_const()
}

/// Converts the value of a variable.
pub(super) fn convert_json(value: &JsonValue) -> ConstValue {
    match value {
        JsonValue::Null => ConstValue::Null,
        JsonValue::Bool(boolean) => ConstValue::Boolean(*boolean),
        JsonValue::Number(number) => ConstValue::Number(number.clone()),
        JsonValue::String(text) => ConstValue::String(text.as_str().to_owned()),
        JsonValue::Array(items) => ConstValue::List(items.iter().map(convert_json).collect()),
        JsonValue::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (Name::new(name.as_str()), convert_json(value)));
            ConstValue::Object(fields.collect())
        }
    }
}

struct Convert<'a> {
    line_index: &'a LineIndex,
    absent_variables: &'a [&'a str],
}

impl Convert<'_> {
    fn positioned<T, U>(&self, from: &Node<T>, node: U) -> Positioned<U> {
        Positioned::new(node, self.line_index.position_of(from.location()).unwrap_or_default())
    }

    fn name(&self, name: &CheckedName) -> Positioned<Name> {
        Positioned::new(Name::new(&**name), self.line_index.position_of(name.location()).unwrap_or_default())
    }

    fn operation(&self, operation: &Operation) -> Positioned<types::OperationDefinition> {
        let variable_definitions = operation.variables.iter().map(|variable| {
            let definition = types::VariableDefinition {
                name: self.name(&variable.name),
                var_type: self.positioned(&variable.ty, convert_type(&variable.ty)),
                directives: self.directives(&variable.directives),
                default_value: variable
                    .default_value
                    .as_ref()
                    .and_then(|value| Some(self.positioned(value, convert_constant(value)?))),
            };
            self.positioned(variable, definition)
        });
        let definition = types::OperationDefinition {
            ty: match operation.operation_type {
                OperationType::Query => types::OperationType::Query,
                OperationType::Mutation => types::OperationType::Mutation,
                OperationType::Subscription => types::OperationType::Subscription,
            },
            variable_definitions: variable_definitions.collect(),
            directives: self.directives(&operation.directives),
            selection_set: self.selections(&operation.selection_set),
        };
        Positioned::new(definition, Pos::default())
    }

    fn selections(&self, set: &SelectionSet) -> Positioned<types::SelectionSet> {
        let items = set.selections.iter().map(|selection| match selection {
            Selection::Field(field) => {
                let executable = types::Field {
                    alias: field.alias.as_ref().map(|alias| self.name(alias)),
                    name: self.name(&field.name),
                    arguments: self.arguments(&field.arguments),
                    directives: self.directives(&field.directives),
                    selection_set: self.selections(&field.selection_set),
                };
                self.positioned(field, types::Selection::Field(self.positioned(field, executable)))
            }
            Selection::FragmentSpread(spread) => {
                let executable = types::FragmentSpread {
                    fragment_name: self.name(&spread.fragment_name),
                    directives: self.directives(&spread.directives),
                };
                let executable = self.positioned(spread, executable);
                self.positioned(spread, types::Selection::FragmentSpread(executable))
            }
            Selection::InlineFragment(fragment) => {
                let executable = types::InlineFragment {
                    type_condition: fragment
                        .type_condition
                        .as_ref()
                        .map(|type_name| self.condition(type_name)),
                    directives: self.directives(&fragment.directives),
                    selection_set: self.selections(&fragment.selection_set),
                };
                let executable = self.positioned(fragment, executable);
                self.positioned(fragment, types::Selection::InlineFragment(executable))
            }
        });
        Positioned::new(types::SelectionSet { items: items.collect() }, Pos::default())
    }

    fn condition(&self, type_name: &CheckedName) -> Positioned<types::TypeCondition> {
        let type_name = self.name(type_name);
        Positioned::new(types::TypeCondition { on: type_name.clone() }, type_name.pos)
    }

    fn directives(&self, directives: &DirectiveList) -> Vec<Positioned<types::Directive>> {
        let convert = |directive: &Node<Directive>| {
            let executable = types::Directive {
                name: self.name(&directive.name),
                arguments: self.arguments(&directive.arguments),
            };
            self.positioned(directive, executable)
        };
        directives.iter().map(convert).collect()
    }

    fn arguments(
        &self,
        arguments: &[Node<Argument>],
    ) -> Vec<(Positioned<Name>, Positioned<ExecutableValue>)> {
        let convert = |argument: &Node<Argument>| {
            let value =
                convert_value(&argument.value, &|variable| !self.absent_variables.contains(&variable))?;
            Some((self.name(&argument.name), self.positioned(&argument.value, value)))
        };
        arguments.iter().filter_map(convert).collect()
    }
}

/// Converts a value. Returns None for an absent variable.
fn convert_value(value: &Value, is_present: &dyn Fn(&str) -> bool) -> Option<ExecutableValue> {
    Some(match value {
        Value::Null => ExecutableValue::Null,
        Value::Enum(name) => ExecutableValue::Enum(Name::new(&**name)),
        Value::Variable(name) if is_present(name) => ExecutableValue::Variable(Name::new(&**name)),
        Value::Variable(_) => return None,
        Value::String(text) => ExecutableValue::String(text.clone()),
        Value::Boolean(boolean) => ExecutableValue::Boolean(*boolean),
        Value::Int(number) => convert_number(number.as_str()),
        Value::Float(number) => convert_number(number.as_str()),
        Value::List(items) => {
            let items = items.iter().map(|item| convert_value(item, is_present).unwrap_or_default());
            ExecutableValue::List(items.collect())
        }
        Value::Object(fields) => {
            let field = |(name, value): &(CheckedName, Node<Value>)| {
                Some((Name::new(&**name), convert_value(value, is_present)?))
            };
            ExecutableValue::Object(fields.iter().filter_map(field).collect())
        }
    })
}

/// Converts a number. Validation has already refused a number that cannot be represented.
fn convert_number(text: &str) -> ExecutableValue {
    text.parse::<Number>().map_or(ExecutableValue::Null, ExecutableValue::Number)
}

fn convert_type(ty: &Type) -> types::Type {
    let base = match ty {
        Type::Named(name) | Type::NonNullNamed(name) => BaseType::Named(Name::new(&**name)),
        Type::List(item) | Type::NonNullList(item) => BaseType::List(Box::new(convert_type(item))),
    };
    types::Type { base, nullable: !ty.is_non_null() }
}
