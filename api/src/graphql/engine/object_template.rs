//! Objects as JSON with places for their values, compiled from a selection.

use std::{cell::Cell, collections::HashMap};

use async_graphql::{
    Name, Positioned,
    parser::types::{Field, FragmentDefinition, Selection, SelectionSet},
};

/// The largest size of all templates of a document: the bytes of their keys, and [`FIELD_SIZE`] for each
/// field. Fragments can repeat a field so often that its templates would take much more memory than the
/// document.
const MAX_SIZE: usize = 65_536;

/// The size of a field without its key.
const FIELD_SIZE: usize = 64;

/// A document whose templates are compiled.
pub(crate) struct Compilation<'a> {
    /// The named fragments.
    fragments: &'a HashMap<Name, Positioned<FragmentDefinition>>,
    /// The size that further templates may have.
    remaining_size: Cell<usize>,
}

impl<'a> Compilation<'a> {
    pub(crate) fn new(fragments: &'a HashMap<Name, Positioned<FragmentDefinition>>) -> Self {
        Self { fragments, remaining_size: Cell::new(MAX_SIZE) }
    }

    /// Subtracts `size` from the size that further templates may have. Returns `None` if less was left.
    pub(crate) fn charge(&self, size: usize) -> Option<()> {
        self.remaining_size.set(self.remaining_size.get().checked_sub(size)?);
        Some(())
    }
}

/// The fields of a selection, in order, each with its response key.
type Fields<'a> = Vec<(&'a str, &'a Field)>;

/// The JSON of an object with places for its values.
pub(crate) struct ObjectTemplate<Value> {
    /// The values, each with the JSON before it.
    pub(crate) values: Vec<(Vec<u8>, Value)>,
    /// The JSON after the last value.
    suffix: Vec<u8>,
}

impl<Value> Default for ObjectTemplate<Value> {
    fn default() -> Self {
        Self { values: Vec::new(), suffix: Vec::new() }
    }
}

impl<Value> ObjectTemplate<Value> {
    /// Compiles the selection of an object, as [`Self::add_object`] does.
    pub(crate) fn compile(
        selection: &SelectionSet,
        compilation: &Compilation<'_>,
        type_name: &str,
        add_field: impl FnMut(&mut Self, &Field) -> Option<()>,
    ) -> Option<Self> {
        let mut template = Self::default();
        template.add_object(selection, compilation, type_name, add_field)?;
        Some(template)
    }

    /// Appends an object. `add_field` appends the value of a field; `__typename` needs none. Returns `None`
    /// if `add_field` does, if the templates are too large, or if the selection is one that
    /// [`expand_fields`] does not expand.
    pub(crate) fn add_object(
        &mut self,
        selection: &SelectionSet,
        compilation: &Compilation<'_>,
        type_name: &str,
        mut add_field: impl FnMut(&mut Self, &Field) -> Option<()>,
    ) -> Option<()> {
        self.suffix.push(b'{');
        for (index, (key, field)) in expand_fields(selection, compilation, type_name)?.into_iter().enumerate()
        {
            compilation.charge(key.len() + FIELD_SIZE)?;
            let comma = if index > 0 { "," } else { "" };
            self.suffix.extend_from_slice(format!("{comma}\"{key}\":").as_bytes());
            if field.name.node == "__typename" {
                self.suffix.extend_from_slice(format!("\"{type_name}\"").as_bytes());
            } else {
                add_field(self, field)?;
            }
        }
        self.suffix.push(b'}');
        Some(())
    }

    /// Appends a value.
    pub(crate) fn push(&mut self, value: Value) {
        self.values.push((std::mem::take(&mut self.suffix), value));
    }

    /// Writes the object with the values that `write_value` writes.
    pub(crate) fn write<E>(
        &self,
        json: &mut Vec<u8>,
        mut write_value: impl FnMut(&Value, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (prefix, value) in &self.values {
            json.extend_from_slice(prefix);
            write_value(value, json)?;
        }
        json.extend_from_slice(&self.suffix);
        Ok(())
    }
}

/// Returns the fields that are selected on objects of a type, with the fragments expanded. Returns `None` if
/// there are directives, or fragments with another type.
pub(crate) fn expand_fields<'a>(
    selection: &'a SelectionSet,
    compilation: &Compilation<'a>,
    type_name: &str,
) -> Option<Fields<'a>> {
    let mut fields = Fields::new();
    for item in &selection.items {
        let (directives, condition, selection) = match &item.node {
            Selection::Field(field) => {
                let key = field.node.response_key().node.as_str();
                if !field.node.directives.is_empty() {
                    return None;
                }
                add_field(&mut fields, key, &field.node);
                continue;
            }
            Selection::InlineFragment(fragment) => {
                let fragment = &fragment.node;
                (&fragment.directives, fragment.type_condition.as_ref(), &fragment.selection_set)
            }
            Selection::FragmentSpread(spread) => {
                let fragment = &compilation.fragments.get(&spread.node.fragment_name.node)?.node;
                if !fragment.directives.is_empty() {
                    return None;
                }
                (&spread.node.directives, Some(&fragment.type_condition), &fragment.selection_set)
            }
        };
        if !directives.is_empty() || condition.is_some_and(|condition| condition.node.on.node != type_name) {
            return None;
        }
        for (key, field) in expand_fields(&selection.node, compilation, type_name)? {
            add_field(&mut fields, key, field);
        }
    }
    Some(fields)
}

/// Adds a field. A validated document selects the same field under the same response key.
fn add_field<'a>(fields: &mut Fields<'a>, key: &'a str, field: &'a Field) {
    if fields.iter().all(|(other, _)| *other != key) {
        fields.push((key, field));
    }
}
