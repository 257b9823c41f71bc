//! Shape limits: the depth and width of a parsed document with its fragments expanded. Each fragment is
//! measured once, so a document whose fragments multiply takes no longer than another of its length.

use std::collections::HashMap;

use apollo_compiler::{
    Name,
    ast::{Definition, Document, FragmentDefinition, Selection},
};
use async_graphql::ServerError;

use super::refusal::{self, Code};
use crate::graphql::MAX_NESTING;

/// The maximum depth of fields. Introspection does not count: tools nest it up to 15 deep.
const MAX_DEPTH: usize = 16;

/// The maximum number of fields in one operation, with its fragments expanded.
const MAX_FIELDS: usize = 10_000;

/// The maximum number of root fields in one operation.
const MAX_ROOT_FIELDS: usize = 50;

/// The maximum number of introspection fields among them: each result may be as large as the schema.
const MAX_INTROSPECTIONS: usize = 4;

/// The maximum number of aliases in a document.
const MAX_ALIASES: usize = 200;

/// The maximum number of operations in a document.
const MAX_OPERATIONS: usize = 50;

/// The measures of a selection set with its fragments expanded.
#[derive(Clone, Copy, Default)]
struct Shape {
    fields: usize,
    root_fields: usize,
    introspections: usize,
    depth: usize,
    nesting: usize,
}

/// The state of a fragment that the visitor has reached.
enum FragmentState {
    InProgress,
    Measured(Shape),
}

struct ShapeVisitor<'document> {
    fragments: HashMap<&'document Name, &'document FragmentDefinition>,
    fragment_states: HashMap<&'document Name, FragmentState>,
    aliases: usize,
}

/// Returns an error if the document exceeds a limit, or if a fragment contains itself.
pub(super) fn check(document: &Document) -> Result<(), ServerError> {
    let mut visitor = ShapeVisitor { fragments: HashMap::new(), fragment_states: HashMap::new(), aliases: 0 };
    let mut operations = Vec::new();
    for definition in &document.definitions {
        match definition {
            Definition::OperationDefinition(operation) => operations.push(operation),
            Definition::FragmentDefinition(fragment) => {
                visitor.fragments.insert(&fragment.name, fragment);
            }
            // Validation rejects other definitions.
            _ => {}
        }
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(too_much(&format!("more than {MAX_OPERATIONS} operations")));
    }
    for operation in operations {
        let shape = visitor.measure(&operation.selection_set, 1)?;
        if shape.root_fields > MAX_ROOT_FIELDS {
            return Err(too_much(&format!("more than {MAX_ROOT_FIELDS} root fields in one operation")));
        }
        if shape.introspections > MAX_INTROSPECTIONS {
            return Err(too_much(&format!("more than {MAX_INTROSPECTIONS} introspection fields")));
        }
    }
    // Validation also visits the fragments that no operation uses.
    let names: Vec<&Name> = visitor.fragments.keys().copied().collect();
    for name in names {
        visitor.measure_fragment(name, 1)?;
    }
    Ok(())
}

impl<'document> ShapeVisitor<'document> {
    fn measure(&mut self, selections: &'document [Selection], level: usize) -> Result<Shape, ServerError> {
        let mut shape = Shape::default();
        if level > MAX_NESTING {
            return Err(too_deep(format!("fields and fragments nest more than {MAX_NESTING} deep")));
        }
        for selection in selections {
            let selection_shape = match selection {
                Selection::Field(field) => {
                    self.aliases += usize::from(field.alias.is_some());
                    if self.aliases > MAX_ALIASES {
                        return Err(too_much(&format!("more than {MAX_ALIASES} aliases")));
                    }
                    let child_shape = self.measure(&field.selection_set, level + 1)?;
                    let introspection = matches!(field.name.as_str(), "__schema" | "__type");
                    Shape {
                        fields: child_shape.fields + 1,
                        root_fields: 1,
                        introspections: usize::from(introspection),
                        depth: if introspection { 1 } else { child_shape.depth + 1 },
                        nesting: child_shape.nesting + 1,
                    }
                }
                Selection::InlineFragment(fragment) => {
                    self.measure(&fragment.selection_set, level + 1)?.within_fragment()
                }
                Selection::FragmentSpread(spread) => {
                    self.measure_fragment(&spread.fragment_name, level + 1)?.within_fragment()
                }
            };
            shape = shape.combine(selection_shape);
            if shape.fields > MAX_FIELDS {
                let message = format!(
                    "the document selects more than {MAX_FIELDS} fields, with its fragments expanded"
                );
                return Err(refusal::new(Code::CostLimit, message));
            }
            if shape.depth > MAX_DEPTH {
                return Err(too_deep(format!("fields nest more than {MAX_DEPTH} deep")));
            }
            if level + shape.nesting > MAX_NESTING {
                return Err(too_deep(format!("fields and fragments nest more than {MAX_NESTING} deep")));
            }
        }
        Ok(shape)
    }

    fn measure_fragment(&mut self, name: &'document Name, level: usize) -> Result<Shape, ServerError> {
        match self.fragment_states.get(name) {
            Some(FragmentState::Measured(shape)) => return Ok(*shape),
            Some(FragmentState::InProgress) => {
                return Err(refusal::new(Code::Validation, "a fragment contains itself"));
            }
            None => {}
        }
        // Validation reports an unknown fragment.
        let Some(fragment) = self.fragments.get(name).copied() else { return Ok(Shape::default()) };
        self.fragment_states.insert(name, FragmentState::InProgress);
        let shape = self.measure(&fragment.selection_set, level)?;
        self.fragment_states.insert(name, FragmentState::Measured(shape));
        Ok(shape)
    }
}

impl Shape {
    fn combine(self, other: Self) -> Self {
        Self {
            fields: self.fields + other.fields,
            root_fields: self.root_fields + other.root_fields,
            introspections: self.introspections + other.introspections,
            depth: self.depth.max(other.depth),
            nesting: self.nesting.max(other.nesting),
        }
    }

    fn within_fragment(self) -> Self {
        Self { nesting: self.nesting + 1, ..self }
    }
}

fn too_much(excess: &str) -> ServerError {
    refusal::new(Code::DocumentLimit, format!("the document has {excess}"))
}

fn too_deep(message: String) -> ServerError {
    refusal::new(Code::DepthLimit, message)
}
