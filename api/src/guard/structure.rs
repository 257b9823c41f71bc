//! The shape of a parsed document: how deep and how wide it is when its fragments are written out. Each fragment is
//! looked at once, so a document whose fragments multiply takes no longer than another of its length.

use std::collections::HashMap;

use apollo_compiler::{
    Name,
    ast::{Definition, Document, FragmentDefinition, Selection},
};
use async_graphql::ServerError;

use super::refusal::{self, Code};
use crate::graphql::MAX_NESTING;

/// How deep fields may nest. Introspection is not counted: tools ask for it up to 15 deep.
const MAX_DEPTH: usize = 16;

/// Fields of one operation, its fragments written out.
const MAX_FIELDS: usize = 10_000;

/// Fields that one operation asks of the root.
const MAX_ROOT_FIELDS: usize = 50;

/// Of them, those that ask for the schema: each answer may be as large as all of it.
const MAX_INTROSPECTIONS: usize = 4;

/// Aliases in a document.
const MAX_ALIASES: usize = 200;

/// Operations in a document.
const MAX_OPERATIONS: usize = 50;

/// What a list of selections comes to when its fragments are written out.
#[derive(Clone, Copy, Default)]
struct Shape {
    fields: usize,
    root_fields: usize,
    introspections: usize,
    depth: usize,
    nesting: usize,
}

/// A fragment that is looked at, or was.
enum Seen {
    Now,
    Before(Shape),
}

struct Walk<'document> {
    fragments: HashMap<&'document Name, &'document FragmentDefinition>,
    seen: HashMap<&'document Name, Seen>,
    aliases: usize,
}

/// Refuses a document with too much of anything, and one whose fragments contain themselves.
pub(super) fn check(document: &Document) -> Result<(), ServerError> {
    let mut walk = Walk { fragments: HashMap::new(), seen: HashMap::new(), aliases: 0 };
    let mut operations = Vec::new();
    for definition in &document.definitions {
        match definition {
            Definition::OperationDefinition(operation) => operations.push(operation),
            Definition::FragmentDefinition(fragment) => {
                walk.fragments.insert(&fragment.name, fragment);
            }
            // No operation can be made of anything else; validation says so.
            _ => {}
        }
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(too_much(&format!("more than {MAX_OPERATIONS} operations")));
    }
    for operation in operations {
        let shape = walk.shape(&operation.selection_set, 1)?;
        if shape.root_fields > MAX_ROOT_FIELDS {
            return Err(too_much(&format!(
                "more than {MAX_ROOT_FIELDS} fields of the root in one operation"
            )));
        }
        if shape.introspections > MAX_INTROSPECTIONS {
            return Err(too_much(&format!("more than {MAX_INTROSPECTIONS} questions for the schema")));
        }
    }
    // Validation follows those that no operation uses, too.
    let names: Vec<&Name> = walk.fragments.keys().copied().collect();
    for name in names {
        walk.fragment(name, 1)?;
    }
    Ok(())
}

impl<'document> Walk<'document> {
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
                let message =
                    format!("the document selects more than {MAX_FIELDS} fields, its fragments written out");
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
            Some(Seen::Before(shape)) => return Ok(*shape),
            Some(Seen::Now) => {
                return Err(refusal::new(Code::Validation, "a fragment contains itself"));
            }
            None => {}
        }
        // Validation names a fragment that is not there.
        let Some(fragment) = self.fragments.get(name).copied() else { return Ok(Shape::default()) };
        self.seen.insert(name, Seen::Now);
        let shape = self.shape(&fragment.selection_set, level)?;
        self.seen.insert(name, Seen::Before(shape));
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
