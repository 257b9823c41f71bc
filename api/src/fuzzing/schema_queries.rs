//! One query for each schema field with arguments. All arguments are variables.

use std::{collections::BTreeMap, fmt::Write};

use apollo_compiler::{
    Name, Schema as CheckedSchema,
    ast::FieldDefinition,
    collections::IndexMap,
    schema::{Component, ExtendedType},
};

use crate::graphql::Schema;

/// The depth of the selections.
const DEPTH: usize = 3;

/// The parent types, each with its variable and the surrounding query. A cluster is identified by the
/// variable `parent`.
const PARENTS: [(&str, &str, &str); 3] = [
    ("Query", "", "{ FIELD }"),
    ("Account", "", r#"{ account(slug: "fuzz") { FIELD } }"#),
    ("Cluster", "$parent: ID! ", "{ cluster(id: $parent) { FIELD } }"),
];

/// Returns all queries, under names such as `Account.clusters`.
pub(super) fn queries() -> BTreeMap<String, String> {
    let schema = Schema::validation_schema();
    let mut queries = BTreeMap::new();
    for (parent, variable, template) in PARENTS {
        for (name, field) in fields(schema, parent).into_iter().flatten() {
            if field.arguments.is_empty() {
                continue;
            }
            let (mut variables, mut arguments) = (variable.to_owned(), String::new());
            for argument in &field.arguments {
                let (name, ty) = (&argument.name, &argument.ty);
                write!(variables, "${name}: {ty} ").expect("writing to a string succeeds");
                if let Some(default) = &argument.default_value {
                    write!(variables, "= {default} ").expect("writing to a string succeeds");
                }
                write!(arguments, "{name}: ${name} ").expect("writing to a string succeeds");
            }
            let selection = selection(schema, field.ty.inner_named_type(), DEPTH);
            let body = template.replace("FIELD", &format!("{name}({arguments}){selection}"));
            queries.insert(format!("{parent}.{name}"), format!("query({variables}) {body}"));
        }
    }
    queries
}

fn fields<'a>(
    schema: &'a CheckedSchema,
    name: &str,
) -> Option<&'a IndexMap<Name, Component<FieldDefinition>>> {
    match schema.types.get(name)? {
        ExtendedType::Object(object) => Some(&object.fields),
        ExtendedType::Interface(interface) => Some(&interface.fields),
        _ => None,
    }
}

/// Returns the selection of all fields without arguments, to this depth. Empty for scalars and enums.
fn selection(schema: &CheckedSchema, name: &str, depth: usize) -> String {
    match schema.types.get(name) {
        Some(ExtendedType::Scalar(_) | ExtendedType::Enum(_)) => return String::new(),
        _ if depth == 0 => return "{ __typename }".to_owned(),
        _ => {}
    }
    let mut text = "{ __typename ".to_owned();
    for (name, field) in fields(schema, name).into_iter().flatten() {
        if field.arguments.is_empty() {
            let nested = selection(schema, field.ty.inner_named_type(), depth - 1);
            write!(text, "{name}{nested} ").expect("writing to a string succeeds");
        }
    }
    text + "}"
}
