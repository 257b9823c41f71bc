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

/// Converts one operation and the fragments of its document. An argument whose variable is `absent` is
/// left out, so that its default applies; the executor would read it as null.
pub(super) fn document(
    document: &ExecutableDocument,
    operation: &Operation,
    places: &LineIndex,
    absent: &[&str],
) -> types::ExecutableDocument {
    let convert = Convert { places, absent };
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
pub(crate) fn constant(value: &Value) -> Option<ConstValue> {
    executable(value, &|_| true)?.into_const()
}

/// Converts the value of a variable.
pub(super) fn json(value: &JsonValue) -> ConstValue {
    match value {
        JsonValue::Null => ConstValue::Null,
        JsonValue::Bool(boolean) => ConstValue::Boolean(*boolean),
        JsonValue::Number(number) => ConstValue::Number(number.clone()),
        JsonValue::String(text) => ConstValue::String(text.as_str().to_owned()),
        JsonValue::Array(items) => ConstValue::List(items.iter().map(json).collect()),
        JsonValue::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (Name::new(name.as_str()), json(value)));
            ConstValue::Object(fields.collect())
        }
    }
}

struct Convert<'a> {
    places: &'a LineIndex,
    absent: &'a [&'a str],
}

impl Convert<'_> {
    fn positioned<T, U>(&self, from: &Node<T>, node: U) -> Positioned<U> {
        Positioned::new(node, self.places.position_of(from.location()).unwrap_or_default())
    }

    fn name(&self, name: &CheckedName) -> Positioned<Name> {
        Positioned::new(Name::new(&**name), self.places.position_of(name.location()).unwrap_or_default())
    }

    fn operation(&self, operation: &Operation) -> Positioned<types::OperationDefinition> {
        let variable_definitions = operation.variables.iter().map(|variable| {
            let definition = types::VariableDefinition {
                name: self.name(&variable.name),
                var_type: self.positioned(&variable.ty, type_of(&variable.ty)),
                directives: self.directives(&variable.directives),
                default_value: variable
                    .default_value
                    .as_ref()
                    .and_then(|value| Some(self.positioned(value, constant(value)?))),
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
                    type_condition: fragment.type_condition.as_ref().map(|on| self.condition(on)),
                    directives: self.directives(&fragment.directives),
                    selection_set: self.selections(&fragment.selection_set),
                };
                let executable = self.positioned(fragment, executable);
                self.positioned(fragment, types::Selection::InlineFragment(executable))
            }
        });
        Positioned::new(types::SelectionSet { items: items.collect() }, Pos::default())
    }

    fn condition(&self, on: &CheckedName) -> Positioned<types::TypeCondition> {
        let on = self.name(on);
        Positioned::new(types::TypeCondition { on: on.clone() }, on.pos)
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
            let value = executable(&argument.value, &|variable| !self.absent.contains(&variable))?;
            Some((self.name(&argument.name), self.positioned(&argument.value, value)))
        };
        arguments.iter().filter_map(convert).collect()
    }
}

/// Converts a value. Returns None for a variable that is not given.
fn executable(value: &Value, is_given: &dyn Fn(&str) -> bool) -> Option<ExecutableValue> {
    Some(match value {
        Value::Null => ExecutableValue::Null,
        Value::Enum(name) => ExecutableValue::Enum(Name::new(&**name)),
        Value::Variable(name) if is_given(name) => ExecutableValue::Variable(Name::new(&**name)),
        Value::Variable(_) => return None,
        Value::String(text) => ExecutableValue::String(text.clone()),
        Value::Boolean(boolean) => ExecutableValue::Boolean(*boolean),
        Value::Int(number) => number_of(number.as_str()),
        Value::Float(number) => number_of(number.as_str()),
        Value::List(items) => {
            let items = items.iter().map(|item| executable(item, is_given).unwrap_or_default());
            ExecutableValue::List(items.collect())
        }
        Value::Object(fields) => {
            let field = |(name, value): &(CheckedName, Node<Value>)| {
                Some((Name::new(&**name), executable(value, is_given)?))
            };
            ExecutableValue::Object(fields.iter().filter_map(field).collect())
        }
    })
}

/// Converts a number. Validation has already refused a number that cannot be represented.
fn number_of(text: &str) -> ExecutableValue {
    text.parse::<Number>().map_or(ExecutableValue::Null, ExecutableValue::Number)
}

fn type_of(ty: &Type) -> types::Type {
    let base = match ty {
        Type::Named(name) | Type::NonNullNamed(name) => BaseType::Named(Name::new(&**name)),
        Type::List(item) | Type::NonNullList(item) => BaseType::List(Box::new(type_of(item))),
    };
    types::Type { base, nullable: !ty.is_non_null() }
}
