//! Variables within lists and input objects. apollo-compiler checks the type of a variable that is a whole
//! argument, but accepts any variable within one, so that null could reach a non-null position.

use std::collections::{HashMap, HashSet};

use apollo_compiler::{
    ExecutableDocument, Name, Node, Schema,
    ast::{Type, Value, VariableDefinition},
    executable::{Selection, SelectionSet},
    schema::ExtendedType,
};
use async_graphql::ServerError;

use super::{
    line_index::LineIndex,
    refusal::{self, Code},
};

/// A variable within a value, and the type expected there.
struct VariableUse<'a> {
    variable: &'a Name,
    expected: &'a Type,
    /// True if the position has a default, which applies when the variable is absent.
    has_default: bool,
    /// True if the position is in a `oneOf` input object, where null is invalid whatever the type is.
    is_one_of: bool,
    value: &'a Node<Value>,
}

/// The nested variables and the fragment spreads of one operation or fragment.
#[derive(Default)]
struct VariableUses<'a> {
    nested: Vec<VariableUse<'a>>,
    spreads: Vec<&'a Name>,
}

/// Checks the nested variables of every operation, including those in its fragments.
pub(super) fn check(
    schema: &Schema,
    document: &ExecutableDocument,
    line_index: &LineIndex,
) -> Result<(), ServerError> {
    let fragments: HashMap<&Name, VariableUses<'_>> = document
        .fragments
        .iter()
        .map(|(name, fragment)| (name, VariableUses::of(schema, &fragment.selection_set)))
        .collect();
    for operation in document.operations.iter() {
        let operation_uses = VariableUses::of(schema, &operation.selection_set);
        let definitions: HashMap<&Name, &VariableDefinition> =
            operation.variables.iter().map(|variable| (&variable.name, &**variable)).collect();
        let (mut visited_fragments, mut pending_uses) = (HashSet::new(), vec![&operation_uses]);
        while let Some(uses) = pending_uses.pop() {
            uses.nested.iter().try_for_each(|variable_use| variable_use.check(&definitions, line_index))?;
            let unvisited_spreads = uses.spreads.iter().filter(|name| visited_fragments.insert(**name));
            pending_uses.extend(unvisited_spreads.filter_map(|name| fragments.get(*name)));
        }
    }
    Ok(())
}

impl<'a> VariableUses<'a> {
    fn of(schema: &'a Schema, set: &'a SelectionSet) -> Self {
        let mut uses = Self::default();
        uses.collect_selections(schema, set);
        uses
    }

    fn collect_selections(&mut self, schema: &'a Schema, set: &'a SelectionSet) {
        for selection in &set.selections {
            match selection {
                Selection::Field(field) => {
                    for argument in &field.arguments {
                        let definition = field
                            .definition
                            .arguments
                            .iter()
                            .find(|definition| definition.name == argument.name);
                        if let Some(definition) = definition {
                            self.collect_nested(schema, &definition.ty, &argument.value);
                        }
                    }
                    self.collect_selections(schema, &field.selection_set);
                }
                Selection::InlineFragment(fragment) => {
                    self.collect_selections(schema, &fragment.selection_set);
                }
                Selection::FragmentSpread(spread) => self.spreads.push(&spread.fragment_name),
            }
        }
    }

    /// Collects the variables within a value of this type.
    fn collect_nested(&mut self, schema: &'a Schema, ty: &'a Type, value: &'a Node<Value>) {
        match (&**value, ty) {
            (Value::List(items), Type::List(item) | Type::NonNullList(item)) => {
                for value in items {
                    self.collect_item(schema, item, false, false, value);
                }
            }
            (Value::Object(fields), _) => {
                // The type may be a list: GraphQL coerces a single object to one.
                let Some(ExtendedType::InputObject(object)) = schema.types.get(ty.inner_named_type()) else {
                    return;
                };
                let is_one_of = object.directives.has("oneOf");
                for (name, value) in fields {
                    if let Some(definition) = object.fields.get(name) {
                        let has_default = definition.default_value.is_some();
                        self.collect_item(schema, &definition.ty, has_default, is_one_of, value);
                    }
                }
            }
            _ => {}
        }
    }

    fn collect_item(
        &mut self,
        schema: &'a Schema,
        expected: &'a Type,
        has_default: bool,
        is_one_of: bool,
        value: &'a Node<Value>,
    ) {
        match value.as_variable() {
            Some(variable) => {
                self.nested.push(VariableUse { variable, expected, has_default, is_one_of, value });
            }
            None => self.collect_nested(schema, expected, value),
        }
    }
}

impl VariableUse<'_> {
    /// Applies the specification's `IsVariableUsageAllowed`.
    fn check(
        &self,
        definitions: &HashMap<&Name, &VariableDefinition>,
        line_index: &LineIndex,
    ) -> Result<(), ServerError> {
        // apollo-compiler reports an undefined variable.
        let Some(definition) = definitions.get(self.variable) else { return Ok(()) };
        let has_non_null_default = definition.default_value.as_ref().is_some_and(|value| !value.is_null());
        let is_allowed = if self.is_one_of && !definition.ty.is_non_null() {
            false
        } else if self.has_default || has_non_null_default {
            definition.ty.is_assignable_to(&self.expected.clone().nullable())
        } else {
            definition.ty.is_assignable_to(self.expected)
        };
        if is_allowed {
            return Ok(());
        }
        let message = format!(
            "variable `${}` of type `{}` cannot be used where `{}` is expected",
            self.variable, definition.ty, self.expected
        );
        Err(refusal::at(Code::Validation, message, line_index.position_of(self.value.location())))
    }
}
