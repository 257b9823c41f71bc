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

/// A fragment that is being measured, or has been.
enum FragmentState {
    Now,
    Before(Shape),
}

struct ShapeVisitor<'document> {
    fragments: HashMap<&'document Name, &'document FragmentDefinition>,
    seen: HashMap<&'document Name, FragmentState>,
    aliases: usize,
}

/// Returns an error if the document exceeds a limit, or if a fragment contains itself.
pub(super) fn check(document: &Document) -> Result<(), ServerError> {
    let mut walk = ShapeVisitor { fragments: HashMap::new(), seen: HashMap::new(), aliases: 0 };
    let mut operations = Vec::new();
    for definition in &document.definitions {
        match definition {
            Definition::OperationDefinition(operation) => operations.push(operation),
            Definition::FragmentDefinition(fragment) => {
                walk.fragments.insert(&fragment.name, fragment);
            }
            // Validation rejects other definitions.
            _ => {}
        }
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(too_much(&format!("more than {MAX_OPERATIONS} operations")));
    }
    for operation in operations {
        let shape = walk.shape(&operation.selection_set, 1)?;
        if shape.root_fields > MAX_ROOT_FIELDS {
            return Err(too_much(&format!("more than {MAX_ROOT_FIELDS} root fields in one operation")));
        }
        if shape.introspections > MAX_INTROSPECTIONS {
            return Err(too_much(&format!("more than {MAX_INTROSPECTIONS} introspection fields")));
        }
    }
    // Validation also visits the fragments that no operation uses.
    let names: Vec<&Name> = walk.fragments.keys().copied().collect();
    for name in names {
        walk.fragment(name, 1)?;
    }
    Ok(())
}

impl<'document> ShapeVisitor<'document> {
    fn shape(&mut self, selections: &'document [Selection], level: usize) -> Result<Shape, ServerError> {
        let mut whole = Shape::default();
        if level > MAX_NESTING {
            return Err(too_deep(format!("fields and fragments nest more than {MAX_NESTING} deep")));
        }
        for selection in selections {
            let part = match selection {
                Selection::Field(field) => {
                    self.aliases += usize::from(field.alias.is_some());
                    if self.aliases > MAX_ALIASES {
                        return Err(too_much(&format!("more than {MAX_ALIASES} aliases")));
                    }
                    let below = self.shape(&field.selection_set, level + 1)?;
                    let introspection = matches!(field.name.as_str(), "__schema" | "__type");
                    Shape {
                        fields: below.fields + 1,
                        root_fields: 1,
                        introspections: usize::from(introspection),
                        depth: if introspection { 1 } else { below.depth + 1 },
                        nesting: below.nesting + 1,
                    }
                }
                Selection::InlineFragment(fragment) => {
                    self.shape(&fragment.selection_set, level + 1)?.within_fragment()
                }
                Selection::FragmentSpread(spread) => {
                    self.fragment(&spread.fragment_name, level + 1)?.within_fragment()
                }
            };
            whole = whole.beside(part);
            if whole.fields > MAX_FIELDS {
                let message = format!(
                    "the document selects more than {MAX_FIELDS} fields, with its fragments expanded"
                );
                return Err(refusal::new(Code::CostLimit, message));
            }
            if whole.depth > MAX_DEPTH {
                return Err(too_deep(format!("fields nest more than {MAX_DEPTH} deep")));
            }
            if level + whole.nesting > MAX_NESTING {
                return Err(too_deep(format!("fields and fragments nest more than {MAX_NESTING} deep")));
            }
        }
        Ok(whole)
    }

    fn fragment(&mut self, name: &'document Name, level: usize) -> Result<Shape, ServerError> {
        match self.seen.get(name) {
            Some(FragmentState::Before(shape)) => return Ok(*shape),
            Some(FragmentState::Now) => {
                return Err(refusal::new(Code::Validation, "a fragment contains itself"));
            }
            None => {}
        }
        // Validation reports an unknown fragment.
        let Some(fragment) = self.fragments.get(name).copied() else { return Ok(Shape::default()) };
        self.seen.insert(name, FragmentState::Now);
        let shape = self.shape(&fragment.selection_set, level)?;
        self.seen.insert(name, FragmentState::Before(shape));
        Ok(shape)
    }
}

impl Shape {
    fn beside(self, other: Self) -> Self {
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

fn too_much(what: &str) -> ServerError {
    refusal::new(Code::DocumentLimit, format!("the document has {what}"))
}

fn too_deep(what: String) -> ServerError {
    refusal::new(Code::DepthLimit, what)
}
