//! Variables within lists and input objects. The library checks the type of a variable that is a whole
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
    /// True if null is invalid here, whatever the type is.
    one_of: bool,
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
    places: &LineIndex,
) -> Result<(), ServerError> {
    let fragments: HashMap<&Name, VariableUses<'_>> = document
        .fragments
        .iter()
        .map(|(name, fragment)| (name, VariableUses::of(schema, &fragment.selection_set)))
        .collect();
    for operation in document.operations.iter() {
        let own = VariableUses::of(schema, &operation.selection_set);
        let defined: HashMap<&Name, &VariableDefinition> =
            operation.variables.iter().map(|variable| (&variable.name, &**variable)).collect();
        let (mut seen, mut open) = (HashSet::new(), vec![&own]);
        while let Some(uses) = open.pop() {
            uses.nested.iter().try_for_each(|found| found.check(&defined, places))?;
            let new = uses.spreads.iter().filter(|name| seen.insert(**name));
            open.extend(new.filter_map(|name| fragments.get(*name)));
        }
    }
    Ok(())
}

impl<'a> VariableUses<'a> {
    fn of(schema: &'a Schema, set: &'a SelectionSet) -> Self {
        let mut uses = Self::default();
        uses.selections(schema, set);
        uses
    }

    fn selections(&mut self, schema: &'a Schema, set: &'a SelectionSet) {
        for selection in &set.selections {
            match selection {
                Selection::Field(field) => {
                    for given in &field.arguments {
                        let known = field.definition.arguments.iter().find(|known| known.name == given.name);
                        if let Some(known) = known {
                            self.inside(schema, &known.ty, &given.value);
                        }
                    }
                    self.selections(schema, &field.selection_set);
                }
                Selection::InlineFragment(fragment) => self.selections(schema, &fragment.selection_set),
                Selection::FragmentSpread(spread) => self.spreads.push(&spread.fragment_name),
            }
        }
    }

    /// Collects the variables within a value of this type.
    fn inside(&mut self, schema: &'a Schema, ty: &'a Type, value: &'a Node<Value>) {
        match (&**value, ty) {
            (Value::List(items), Type::List(item) | Type::NonNullList(item)) => {
                for value in items {
                    self.part(schema, item, false, false, value);
                }
            }
            (Value::Object(fields), _) => {
                // A single object is coerced to a list.
                let Some(ExtendedType::InputObject(object)) = schema.types.get(ty.inner_named_type()) else {
                    return;
                };
                let one_of = object.directives.has("oneOf");
                for (name, value) in fields {
                    if let Some(known) = object.fields.get(name) {
                        let has_default = known.default_value.is_some();
                        self.part(schema, &known.ty, has_default, one_of, value);
                    }
                }
            }
            _ => {}
        }
    }

    fn part(
        &mut self,
        schema: &'a Schema,
        expected: &'a Type,
        has_default: bool,
        one_of: bool,
        value: &'a Node<Value>,
    ) {
        match value.as_variable() {
            Some(variable) => {
                self.nested.push(VariableUse { variable, expected, has_default, one_of, value });
            }
            None => self.inside(schema, expected, value),
        }
    }
}

impl VariableUse<'_> {
    /// Applies the specification's `IsVariableUsageAllowed`.
    fn check(
        &self,
        defined: &HashMap<&Name, &VariableDefinition>,
        places: &LineIndex,
    ) -> Result<(), ServerError> {
        // The library reports an undefined variable.
        let Some(defined) = defined.get(self.variable) else { return Ok(()) };
        let never_null = defined.default_value.as_ref().is_some_and(|value| !value.is_null());
        let fits = if self.one_of && !defined.ty.is_non_null() {
            false
        } else if self.has_default || never_null {
            defined.ty.is_assignable_to(&self.expected.clone().nullable())
        } else {
            defined.ty.is_assignable_to(self.expected)
        };
        if fits {
            return Ok(());
        }
        let message = format!(
            "variable `${}` of type `{}` cannot be used where `{}` is expected",
            self.variable, defined.ty, self.expected
        );
        Err(refusal::at(Code::Validation, message, places.position_of(self.value.location())))
    }
}
